//! Bytes that wait to be sent over a connection: short ones copied into one buffer, long ones where
//! they lie, so that all who are sent the same entry share it.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use perdura_pmem::checksum::crc32c_append;

use super::frame::{HEADER_BYTES, begin_frame, end_frame};

/// Length from which on bytes are shared: to copy fewer takes less than a piece of their own does.
const SHARED_BYTES_LEAST: usize = 16 << 10;

/// Bytes that wait to be sent.
#[derive(Debug, Default)]
pub struct SendQueue {
    copied: BytesMut,
    /// Those that are shared, each with the number of copied bytes between it and the one before.
    shared: VecDeque<(usize, Bytes)>,
    /// Copied bytes up to the last that is shared.
    before_last: usize,
    /// Bytes of all that are shared.
    shared_bytes: usize,
}

impl SendQueue {
    /// The buffer to which bytes are copied, behind all that wait.
    pub(crate) fn copied(&mut self) -> &mut BytesMut {
        &mut self.copied
    }

    /// Number of bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.copied.len() + self.shared_bytes
    }

    /// Drops all.
    pub(crate) fn clear(&mut self) {
        self.copied.clear();
        self.shared.clear();
        (self.before_last, self.shared_bytes) = (0, 0);
    }

    /// Appends bytes, which it shares if they are many.
    pub(super) fn put(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARED_BYTES_LEAST {
            self.copied.put_slice(bytes);
            return;
        }
        self.shared.push_back((self.copied.len() - self.before_last, bytes.clone()));
        self.before_last = self.copied.len();
        self.shared_bytes += bytes.len();
    }

    /// Appends a frame of a kind, whose message `put` appends: see [`super::put_frame`].
    pub(super) fn put_frame(&mut self, kind: u8, put: impl FnOnce(&mut Self)) {
        let (start, bytes, shared) = (self.copied.len(), self.len(), self.shared.len());
        let mut end = self.before_last;
        begin_frame(&mut self.copied, kind);
        put(self);
        let (mut checksum, mut at) = (0, start + HEADER_BYTES);
        for (between, bytes) in self.shared.range(shared..) {
            end += between;
            checksum = crc32c_append(crc32c_append(checksum, &self.copied[at..end]), bytes);
            at = end;
        }
        checksum = crc32c_append(checksum, &self.copied[at..]);
        let length = self.len() - bytes - HEADER_BYTES;
        end_frame(&mut self.copied[start..], length, checksum);
    }
}

impl Buf for SendQueue {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        match self.shared.front() {
            None => &self.copied,
            Some((0, bytes)) => bytes,
            Some((between, _)) => &self.copied[..*between],
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut at = 0;
        let pairs = self.shared.iter().flat_map(|(between, bytes)| {
            let copied = &self.copied[at..at + between];
            at += between;
            [copied, bytes]
        });
        let pieces = pairs.chain([&self.copied[self.before_last..]]).filter(|piece| !piece.is_empty());
        slices.iter_mut().zip(pieces).map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let (Some((between, bytes)), true) = (self.shared.front_mut(), count > 0) {
            let step = if *between > 0 { count.min(*between) } else { count.min(bytes.len()) };
            count -= step;
            if *between > 0 {
                *between -= step;
                self.before_last -= step;
                self.copied.advance(step);
                continue;
            }
            bytes.advance(step);
            self.shared_bytes -= step;
            if bytes.is_empty() {
                self.shared.pop_front();
            }
        }
        self.copied.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::{Buf, BufMut, Bytes, BytesMut, IoSlice, SHARED_BYTES_LEAST, SendQueue};
    use crate::wire::{FRAME_BYTES_MAX, Frames, put_frame};
    use proptest::prelude::*;

    proptest! {
        /// Hazard: bytes are sent twice, or not, or in another order, where a socket takes them in
        /// parts.
        #[test]
        fn what_is_put_comes_out_however_it_is_taken(
            frames in proptest::collection::vec(proptest::collection::vec(prop_oneof![0..9_usize, SHARED_BYTES_LEAST - 1..SHARED_BYTES_LEAST + 2], 0..4), 0..6),
            steps in proptest::collection::vec((any::<bool>(), 1..6000_usize), 1..20),
        ) {
            let (mut queue, mut wanted) = (SendQueue::default(), BytesMut::new());
            for (kind, lengths) in (1..).zip(&frames) {
                let parts: Vec<Bytes> = lengths.iter().map(|length| vec![kind; *length].into()).collect();
                put_frame(&mut wanted, kind, |out| parts.iter().for_each(|part| out.put_slice(part)));
                queue.put_frame(kind, |out| parts.iter().for_each(|part| out.put(part)));
                prop_assert_eq!(queue.len(), wanted.len());
            }
            let (mut taken, mut sent) = (Frames::default(), Vec::new());
            for (is_vectored, step) in steps.into_iter().cycle() {
                if !queue.has_remaining() {
                    break;
                }
                let mut slices = [IoSlice::new(&[]); 3];
                let count = if is_vectored { queue.chunks_vectored(&mut slices) } else { 0 };
                let pieces = if is_vectored { &slices[..count] } else { &[IoSlice::new(queue.chunk())] };
                let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).take(step).collect();
                prop_assert!(!all.is_empty());
                queue.advance(all.len());
                taken.input().extend_from_slice(&all);
                sent.extend(all);
            }
            prop_assert!(sent == wanted[..] && queue.len() == 0 && queue.before_last == 0);
            for (kind, lengths) in (1..).zip(&frames) {
                let message = vec![kind; lengths.iter().sum()];
                prop_assert_eq!(taken.next(FRAME_BYTES_MAX), Ok(Some((kind, message.into()))));
            }
        }
    }

    #[test]
    fn long_bytes_are_shared() {
        let (long, mut queue) = (Bytes::from(vec![1; SHARED_BYTES_LEAST]), SendQueue::default());
        queue.put(&long);
        assert_eq!((queue.chunk().as_ptr(), queue.len()), (long.as_ptr(), long.len()));
        queue.clear();
        assert_eq!((queue.chunk(), queue.len()), (&[][..], 0));
    }
}
