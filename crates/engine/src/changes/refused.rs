//! Inserts that are refused once the row is written, because of its keys: what they took is free at
//! once.
//!
//! So however many inserts of a transaction are refused (INSERT IGNORE, upserts), it holds no more
//! room than without them. The one exception is a RID that somebody waits for, because of a key
//! that the row had before another one was refused: it stays locked until the transaction ends. So
//! there is at most one for each wait of another session.

use super::table_writes::TableWrites;
use crate::format::Rid;
use crate::shadow::writer::LockKey;
use perdura_pmem::Mutant;

impl TableWrites {
    /// Takes back the insert of a row, the last write of the transaction; the row's keys are taken
    /// back. Nobody else can have come by the RID but for waiting for one of these keys.
    pub fn take_back_insert(&mut self, rid: Rid) {
        if let Some(bulk) = self.bulk.as_mut().filter(|bulk| bulk.owns_row(rid.row())) {
            let version = bulk.take_back_last(rid);
            self.segments.note_written();
            return self.free([version], []);
        }
        let directory = self.table.directory();
        let position = directory.position_of(rid.row());
        let slot = self.table.shadows().slot(directory.page_of(rid.row()));
        let Some(mut shadow) = slot.lock_existing() else { return };
        let Some(change) = shadow.change_mut(&self.writer) else { return };
        // Planted: the version of a refused row is free while its word is still there.
        let version = if perdura_pmem::planted(Mutant::RefusedVersionFreedEarly) {
            change.after().get(position)
        } else {
            change.take_back_insert(position)
        };
        let is_waited_for = self.writer.has_tabled(LockKey::row(self.table.id(), rid));
        if is_waited_for {
            change.lock(position);
        }
        drop(shadow);
        self.take_back_counts();
        if is_waited_for {
            self.keep_until_end(rid);
        }
        self.free(version, (!is_waited_for).then_some(rid));
    }
}
