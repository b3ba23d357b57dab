//! Writes in a transaction: insert, update and delete.

use super::session::{Session, State};
use crate::changes::claim::{RowWrite, Written};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ROW_BYTES_MAX, Rid};
use crate::pool::locks::LockMode;
use crate::pool::owner::LockKey;
use crate::shadow::change::Own;
use crate::table::Table;
use perdura_log::Csn;
use std::sync::Arc;

impl Session {
    pub(super) fn check_writable(&mut self, table: &Table) -> Result<()> {
        self.enter_change()?;
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

    /// Inserts a row of up to 2^31 - 1 bytes. It takes no row lock, since nobody else can reach the
    /// row before the commit, but waits for SERIALIZABLE transactions that have locked the table. A
    /// table with indexes takes rows by [`Session::insert_with`].
    ///
    /// # Errors
    /// DeviceFull, TableFull, RowTooLarge; NotFound if the table was dropped; NotSupported if the
    /// transaction is prepared; LockWaitTimeout, Deadlock, Killed; Configuration if the table
    /// belongs to another pool; ReadOnlyPool; Medium.
    #[inline]
    pub fn insert(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Rid> {
        check_unkeyed(table)?;
        self.insert_unkeyed(table, row)
    }

    /// Inserts a row, without its keys.
    #[inline]
    pub(super) fn insert_unkeyed(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Rid> {
        loop {
            if let Some(rid) = self.try_insert_unkeyed(table, row)? {
                return Ok(rid);
            }
            self.lock_table(table, LockMode::Intention)?;
        }
    }

    /// Inserts a row as [`Session::insert`] does, but returns `None` without any effect where that
    /// would wait.
    pub fn try_insert(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Option<Rid>> {
        check_unkeyed(table)?;
        self.try_insert_unkeyed(table, row)
    }

    #[inline]
    fn try_insert_unkeyed(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Option<Rid>> {
        self.check_writable(table)?;
        check_length(row)?;
        self.bound_memory()?;
        let rid = self.insert_row(table, row)?;
        if rid.is_some() {
            self.count_write();
        }
        Ok(rid)
    }

    /// Spills words of the write set if it has outgrown its memory.
    #[inline]
    fn bound_memory(&mut self) -> Result<()> {
        let most = self.pool.transaction_memory();
        if self.writes.is_over(most) { self.writes.spill(most / 8) } else { Ok(()) }
    }

    #[inline]
    fn insert_row(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Option<Rid>> {
        let (writes, at) = self.writes.table_to_write(table, self.owner.id);
        if let Some(inserted) = writes.bulk_insert(row) {
            return inserted.map(Some);
        }
        self.owner.begin(self.pool.locks.clock());
        if writes.is_bulk_due() {
            writes.begin_bulk();
            return writes.bulk_insert(row).expect("just begun").map(Some);
        }
        let rid = table.space().allocate_rid(self.id)?;
        let refused = match writes.write_version(self.id, rid, row) {
            Ok(word) if writes.insert(rid, word, at) => return Ok(Some(rid)),
            Ok(word) => {
                writes.discard(Some(word));
                Ok(None)
            }
            Err(error) => Err(error),
        };
        table.space().free_rids([rid]);
        refused
    }

    /// Replaces a row. It locks the row, waiting if need be.
    ///
    /// # Errors
    /// NotFound if the row does not exist; RecordChanged if the transaction has a snapshot
    /// (REPEATABLE READ) and somebody committed a newer version than it sees; LockWaitTimeout,
    /// Deadlock, Killed; otherwise as for [`Session::insert`].
    pub fn update(&mut self, table: &Arc<Table>, rid: Rid, row: &[u8]) -> Result<()> {
        check_length(row)?;
        self.write(table, rid, Some(row))
    }

    /// Deletes a row. It locks the row, waiting if need be. Errors as for [`Session::update`].
    pub fn delete(&mut self, table: &Arc<Table>, rid: Rid) -> Result<()> {
        check_unkeyed(table)?;
        self.write(table, rid, None)
    }

    pub(super) fn write(&mut self, table: &Arc<Table>, rid: Rid, row: Option<&[u8]>) -> Result<()> {
        self.check_writable(table)?;
        if table.directory().place(rid.row()).is_none() {
            return Err(gone(table, rid));
        }
        self.owner.begin(self.pool.locks.clock());
        // The statement's snapshot keeps purge off the version to be replaced.
        self.snapshots.statement(&self.pool);
        let limit = self.bound_to().unwrap_or(Csn::MAX);
        let (writes, at) = self.writes.table_to_write(table, self.owner.id);
        if writes.is_in_bulk(rid) {
            if !matches!(writes.own(rid), Some(Own::Row(_))) {
                return Err(gone(table, rid));
            }
            writes.edit_bulk(rid, row, at)?;
            self.count_write();
            return Ok(());
        }
        // Deleting takes no room, not even for what is spilled.
        if row.is_some() {
            self.bound_memory()?;
        }
        let (writes, _) = self.writes.table_to_write(table, self.owner.id);
        if row.is_some() && writes.is_purge_due() {
            self.pool.purge_some(table)?;
        }
        let (writes, _) = self.writes.table_to_write(table, self.owner.id);
        // The version is written before the row is locked: only one of many rows is contended or
        // gone.
        let word = row.map(|row| writes.write_version(self.id, rid, row)).transpose()?;
        let key = LockKey::row(table.id(), rid);
        let mut holds = false;
        loop {
            let (writes, at) = self.writes.table_to_write(table, self.owner.id);
            let locks = &self.pool.locks;
            let refused = match writes.write(table, RowWrite { rid, word, at, limit, holds }, || !locks.may_have(key)) {
                Ok(Written::Done { locked, met }) => {
                    self.locks_in_place += usize::from(locked);
                    self.count_locks();
                    self.snapshots.note_met(met);
                    self.count_write();
                    return Ok(());
                }
                Ok(Written::Contended(contention)) => match self.lock_contended(table, key, contention) {
                    Ok(_) => {
                        holds = true;
                        continue;
                    }
                    Err(error) => error,
                },
                Ok(Written::Barred) => match self.lock_table(table, LockMode::Intention) {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                Ok(Written::Gone) => gone(table, rid),
                Ok(Written::Changed) => changed(table, rid),
                Err(error) => error,
            };
            self.writes.table(table, self.owner.id).discard(word);
            return Err(refused);
        }
    }
}

#[inline]
fn check_unkeyed(table: &Table) -> Result<()> {
    if table.indexes() == 0 {
        return Ok(());
    }
    let what = format!("table {} has indexes: rows come and go with their keys", table.name());
    Err(Error::new(ErrorKind::NotSupported, what))
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

pub(super) fn gone(table: &Table, rid: Rid) -> Error {
    Error::new(ErrorKind::NotFound, format!("row {:#x} of table {} does not exist", rid.to_u64(), table.name()))
}

pub(super) fn changed(table: &Table, rid: Rid) -> Error {
    let (row, name) = (rid.to_u64(), table.name());
    let what = format!("row {row:#x} of table {name} was changed after this transaction's snapshot");
    Error::new(ErrorKind::RecordChanged, what)
}
