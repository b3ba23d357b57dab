//! Changes of a transaction to the indexes of one table.
//!
//! Each entry is in the shadow of its leaf, in the change that bears the transaction's name. Where
//! others have replaced a leaf, the writer itself knows the new ones.

use super::deferred_flush::DeferredFlush;
use super::row_request::Step;
use super::target::Target;
use crate::error::{Error, ErrorKind, Result};
use crate::files::context::RedoForm;
use crate::format::{ENTRY_VALUE_EXTRA, Record, data_file_name, push_entry};
use crate::index::insert::{EntryWrite, Inserted, Uniqueness};
use crate::index::leaf::LeafId;
use crate::index::leaf_order::Sought;
use crate::index::redo::LeafRecord;
use crate::index::replace::{Commits, Ground};
use crate::index::table_index::Index;
use crate::index::touched::TouchedLeaves;
use crate::table::Table;
use perdura_log::Csn;

/// Bytes of index entries from which on a transaction's new leaves are published later: it makes
/// more of them than its commit would wait for one by one, where that is a write to a disk.
const PUBLISHED_LATER_FROM: u64 = 16 << 10;

/// Changes of a transaction to the indexes of one table.
#[derive(Default)]
pub(super) struct IndexWrites {
    /// The leaves that it has touched.
    leaves: TouchedLeaves,
    /// The entry at hand.
    entry: Vec<u8>,
    /// Bytes of the log that the entries inserted take by value, those taken back included.
    value_bytes: u64,
}

impl IndexWrites {
    /// None so far; `by_value` says that small transactions are logged by value.
    pub(super) fn new(by_value: bool) -> IndexWrites {
        IndexWrites { leaves: TouchedLeaves::new(by_value), ..IndexWrites::default() }
    }

    /// Bytes of the log that the entries inserted take by value, those taken back included.
    pub(super) fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// Flushes the entries that wait for the record: it does not carry them.
    pub(super) fn flush_waiting(&self, target: &Target) {
        let leaves = target.table.index_list().leaves();
        always(target, self.leaves.leaves(), |leaf| leaves.flush_inserted(leaf, &target.writer));
    }

    /// Whether nothing was touched.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Estimated DRAM, in bytes.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.leaves.bytes()
    }

    /// Forgets what nobody can go back to, up to step `floor`.
    pub(super) fn forget_below(&mut self, floor: u64) {
        self.leaves.forget_below(floor);
    }

    /// Flushes what is not flushed yet. Returns whether anything was since the last call; if so,
    /// the caller fences.
    pub(super) fn flush_rest(&mut self, target: &Target) -> bool {
        self.leaves.flush_rest(target.table.index_list().leaves())
    }

    /// Hands the redo records of the leaves to `add`.
    pub(super) fn log(
        &self,
        target: &Target,
        form: RedoForm,
        add: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let leaves = target.table.index_list().leaves();
        each_leaf(target, self.leaves.leaves(), |leaf| match leaves.record(leaf, &target.writer, form) {
            Some(record) => add(record),
            None => Ok(()),
        })
    }

    /// Stores what the committed transaction has done to leaves.
    pub(super) fn publish(&mut self, target: &Target, csn: Csn, deferred: &DeferredFlush) {
        let own = self.leaves.take();
        let leaves = target.table.index_list().leaves();
        let mut queued = Vec::new();
        always(target, &own, |leaf| {
            leaves.publish(leaf, (&target.writer, csn), || deferred.add_leaf(&target.table, leaf), &mut queued);
        });
        // Purge takes nothing of a commit before it is reported as stored.
        leaves.queue().push_all(csn, queued);
    }

    /// Undoes what was done to leaves after step `seen`.
    pub(super) fn undo(&mut self, target: &Target, seen: u64) {
        let own = self.leaves.take_since(seen);
        let leaves = target.table.index_list().leaves();
        always(target, &own, |leaf| leaves.undo(leaf, &target.writer, Some(seen)));
    }

    /// Takes the transaction's changes off all leaves.
    pub(super) fn abandon(&mut self, target: &Target) {
        let own = self.leaves.take();
        let leaves = target.table.index_list().leaves();
        always(target, &own, |leaf| leaves.undo(leaf, &target.writer, None));
    }

    /// Gives a prepared transaction the changes back that a record of it names.
    pub(super) fn restore(&mut self, target: &Target, record: &LeafRecord) -> Result<()> {
        target.table.index_list().restore(target.table.chain(), record, &target.writer, &mut self.leaves)
    }
}

/// Changes entries of a table's indexes for a transaction.
pub(crate) struct EntryWriter<'w> {
    target: &'w Target,
    writes: &'w mut IndexWrites,
}

impl<'w> EntryWriter<'w> {
    pub(super) fn new(target: &'w Target, writes: &'w mut IndexWrites) -> EntryWriter<'w> {
        EntryWriter { target, writes }
    }

    /// Inserts the entry of `row` under `key` into an index; with a unique key only if no other row
    /// has it. `commits` tells who sees what, and `sought` may be the way to the key.
    pub(crate) fn insert(
        self,
        index: usize,
        (key, row, unique): (&[u8], u64, Uniqueness),
        at: Step,
        sought: Option<&Sought<'_>>,
        commits: &dyn Commits,
    ) -> Result<Inserted> {
        let later = self.writes.value_bytes > PUBLISHED_LATER_FROM;
        let ground = Ground { segments: self.target.table.space().segments(), commits, later };
        let entry = entry_of(&mut self.writes.entry, key, row);
        let write = EntryWrite { entry, writer: &self.target.writer, step: at.step, floor: at.floor };
        self.writes.value_bytes += entry.len() as u64 + ENTRY_VALUE_EXTRA;
        let inserted =
            index_of(&self.target.table, index)?.insert(ground, (&write, unique), sought, &mut self.writes.leaves);
        inserted.map_err(|error| error.in_index(index))
    }

    /// Deletes the entry of `row` under `key` from an index.
    ///
    /// # Errors
    /// Damaged if there is none.
    pub(crate) fn delete(self, index: usize, key: &[u8], row: u64, at: Step) -> Result<()> {
        let entry = entry_of(&mut self.writes.entry, key, row);
        let write = EntryWrite { entry, writer: &self.target.writer, step: at.step, floor: at.floor };
        let deleted = index_of(&self.target.table, index)?.delete(&write, &mut self.writes.leaves);
        if deleted.map_err(|error| error.in_index(index))? {
            return Ok(());
        }
        let what = format_args!("index {index} of table {} lacks the entry of row {row:#x}", self.target.table.name());
        Err(Error::damaged_index(&data_file_name(self.target.table.id(), 0), 0, what))
    }

    /// Takes back the last change of the entry of `row` under `key`, made in step `at`.
    pub(crate) fn take_back(self, index: usize, key: &[u8], row: u64, at: Step) {
        let entry = entry_of(&mut self.writes.entry, key, row);
        if let Ok(index) = index_of(&self.target.table, index) {
            index.take_back(&EntryWrite { entry, writer: &self.target.writer, step: at.step, floor: at.floor });
        }
    }
}

/// Calls `body` with each leaf that may have changes of the transaction, until there are no more.
fn each_leaf(target: &Target, own: &[LeafId], mut body: impl FnMut(LeafId) -> Result<()>) -> Result<()> {
    let leaves = target.table.index_list().leaves();
    for (index, leaf) in own.iter().enumerate() {
        leaves.prefetch(|at| own.get(at).copied(), index);
        body(*leaf)?;
    }
    let mut seen = 0;
    loop {
        // Whoever replaces a leaf says so before others can lock it.
        let inherited = target.writer.inherited(target.table.id(), &mut seen);
        if inherited.is_empty() {
            return Ok(());
        }
        inherited.into_iter().try_for_each(&mut body)?;
    }
}

fn always(target: &Target, own: &[LeafId], mut body: impl FnMut(LeafId)) {
    let infallible = each_leaf(target, own, |leaf| {
        body(leaf);
        Ok(())
    });
    debug_assert!(infallible.is_ok());
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
