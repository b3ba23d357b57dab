//! The sweep of a segment: it finds the cells in use, after a restart.
//!
//! A cell is in use iff the directory word of the RID in its header names it (I4). Whatever else its bytes hold, torn
//! or stale, is free space.
//!
//! Purge empties words below the checkpoint, so no redo stores them again. A process that was killed before the fence leaves such
//! a word empty in the cache only; the sweep makes it durable before anybody reuses the cell that it named (I3, I8).

use crate::files::cells::CellMap;
use crate::files::chain::SegmentId;
use crate::files::datafile::DataFile;
use crate::files::directory::Directory;
use crate::format::Rid;

/// Marks in `map` the cells of segment `id` that `directory` names.
pub fn mark_live(file: &DataFile, id: SegmentId, map: &CellMap, directory: &Directory) {
    let start = file.segment_offset(id.index);
    let mut emptied = Vec::new();
    for cell in 0..map.count() {
        let at = start + map.cell_offset(cell);
        let rid = Rid::from_u64(file.region().load(at));
        let word = directory.word(rid.row());
        // Planted: a cell is in use if its row is.
        let named = word.file() == id.file && word.offset() == at || perdura_pmem::planted(44);
        if !word.is_empty() && named {
            map.mark(cell);
        } else if word.is_empty() && word.incarnation() != rid.incarnation() {
            emptied.push(rid.row());
        }
    }
    directory.reclaim_words(emptied);
}
