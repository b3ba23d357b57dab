//! Lines and words, the units that hardware flushes and stores whole.

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
/// Bytes of a word, the unit of atomicity.
pub const WORD_BYTES: u64 = 8;

/// Lines that `len` bytes at `offset` touch.
#[inline]
pub(crate) fn lines(offset: u64, len: u64) -> u64 {
    if len == 0 { 0 } else { (offset + len - 1) / LINE_BYTES - offset / LINE_BYTES + 1 }
}
