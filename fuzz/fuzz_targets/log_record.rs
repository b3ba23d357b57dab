//! Fuzzes `perdura_fuzz::log_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::log_record(data));
