//! Fuzzes `perdura_fuzz::map::region`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::map::region(data));
