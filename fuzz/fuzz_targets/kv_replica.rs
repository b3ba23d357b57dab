//! Fuzzes `perdura_fuzz::kv::replica`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perdura_fuzz::kv::replica(data));
