//! Fuzzes `perdura_fuzz::directory`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::directory(data));
