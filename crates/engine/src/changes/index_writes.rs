//! Changes of a transaction to the indexes of one table.
//!
//! Each entry is in the shadow of its leaf, in the change that bears the transaction's name. Where
//! others have replaced a leaf, the writer itself knows the new ones.

use super::behind::Behind;
use super::claim::Step;
use super::table_writes::TableWrites;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Record, data_file_name, push_entry};
use crate::index::insert::{EntryWrite, Inserted, Uniqueness};
use crate::index::leaf::LeafId;
use crate::index::leaf_order::Sought;
use crate::index::redo::LeafRecord;
use crate::index::replace::Ground;
use crate::index::table_index::Index;
use crate::table::Table;
use perdura_log::Csn;

impl TableWrites {
    /// Inserts the entry of `row` under `key` into an index; with a unique key only if no other row
    /// has it. `visible` tells the visible CSN, and `sought` may be the way to the key.
    pub fn insert_entry(
        &mut self,
        index: usize,
        (key, row, unique): (&[u8], u64, Uniqueness),
        at: Step,
        sought: Option<&Sought<'_>>,
        visible: &dyn Fn() -> Csn,
    ) -> Result<Inserted> {
        let ground = Ground { segments: self.table.space().segments(), visible };
        let entry = entry_of(&mut self.entry, key, row);
        let write = EntryWrite { entry, writer: &self.writer, step: at.step, floor: at.floor };
        let inserted = index_of(&self.table, index)?.insert(ground, (&write, unique), sought, &mut self.leaves);
        inserted.map_err(|error| error.in_index(index))
    }

    /// Deletes the entry of `row` under `key` from an index.
    ///
    /// # Errors
    /// Damaged if there is none.
    pub fn delete_entry(&mut self, index: usize, key: &[u8], row: u64, at: Step) -> Result<()> {
        let entry = entry_of(&mut self.entry, key, row);
        let write = EntryWrite { entry, writer: &self.writer, step: at.step, floor: at.floor };
        let deleted = index_of(&self.table, index)?.delete(&write, &mut self.leaves);
        if deleted.map_err(|error| error.in_index(index))? {
            return Ok(());
        }
        let what = format_args!("index {index} of table {} lacks the entry of row {row:#x}", self.table.name());
        Err(Error::damaged_index(&data_file_name(self.table.id(), 0), 0, what))
    }

    /// Takes back the last change of the entry of `row` under `key`, made in step `at`.
    pub fn take_back_entry(&mut self, index: usize, key: &[u8], row: u64, at: Step) {
        let entry = entry_of(&mut self.entry, key, row);
        if let Ok(index) = index_of(&self.table, index) {
            index.take_back(&EntryWrite { entry, writer: &self.writer, step: at.step, floor: at.floor });
        }
    }

    /// Calls `body` with each leaf that may have changes of the transaction, until there are no
    /// more.
    fn each_leaf(&self, own: &[LeafId], mut body: impl FnMut(LeafId) -> Result<()>) -> Result<()> {
        let leaves = self.table.index_list().leaves();
        for (index, leaf) in own.iter().enumerate() {
            leaves.prefetch(|at| own.get(at).copied(), index);
            body(*leaf)?;
        }
        let mut seen = 0;
        loop {
            // Whoever replaces a leaf says so before others can lock it.
            let inherited = self.writer.inherited(self.table.id(), &mut seen);
            if inherited.is_empty() {
                return Ok(());
            }
            inherited.into_iter().try_for_each(&mut body)?;
        }
    }

    fn always(&self, own: &[LeafId], mut body: impl FnMut(LeafId)) {
        let infallible = self.each_leaf(own, |leaf| {
            body(leaf);
            Ok(())
        });
        debug_assert!(infallible.is_ok());
    }

    /// Hands the redo records of the leaves to `add`.
    pub(super) fn log_leaves(&self, add: &mut dyn FnMut(Record) -> Result<()>) -> Result<()> {
        let leaves = self.table.index_list().leaves();
        self.each_leaf(self.leaves.leaves(), |leaf| match leaves.record(leaf, &self.writer) {
            Some(record) => add(record),
            None => Ok(()),
        })
    }

    /// Stores what the committed transaction has done to leaves.
    pub(super) fn publish_leaves(&mut self, csn: Csn, behind: &Behind) {
        let own = self.leaves.take();
        let leaves = self.table.index_list().leaves();
        let mut queued = Vec::new();
        self.always(&own, |leaf| {
            leaves.publish(leaf, (&self.writer, csn), || behind.add_leaf(&self.table, leaf), &mut queued);
        });
        // Purge takes nothing of a commit before it is reported as stored.
        leaves.queue().push_all(csn, queued);
    }

    /// Undoes what was done to leaves after step `seen`.
    pub(super) fn undo_leaves(&mut self, seen: u64) {
        let own = self.leaves.take_since(seen);
        let leaves = self.table.index_list().leaves();
        self.always(&own, |leaf| leaves.undo(leaf, &self.writer, Some(seen)));
    }

    /// Takes the transaction's changes off all leaves.
    pub(super) fn abandon_leaves(&mut self) {
        let own = self.leaves.take();
        let leaves = self.table.index_list().leaves();
        self.always(&own, |leaf| leaves.undo(leaf, &self.writer, None));
    }

    /// Gives a prepared transaction the changes back that a record of it names.
    pub(crate) fn restore_leaf(&mut self, record: &LeafRecord) -> Result<()> {
        self.table.index_list().restore(self.table.chain(), record, &self.writer, &mut self.leaves)
    }
}

/// The entry of `row` under `key`, made in `buffer`.
fn entry_of<'b>(buffer: &'b mut Vec<u8>, key: &[u8], row: u64) -> &'b [u8] {
    buffer.clear();
    push_entry(buffer, key, row);
    buffer
}

fn index_of(table: &Table, index: usize) -> Result<&Index> {
    let what = || format!("table {} has no index {index}", table.name());
    table.index_list().index(index).ok_or_else(|| Error::new(ErrorKind::Configuration, what()))
}
