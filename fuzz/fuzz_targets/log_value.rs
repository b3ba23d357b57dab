//! Fuzzes `perdura_fuzz::log_value`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::log_value(data));
