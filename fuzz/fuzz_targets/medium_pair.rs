//! Fuzzes `perdura_fuzz::medium::pair`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::medium::pair(data));
