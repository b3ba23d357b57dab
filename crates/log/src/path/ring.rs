//! The bytes of the log buffer.

use super::lsn::Lsn;
use std::cell::UnsafeCell;
use std::ops::Range;

/// The log buffer: LSN n is at n modulo its length, a power of two.
pub(super) struct Ring(Box<[UnsafeCell<u8>]>);

// SAFETY: of each byte the users see to it that nobody else uses it while it is stored to, as the
// methods ask for.
unsafe impl Sync for Ring {}

impl Ring {
    pub(super) fn new(bytes: u64) -> Ring {
        assert!(bytes.is_power_of_two(), "the settings are checked");
        let zeroes = Box::into_raw(vec![0u8; bytes as usize].into_boxed_slice());
        // SAFETY: an UnsafeCell has size, alignment and validity of what it holds, and the box is
        // ours. Made this way its pages stay untouched until they are used.
        Ring(unsafe { Box::from_raw(zeroes as *mut [UnsafeCell<u8>]) })
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Pieces of the memory that a range of LSNs is in: the second is empty unless it wraps.
    fn pieces(&self, range: Range<Lsn>) -> [&[UnsafeCell<u8>]; 2] {
        let bytes = (range.end - range.start) as usize;
        assert!(bytes <= self.0.len(), "no part is longer than the log buffer");
        let begin = (range.start & (self.len() - 1)) as usize;
        let first = bytes.min(self.0.len() - begin);
        [&self.0[begin..begin + first], &self.0[..bytes - first]]
    }

    /// Stores bytes from `lsn` on.
    ///
    /// # Safety
    /// Nobody else uses these bytes meanwhile.
    pub(super) unsafe fn store(&self, lsn: Lsn, source: &[u8]) {
        let [first, second] = self.pieces(lsn..lsn + source.len() as u64);
        let (to_first, to_second) = source.split_at(first.len());
        for (target, source) in [(first, to_first), (second, to_second)] {
            // SAFETY: the range is in this memory, and ours by the caller's promise.
            unsafe { UnsafeCell::raw_get(target.as_ptr()).copy_from_nonoverlapping(source.as_ptr(), source.len()) };
        }
    }

    /// The bytes of a range, in two pieces.
    ///
    /// # Safety
    /// Nobody stores to these bytes while the result lives.
    pub(super) unsafe fn slices(&self, range: Range<Lsn>) -> [&[u8]; 2] {
        self.pieces(range).map(|piece| {
            // SAFETY: the range is in this memory; not stored to by the caller's promise.
            unsafe { std::slice::from_raw_parts(piece.as_ptr().cast::<u8>(), piece.len()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_wraps_is_read_as_stored() {
        let ring = Ring::new(256);
        let bytes: Vec<u8> = (0..192).collect();
        for lsn in (0..2048).step_by(64) {
            // SAFETY: one thread.
            unsafe { ring.store(lsn, &bytes) };
            // SAFETY: as above.
            let [first, second] = unsafe { ring.slices(lsn..lsn + 192) };
            assert_eq!([first, second].concat(), bytes, "{lsn}");
            assert_eq!(second.is_empty(), lsn % 256 <= 64, "{lsn}");
        }
    }
}
