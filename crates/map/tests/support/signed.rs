//! Values that tell whose they are: key, timestamp, and a checksum over all of it, so that bytes of another version,
//! or of several, are told from the right ones.

use perdura_map::Ts;

const HEAD: usize = 12;

/// The value of `key` at `ts`, with `filling` bytes more.
pub fn sign(key: &[u8], ts: Ts, filling: usize) -> Vec<u8> {
    let mut value = vec![0; HEAD];
    value[4..].copy_from_slice(&ts.to_le_bytes());
    value.extend((0..filling).map(|n| (ts as usize ^ n) as u8));
    let sum = crc32c::crc32c_append(crc32c::crc32c(key), &value[4..]);
    value[..4].copy_from_slice(&sum.to_le_bytes());
    value
}

/// The timestamp a value was given at, if it is whole and of this key.
pub fn signed_at(key: &[u8], value: &[u8]) -> Option<Ts> {
    let (sum, rest) = value.split_first_chunk::<4>()?;
    let sound = crc32c::crc32c_append(crc32c::crc32c(key), rest) == u32::from_le_bytes(*sum);
    sound.then(|| rest.first_chunk::<8>().map(|ts| Ts::from_le_bytes(*ts)))?
}
