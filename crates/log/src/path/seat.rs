//! A part of the stream that its session fills.

use super::events::Event;
use super::link::LinkBuffer;
use super::lsn::Lsn;
use super::ring::Ring;

/// A part of the log buffer that belongs to its session until it is filled. The log writer waits
/// for it, so nothing may block on the way.
#[must_use = "the log writer waits until the part is filled"]
pub(crate) struct Seat<'a> {
    pub(super) ring: &'a Ring,
    pub(super) link: &'a LinkBuffer,
    pub(super) writer: &'a Event,
    pub(super) begin: Lsn,
    pub(super) end: Lsn,
    pub(super) offset: u64,
    pub(super) is_in_own: bool,
    pub(super) is_filled: bool,
}

impl Seat<'_> {
    /// Offset of the part in its lane.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the part takes anything of the blocks that were reserved for it.
    pub(crate) fn is_in_own(&self) -> bool {
        self.is_in_own
    }

    /// End of the part in the stream.
    pub(crate) fn end(&self) -> Lsn {
        self.end
    }

    /// Stores what is to come to `offset` of the lane.
    #[inline]
    pub(crate) fn store(&self, offset: u64, bytes: &[u8]) {
        let at = self.begin + (offset - self.offset);
        assert!(at + bytes.len() as u64 <= self.end, "a record longer than its part");
        // SAFETY: the part is this seat's, which is not shared between threads, and is not filled.
        unsafe { self.ring.store(at, bytes) };
    }

    /// Hands the part over to the log writer. Returns its end.
    #[inline]
    pub(crate) fn fill(mut self) -> Lsn {
        self.is_filled = true;
        self.link.mark(self.begin, self.end);
        self.writer.wake();
        self.end
    }
}

impl Drop for Seat<'_> {
    /// Of a thread that panics before it has filled its part, whose pool has failed stop: others
    /// need not wait for it, and what it is written as holds no valid record.
    fn drop(&mut self) {
        if !self.is_filled {
            self.store(self.offset, &vec![0; (self.end - self.begin) as usize]);
            self.link.mark(self.begin, self.end);
            self.writer.wake();
        }
    }
}
