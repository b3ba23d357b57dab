//! Keys of rows: they are inserted, deleted, and taken back if the rest of a write fails.

use super::lock::Locker;
use super::snapshots::Snapshots;
use crate::changes::row_request::Step;
use crate::changes::write_set::WriteSet;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{KEY_BYTES_MAX, Rid, Word, data_file_name};
use crate::index::insert::{Inserted, Uniqueness};
use crate::index::leaf_order::Sought;
use crate::pool::locks::{LockMode, LockOutcome};
use crate::pool::owner::Owner;
use crate::table::Table;
use crate::table::visibility::ReadView;
use perdura_log::Csn;
use perdura_pmem::sync::{Condvar, Mutex};
use perdura_pmem::{LINE_BYTES, Mutant};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// Rounds after which a row gets a key no more that it has had too often lately, some 100 ms.
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

/// Rounds of waiting for a key that a row has had too often lately.
#[derive(Default)]
struct Crowding {
    rounds: u32,
    /// Those at whose end commits before the first were still to be stored.
    late: u32,
    /// visible_csn at the first.
    visible: Option<Csn>,
}

impl Crowding {
    /// Makes room for the key by one round, unless there have been enough.
    #[cold]
    fn make_room(&mut self, locks: &Locker<'_>, table: &Table, index: usize) -> Result<()> {
        if self.rounds >= CROWDED_ROUNDS + self.late.min(LATE_ROUNDS) {
            let what = "has had the key too often for the snapshots or savepoints that are open; end them";
            let what = format!("a row of table {} {what}", table.name());
            return Err(Error::new(ErrorKind::TableFull, what));
        }
        if self.visible.is_some() {
            check_killed(locks.owner, index)?;
            pause();
        }
        let visible = *self.visible.get_or_insert_with(|| locks.pool.log.visible_csn());
        // Commits that are not stored yet hold entries, and the checkpoint, as long as their
        // threads have no core.
        let covered = if locks.pool.context.redo_form.is_by_value() {
            // Nobody waits for a checkpoint: what redo alone needs stays behind in other leaves.
            locks.pool.log.stored_csn()
        } else {
            let covered = locks.pool.checkpoint_soon()?;
            locks.pool.purge();
            covered
        };
        self.late += u32::from(covered < visible);
        self.rounds += 1;
        Ok(())
    }
}

/// Waits for those who insert or delete a key.
#[derive(Default)]
pub(super) struct UndecidedKey {
    waits: u32,
}

impl UndecidedKey {
    /// Waits for the transaction that inserts or deletes the entry of `row` in index `index`.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed; Damaged if the table has no such row.
    pub(super) fn wait(
        &mut self,
        locks: &mut Locker<'_>,
        table: &Arc<Table>,
        (index, row): (usize, u64),
    ) -> Result<()> {
        let rid = rid_of(table, row)?;
        if locks.lock_row(table, rid, LockMode::Shared)? == LockOutcome::New {
            locks.unlock_row(table, rid);
        }
        // A lock that comes at once says nothing about who decides the entry.
        self.waits += 1;
        if self.waits > WAITS_AT_ONCE {
            check_killed(locks.owner, index)?;
            pause();
        }
        if u128::from(self.waits.saturating_sub(WAITS_AT_ONCE)) > locks.timeout.as_millis() {
            let what = format!("index {index}: row {row:#x} has the key, and is not decided within the timeout");
            return Err(Error::new(ErrorKind::LockWaitTimeout, what));
        }
        Ok(())
    }
}

type DoneList<'k> = SmallVec<[Done<'k>; 8]>;

/// Changes of a row's keys in the present step, which are taken back if the rest of a write fails.
pub(super) struct KeyChanges<'t, 'k> {
    table: &'t Arc<Table>,
    row: u64,
    at: Step,
    done: DoneList<'k>,
    /// Index and row that a key was refused for.
    duplicate: Option<(usize, Rid)>,
}

impl<'t, 'k> KeyChanges<'t, 'k> {
    /// None so far, of `row`, which the transaction has locked or inserted.
    pub(super) fn new(table: &'t Arc<Table>, row: u64, at: Step) -> KeyChanges<'t, 'k> {
        KeyChanges { table, row, at, done: DoneList::new(), duplicate: None }
    }

    /// Index and row that a key was refused for.
    pub(super) fn duplicate(&self) -> Option<(usize, Rid)> {
        self.duplicate
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// Damaged if the index is, or has no such entry.
    pub(super) fn delete(&mut self, locks: &mut Locker<'_>, index: usize, key: &'k [u8]) -> Result<()> {
        locks.writes_to(self.table).entries().delete(index, key, self.row, self.at)?;
        self.done.push(Done::Deleted(index, key));
        Ok(())
    }

    /// Deletes the old key of a change and inserts the new one.
    pub(super) fn replace(&mut self, locks: &mut Locker<'_>, change: &KeyChange<'k>) -> Result<()> {
        self.delete(locks, change.index, change.old)?;
        self.insert(locks, (change.index, change.new), None)
    }

    /// Inserts a key, waiting for those that others are inserting or deleting. `sought` may be the
    /// way to it.
    ///
    /// # Errors
    /// DuplicateKey if another row has the key; LockWaitTimeout, Deadlock, Killed; TableFull,
    /// Damaged.
    pub(super) fn insert(
        &mut self,
        locks: &mut Locker<'_>,
        (index, key): (usize, Key<'k>),
        mut sought: Option<&Sought<'_>>,
    ) -> Result<()> {
        let (table, pool, at) = (self.table, locks.pool, self.at);
        let unique = uniqueness(table, index, key, locks.snapshots);
        let (mut undecided, mut crowding) = (UndecidedKey::default(), Crowding::default());
        loop {
            let entry = (key.bytes, self.row, unique);
            match locks.writes_to(table).entries().insert(index, entry, at, sought.take(), pool)? {
                inserted @ (Inserted::Done | Inserted::DoneOver(_)) => {
                    self.done.push(Done::Inserted(index, key.bytes));
                    if let Inserted::DoneOver(before) = inserted
                        && locks.writes.hide(table, locks.owner.id, before, at)
                    {
                        self.done.push(Done::Hidden(before));
                    }
                    return Ok(());
                }
                Inserted::Taken(row) => {
                    self.duplicate = Some((index, rid_of(table, row)?));
                    let what = format!("a row of table {} has the key already in index {index}", table.name());
                    return Err(Error::new(ErrorKind::DuplicateKey, what));
                }
                Inserted::Undecided(row) => undecided.wait(locks, table, (index, row))?,
                Inserted::Crowded => crowding.make_room(locks, table, index)?,
            }
        }
    }

    /// Takes the changes back, the last first.
    pub(super) fn take_back(self, writes: &mut WriteSet, owner: u64) {
        // Planted: what a failed write did to keys stays.
        let done = if perdura_pmem::planted(Mutant::DuplicateLeavesOtherIndex) { DoneList::new() } else { self.done };
        for one in done.into_iter().rev() {
            match one {
                Done::Inserted(index, key) | Done::Deleted(index, key) => {
                    writes.table(self.table, owner).entries().take_back(index, key, self.row, self.at);
                }
                Done::Hidden(row) => writes.show(self.table, owner, row),
            }
        }
    }
}

/// Whether a key may be inserted beside others. The first index of a table, if it is unique, is
/// its primary key: a row that has the key at the transaction's snapshot is hidden by the one
/// that gets it.
fn uniqueness(table: &Table, index: usize, key: Key<'_>, snapshots: &Snapshots) -> Uniqueness {
    let definition = table.index_definition(index);
    if !definition.is_some_and(|definition| definition.unique) || key.may_repeat {
        return Uniqueness::Repeats;
    }
    let snapshot = snapshots.transaction().filter(|_| index == 0);
    snapshot.map_or(Uniqueness::Unique, Uniqueness::UniqueSince)
}

/// Fails if the statement was killed, which would wait for a key in index `index`.
fn check_killed(owner: &Owner, index: usize) -> Result<()> {
    if !owner.is_killed() {
        return Ok(());
    }
    let what = format!("index {index}: the statement was killed while it waited for its key");
    Err(Error::new(ErrorKind::Killed, what))
}

/// Goes ahead to the leaves of keys, each an index of the table with a key, and asks for all of
/// them. The session has a snapshot.
pub(super) fn seek<'t, 'k>(
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
    table.chain().prefetch(word, LINE_BYTES);
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
    if table.directory().has_row(row) { Ok(()) } else { Err(unknown(table, row)) }
}

#[cold]
fn unknown(table: &Table, row: u64) -> Error {
    let what = format_args!("an entry of an index names row {row:#x}, which the table does not have");
    Error::damaged(&data_file_name(table.id(), 0), 0, what)
}

pub(super) fn check_count(table: &Table, keys: usize) -> Result<()> {
    if keys == table.indexes() {
        return Ok(());
    }
    let what = format!("table {} has {} indexes, and the row comes with {keys} keys", table.name(), table.indexes());
    Err(Error::new(ErrorKind::Configuration, what))
}

/// Fails unless a row comes with a key of the right length for each index of the table.
pub(super) fn check_keys<'k>(table: &Table, keys: impl ExactSizeIterator<Item = &'k [u8]>) -> Result<()> {
    check_count(table, keys.len())?;
    keys.enumerate().try_for_each(|(index, key)| check_key(table, index, key))
}

pub(super) fn check_key(table: &Table, index: usize, key: &[u8]) -> Result<()> {
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
