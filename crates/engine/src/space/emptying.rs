//! The emptying of a table's sparse segments: which are being emptied, and what is left in them.
//!
//! A bounded number of segments is chosen and gone through in passes. A row that somebody holds, or
//! has written lately, waits for the next pass. A segment that is not empty after [`PASSES`] is
//! given up and offered again. The next ones are chosen only when purge has reclaimed what was
//! moved, so an old snapshot holds up no more room than theirs.

use super::segments::Segments;
use super::sparse::Emptied;
use crate::files::chain::rid_at;
use crate::format::{Rid, UNIT_BYTES, Word};
use perdura_log::Csn;

/// Most segments emptied at a time.
const SEGMENTS_AT_ONCE: usize = 256;
/// Passes after which a segment is given up.
const PASSES: u32 = 20;
/// Most rounds for which nothing is chosen after segments were given up: their rows may be damaged,
/// or prepared.
const PAUSE_MAX: u32 = 1024;
/// Bytes that looking at a cell counts for at least: a small row costs more time than room.
const CELL_COST_MIN: u64 = 512;

/// The segments of a table that are being emptied.
#[derive(Default)]
pub(crate) struct Emptying {
    segments: Vec<Emptied>,
    /// The next one to look at in this pass.
    next: usize,
    passes: u32,
    /// Rounds for which nothing is chosen, and those of the last pause. It doubles until a row can
    /// be moved again.
    pause: u32,
    paused: u32,
    /// CSN of the last commit that moved rows.
    moved: Csn,
}

impl Emptying {
    /// The rows to be moved next: RIDs, and the words that name their versions. They are in cells
    /// of about half of `bytes`, which are taken off. Chooses other segments after the last pass,
    /// if purge has come to the last move.
    pub(crate) fn next_rows(&mut self, segments: &Segments, bytes: &mut u64, purged: Csn) -> Vec<(Rid, Word)> {
        if self.next == self.segments.len() {
            self.end_pass(segments, purged);
        }
        let mut rows = Vec::new();
        let mut left = *bytes / 2;
        while left > 0
            && let Some(segment) = self.segments.get(self.next)
        {
            let cost = (u64::from(segment.cells.units()) * UNIT_BYTES).max(CELL_COST_MIN);
            left = left.saturating_sub(u64::from(segment.cells.used()) * cost);
            find_rows(segments, segment, &mut rows);
            self.next += 1;
        }
        *bytes = *bytes - *bytes / 2 + left;
        rows
    }

    fn end_pass(&mut self, segments: &Segments, purged: Csn) {
        self.segments.retain(|segment| segment.cells.used() > 0);
        self.passes += 1;
        if self.passes == PASSES {
            self.segments.drain(..).for_each(|segment| segments.end_emptying(&segment));
            self.paused = (self.paused * 2).clamp(1, PAUSE_MAX);
            self.pause = self.paused;
        }
        self.pause = self.pause.saturating_sub(1);
        if self.segments.is_empty() && self.pause == 0 && self.moved <= purged {
            (self.segments, self.passes) = (segments.begin_emptying(SEGMENTS_AT_ONCE), 0);
        }
        self.next = 0;
    }

    /// Notes that commit `csn` has moved rows.
    pub(crate) fn note_moved(&mut self, csn: Csn) {
        self.moved = csn;
        self.paused = 0;
    }
}

/// Adds to `rows` those whose directory words name cells of `segment`. What else is in use there is
/// not committed, or waits for purge. Nobody holds the rows, so whoever moves one looks again.
fn find_rows(segments: &Segments, segment: &Emptied, rows: &mut Vec<(Rid, Word)>) {
    let (id, cells) = (segment.id, &segment.cells);
    let directory = segments.chain().directory();
    let Some(file) = segments.chain().file(id.file) else { return };
    for cell in cells.in_use() {
        let at = segment.start + cells.cell_offset(cell);
        let rid = rid_at(file.region(), at);
        let word = directory.word(rid.row());
        let is_there = (word.file(), word.offset(), word.incarnation()) == (id.file, at, rid.incarnation());
        if is_there && !word.is_tombstone() {
            rows.push((rid, word));
        }
    }
}
