//! CRC-32C (Castagnoli), as all structures in persistent memory are checked by.
//!
//! Most of them are a line or two long: there the crate's three parallel streams take longer to set
//! up than the checksum itself. So short inputs go through the processor's instruction one word
//! after the other, and long ones to the crate.

use crc32c::crc32c_append as long;

/// Bytes up to which one stream is faster.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 256;

/// CRC-32C of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// CRC-32C of some bytes whose own is `crc`, and `bytes` behind them.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= SHORT && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2.
        return unsafe { short(crc, bytes) };
    }
    long(crc, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks();
    let sum = words.iter().fold(u64::from(!crc), |sum, word| _mm_crc32_u64(sum, u64::from_le_bytes(*word)));
    let (halves, rest) = rest.as_chunks();
    let sum = halves.iter().fold(sum as u32, |sum, half| _mm_crc32_u32(sum, u32::from_le_bytes(*half)));
    !rest.iter().fold(sum, |sum, byte| _mm_crc32_u8(sum, *byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the CRC catalogue, and every length around the switch, at every
    /// alignment.
    #[test]
    fn short_and_long_inputs_have_the_same_sum() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let bytes: Vec<u8> = (0..600u32).map(|index| ((index * 167) >> 3) as u8).collect();
        for start in 0..8 {
            for end in start..bytes.len() {
                let part = &bytes[start..end];
                assert_eq!(crc32c_append(77, part), long(77, part), "{start}..{end}");
            }
        }
    }
}
