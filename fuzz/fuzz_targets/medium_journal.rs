//! Fuzzes `perdura_fuzz::medium::journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::medium::journal(data));
