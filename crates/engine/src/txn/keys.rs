//! Writes to tables with indexes: a row, and its keys.
//!
//! Whoever wants a key that another transaction is inserting or deleting waits for the lock of that
//! row, and looks again. So a row is locked before its keys change, and a transaction's keys are
//! decided before its locks go.

use super::session::Session;
use super::write::{changed, gone};
use crate::changes::claim::Step;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{KEY_BYTES_MAX, Rid, Word, data_file_name};
use crate::index::insert::{Inserted, Uniqueness};
use crate::index::leaf_order::Sought;
use crate::pool::locks::{LockMode, LockOutcome};
use crate::shadow::change::Own;
use crate::table::Table;
use crate::table::visibility::ReadView;
use perdura_pmem::sync::{Condvar, Mutex};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// Rounds of purge after which a row gets a key no more that it has had too often lately, some 100
/// ms.
const CROWDED_ROUNDS: u32 = 100;
/// So many more if commits before the first are still to store what they did, some 10 s.
const LATE_ROUNDS: u32 = 10_000;
/// Waits for the row of a key after which the next ones come a millisecond apart.
const WAITS_AT_ONCE: u32 = 10;

/// Ways to leaves that take no memory of the heap.
const SOUGHT_IN_PLACE: usize = 4;

/// A key of a row.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// Bytes that compare like the columns. In one index none may be the beginning of another.
    pub bytes: &'k [u8],
    /// Other rows may have it as well, though the index is unique: there is a NULL in it.
    pub may_repeat: bool,
}

/// The key of a row in one index changes.
#[derive(Clone, Copy, Debug)]
pub struct KeyChange<'k> {
    /// Number of the index.
    pub index: usize,
    /// The key that the row has.
    pub old: &'k [u8],
    /// The key that it gets.
    pub new: Key<'k>,
}

/// A change of an entry that is taken back if the rest fails.
enum Done<'k> {
    Inserted(usize, &'k [u8]),
    Deleted(usize, &'k [u8]),
    Hidden(u64),
}

type DoneList<'k> = SmallVec<[Done<'k>; 8]>;

impl Session {
    /// Inserts a row with its keys, one for each index of the table, in order.
    ///
    /// # Errors
    /// DuplicateKey, without any effect, if another row has one of the keys
    /// ([`Session::duplicate`]); Configuration if a key is too long; Damaged if an index is;
    /// otherwise as for [`Session::insert`].
    pub fn insert_with(&mut self, table: &Arc<Table>, row: &[u8], keys: &[Key<'_>]) -> Result<Rid> {
        check_count(table, keys.len())?;
        for (index, key) in keys.iter().enumerate() {
            check_key(table, index, key.bytes)?;
        }
        if keys.is_empty() {
            return self.insert_unkeyed(table, row);
        }
        // The snapshot keeps purge off the leaves that are looked at.
        self.snapshots.statement(&self.pool);
        // The leaves come while the row is written.
        let sought = seek(table, keys.iter().enumerate().map(|(index, key)| (index, key.bytes)));
        let rid = self.insert_unkeyed(table, row)?;
        let (_, at) = self.writes.table_to_write(table, self.owner.id);
        let mut done = DoneList::new();
        for ((index, key), sought) in keys.iter().enumerate().zip(&sought) {
            if let Err(error) = self.insert_key(table, (index, *key), rid.row(), at, Some(sought), &mut done) {
                self.take_back(table, rid, done, at);
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
        let mut done = DoneList::new();
        let outcome = self.change_keys(table, rid, changes, at, &mut done);
        outcome.and_then(|()| self.update(table, rid, row)).inspect_err(|_| self.take_back(table, rid, done, at))
    }

    fn change_keys<'k>(
        &mut self,
        table: &Arc<Table>,
        rid: Rid,
        changes: &[KeyChange<'k>],
        at: Step,
        done: &mut DoneList<'k>,
    ) -> Result<()> {
        for change in changes {
            self.writes.table(table, self.owner.id).entries().delete(change.index, change.old, rid.row(), at)?;
            done.push(Done::Deleted(change.index, change.old));
            self.insert_key(table, (change.index, change.new), rid.row(), at, None, done)?;
        }
        Ok(())
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
        let mut done = DoneList::new();
        for (index, key) in keys.iter().enumerate() {
            if let Err(error) = self.writes.table(table, self.owner.id).entries().delete(index, key, rid.row(), at) {
                self.take_back(table, rid, done, at);
                return Err(error);
            }
            done.push(Done::Deleted(index, key));
        }
        self.write(table, rid, None).inspect_err(|_| self.take_back(table, rid, done, at))
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
        if table.directory().place(rid.row()).is_none() {
            return Err(gone(table, rid));
        }
        self.snapshots.statement(&self.pool);
        seek(table, keys);
        self.lock_row(table, rid, LockMode::Exclusive)?;
        match self.writes.own(table.id(), rid) {
            Some(Own::Row(_)) => {}
            Some(Own::Deleted) => return Err(gone(table, rid)),
            None => {
                let (word, csn) = table.newest(rid.row());
                if self.bound_to().is_some_and(|snapshot| csn > snapshot) {
                    return Err(changed(table, rid));
                }
                if word.is_empty() || word.is_tombstone() || word.incarnation() != rid.incarnation() {
                    return Err(gone(table, rid));
                }
            }
        }
        Ok(self.writes.table_to_write(table, self.owner.id).1)
    }

    /// Inserts a key of `row`, and notes that in `done`. `sought` may be the way to it.
    fn insert_key<'k>(
        &mut self,
        table: &Arc<Table>,
        (index, key): (usize, Key<'k>),
        row: u64,
        at: Step,
        mut sought: Option<&Sought<'_>>,
        done: &mut DoneList<'k>,
    ) -> Result<()> {
        let unique = self.uniqueness(table, index, key);
        let (mut rounds, mut late, mut waits) = (0, 0, 0);
        let mut crowded = None;
        loop {
            let writes = self.writes.table(table, self.owner.id);
            let (entry, visible) = ((key.bytes, row, unique), || self.pool.log.visible_csn());
            match writes.entries().insert(index, entry, at, sought.take(), &visible)? {
                inserted @ (Inserted::Done | Inserted::DoneOver(_)) => {
                    done.push(Done::Inserted(index, key.bytes));
                    if let Inserted::DoneOver(before) = inserted
                        && self.writes.hide(table, self.owner.id, before, at)
                    {
                        done.push(Done::Hidden(before));
                    }
                    return Ok(());
                }
                Inserted::Taken(row) => {
                    self.duplicate = Some((index, rid_of(table, row)?));
                    let what = format!("a row of table {} has the key already in index {index}", table.name());
                    return Err(Error::new(ErrorKind::DuplicateKey, what));
                }
                Inserted::Undecided(row) => {
                    let rid = rid_of(table, row)?;
                    if self.lock_row(table, rid, LockMode::Shared)? == LockOutcome::New {
                        self.unlock_row(table, rid);
                    }
                    // A lock that comes at once says nothing about who decides the entry.
                    waits += 1;
                    if waits > WAITS_AT_ONCE {
                        self.check_killed(index)?;
                        pause();
                    }
                    if u128::from(waits.saturating_sub(WAITS_AT_ONCE)) > self.lock_wait_timeout().as_millis() {
                        let what =
                            format!("index {index}: row {row:#x} has the key, and is not decided within the timeout");
                        return Err(Error::new(ErrorKind::LockWaitTimeout, what));
                    }
                }
                Inserted::Crowded if rounds < CROWDED_ROUNDS + late.min(LATE_ROUNDS) => {
                    if crowded.is_some() {
                        self.check_killed(index)?;
                        pause();
                    }
                    // Commits that are not stored yet hold the checkpoint back, as long as their
                    // threads have no core.
                    let visible = *crowded.get_or_insert_with(visible);
                    late += u32::from(self.pool.checkpoint()? < visible);
                    rounds += 1;
                    self.pool.purge();
                }
                Inserted::Crowded => {
                    let what = "has had the key too often for the snapshots or savepoints that are open; end them";
                    let what = format!("a row of table {} {what}", table.name());
                    return Err(Error::new(ErrorKind::TableFull, what));
                }
            }
        }
    }

    /// Whether a key may be inserted beside others. The first index of a table, if it is unique, is
    /// its primary key: a row that has the key at the transaction's snapshot is hidden by the one
    /// that gets it.
    fn uniqueness(&self, table: &Table, index: usize, key: Key<'_>) -> Uniqueness {
        let definition = table.index_definition(index);
        if !definition.is_some_and(|definition| definition.unique) || key.may_repeat {
            return Uniqueness::Repeats;
        }
        let snapshot = self.snapshots.transaction().filter(|_| index == 0);
        snapshot.map_or(Uniqueness::Unique, Uniqueness::UniqueSince)
    }

    /// Fails if the statement was killed, which would wait for a key in index `index`.
    fn check_killed(&self, index: usize) -> Result<()> {
        if !self.owner.is_killed() {
            return Ok(());
        }
        let what = format!("index {index}: the statement was killed while it waited for its key");
        Err(Error::new(ErrorKind::Killed, what))
    }

    /// Takes changes of entries back, the last first.
    fn take_back(&mut self, table: &Arc<Table>, rid: Rid, done: DoneList<'_>, at: Step) {
        // Planted: what a failed write did to keys stays.
        let done = if perdura_pmem::planted(217) { DoneList::new() } else { done };
        for one in done.into_iter().rev() {
            match one {
                Done::Inserted(index, key) | Done::Deleted(index, key) => {
                    self.writes.table(table, self.owner.id).entries().take_back(index, key, rid.row(), at);
                }
                Done::Hidden(row) => self.writes.show(table, self.owner.id, row),
            }
        }
    }
}

/// Goes ahead to the leaves of keys, each an index of the table with a key, and asks for all of
/// them. The session has a snapshot.
fn seek<'t, 'k>(
    table: &'t Table,
    keys: impl Iterator<Item = (usize, &'k [u8])>,
) -> SmallVec<[Sought<'t>; SOUGHT_IN_PLACE]> {
    keys.filter_map(|(index, key)| Some(table.index_list().index(index)?.seek(key))).collect()
}

/// Waits a millisecond.
fn pause() {
    let nobody = Mutex::new(());
    let mut guard = nobody.lock();
    Condvar::new().wait_for(&mut guard, Duration::from_millis(1));
}

/// The RID of the row that an entry names.
pub(crate) fn rid_of(table: &Table, row: u64) -> Result<Rid> {
    match table.directory().place(row) {
        Some((region, at)) => Ok(Rid::new(row, Word(region.load(at)).incarnation())),
        None => Err(unknown(table, row)),
    }
}

/// As [`rid_of`], of a row that is read or locked next. It asks for what that meets, so that the
/// misses of the cache overlap: for the shadow's place while the row's word comes, then for the
/// version, and for the shadow if `view` asks that.
#[inline]
pub(super) fn rid_ahead(table: &Table, row: u64, view: ReadView) -> Result<Rid> {
    let directory = table.directory();
    let Some((region, at)) = directory.place(row) else { return Err(unknown(table, row)) };
    let slot = table.shadows().existing(directory.page_of(row));
    if let Some(slot) = slot {
        slot.prefetch();
    }
    let word = Word(region.load(at));
    table.chain().prefetch(word);
    if let Some(slot) = slot.filter(|_| view == ReadView::Newest) {
        slot.prefetch_shadow();
    }
    Ok(Rid::new(row, word.incarnation()))
}

/// The RID of a row that the table has. This reads the row's word, which is mostly a miss of the
/// cache.
pub(super) fn known_rid(table: &Table, row: u64) -> Rid {
    Rid::new(row, table.directory().raw_word(row).incarnation())
}

/// Fails if the table does not have the row that an entry names.
pub(super) fn check_row(table: &Table, row: u64) -> Result<()> {
    if table.directory().place(row).is_some() { Ok(()) } else { Err(unknown(table, row)) }
}

#[cold]
fn unknown(table: &Table, row: u64) -> Error {
    let what = format_args!("an entry of an index names row {row:#x}, which the table does not have");
    Error::damaged(&data_file_name(table.id(), 0), 0, what)
}

fn check_count(table: &Table, keys: usize) -> Result<()> {
    if keys == table.indexes() {
        return Ok(());
    }
    let what = format!("table {} has {} indexes, and the row comes with {keys} keys", table.name(), table.indexes());
    Err(Error::new(ErrorKind::Configuration, what))
}

fn check_key(table: &Table, index: usize, key: &[u8]) -> Result<()> {
    let definition = table.index_definition(index).ok_or_else(|| no_index(table, index))?;
    let fits = match definition.key_bytes {
        0 => key.len() <= KEY_BYTES_MAX,
        bytes => key.len() == usize::from(bytes),
    };
    if fits {
        return Ok(());
    }
    let most = if definition.key_bytes == 0 { KEY_BYTES_MAX } else { definition.key_bytes.into() };
    let what =
        format!("a key of {} bytes is not one of index {index} of table {}: {most} bytes", key.len(), table.name());
    Err(Error::new(ErrorKind::Configuration, what))
}

pub(super) fn no_index(table: &Table, index: usize) -> Error {
    Error::new(ErrorKind::Configuration, format!("table {} has no index {index}", table.name()))
}
