//! Writes in a transaction: insert, update and delete, of rows with and without keys.
//!
//! A transaction that wants a key which another is inserting or deleting waits for the lock of that
//! row, and looks again. So a row is locked before its keys change, and a transaction's keys are
//! decided before its locks go.

use super::{Session, State};
use crate::changes::row_request::{RowWrite, Step, Written};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ROW_BYTES_MAX, Rid, Word};
use crate::index::leaf_order::Sought;
use crate::pool::locks::LockMode;
use crate::pool::owner::LockKey;
use crate::shadow::change::Own;
use crate::table::Table;
use crate::txn::keys::{Key, KeyChange, KeyChanges, check_count, check_key, check_keys, seek};
use perdura_log::Csn;
use std::sync::Arc;

/// Number of writes of a session after which reports learn anew what DRAM its write set takes.
const WRITES_PER_NOTE: u64 = 1024;

impl Session {
    /// Fails if the transaction may not write a table, and begins a change.
    fn check_writable(&mut self, table: &Table) -> Result<()> {
        self.enter_change()?;
        self.pool.check_own(table)?;
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
        self.insert_unkeyed(table, row, None)
    }

    /// Inserts a row without its keys; `sought` may be the way to that in the first index.
    #[inline]
    fn insert_unkeyed(&mut self, table: &Arc<Table>, row: &[u8], sought: Option<&Sought<'_>>) -> Result<Rid> {
        loop {
            if let Some(rid) = self.try_insert_unkeyed(table, row, sought)? {
                return Ok(rid);
            }
            self.locks().lock_table(table, LockMode::Intention)?;
        }
    }

    /// Inserts a row as [`Session::insert`] does, but returns `None` without any effect where that
    /// would wait.
    pub fn try_insert(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Option<Rid>> {
        check_unkeyed(table)?;
        self.try_insert_unkeyed(table, row, None)
    }

    #[inline]
    fn try_insert_unkeyed(
        &mut self,
        table: &Arc<Table>,
        row: &[u8],
        sought: Option<&Sought<'_>>,
    ) -> Result<Option<Rid>> {
        self.check_writable(table)?;
        check_length(row)?;
        self.bound_memory()?;
        let rid = self.insert_row(table, row, sought)?;
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
    fn insert_row(&mut self, table: &Arc<Table>, row: &[u8], sought: Option<&Sought<'_>>) -> Result<Option<Rid>> {
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
        let neighbour = sought.and_then(Sought::neighbour);
        let near = neighbour.map_or(Word::EMPTY, |row| table.directory().raw_word(row));
        let refused = match writes.write_version(self.id, rid, near, row) {
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

    fn write(&mut self, table: &Arc<Table>, rid: Rid, row: Option<&[u8]>) -> Result<()> {
        self.check_writable(table)?;
        if !table.directory().has_row(rid.row()) {
            return Err(gone(table, rid));
        }
        self.owner.begin(self.pool.locks.clock());
        // The statement's snapshot keeps purge off the version to be replaced.
        self.snapshots.statement(&self.pool);
        let limit = self.snapshots.bound_to().unwrap_or(Csn::MAX);
        let read_at = self.snapshots.reads_at().unwrap_or(Csn::MAX);
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
            if self.writes.table_to_write(table, self.owner.id).0.is_purge_due() {
                self.pool.purge_some(table)?;
            }
        }
        let (writes, _) = self.writes.table_to_write(table, self.owner.id);
        // The version is written before the row is locked: only one of many rows is contended or
        // gone.
        let near = || table.directory().raw_word(rid.row());
        let word = row.map(|row| writes.write_version(self.id, rid, near(), row)).transpose()?;
        let (key, mut holds) = (LockKey::row(table.id(), rid), false);
        loop {
            let (writes, at) = self.writes.table_to_write(table, self.owner.id);
            let locks = &self.pool.locks;
            let write = RowWrite { rid, word, at, limit, read_at, holds };
            let refused = match writes.write(table, write, || !locks.may_have(key)) {
                Ok(Written::Done { locked, replaced }) => {
                    if locked {
                        self.held.add_in_place();
                    }
                    self.owner.count_locks(self.held.count());
                    self.snapshots.note_read(replaced);
                    self.count_write();
                    return Ok(());
                }
                Ok(Written::Contended(contention)) => match self.locks().lock_contended(table, key, contention) {
                    Ok(_) => {
                        holds = true;
                        continue;
                    }
                    Err(error) => error,
                },
                Ok(Written::Barred) => match self.locks().lock_table(table, LockMode::Intention) {
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

    /// Counts a write, for reports and for [`Session::writes_so_far`].
    #[inline]
    fn count_write(&mut self) {
        self.owner.count_change();
        self.writes.note_written();
        if self.savepoints.count_write().is_multiple_of(WRITES_PER_NOTE) {
            self.note_memory();
        }
    }

    /// Inserts a row with its keys, one for each index of the table, in order.
    ///
    /// # Errors
    /// DuplicateKey, without any effect, if another row has one of the keys
    /// ([`Session::duplicate`]); Configuration if a key is too long; Damaged if an index is;
    /// otherwise as for [`Session::insert`].
    pub fn insert_with(&mut self, table: &Arc<Table>, row: &[u8], keys: &[Key<'_>]) -> Result<Rid> {
        check_keys(table, keys.iter().map(|key| key.bytes))?;
        if keys.is_empty() {
            return self.insert_unkeyed(table, row, None);
        }
        // The snapshot keeps purge off the leaves that are looked at.
        self.snapshots.statement(&self.pool);
        // The leaves come while the row is written.
        let sought = seek(table, keys.iter().enumerate().map(|(index, key)| (index, key.bytes)));
        let rid = self.insert_unkeyed(table, row, sought.first())?;
        let (_, at) = self.writes.table_to_write(table, self.owner.id);
        let (mut changes, mut locks) = (KeyChanges::new(table, rid.row(), at), self.locks());
        for ((index, key), sought) in keys.iter().enumerate().zip(&sought) {
            if let Err(error) = changes.insert(&mut locks, (index, *key), Some(sought)) {
                self.take_back(changes);
                self.writes.table(table, self.owner.id).take_back_insert(rid);
                return Err(error);
            }
        }
        Ok(rid)
    }

    /// Replaces a row, and those of its keys that change. The caller has locked the row and made
    /// the old keys from its newest version.
    ///
    /// # Errors
    /// DuplicateKey, without any effect, if another row has one of the new keys
    /// ([`Session::duplicate`]); Configuration if a key is too long; Damaged if an index is, or has
    /// no entry of an old key; otherwise as for [`Session::update`].
    pub fn update_with(&mut self, table: &Arc<Table>, rid: Rid, row: &[u8], changes: &[KeyChange<'_>]) -> Result<()> {
        if changes.is_empty() {
            return self.update(table, rid, row);
        }
        for change in changes {
            check_key(table, change.index, change.new.bytes)?;
        }
        let keys = changes.iter().flat_map(|change| [(change.index, change.old), (change.index, change.new.bytes)]);
        let at = self.begin_keys(table, rid, keys)?;
        let (mut keys, mut locks) = (KeyChanges::new(table, rid.row(), at), self.locks());
        let outcome = changes.iter().try_for_each(|change| keys.replace(&mut locks, change));
        outcome.and_then(|()| self.update(table, rid, row)).inspect_err(|_| self.take_back(keys))
    }

    /// Deletes a row with its keys, one for each index of the table, in order. The caller has
    /// locked the row and made the keys from its newest version.
    ///
    /// # Errors
    /// Damaged if an index is, or has no entry of a key; otherwise as for [`Session::delete`].
    pub fn delete_with(&mut self, table: &Arc<Table>, rid: Rid, keys: &[&[u8]]) -> Result<()> {
        check_count(table, keys.len())?;
        if keys.is_empty() {
            return self.write(table, rid, None);
        }
        let at = self.begin_keys(table, rid, keys.iter().copied().enumerate())?;
        let (mut changes, mut locks) = (KeyChanges::new(table, rid.row(), at), self.locks());
        let mut deleted = keys.iter().enumerate();
        let outcome = deleted.try_for_each(|(index, key)| changes.delete(&mut locks, index, key));
        outcome.and_then(|()| self.write(table, rid, None)).inspect_err(|_| self.take_back(changes))
    }

    /// The index and the row that the last operation of the session failed for with DuplicateKey.
    pub fn duplicate(&self) -> Option<(usize, Rid)> {
        self.duplicate
    }

    /// Locks a row whose `keys` are going to change, and makes sure that it is there and as the
    /// transaction knows it.
    fn begin_keys<'k>(
        &mut self,
        table: &Arc<Table>,
        rid: Rid,
        keys: impl Iterator<Item = (usize, &'k [u8])>,
    ) -> Result<Step> {
        self.check_writable(table)?;
        if !table.directory().has_row(rid.row()) {
            return Err(gone(table, rid));
        }
        self.snapshots.statement(&self.pool);
        seek(table, keys);
        self.locks().lock_row(table, rid, LockMode::Exclusive)?;
        match self.writes.own(table.id(), rid) {
            Some(Own::Row(_)) => {}
            Some(Own::Deleted) => return Err(gone(table, rid)),
            None => {
                let (word, csn) = table.newest(rid.row());
                if self.snapshots.bound_to().is_some_and(|snapshot| csn > snapshot) {
                    return Err(changed(table, rid));
                }
                if word.is_empty() || word.is_tombstone() || word.incarnation() != rid.incarnation() {
                    return Err(gone(table, rid));
                }
            }
        }
        Ok(self.writes.table_to_write(table, self.owner.id).1)
    }

    /// Takes changes of keys back whose row is not written.
    fn take_back(&mut self, changes: KeyChanges<'_, '_>) {
        self.duplicate = changes.duplicate().or(self.duplicate);
        changes.take_back(&mut self.writes, self.owner.id);
    }

    /// Begins a transaction that only moves rows.
    pub(in crate::txn) fn begin_moving(&mut self) -> Result<()> {
        self.pool.check_writable()?;
        self.begin_ending();
        self.writes.begin_moving(self.owner.id);
        Ok(())
    }

    /// Moves a row from the version that `from` names, unless somebody holds it. Returns the
    /// version's size in bytes; `None` if the row stays.
    pub(in crate::txn) fn move_row(&mut self, table: &Arc<Table>, rid: Rid, from: Word) -> Option<u64> {
        let locks = &self.pool.locks;
        let (writes, at) = self.writes.table_to_write(table, self.owner.id);
        let moved = writes.move_row(rid, from, at, || !locks.may_have(LockKey::row(table.id(), rid)))?;
        self.writes.note_written();
        Some(moved)
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

fn gone(table: &Table, rid: Rid) -> Error {
    Error::new(ErrorKind::NotFound, format!("row {:#x} of table {} does not exist", rid.to_u64(), table.name()))
}

fn changed(table: &Table, rid: Rid) -> Error {
    let (row, name) = (rid.to_u64(), table.name());
    let what = format!("row {row:#x} of table {name} was changed after this transaction's snapshot");
    Error::new(ErrorKind::RecordChanged, what)
}
