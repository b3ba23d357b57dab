//! Sectors of a disk: the unit in which a file of the log is written, and sets of them.

use rustix::fs::{AtFlags, Statx, StatxFlags, fstatvfs, statx};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// Bytes of the smallest and of the largest sector. A copy of the superblock has one of the largest
/// to itself, so a disk that says more is taken to tear at these.
const SECTOR_MIN: u64 = 512;
const SECTOR_MAX: u64 = 4096;

/// Bytes that a write of `file` may tear: a physical block of its disk, or a block of the file
/// system where that is no disk's; a multiple of what direct writes must be aligned to, a power of
/// two.
pub(super) fn sector_of(file: &File) -> u64 {
    let block = physical_block(file).or_else(|| fstatvfs(file).ok().map(|stat| stat.f_bsize));
    block.unwrap_or(SECTOR_MAX).max(direct_alignment(file)).clamp(SECTOR_MIN, SECTOR_MAX).next_power_of_two()
}

/// Physical block size of the disk below `file`, where the kernel names one.
fn physical_block(file: &File) -> Option<u64> {
    let device = file.metadata().ok()?.dev();
    let device = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    // A partition has its disk's.
    let read = |place: &str| std::fs::read_to_string(format!("{device}/{place}queue/physical_block_size")).ok();
    read("").or_else(|| read("../"))?.trim().parse().ok()
}

/// Alignment of direct writes, where the file system says it; else 0.
fn direct_alignment(file: &File) -> u64 {
    let found = statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let says = |stat: &Statx| StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    found.ok().filter(says).map_or(0, |stat| stat.stx_dio_offset_align.into())
}

/// Ranges of a file: in order, none touching another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds a range, which is not empty.
    pub(super) fn add(&mut self, range: Range<u64>) {
        let begin = self.0.partition_point(|known| known.end < range.start);
        let end = begin + self.0[begin..].partition_point(|known| known.start <= range.end);
        let joined = self.0[begin..end]
            .iter()
            .fold(range, |joined, known| joined.start.min(known.start)..joined.end.max(known.end));
        self.0.splice(begin..end, [joined]);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Bytes in them all.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split_mix::SplitMix64;
    use std::collections::BTreeSet;

    #[test]
    fn the_sector_is_a_power_of_two_that_direct_writes_accept() {
        let file = tempfile::tempfile().expect("a temporary file");
        let sector = sector_of(&file);
        assert!(sector.is_power_of_two() && (SECTOR_MIN..=SECTOR_MAX).contains(&sector), "{sector}");
        assert!(sector >= direct_alignment(&file).min(SECTOR_MAX));
    }

    #[test]
    fn ranges_are_the_union_of_what_was_added() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for _ in 0..1 + random.below(20) {
                let begin = random.below(60);
                let end = begin + 1 + random.below(6);
                ranges.add(begin..end);
                model.extend(begin..end);
            }
            let found: Vec<u64> = ranges.iter().cloned().flatten().collect();
            assert!(found.iter().eq(model.iter()), "seed {seed}: {ranges:?}");
            let apart = ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start);
            assert!(apart && ranges.bytes() == model.len() as u64, "seed {seed}: {ranges:?}");
        }
    }
}
