//! Fuzzes `perdura_fuzz::header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::header(data));
