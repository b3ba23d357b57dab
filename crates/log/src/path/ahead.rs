//! Cutting what the log writer has to write into writes, with zeros behind the last one.
//!
//! A file that is written through a page cache is read first where a write covers a page in part
//! that the cache does not have. So the first write to an area covers all of it, with zeros behind
//! the records: write-ahead (NF-log, SNU 2022, 2.5). Memory has the same need at its own
//! granularity.

use super::config::PathConfig;

/// Rule by which writes are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// Bytes of a block: none is written in two writes.
    block: u64,
    /// Bytes that are written ahead, a multiple of blocks.
    granularity: u64,
    copies_little: bool,
}

/// One write: bytes of records, and zeros behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) bytes: u64,
    /// Zeros up to the end of the last block, for which the records are copied first.
    pub(super) padding: u64,
    /// Further zeros.
    pub(super) ahead: u64,
}

impl Step {
    fn whole(bytes: u64) -> Step {
        Step { bytes, padding: 0, ahead: 0 }
    }

    /// Whether records and zeros are put together in the write-ahead buffer.
    pub(super) fn is_copied(&self) -> bool {
        self.padding + self.ahead > 0
    }
}

impl Ahead {
    pub(super) fn new(config: &PathConfig, block: u64) -> Ahead {
        let granularity = block.max(config.granularity().into());
        Ahead { block, granularity, copies_little: config.path.copies_little() }
    }

    /// Most bytes of a write that is put together in the buffer.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.granularity as usize
    }

    /// Bytes of a block.
    pub(super) fn block(&self) -> u64 {
        self.block
    }

    /// The next write of `left` bytes of records that go to offset `at` of a file, the start of a
    /// block. Up to `end` the file was written before; nothing is written behind `limit`. Both are
    /// ends of blocks.
    pub(super) fn step(&self, at: u64, left: u64, end: u64, limit: u64) -> Step {
        if self.copies_little {
            self.step_of_little(at, left, end, limit)
        } else {
            self.step_of_all(at, left, end, limit)
        }
    }

    /// Copies what is less than a block, and what does not reach the end of an area that was not
    /// written yet.
    fn step_of_all(&self, at: u64, left: u64, end: u64, limit: u64) -> Step {
        if at >= end {
            let next = ((at / self.granularity + 1) * self.granularity).min(limit);
            return if at + left >= next { Step::whole(next - at) } else { self.padded(at, left, next) };
        }
        if at + left > end {
            return Step::whole(end - at);
        }
        match left - left % self.block {
            0 => self.padded(at, left, at + self.block),
            whole => Step::whole(whole),
        }
    }

    /// Copies what does not fill the granularity.
    fn step_of_little(&self, at: u64, left: u64, end: u64, limit: u64) -> Step {
        let whole = (at + left) / self.granularity * self.granularity;
        if whole > at {
            return Step::whole(whole - at);
        }
        let block = (at + left).next_multiple_of(self.block);
        let ahead = (at + left).next_multiple_of(self.granularity).min(limit);
        self.padded(at, left, if block >= end { ahead } else { block })
    }

    /// All `left` bytes, with zeros up to `to`.
    fn padded(&self, at: u64, left: u64, to: u64) -> Step {
        let block = (at + left).next_multiple_of(self.block);
        Step { bytes: left, padding: block - (at + left), ahead: to - block }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::LogPath;
    use super::*;
    use perdura_pmem::split_mix::SplitMix64;

    fn rule(path: LogPath, write_ahead_bytes: u32, block: u64) -> Ahead {
        Ahead::new(&PathConfig { path, write_ahead_bytes, ..PathConfig::default() }, block)
    }

    fn step(bytes: u64, padding: u64, ahead: u64) -> Step {
        Step { bytes, padding, ahead }
    }

    /// The two cases in which InnoDB copies, and those in which it does not.
    #[test]
    fn classic_copies_in_two_cases() {
        let classic = rule(LogPath::Classic, 0, 512);
        // Less than a block, where the file was written before.
        assert_eq!(classic.step(512, 320, 8192, 1 << 20), step(320, 192, 0));
        // An area that was not, and that is not filled.
        assert_eq!(classic.step(8192, 320, 8192, 1 << 20), step(320, 192, 7680));
        assert_eq!(classic.step(8192, 1024, 8192, 1 << 20), step(1024, 0, 7168));
        // Whole blocks, then the rest.
        assert_eq!(classic.step(512, 1400, 8192, 1 << 20), step(1024, 0, 0));
        // Up to the end of the area; then an area that is filled.
        assert_eq!(classic.step(7680, 9000, 8192, 1 << 20), step(512, 0, 0));
        assert_eq!(classic.step(8192, 9000, 8192, 1 << 20), step(8192, 0, 0));
        // The end of the file.
        assert_eq!(classic.step(8192, 100, 8192, 10240), step(100, 412, 1536));
    }

    #[test]
    fn nf_copies_what_does_not_fill_the_granularity() {
        let nf = rule(LogPath::Nf, 0, 512);
        assert_eq!(nf.step(512, 320, 512, 1 << 20), step(320, 192, 0));
        assert_eq!(nf.step(512, 1400, 512, 1 << 20), step(1024, 0, 0));
        assert_eq!(nf.step(512, 1024, 512, 1 << 20), step(1024, 0, 0));
        let wide = rule(LogPath::Nf, 4096, 512);
        assert_eq!(wide.step(512, 320, 512, 1 << 20), step(320, 192, 3072));
        assert_eq!(wide.step(1024, 320, 4096, 1 << 20), step(320, 192, 0));
        assert_eq!(wide.step(3584, 5000, 4096, 1 << 20), step(4608, 0, 0));
        assert_eq!(rule(LogPath::Nf, 256, 256).step(0, 64, 0, 1 << 20), step(64, 192, 0));
        assert_eq!(rule(LogPath::Nf, 256, 4096).step(0, 64, 0, 1 << 20), step(64, 4032, 0), "a disk's sector");
    }

    /// Hazard: zeros over what was written before, or a block that two writes share.
    #[test]
    fn zeros_go_where_nothing_was_written() {
        for path in [LogPath::Classic, LogPath::Nf] {
            for (ahead, block) in [(256, 256), (512, 512), (4096, 512), (8192, 512), (8192, 4096)] {
                let rule = rule(path, ahead, block);
                let mut random = SplitMix64::new(u64::from(ahead) + block);
                let (limit, mut end) = (1 << 20, 0);
                for _ in 0..3000 {
                    let mut at = random.below(limit / block) * block;
                    let mut left = (64 * (1 + random.below(300))).min(limit - at);
                    while left > 0 {
                        let step = rule.step(at, left, end, limit);
                        let seen = format!("{rule:?}: {left} bytes at {at} beside {end}: {step:?}");
                        assert!(step.bytes > 0 && step.bytes <= left, "{seen}");
                        let to = at + step.bytes + step.padding + step.ahead;
                        assert!(to.is_multiple_of(block) && to <= limit, "{seen}");
                        assert!(step.padding < block && (step.ahead == 0 || to - step.ahead >= end), "{seen}");
                        assert!(!step.is_copied() || to - at <= rule.buffer_bytes() as u64, "{seen}");
                        assert!(step.bytes == left || !step.is_copied(), "zeros only behind the last: {seen}");
                        (left, at) = (left - step.bytes, at + step.bytes);
                        end = end.max(to);
                    }
                    if random.one_in(50) {
                        end = 0;
                    }
                }
            }
        }
    }
}
