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
use perdura_pmem::Mutant;
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

/// Rows that refer to another one, locked some at a time ([`Session::lock_referring`]).
#[derive(Debug)]
pub struct ReferringRows {
    index: usize,
    start: Vec<u8>,
    /// Where in the index the rest begins; `None` at the end.
    from: Option<Vec<u8>>,
}

impl Session {
    /// Looks for a row with such a key, other than `except`, and locks it shared until the
    /// transaction ends: nobody deletes it meanwhile, or changes its key. A row that the
    /// transaction has written counts as locked. `None` if there is no such row.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed; Configuration if there is no such index; Damaged.
    pub fn lock_referenced(
        &mut self,
        table: &Arc<Table>,
        key: ReferenceKey<'_>,
        except: Option<Rid>,
    ) -> Result<Option<Rid>> {
        let mut undecided = UndecidedKey::default();
        let how = (false, except.map(|rid| rid.row()));
        loop {
            let met = self.meet(table, key, how)?;
            let Some(row) = met.there else {
                // Planted: a row that another transaction inserts or deletes is taken for none.
                match met.undecided.filter(|_| !perdura_pmem::planted(Mutant::UndecidedParentIgnored)) {
                    Some(row) => undecided.wait(&mut self.locks(), table, (key.index, row))?,
                    None => return Ok(None),
                }
                continue;
            };
            let rid = rid_of(table, row)?;
            // Planted: whoever writes a reference does not lock the row that it refers to.
            if perdura_pmem::planted(Mutant::ParentUnlocked) {
                return Ok(Some(rid));
            }
            let locked = self.locks().lock_row(table, rid, LockMode::Shared)?;
            // It may have gone before it was locked.
            // Planted: nobody looks again.
            if perdura_pmem::planted(Mutant::ParentLockedUnseen)
                || index_of(table, key.index)?.is_still(met)
                || self.meet(table, key, how)?.there == Some(row)
            {
                return Ok(Some(rid));
            }
            if locked == LockOutcome::New {
                self.locks().unlock_row(table, rid);
            }
        }
    }

    /// Whether a row has such a key. The caller holds the row that they refer to exclusively.
    ///
    /// # Errors
    /// As for [`Session::lock_referenced`].
    pub fn is_referenced(&mut self, table: &Arc<Table>, key: ReferenceKey<'_>) -> Result<bool> {
        let mut undecided = UndecidedKey::default();
        loop {
            let met = self.meet(table, key, (false, None))?;
            match undecided_child(&met) {
                Some(row) if met.there.is_none() => undecided.wait(&mut self.locks(), table, (key.index, row))?,
                _ => return Ok(met.there.is_some()),
            }
        }
    }

    /// Begins to lock the rows with such a key; `None` if there are none. The caller holds the row
    /// that they refer to exclusively, so there come no others but those that are under way: of
    /// prepared transactions, which a restart has let keep no shared lock, or such as keep no
    /// foreign keys. They are waited for here.
    ///
    /// # Errors
    /// As for [`Session::lock_referenced`].
    pub fn find_referring(&mut self, table: &Arc<Table>, key: ReferenceKey<'_>) -> Result<Option<ReferringRows>> {
        let mut undecided = UndecidedKey::default();
        loop {
            let met = self.meet(table, key, (true, None))?;
            if let Some(row) = undecided_child(&met) {
                undecided.wait(&mut self.locks(), table, (key.index, row))?;
                continue;
            }
            let start = key.start.to_vec();
            let rows = ReferringRows { index: key.index, from: Some(start.clone()), start };
            return Ok(met.there.map(|_| rows));
        }
    }

    /// Locks the next of the rows exclusively, at least `most` if there are so many, and not many
    /// more, and returns them. The caller may delete them or change their keys before it asks for
    /// others. By the time it is locked a row may be gone, or have another key.
    ///
    /// # Errors
    /// As for [`Session::lock_referenced`].
    pub fn lock_referring(&mut self, table: &Arc<Table>, rows: &mut ReferringRows, most: usize) -> Result<Vec<Rid>> {
        self.check_readable(table, None)?;
        // The snapshot keeps purge off the leaves.
        self.open_statement_snapshot();
        // A scan would end a step of the transaction: of many cascades each would have its own.
        let (mut page, mut locked) = (Page::default(), Vec::new());
        while locked.len() < most
            && let Some(from) = rows.from.take()
        {
            let view = View::newest(self.writes().view(table.id(), u64::MAX));
            let found = index_of(table, rows.index)?.page_from(&from, &view, &mut page);
            if !found.map_err(|error| error.in_index(rows.index))? {
                break;
            }
            let entries = (0..page.len()).map(|at| page.entry(at));
            let is_met = |entry: &&[u8]| entry_key(entry).starts_with(&rows.start);
            for row in entries.take_while(is_met).map(entry_row).collect::<Vec<_>>() {
                let rid = rid_of(table, row)?;
                self.locks().lock_row(table, rid, LockMode::Exclusive)?;
                locked.push(rid);
            }
            rows.from = page.high().filter(|high| high.starts_with(&rows.start)).map(<[u8]>::to_vec);
        }
        Ok(locked)
    }

    fn meet(&mut self, table: &Arc<Table>, key: ReferenceKey<'_>, how: (bool, Option<u64>)) -> Result<Met> {
        self.check_readable(table, None)?;
        // The snapshot keeps purge off the leaves.
        self.open_statement_snapshot();
        let own = self.writes().view(table.id(), u64::MAX);
        let search = Beginning { start: key.start, is_whole: key.is_whole };
        let met = index_of(table, key.index)?.meet(search, own, how);
        met.map_err(|error| error.in_index(key.index))
    }
}

/// The row of a key met whose transaction has not decided.
fn undecided_child(met: &Met) -> Option<u64> {
    // Planted: a reference under way is taken for none.
    met.undecided.filter(|_| !perdura_pmem::planted(Mutant::UndecidedChildIgnored))
}
