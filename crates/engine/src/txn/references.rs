//! Foreign keys, by the keys of rows alone: a row that others refer to is locked, and rows that
//! refer to another one are looked for.
//!
//! Both look at the newest entries, whatever the isolation level, and wait for transactions that
//! insert or delete an entry they meet. Whoever writes a reference keeps the shared lock of the row
//! that it refers to until it ends; whoever deletes that row, or changes its key, holds the row
//! exclusively before it looks for references. So one of two that meet waits for the other, and
//! then sees what it did (docs/foreign-keys.md).

use super::index_scan::index_of;
use super::keys::{UndecidedKey, rid_of};
use super::session::Session;
use crate::error::Result;
use crate::format::{Rid, entry_key, entry_row};
use crate::index::find::{Beginning, Met};
use crate::index::leaf_shadow::View;
use crate::index::page::Page;
use crate::pool::locks::{LockMode, LockOutcome};
use crate::table::Table;
use perdura_log::Csn;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Keys of an index that rows refer to, or by which they refer to others.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceKey<'k> {
    /// Position of the index in the table's definition.
    pub index: usize,
    /// The beginning of the keys.
    pub start: &'k [u8],
    /// The beginning is a whole key.
    pub is_whole: bool,
}

impl Session {
    /// Looks for a row with such a key, and locks it shared until the transaction ends: nobody
    /// deletes it meanwhile, or changes its key. A row that the transaction has written counts as
    /// locked. `None` if there is no such row.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed; Configuration if there is no such index; Damaged.
    pub fn lock_referenced(&mut self, table: &Arc<Table>, key: ReferenceKey<'_>) -> Result<Option<Rid>> {
        let mut undecided = UndecidedKey::default();
        loop {
            let row = match self.meet(table, key, |_| false)? {
                None => return Ok(None),
                Some(Met::Undecided(row)) => {
                    undecided.wait(&mut self.locks(), table, (key.index, row))?;
                    continue;
                }
                Some(Met::There(row)) => row,
            };
            let rid = rid_of(table, row)?;
            let locked = self.locks().lock_row(table, rid, LockMode::Shared)?;
            // It may have gone before it was locked.
            if self.meet(table, key, |_| false)? == Some(Met::There(row)) {
                return Ok(Some(rid));
            }
            if locked == LockOutcome::New {
                self.locks().unlock_row(table, rid);
            }
        }
    }

    /// Whether a row other than `except` has such a key. The caller holds the row that they refer
    /// to exclusively.
    ///
    /// # Errors
    /// As for [`Session::lock_referenced`].
    pub fn is_referenced(&mut self, table: &Arc<Table>, key: ReferenceKey<'_>, except: Option<Rid>) -> Result<bool> {
        let mut undecided = UndecidedKey::default();
        let is_left_out = |row| except.is_some_and(|except| except.row() == row);
        loop {
            match self.meet(table, key, is_left_out)? {
                None => return Ok(false),
                Some(Met::There(_)) => return Ok(true),
                Some(Met::Undecided(row)) => undecided.wait(&mut self.locks(), table, (key.index, row))?,
            }
        }
    }

    /// Locks the rows with such a key exclusively, and returns them: eight bytes each. The caller
    /// holds the row that they refer to exclusively, so there come no others. By the time it is
    /// locked a row may be gone, or have another key; those who insert or delete one are waited
    /// for.
    ///
    /// # Errors
    /// As for [`Session::lock_referenced`].
    pub fn lock_referring(&mut self, table: &Arc<Table>, key: ReferenceKey<'_>) -> Result<Vec<Rid>> {
        let mut rows = Vec::new();
        if self.meet(table, key, |_| false)?.is_none() {
            return Ok(rows);
        }
        // A scan would end a step of the transaction: of many cascades each would have its own.
        let (mut page, mut from) = (Page::default(), key.start.to_vec());
        loop {
            let view = View { snapshot: Csn::MAX, own: self.writes().view(table.id(), u64::MAX) };
            let found = index_of(table, key.index)?.page_from(&from, &view, &mut page);
            if !found.map_err(|error| error.in_index(key.index))? {
                break;
            }
            let entries = (page.place_of(&from)..page.len()).map(|at| page.entry(at));
            let met: Vec<u64> =
                entries.take_while(|entry| entry_key(entry).starts_with(key.start)).map(entry_row).collect();
            for row in met {
                let rid = rid_of(table, row)?;
                self.locks().lock_row(table, rid, LockMode::Exclusive)?;
                rows.push(rid);
            }
            match page.high() {
                Some(high) if high.starts_with(key.start) => from = high.to_vec(),
                _ => break,
            }
        }
        self.lock_late_comers(table, key, &mut rows)?;
        Ok(rows)
    }

    /// Adds the rows whose transactions were under way: prepared ones, which a restart has let keep
    /// no shared lock, or such as keep no foreign keys.
    fn lock_late_comers(&mut self, table: &Arc<Table>, key: ReferenceKey<'_>, rows: &mut Vec<Rid>) -> Result<()> {
        let mut known: FxHashSet<u64> = rows.iter().map(|rid| rid.row()).collect();
        let mut undecided = UndecidedKey::default();
        loop {
            match self.meet(table, key, |row| known.contains(&row))? {
                None => return Ok(()),
                Some(Met::Undecided(row)) => undecided.wait(&mut self.locks(), table, (key.index, row))?,
                Some(Met::There(row)) => {
                    let rid = rid_of(table, row)?;
                    self.locks().lock_row(table, rid, LockMode::Exclusive)?;
                    rows.push(rid);
                    known.insert(row);
                }
            }
        }
    }

    fn meet(
        &mut self,
        table: &Arc<Table>,
        key: ReferenceKey<'_>,
        is_left_out: impl Fn(u64) -> bool,
    ) -> Result<Option<Met>> {
        self.check_readable(table, None)?;
        // The snapshot keeps purge off the leaves.
        self.open_statement_snapshot();
        let own = self.writes().view(table.id(), u64::MAX);
        let search = Beginning { start: key.start, is_whole: key.is_whole };
        let met = index_of(table, key.index)?.meet(search, own, is_left_out);
        met.map_err(|error| error.in_index(key.index))
    }
}
