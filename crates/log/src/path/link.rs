//! How far the log buffer is filled without a gap, though its parts are filled in any order.

use super::lsn::Lsn;
use crate::atomic::AtomicU64;
use crate::format::GRANULE_BYTES;
use crossbeam_utils::CachePadded;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The link buffer: for each part that is filled, where it ends (`recent_written` of InnoDB).
///
/// A slot for each granule of the log buffer holds the end of the part that was last filled from
/// there on. Parts begin and end at granules and none is longer than the buffer. So a slot of an
/// earlier round through the buffer holds no more than the LSN that it stands for in this one, and
/// needs no clearing. No more than a buffer's length is filled and not written, so no slot is
/// overwritten before it was followed.
///
/// A part's bytes are stored, then its slot with Release. Whoever follows the slots loads them with
/// Acquire, and then reads the bytes.
pub(super) struct LinkBuffer {
    slots: Box<[AtomicU64]>,
    filled: CachePadded<AtomicU64>,
}

impl LinkBuffer {
    /// Of a log buffer of so many bytes, of which nothing is filled.
    pub(super) fn new(buffer_bytes: u64) -> LinkBuffer {
        let slots = (0..buffer_bytes / GRANULE_BYTES).map(|_| AtomicU64::new(0)).collect();
        LinkBuffer { slots, filled: CachePadded::new(AtomicU64::new(0)) }
    }

    fn slot(&self, lsn: Lsn) -> &AtomicU64 {
        &self.slots[(lsn / GRANULE_BYTES % self.slots.len() as u64) as usize]
    }

    /// Notes that the part from `begin` to `end` is filled.
    #[inline]
    pub(super) fn mark(&self, begin: Lsn, end: Lsn) {
        self.slot(begin).store(end, Release);
    }

    /// Whether the part that begins at `lsn` is filled.
    #[inline]
    pub(super) fn is_filled(&self, lsn: Lsn) -> bool {
        self.slot(lsn).load(Acquire) > lsn
    }

    /// Follows the parts that are filled: up to where there is no gap. One thread at a time.
    pub(super) fn advance(&self) -> Lsn {
        let mut filled = self.filled.load(Relaxed);
        loop {
            let end = self.slot(filled).load(Acquire);
            if end <= filled {
                break;
            }
            filled = end;
        }
        self.filled.store(filled, Relaxed);
        filled
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use perdura_pmem::split_mix::SplitMix64;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn gaps_hold_it_back_round_after_round() {
        let link = LinkBuffer::new(256);
        let mut at = 0;
        for round in 0..20 {
            link.mark(at + 64, at + 192);
            assert_eq!(link.advance(), at, "round {round}");
            link.mark(at, at + 64);
            assert_eq!((link.advance(), link.is_filled(at + 192)), (at + 192, false), "round {round}");
            at += 192;
        }
        link.mark(at, at + 256);
        assert_eq!(link.advance(), at + 256, "a part as long as the buffer");
    }

    /// Four threads fill parts of seeded lengths; one follows, and lets the buffer be used again.
    #[test]
    fn it_never_leaps_and_never_stays_behind() {
        for seed in 0..20 {
            const BYTES: u64 = 1024;
            let (link, next, followed) = (LinkBuffer::new(BYTES), AtomicU64::new(0), AtomicU64::new(0));
            let filled: Vec<AtomicU64> = (0..BYTES / 64).map(|_| AtomicU64::new(0)).collect();
            const END: u64 = 64 * 20_000;
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (link, next, followed, filled) = (&link, &next, &followed, &filled);
                    scope.spawn(move || {
                        let mut random = SplitMix64::new(seed * 10 + thread);
                        loop {
                            let bytes = 64 * (1 + random.below(5));
                            let begin = next.fetch_add(bytes, SeqCst);
                            if begin >= END {
                                return;
                            }
                            while followed.load(SeqCst) + BYTES < begin + bytes {
                                std::thread::yield_now();
                            }
                            for granule in (begin..begin + bytes).step_by(64) {
                                filled[(granule / 64 % (BYTES / 64)) as usize].store(granule + 1, Relaxed);
                            }
                            link.mark(begin, begin + bytes);
                        }
                    });
                }
                let mut seen = 0;
                while seen < END {
                    let upto = link.advance();
                    for granule in (seen..upto).step_by(64) {
                        let found = filled[(granule / 64 % (BYTES / 64)) as usize].load(Relaxed);
                        assert_eq!(found, granule + 1, "seed {seed}");
                    }
                    seen = upto;
                    followed.store(seen, SeqCst);
                    std::thread::yield_now();
                }
            });
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Buffer {
        link: LinkBuffer,
        bytes: [UnsafeCell<u64>; 4],
    }

    // SAFETY: what loom is to find out.
    unsafe impl Sync for Buffer {}

    impl Buffer {
        fn fill(&self, granule: u64) {
            // SAFETY: loom checks it.
            self.bytes[granule as usize % 4].with_mut(|byte| unsafe { *byte = granule + 1 });
            self.link.mark(granule * 64, granule * 64 + 64);
        }

        /// Reads all that is filled beyond `seen`.
        fn follow(&self, seen: u64) -> u64 {
            let upto = self.link.advance() / 64;
            for granule in seen..upto {
                // SAFETY: loom checks it.
                let found = self.bytes[granule as usize % 4].with(|byte| unsafe { *byte });
                assert_eq!(found, granule + 1);
            }
            upto
        }
    }

    /// The log writer reads a part that its session has not filled yet, or before it sees it.
    #[test]
    fn what_is_followed_is_filled() {
        loom::model(|| {
            let buffer =
                Arc::new(Buffer { link: LinkBuffer::new(256), bytes: std::array::from_fn(|_| UnsafeCell::new(0)) });
            let others: Vec<_> = [1, 0]
                .map(|granule| {
                    let buffer = buffer.clone();
                    thread::spawn(move || buffer.fill(granule))
                })
                .into();
            let seen = buffer.follow(0);
            let seen = buffer.follow(seen);
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(buffer.follow(seen), 2);
        });
    }
}
