//! Cells: the equal parts of a segment that hold versions, and the DRAM map of those in use.
//!
//! Cell sizes come in classes (multiples of 16 bytes, at most an eighth of waste), so a cell's place follows from its
//! number and no torn byte can derail a walk over a segment. The map is rebuilt from the row directory after a restart.
//! Thread safety: one owner claims, anyone frees; both on atomic words.

use crate::format::UNIT_BYTES;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Fewest units in a cell: a version header and one unit of row.
pub const UNITS_MIN: u32 = 2;
/// Up to so many cells in a segment, they share it evenly.
const FEW_CELLS: u32 = 8;

/// The class for a version of `bytes` (header included), or `None` if it needs a run of segments.
pub fn class_for(bytes: u64, segment_bytes: u64) -> Option<u32> {
    if bytes > segment_bytes {
        return None;
    }
    let units = (bytes.div_ceil(UNIT_BYTES) as u32).max(UNITS_MIN);
    let segment_units = (segment_bytes / UNIT_BYTES) as u32;
    let cells = segment_units / units;
    if cells <= FEW_CELLS {
        return Some(segment_units / cells);
    }
    let shift = units.ilog2().saturating_sub(3);
    let rounded = if units <= 16 { units } else { units.next_multiple_of(1 << shift) };
    Some(rounded.min(segment_units / FEW_CELLS))
}

/// Whether `units` is a class.
pub fn is_class(units: u32, segment_bytes: u64) -> bool {
    class_for(u64::from(units) * UNIT_BYTES, segment_bytes) == Some(units)
}

/// Which cells of a segment are in use.
pub struct CellMap {
    units: u32,
    count: u32,
    words: Box<[AtomicU64]>,
    used: AtomicU32,
    /// In the hands of a shard or of a bulk insert: not to be put on a list of reusable segments.
    pub taken: AtomicBool,
    /// On a list of reusable segments.
    pub listed: AtomicBool,
}

impl CellMap {
    /// An empty map of a segment with cells of `units`.
    pub fn new(units: u32, segment_bytes: u64) -> CellMap {
        CellMap::with_count(units, (segment_bytes / UNIT_BYTES) as u32 / units)
    }

    /// The map of a run: one cell.
    pub fn run() -> CellMap {
        CellMap::with_count(0, 1)
    }

    fn with_count(units: u32, count: u32) -> CellMap {
        CellMap {
            units,
            count,
            words: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            used: AtomicU32::new(0),
            taken: AtomicBool::new(false),
            listed: AtomicBool::new(false),
        }
    }

    /// Units of a cell; 0 for a run.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Number of cells.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Cells in use.
    pub fn used(&self) -> u32 {
        self.used.load(Ordering::Acquire)
    }

    /// Offset of cell `index` in its segment, in bytes.
    pub fn cell_offset(&self, index: u32) -> u64 {
        u64::from(index) * u64::from(self.units) * UNIT_BYTES
    }

    /// The cell at `offset` bytes of its segment, if one begins there.
    pub fn cell_at(&self, offset: u64) -> Option<u32> {
        let size = u64::from(self.units) * UNIT_BYTES;
        if size == 0 {
            return (offset == 0).then_some(0);
        }
        (offset.is_multiple_of(size) && offset / size < u64::from(self.count)).then(|| (offset / size) as u32)
    }

    /// Claims a free cell at or after `from`. Only the segment's owner calls it.
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

    /// Claims all cells of an empty map at once.
    pub fn claim_all(&self) {
        for (index, word) in (0..).zip(&self.words) {
            let cells = (self.count - index * 64).min(64);
            word.store(u64::MAX >> (64 - cells), Ordering::Release);
        }
        self.used.store(self.count, Ordering::Release);
    }

    /// Frees the cells from `index` on, which were claimed and never used.
    pub fn free_from(&self, index: u32) {
        for cell in index..self.count {
            self.free(cell);
        }
    }

    /// Marks cell `index` used, for a sweep. Returns whether it was free.
    pub fn mark(&self, index: u32) -> bool {
        let bit = 1 << (index % 64);
        let was_free = self.words[(index / 64) as usize].fetch_or(bit, Ordering::AcqRel) & bit == 0;
        if was_free {
            self.used.fetch_add(1, Ordering::AcqRel);
        }
        was_free
    }

    /// Frees cell `index`; returns how many are used after that.
    pub fn free(&self, index: u32) -> u32 {
        let bit = 1 << (index % 64);
        let before = self.words[(index / 64) as usize].fetch_and(!bit, Ordering::AcqRel);
        debug_assert!(before & bit != 0, "cell freed twice");
        if before & bit == 0 { self.used() } else { self.used.fetch_sub(1, Ordering::AcqRel) - 1 }
    }
}
