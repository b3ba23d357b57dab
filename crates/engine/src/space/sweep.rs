//! The sweep of a segment: it finds the cells and extents in use, after a restart.

use crate::files::cells::CellMap;
use crate::files::chain::{Chain, SegmentId, rid_at};
use crate::files::datafile::DataFile;
use crate::files::directory::Directory;
use crate::format::VERSION_HEADER;
use perdura_pmem::Mutant;
use std::ops::Range;

/// Marks in `map` the cells of segment `id` that `directory` names.
///
/// A cell is in use iff the directory word of the RID in its header names it (I4), and so is an
/// extent. Whatever else its bytes hold, torn or stale, is free space.
///
/// Purge empties words below the checkpoint, so no redo stores them again. A process that was
/// killed before the fence leaves such a word empty in the cache only; the sweep makes it durable
/// before anybody reuses the cell that it named (I3, I8).
pub(crate) fn mark_live(file: &DataFile, id: SegmentId, map: &CellMap, directory: &Directory) {
    let start = file.segment_offset(id.index);
    let mut emptied = Vec::new();
    for cell in 0..map.count() {
        if is_live(file, start + map.cell_offset(cell), directory, &mut emptied) {
            map.mark(cell);
        }
    }
    directory.reclaim_words(emptied);
}

/// Whether the directory word of the RID at `at` names that place. Adds rows whose words were
/// emptied to `emptied`.
fn is_live(file: &DataFile, at: u64, directory: &Directory, emptied: &mut Vec<u64>) -> bool {
    let rid = rid_at(file.region(), at);
    let word = directory.word(rid.row());
    // Planted: a cell is in use if its row is.
    let named =
        word.file() == file.sequence() && word.offset() == at || perdura_pmem::planted(Mutant::SweepCountsDeadCells);
    if word.is_empty() && word.incarnation() != rid.incarnation() {
        emptied.push(rid.row());
    }
    !word.is_empty() && named
}

/// The extents within `granules` that the directory names, in their order. One whose header is
/// damaged, so that its length is unknown, goes as far as the next one begins. Those behind
/// the place where the medium fails are not found: nobody takes room any more.
pub(crate) fn live_extents(file: &DataFile, granules: Range<u32>, chain: &Chain) -> Vec<Range<u32>> {
    let (directory, mut emptied) = (chain.directory(), Vec::new());
    let mut found: Vec<Range<u32>> = Vec::new();
    let mut granule = granules.start;
    while granule < granules.end && chain.context().health.check().is_ok() {
        let at = file.granule_offset(granule);
        if !is_live(file, at, directory, &mut emptied) {
            granule += 1;
            continue;
        }
        if let Some(before) = found.last_mut() {
            before.end = before.end.min(granule);
        }
        let word = directory.word(rid_at(file.region(), at).row());
        let header = chain.header(word, rid_at(file.region(), at));
        match header.map(|(_, _, header)| (VERSION_HEADER + u64::from(header.len)).div_ceil(file.granule_bytes())) {
            Ok(count) => {
                let end = granules.end.min(granule.saturating_add(count as u32));
                found.push(granule..end);
                granule = end;
            }
            Err(_) => {
                found.push(granule..granules.end);
                granule += 1;
            }
        }
    }
    directory.reclaim_words(emptied);
    found
}
