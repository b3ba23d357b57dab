//! Writes in a transaction: insert, update and delete.

use super::session::{Session, State};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ROW_BYTES_MAX, Rid};
use crate::shadow::change::Own;
use crate::table::Table;
use perdura_log::Csn;
use std::sync::Arc;

impl Session {
    fn check_writable(&mut self, table: &Table) -> Result<()> {
        if !self.changing {
            self.begin_change()?;
        }
        self.check_own(table)?;
        self.pool.check_writable()?;
        if table.is_dropped() {
            return Err(Error::new(ErrorKind::NotFound, format!("table {} was dropped", table.name())));
        }
        match self.state {
            State::Active => Ok(()),
            _ => Err(Error::new(
                ErrorKind::NotSupported,
                "a prepared transaction takes no more writes; commit it or roll it back",
            )),
        }
    }

    /// Inserts a row of up to 2^31 - 1 bytes. It takes no lock: nobody else can reach the row before the commit.
    ///
    /// # Errors
    /// DeviceFull, TableFull, RowTooLarge; NotFound if the table was dropped; NotSupported if the transaction is
    /// prepared; Killed; Configuration if the table belongs to another pool; ReadOnlyPool; Medium.
    pub fn insert(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Rid> {
        self.check_writable(table)?;
        check_length(row)?;
        self.owner.count_change();
        self.sequence += 1;
        let (writes, step, floor) = self.writes.table_to_write(table, self.owner.id);
        if let Some(inserted) = writes.bulk_insert(row) {
            return inserted;
        }
        self.owner.begin(self.pool.locks.clock());
        if writes.is_bulk_due() {
            writes.begin_bulk();
            return writes.bulk_insert(row).expect("just begun");
        }
        let rid = table.space().allocate_rid(self.id)?;
        match writes.write_version(self.id, rid, row) {
            Ok(word) => {
                writes.insert(rid, word, step, floor);
                Ok(rid)
            }
            Err(error) => {
                table.space().free_rids([rid]);
                Err(error)
            }
        }
    }

    /// Replaces a row. It locks the row, waiting if need be.
    ///
    /// # Errors
    /// NotFound if the row does not exist; RecordChanged if the transaction has a snapshot (REPEATABLE READ) and
    /// somebody committed a newer version than it sees; LockWaitTimeout, Deadlock, Killed; otherwise as for
    /// [`Session::insert`].
    pub fn update(&mut self, table: &Arc<Table>, rid: Rid, row: &[u8]) -> Result<()> {
        check_length(row)?;
        self.write(table, rid, Some(row))
    }

    /// Deletes a row. It locks the row, waiting if need be. Errors as for [`Session::update`].
    pub fn delete(&mut self, table: &Arc<Table>, rid: Rid) -> Result<()> {
        self.write(table, rid, None)
    }

    fn write(&mut self, table: &Arc<Table>, rid: Rid, row: Option<&[u8]>) -> Result<()> {
        self.check_writable(table)?;
        match self.writes.own(table.id(), rid) {
            Some(Own::Deleted) => return Err(gone(table, rid)),
            Some(Own::Row(_)) => {}
            None => self.lock_for_write(table, rid)?,
        }
        self.count_write();
        let (writes, step, floor) = self.writes.table_to_write(table, self.owner.id);
        if writes.is_in_bulk(rid) {
            return writes.edit_bulk(rid, row, step);
        }
        match row {
            Some(row) => {
                let word = writes.write_version(self.id, rid, row)?;
                writes.update(rid, word, step, floor);
            }
            None => writes.delete(rid, step, floor),
        }
        Ok(())
    }

    /// Locks a committed row before the transaction's first write to it, and checks that this write does not conflict.
    fn lock_for_write(&mut self, table: &Arc<Table>, rid: Rid) -> Result<()> {
        // The statement's snapshot keeps purge off the version to be replaced.
        self.snapshots.statement(&self.pool);
        let limit = self.snapshots.transaction().unwrap_or(Csn::MAX);
        let (word, csn) = self.lock_newest(table, rid)?;
        if word.is_empty() || word.incarnation() != rid.incarnation() {
            return Err(gone(table, rid));
        }
        // Planted: the first updater does not win.
        if csn > limit && !perdura_pmem::planted(59) {
            return Err(Error::new(
                ErrorKind::RecordChanged,
                format!(
                    "row {:#x} of table {} was changed after this transaction's snapshot",
                    rid.to_u64(),
                    table.name()
                ),
            ));
        }
        // Planted: a deleted row is changed; a version in an unswept segment is replaced.
        if word.is_tombstone() && !perdura_pmem::planted(60) {
            return Err(gone(table, rid));
        }
        if perdura_pmem::planted(61) {
            return Ok(());
        }
        table.space().ensure_swept(word)?;
        self.snapshots.note_met(csn);
        Ok(())
    }
}

fn check_length(row: &[u8]) -> Result<()> {
    if row.len() as u64 <= ROW_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::RowTooLarge,
        format!("a row of {} bytes is longer than {ROW_BYTES_MAX} bytes", row.len()),
    ))
}

fn gone(table: &Table, rid: Rid) -> Error {
    Error::new(ErrorKind::NotFound, format!("row {:#x} of table {} does not exist", rid.to_u64(), table.name()))
}
