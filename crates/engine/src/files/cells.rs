//! Cells: the equal parts of a segment that hold versions, and the DRAM map of those in use.

use crate::format::{UNIT_BYTES, VERSION_HEADER};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Fewest units in a cell: those of a version header. Tombstones and empty rows need no more.
pub(crate) const UNITS_MIN: u32 = (VERSION_HEADER / UNIT_BYTES) as u32;
/// Up to so many units each number of units is a class.
const UNITS_FINE: u32 = 32;
/// Fewest cells in a segment.
const CELLS_MIN: u64 = 8;

/// The class of cells, in units, for a version of `bytes`, header included, where segments have up
/// to `segment_bytes`; `None` if the version needs an extent.
pub(crate) fn class_for(bytes: u64, segment_bytes: u64) -> Option<u32> {
    if bytes > segment_bytes / CELLS_MIN {
        return None;
    }
    Some(class_of((bytes.div_ceil(UNIT_BYTES) as u32).max(UNITS_MIN)))
}

/// The smallest class of at least `units`.
fn class_of(units: u32) -> u32 {
    if units <= UNITS_FINE {
        return units;
    }
    let (power, parts) = parts_of(units);
    power / parts
}

/// The class of at least `units` as a part of a power of two: that power, and the number of parts,
/// from 8 to 15.
fn parts_of(units: u32) -> (u32, u32) {
    let power = units.next_power_of_two() * 8;
    (power, power / units)
}

/// Size of the smallest segment that may have cells of `units`, in bytes.
pub(crate) fn segment_bytes_for(units: u32) -> u64 {
    (u64::from(units) * UNIT_BYTES * CELLS_MIN).next_power_of_two()
}

/// The class to open for a version of `class` when `largest`, a smaller one, is the largest open:
/// twice `largest`, or `class` if that is larger. Rows that grow little by little then open few
/// classes.
pub(crate) fn grown_class(largest: u32, class: u32, segment_bytes: u64) -> u32 {
    let grown = u64::from(largest.saturating_mul(2).max(class)) * UNIT_BYTES;
    class_for(grown.min(segment_bytes / CELLS_MIN), segment_bytes).unwrap_or(class)
}

/// Number of slots, which [`class_slot`] maps classes to.
pub(crate) const CLASS_SLOTS: usize = 112;

/// The slot of a class, below [`CLASS_SLOTS`]. No two classes share one.
pub(crate) fn class_slot(class: u32) -> usize {
    if class <= UNITS_FINE {
        return class as usize;
    }
    let (power, parts) = parts_of(class);
    let doublings = power.ilog2() - (UNITS_FINE * 16).ilog2();
    (UNITS_FINE + doublings * 8 + 16 - parts) as usize
}

/// Whether a segment of `segment_bytes` may have cells of `units`.
pub(crate) fn is_class(units: u32, segment_bytes: u64) -> bool {
    (UNITS_MIN..=(segment_bytes / CELLS_MIN / UNIT_BYTES) as u32).contains(&units) && class_of(units) == units
}

/// The cells of a segment that are in use.
///
/// Cell sizes come in classes, which are the same in segments of all sizes: every multiple of a
/// unit up to 256 bytes, and from there on the eighth to the fifteenth part of each power of two. A
/// segment holds classes of up to an eighth of its size, of which it holds a whole number nearly
/// without rest. So a version takes at most its bytes rounded up to 8, and an eighth of itself. All
/// cells of a segment are of one class, so the place of a cell follows from its number, and no torn
/// byte can derail a walk over a segment. After a restart a sweep rebuilds the map from the row
/// directory. Thread safety: any thread claims and frees cells, on atomic words. Whoever does not
/// own the segment makes sure that it does not become free meanwhile.
pub(crate) struct CellMap {
    units: u32,
    count: u32,
    words: Box<[AtomicU64]>,
    used: AtomicU32,
    /// A shard or a bulk insert owns the segment, so it is not among the reusable ones. Changed
    /// with the lists of free segments locked.
    pub taken: AtomicBool,
    /// Rows are being moved out of the segment, so it is not among the reusable ones either.
    /// Changed like `taken`.
    pub emptied: AtomicBool,
}

impl CellMap {
    /// The map of a segment with cells of `units`, none of them in use.
    pub(crate) fn new(units: u32, segment_bytes: u64) -> CellMap {
        let count = (segment_bytes / UNIT_BYTES) as u32 / units;
        CellMap {
            units,
            count,
            words: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            used: AtomicU32::new(0),
            taken: AtomicBool::new(false),
            emptied: AtomicBool::new(false),
        }
    }

    /// Size of a cell, in units of 8 bytes.
    pub(crate) fn units(&self) -> u32 {
        self.units
    }

    /// Number of cells in the segment.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the segment has an owner or is being emptied: it is not offered to others.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.taken.load(Ordering::Acquire) || self.emptied.load(Ordering::Acquire)
    }

    /// Number of cells in use, claimed ones included.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Acquire)
    }

    /// Offset of cell `index` in the segment, in bytes.
    pub(crate) fn cell_offset(&self, index: u32) -> u64 {
        u64::from(index) * u64::from(self.units) * UNIT_BYTES
    }

    /// The cell that begins at `offset` bytes in the segment, if one does.
    pub(crate) fn cell_at(&self, offset: u64) -> Option<u32> {
        let size = u64::from(self.units) * UNIT_BYTES;
        (offset.is_multiple_of(size) && offset / size < u64::from(self.count)).then(|| (offset / size) as u32)
    }

    /// The cells in use.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        let cells = |(index, word): (u32, &AtomicU64)| {
            let bits = word.load(Ordering::Acquire);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| index * 64 + bit)
        };
        (0..).zip(&self.words).flat_map(cells)
    }

    /// Claims the first free cell at or after `from`.
    pub(crate) fn claim(&self, from: u32) -> Option<u32> {
        let mut index = from;
        while index < self.count {
            let word = self.words[(index / 64) as usize].load(Ordering::Acquire);
            let free = !word & (u64::MAX << (index % 64));
            let found = (index & !63) + free.trailing_zeros();
            if free == 0 || found >= self.count {
                index = (index & !63) + 64;
            } else if self.mark(found) {
                return Some(found);
            }
        }
        None
    }

    /// Claims all free cells, and returns a bit for each.
    pub(crate) fn claim_rest(&self) -> Box<[u64]> {
        let claim = |(index, word): (u32, &AtomicU64)| {
            let cells = (self.count - index * 64).min(64);
            let all = u64::MAX >> (64 - cells);
            let claimed = all & !word.fetch_or(all, Ordering::AcqRel);
            self.used.fetch_add(claimed.count_ones(), Ordering::AcqRel);
            claimed
        };
        (0..).zip(&self.words).map(claim).collect()
    }

    /// Frees the cells in `claimed`, which [`CellMap::claim_rest`] returned and the owner did not
    /// use.
    pub(crate) fn free_rest(&self, claimed: &[u64]) {
        for (word, bits) in self.words.iter().zip(claimed) {
            word.fetch_and(!bits, Ordering::AcqRel);
            self.used.fetch_sub(bits.count_ones(), Ordering::AcqRel);
        }
    }

    /// Marks cell `index` as used. Returns whether it was free.
    pub(crate) fn mark(&self, index: u32) -> bool {
        let bit = 1 << (index % 64);
        let was_free = self.words[(index / 64) as usize].fetch_or(bit, Ordering::AcqRel) & bit == 0;
        if was_free {
            self.used.fetch_add(1, Ordering::AcqRel);
        }
        was_free
    }

    /// Frees cell `index`. Returns the number of cells left in use.
    pub(crate) fn free(&self, index: u32) -> u32 {
        let bit = 1 << (index % 64);
        let before = self.words[(index / 64) as usize].fetch_and(!bit, Ordering::AcqRel);
        debug_assert!(before & bit != 0, "cell freed twice");
        if before & bit == 0 { self.used() } else { self.used.fetch_sub(1, Ordering::AcqRel) - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Versions of 7169 to 7280 bytes got cells of a size that was not a class. Their segments then
    /// counted as damaged, and the pool did not open again. Versions of 33 KiB had a segment of 64
    /// KiB each.
    #[test]
    fn whatever_a_row_gets_is_a_class_of_bounded_waste() {
        let mut all = BTreeSet::new();
        for segment_bytes in (12..=20).map(|shift| 1u64 << shift) {
            let mut classes = BTreeSet::new();
            for bytes in 1..=segment_bytes / CELLS_MIN {
                let class = class_for(bytes, segment_bytes).expect("an eighth of a segment is enough");
                assert!(is_class(class, segment_bytes), "{bytes} of {segment_bytes}: {class}");
                let cell = u64::from(class) * UNIT_BYTES;
                assert_eq!(class_for(cell, segment_bytes), Some(class), "{bytes} of {segment_bytes}");
                assert!(bytes <= cell && segment_bytes_for(class) <= segment_bytes);
                // Its share of the segment, with what is left over behind the last cell.
                let count = u64::from(CellMap::new(class, segment_bytes).count());
                assert!(count >= CELLS_MIN);
                let least = bytes.next_multiple_of(UNIT_BYTES).max(VERSION_HEADER);
                assert!(segment_bytes <= count * (least + least / 8 + 1), "{bytes} of {segment_bytes}: {cell}");
                classes.insert(class);
            }
            assert_eq!(class_for(segment_bytes / CELLS_MIN + 1, segment_bytes), None);
            let accepted: BTreeSet<_> = (0..=1 << 17).filter(|units| is_class(*units, segment_bytes)).collect();
            assert_eq!(accepted, classes, "{segment_bytes}");
            for (smaller, larger) in classes.iter().zip(classes.iter().skip(1)) {
                let grown = grown_class(*smaller, *larger, segment_bytes);
                assert!(grown >= *larger && classes.contains(&grown));
            }
            all.extend(classes);
        }
        // Cells of 576 units shared a slot with the class of 585. A version of 577 to 585 units
        // could be written into one of them, over the beginning of the next.
        let slots: BTreeSet<_> = all.iter().map(|class| class_slot(*class)).collect();
        assert_eq!(slots.len(), all.len(), "{all:?}");
        assert!(slots.iter().all(|slot| *slot < CLASS_SLOTS));
    }

    /// Hazard: two threads that claim cells of one segment get the same one.
    #[test]
    fn each_cell_is_claimed_once_however_many_claim() {
        for from in [0, 1, 70, 199] {
            let map = CellMap::new(2, 256 << 10);
            map.mark(3);
            map.mark(130);
            let claim = || std::iter::from_fn(|| map.claim(from)).collect::<Vec<_>>();
            let mut claimed: Vec<u32> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
                threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
            });
            claimed.sort_unstable();
            let expected: Vec<u32> = (from..map.count()).filter(|cell| ![3, 130].contains(cell)).collect();
            assert_eq!(claimed, expected, "from {from}");
            assert_eq!(map.used(), 2 + expected.len() as u32);
        }
    }
}
