//! Sparse segments: so little of them is left that it pays to move the rest away, so that they
//! become free for every use.

use crate::files::cells::CellMap;
use crate::files::chain::SegmentId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fewest sparse segments for which anything is moved.
const SEGMENTS_MIN: usize = 4;

/// Whether a segment with `used` of its `count` cells in use is sparse.
pub(crate) fn is_sparse(used: u32, count: u32) -> bool {
    u64::from(used) * 4 <= u64::from(count)
}

/// A segment that is being emptied.
pub(crate) struct Emptied {
    /// Place of the segment in the chain.
    pub id: SegmentId,
    /// The map of its cells. Once none of them is in use the segment is free, and may have another
    /// use.
    pub cells: Arc<CellMap>,
    /// Offset of its first cell in the file, in bytes.
    pub start: u64,
}

/// The sparse segments of a table.
///
/// A segment is sparse if it holds cells, has no owner, and at most a quarter of its cells is in
/// use. A table's sparse segments are worth emptying if they are at least [`SEGMENTS_MIN`], and at
/// least a quarter of the table's bytes in use. Of each class those farthest along the chain are
/// emptied, as many as the others of the class have room for. So what is left of the table gathers
/// in the first files, and a class with one sparse segment is left alone.
///
/// A row goes to a cell that is offered already, no larger than the one it leaves: no segment is
/// taken into use for it, and the table never grows by moves. Smaller cells may take the room that
/// another class was chosen for; then some of its rows stay, and the next selection knows. The end
/// is reached: a row goes to smaller cells, or among equal ones to a segment before its own or to
/// one that is not sparse, and no move makes one sparse.
#[derive(Default)]
pub(crate) struct Sparse {
    /// By the units of their cells, in the order of the chain: their sizes in bytes.
    segments: BTreeMap<(u32, SegmentId), u64>,
    bytes: u64,
}

impl Sparse {
    /// Adds a segment of `bytes` with cells of `units`, unless it is there.
    pub(crate) fn add(&mut self, units: u32, id: SegmentId, bytes: u64) {
        if self.segments.insert((units, id), bytes).is_none() {
            self.bytes += bytes;
        }
    }

    /// Takes a segment off, if it is there.
    pub(crate) fn remove(&mut self, units: u32, id: SegmentId) {
        if let Some(bytes) = self.segments.remove(&(units, id)) {
            self.bytes -= bytes;
        }
    }

    /// Whether it pays to empty sparse segments of a table that has `table_bytes` in use.
    pub(crate) fn is_worth_emptying(&self, table_bytes: u64) -> bool {
        self.segments.len() >= SEGMENTS_MIN && self.bytes * 4 >= table_bytes
    }

    /// Chooses up to `most` segments to be emptied. `cells` tells how many cells of a segment are
    /// in use, and how many it has.
    pub(crate) fn choose(&self, most: usize, cells: impl Fn(SegmentId) -> (u32, u32)) -> Vec<(u32, SegmentId)> {
        let (first, last) = (SegmentId { file: 0, index: 0 }, SegmentId { file: u32::MAX, index: u32::MAX });
        let mut chosen = Vec::new();
        let mut class = 0;
        while let Some((&(units, _), _)) = self.segments.range((class, first)..).next() {
            class = units + 1;
            let mut of_class = self.segments.range((units, first)..=(units, last)).map(|((_, id), _)| *id);
            let mut room = 0;
            while chosen.len() < most
                && let Some(id) = of_class.next_back()
            {
                let needed = u64::from(cells(id).0);
                while room < needed
                    && let Some(kept) = of_class.next()
                {
                    let (used, count) = cells(kept);
                    room += u64::from(count - used);
                }
                if room < needed {
                    break;
                }
                room -= needed;
                chosen.push((units, id));
            }
        }
        chosen
    }
}
