//! Weight of keys and values in DRAM.

/// Bytes that a key and its value take besides their own, roughly.
const EACH_BYTES: usize = 96;

/// Bytes that a key and a value take in DRAM, roughly; no more in a file.
pub(super) fn weight(key: &[u8], value: &[u8]) -> u64 {
    (EACH_BYTES + key.len() + value.len()) as u64
}
