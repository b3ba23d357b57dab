//! Cells: the equal parts of a segment that hold versions, and the DRAM map of those in use.
//!
//! Cell sizes come in classes, which waste at most an eighth of a version. All cells of a segment are of one class, so
//! the place of a cell follows from its number, and no torn byte can derail a walk over a segment. After a restart a
//! sweep rebuilds the map from the row directory. Thread safety: the segment's owner claims cells and any thread frees
//! them, both on atomic words.

use crate::format::UNIT_BYTES;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Fewest units in a cell: those of a version header. Tombstones and empty rows need no more.
pub const UNITS_MIN: u32 = 2;
/// Where no more than so many cells fit a segment, they share it evenly.
const FEW_CELLS: u32 = 8;

/// The class of cells, in units, for a version of `bytes`, header included; `None` if the version needs an extent.
pub fn class_for(bytes: u64, segment_bytes: u64) -> Option<u32> {
    if bytes > segment_bytes {
        return None;
    }
    let units = (bytes.div_ceil(UNIT_BYTES) as u32).max(UNITS_MIN);
    let segment_units = (segment_bytes / UNIT_BYTES) as u32;
    let rounded = if segment_units / units <= FEW_CELLS { units } else { units.next_multiple_of(step(units)) };
    let cells = segment_units / rounded;
    Some(if cells <= FEW_CELLS { segment_units / cells } else { rounded })
}

/// Distance between classes of about `units`, where more than [`FEW_CELLS`] fit a segment: eight to a doubling.
fn step(units: u32) -> u32 {
    if units <= 16 { 1 } else { 1 << (units.ilog2() - 3) }
}

/// The class to open for a version of `class` when `largest`, a smaller one, is the largest open: twice `largest`, or
/// `class` if that is larger. Rows that grow little by little then open few classes.
pub fn grown_class(largest: u32, class: u32, segment_bytes: u64) -> u32 {
    let segment_units = (segment_bytes / UNIT_BYTES) as u32;
    let grown = largest.saturating_mul(2).min(segment_units / FEW_CELLS).max(class);
    class_for(u64::from(grown) * UNIT_BYTES, segment_bytes).unwrap_or(class)
}

/// Number of slots, which [`class_slot`] maps classes to.
pub const CLASS_SLOTS: usize = 136;

/// The slot of a class, below [`CLASS_SLOTS`]: eight to a doubling. No two classes of a pool share a slot.
pub fn class_slot(units: u32) -> usize {
    let log = units.ilog2();
    let eighth = if log < 3 { units << (3 - log) } else { units >> (log - 3) } & 7;
    (log * 8 + eighth) as usize
}

/// Whether a segment may have cells of `units`: those of a class, or a size that earlier builds used. No two of these
/// share a slot ([`class_slot`]), because an owner that asks for a class must not get smaller cells.
pub fn is_class(units: u32, segment_bytes: u64) -> bool {
    let segment_units = (segment_bytes / UNIT_BYTES) as u32;
    if !(UNITS_MIN..=segment_units).contains(&units) {
        return false;
    }
    match segment_units / units {
        cells if cells > FEW_CELLS => units.is_multiple_of(step(units)),
        FEW_CELLS if units < segment_units / FEW_CELLS => units.is_multiple_of(step(units)),
        cells => units == segment_units / cells,
    }
}

/// The cells of a segment that are in use.
pub struct CellMap {
    units: u32,
    count: u32,
    words: Box<[AtomicU64]>,
    used: AtomicU32,
    /// A shard or a bulk insert owns the segment, so it is not among the reusable ones. Changed with the lists of free
    /// segments locked.
    pub taken: AtomicBool,
}

impl CellMap {
    /// The map of a segment with cells of `units`, none of them in use.
    pub fn new(units: u32, segment_bytes: u64) -> CellMap {
        CellMap::with_count(units, (segment_bytes / UNIT_BYTES) as u32 / units)
    }

    /// The map of an extent, which has one cell.
    pub fn extent() -> CellMap {
        CellMap::with_count(0, 1)
    }

    fn with_count(units: u32, count: u32) -> CellMap {
        CellMap {
            units,
            count,
            words: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            used: AtomicU32::new(0),
            taken: AtomicBool::new(false),
        }
    }

    /// Size of a cell, in units of 16 bytes; 0 for an extent.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Number of cells in the segment.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of cells in use, claimed ones included.
    pub fn used(&self) -> u32 {
        self.used.load(Ordering::Acquire)
    }

    /// Offset of cell `index` in the segment, in bytes.
    pub fn cell_offset(&self, index: u32) -> u64 {
        u64::from(index) * u64::from(self.units) * UNIT_BYTES
    }

    /// The cell that begins at `offset` bytes in the segment, if one does.
    pub fn cell_at(&self, offset: u64) -> Option<u32> {
        let size = u64::from(self.units) * UNIT_BYTES;
        if size == 0 {
            return (offset == 0).then_some(0);
        }
        (offset.is_multiple_of(size) && offset / size < u64::from(self.count)).then(|| (offset / size) as u32)
    }

    /// Claims the first free cell at or after `from`. Only the segment's owner may call this.
    pub fn claim(&self, from: u32) -> Option<u32> {
        let mut index = from;
        while index < self.count {
            let word = &self.words[(index / 64) as usize];
            let free = !word.load(Ordering::Acquire) & (u64::MAX << (index % 64));
            let found = (index & !63) + free.trailing_zeros();
            if free != 0 && found < self.count {
                word.fetch_or(1 << (found % 64), Ordering::AcqRel);
                self.used.fetch_add(1, Ordering::AcqRel);
                return Some(found);
            }
            index = (index & !63) + 64;
        }
        None
    }

    /// Claims all free cells, and returns a bit for each. Only the segment's owner may call this.
    pub fn claim_rest(&self) -> Box<[u64]> {
        let claim = |(index, word): (u32, &AtomicU64)| {
            let cells = (self.count - index * 64).min(64);
            let all = u64::MAX >> (64 - cells);
            let claimed = all & !word.fetch_or(all, Ordering::AcqRel);
            self.used.fetch_add(claimed.count_ones(), Ordering::AcqRel);
            claimed
        };
        (0..).zip(&self.words).map(claim).collect()
    }

    /// Frees the cells in `claimed`, which [`CellMap::claim_rest`] returned and the owner did not use.
    pub fn free_rest(&self, claimed: &[u64]) {
        for (word, bits) in self.words.iter().zip(claimed) {
            word.fetch_and(!bits, Ordering::AcqRel);
            self.used.fetch_sub(bits.count_ones(), Ordering::AcqRel);
        }
    }

    /// Marks cell `index` as used, for a sweep. Returns whether it was free.
    pub fn mark(&self, index: u32) -> bool {
        let bit = 1 << (index % 64);
        let was_free = self.words[(index / 64) as usize].fetch_or(bit, Ordering::AcqRel) & bit == 0;
        if was_free {
            self.used.fetch_add(1, Ordering::AcqRel);
        }
        was_free
    }

    /// Frees cell `index`. Returns the number of cells left in use.
    pub fn free(&self, index: u32) -> u32 {
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

    /// Versions of 7169 to 7280 bytes got cells of a size that was not a class. Their segments then counted as damaged,
    /// and the pool did not open again.
    #[test]
    fn whatever_a_row_gets_is_a_class_of_bounded_waste() {
        for segment_bytes in (12..=20).map(|shift| 1u64 << shift) {
            let mut classes = BTreeSet::new();
            for bytes in (1..=segment_bytes / UNIT_BYTES).map(|units| units * UNIT_BYTES) {
                let class = class_for(bytes, segment_bytes).expect("it fits a segment");
                assert!(is_class(class, segment_bytes), "{bytes} of {segment_bytes}: {class}");
                let cell = u64::from(class) * UNIT_BYTES;
                assert_eq!(class_for(cell, segment_bytes), Some(class), "{bytes} of {segment_bytes}");
                assert!(bytes <= cell);
                let few = segment_bytes / cell <= u64::from(FEW_CELLS);
                assert!(few || cell - bytes <= bytes / 8 || bytes <= 32, "{bytes} of {segment_bytes}: {cell}");
                classes.insert(class);
            }
            let slots: BTreeSet<_> = classes.iter().map(|class| class_slot(*class)).collect();
            assert_eq!(slots.len(), classes.len(), "{segment_bytes}");
            assert!(slots.iter().all(|slot| *slot < CLASS_SLOTS));
            // Cells of 576 units shared a slot with the class of 585. A version of 577 to 585 units could be written
            // into one of them, over the beginning of the next.
            let accepted: Vec<_> = (0..=65536 + 1).filter(|units| is_class(*units, segment_bytes)).collect();
            let slots: BTreeSet<_> = accepted.iter().map(|units| class_slot(*units)).collect();
            assert_eq!(slots.len(), accepted.len(), "{segment_bytes}: {accepted:?}");
            for (smaller, larger) in classes.iter().zip(classes.iter().skip(1)) {
                let grown = grown_class(*smaller, *larger, segment_bytes);
                assert!(grown >= *larger && classes.contains(&grown));
            }
        }
    }
}
