//! Fuzzes `perdura_fuzz::kv::requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::kv::requests(data));
