//! Moving rows: a transaction writes a row again, as it is, elsewhere.
//!
//! To everybody else that is a commit as any other: a redo record, new words, and a past from which
//! older snapshots read the row where it was, until purge frees the place (I8). Only the check for
//! rows that were changed after a snapshot passes it by.

use super::claim::{Claim, Step};
use super::table_writes::TableWrites;
use crate::files::chain;
use crate::format::{Rid, VERSION_HEADER, Word};
use perdura_pmem::Mutant;

impl TableWrites {
    /// Moves row `rid` to a free cell of a segment of the transaction's own, unless somebody holds
    /// the row, its newest version is not the one that `from` names or is damaged, or there is no
    /// such cell. It waits for nobody. `in_place` tells whether the row may be locked in place.
    /// Returns the version's size in bytes; `None` if the row stays.
    pub fn move_row(&mut self, rid: Rid, from: Word, at: Step, in_place: impl FnOnce() -> bool) -> Option<u64> {
        let table = self.table.clone();
        let is_held = matches!(self.claim(&table, rid, true, in_place), Claim::Contended(_));
        // Planted: a row is moved while another transaction holds it.
        if is_held && !perdura_pmem::planted(Mutant::LockedRowMoved) {
            return None;
        }
        // Planted: a row is moved from where it was when it was looked for.
        let is_there = table.newest(rid.row()).0 == from || perdura_pmem::planted(Mutant::RowMovedFromStalePlace);
        let found = table.chain().header(from, rid).ok().filter(|_| is_there);
        // SAFETY: the row is locked, so nobody replaces its newest version, and purge frees none
        // that is not replaced.
        let found = found.map(|(region, at, header)| (header, unsafe { chain::row(region, at, &header) }));
        // A damaged row stays damaged.
        let sound = found.filter(|(header, row)| header.checksum(row) == header.crc);
        let moved = sound.and_then(|(header, row)| {
            let word = self.segments.rewrite(&table, &header, row, from)?;
            Some((word, VERSION_HEADER + row.len() as u64))
        });
        let Some((word, bytes)) = moved else {
            self.unlock(rid);
            return None;
        };
        self.enter(rid, Some(word), at);
        Some(bytes)
    }
}
