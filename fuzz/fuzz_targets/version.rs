//! Fuzzes `perdura_fuzz::version`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::version(data));
