//! Values that identify themselves: a timestamp, and a checksum over key, timestamp and filling.
//! Bytes of another version, or of several, do not pass for the right ones.

use perdura_map::Ts;

const HEAD: usize = 12;

/// The value of `key` at `ts`, with `filling` more bytes.
pub fn sign(key: &[u8], ts: Ts, filling: usize) -> Vec<u8> {
    let mut value = vec![0; HEAD];
    value[4..].copy_from_slice(&ts.to_le_bytes());
    value.extend((0..filling).map(|n| (ts as usize ^ n) as u8));
    let sum = crc32c::crc32c_append(crc32c::crc32c(key), &value[4..]);
    value[..4].copy_from_slice(&sum.to_le_bytes());
    value
}

/// The timestamp that a value carries, if the value is whole and belongs to this key.
pub fn signed_at(key: &[u8], value: &[u8]) -> Option<Ts> {
    let (sum, rest) = value.split_first_chunk::<4>()?;
    let sound = crc32c::crc32c_append(crc32c::crc32c(key), rest) == u32::from_le_bytes(*sum);
    sound.then(|| rest.first_chunk::<8>().map(|ts| Ts::from_le_bytes(*ts)))?
}
