//! Changes of one transaction to one directory page: the rows it has locked and written, and their
//! new words.
//!
//! The same structure is row lock, write set, and the word that counts from the commit until it is
//! stored. Once it is stored it becomes an [`UndoRecord`], which keeps the words before the change.
//! A transaction's own statements see its writes by *steps*: whoever takes a position (a scan, a
//! savepoint, the beginning of a statement) ends the present step, and sees the steps up to its
//! own.

use super::row_set::RowSet;
use super::undo_record::UndoRecord;
use super::words::{Spilled, Words};
use super::writer::Writer;
use crate::format::Word;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The rows whose newest own write came in one step.
struct Step {
    number: u64,
    rows: RowSet,
}

/// An own version that a later write of the same transaction replaced.
struct Replaced {
    position: u16,
    word: Word,
    /// Step in which it was written.
    step: u64,
    /// Step in which it was replaced.
    by: u64,
}

/// The newest own state of a row that a transaction has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// The transaction inserted or updated the row: its version.
    Row(Word),
    /// The transaction deleted the row.
    Deleted,
}

/// A write that was undone.
pub(crate) struct Undone {
    /// Position of the row in its page.
    pub position: u16,
    /// The version that it had made.
    pub version: Option<Word>,
    /// The own version that the row has again; `None` if the transaction no longer writes the row.
    pub restored: Option<Word>,
}

/// Changes of one transaction to one directory page.
pub(crate) struct Change {
    writer: Arc<Writer>,
    /// The page is unpublished and belongs to the transaction alone. New words are in the page
    /// itself.
    whole_page: bool,
    steps: SmallVec<[Step; 1]>,
    /// Words of the rows inserted or updated.
    after: Words,
    deleted: RowSet,
    /// Rows locked exclusively and not written.
    locked: RowSet,
    /// Rows locked shared, and neither locked exclusively nor written.
    shared: RowSet,
    /// It has locked rows shared, and done nothing else: its transaction may be no writer of the
    /// table.
    only_shares: bool,
    /// In the order of time.
    replaced: Vec<Replaced>,
}

impl Change {
    /// A change of `writer`, which has done nothing yet.
    pub(crate) fn new(writer: Arc<Writer>, whole_page: bool) -> Change {
        Change {
            writer,
            whole_page,
            steps: SmallVec::new(),
            after: Words::default(),
            deleted: RowSet::default(),
            locked: RowSet::default(),
            shared: RowSet::default(),
            only_shares: false,
            replaced: Vec::new(),
        }
    }

    /// The transaction.
    #[inline]
    pub(crate) fn writer(&self) -> &Arc<Writer> {
        &self.writer
    }

    /// Whether it fills an unpublished page of its own.
    #[inline]
    pub(crate) fn is_whole_page(&self) -> bool {
        self.whole_page
    }

    /// Whether the transaction has written the row.
    #[inline]
    pub(crate) fn wrote(&self, position: u16) -> bool {
        self.steps.iter().any(|step| step.rows.contains(position))
    }

    /// Whether the row's word is one that the change stores. A bulk insert notes the rows of its
    /// pages late, if at all.
    #[inline]
    pub(crate) fn covers(&self, position: u16) -> bool {
        self.whole_page || self.wrote(position)
    }

    /// Whether the transaction has locked the row exclusively or written it.
    #[inline]
    pub(crate) fn holds(&self, position: u16) -> bool {
        self.covers(position) || self.locked.contains(position)
    }

    /// Whether the transaction has locked the row shared, and no more.
    #[inline]
    pub(crate) fn shares(&self, position: u16) -> bool {
        self.shared.contains(position)
    }

    /// Whether all that the transaction has done here is to lock rows shared.
    #[inline]
    pub(crate) fn only_shares(&self) -> bool {
        self.only_shares
    }

    /// Notes whether the change is of one who only locks rows shared.
    pub(crate) fn set_only_shares(&mut self, only_shares: bool) {
        self.only_shares = only_shares;
    }

    /// Locks the row exclusively.
    #[inline]
    pub(crate) fn lock(&mut self, position: u16) {
        if !self.wrote(position) {
            self.shared.remove(position);
            self.locked.insert(position);
        }
    }

    /// Locks a row shared that the transaction does not hold.
    pub(crate) fn share(&mut self, position: u16) {
        self.shared.insert(position);
    }

    /// Unlocks a row that is not written. Returns whether it was locked.
    pub(crate) fn unlock(&mut self, position: u16) -> bool {
        self.locked.remove(position) || self.shared.remove(position)
    }

    /// The newest own state of a row; `None` if the transaction never wrote it. `stored` loads its
    /// word from the directory.
    #[inline]
    pub(crate) fn own(&self, position: u16, stored: impl FnOnce() -> Word) -> Option<Own> {
        if !self.wrote(position) {
            return None;
        }
        if self.deleted.contains(position) {
            return Some(Own::Deleted);
        }
        Some(Own::Row(if self.whole_page { stored() } else { self.after.get(position)? }))
    }

    /// The own state of a row as of the end of step `seen`; `None` if the committed row counts.
    pub(crate) fn own_at(&self, position: u16, stored: Word, seen: u64) -> Option<Own> {
        let written = self.steps.iter().find(|step| step.rows.contains(position))?.number;
        // Planted: a scan sees what its transaction wrote after it began.
        if written <= seen || perdura_pmem::planted(Mutant::ScanSeesOwnLaterWrites) {
            return self.own(position, || stored);
        }
        let earlier = self.replaced.iter().rev().find(|one| one.position == position && one.step <= seen)?;
        Some(Own::Row(earlier.word))
    }

    /// Notes that the row was written in step `step`. Returns the step of the write before, if
    /// there was one.
    fn touch(&mut self, position: u16, step: u64) -> Option<u64> {
        self.locked.remove(position);
        self.shared.remove(position);
        if let [.., last] = &mut self.steps[..]
            && last.number == step
            && !last.rows.insert(position)
        {
            return Some(step);
        }
        let (last, earlier) = match &mut self.steps[..] {
            [earlier @ .., last] if last.number == step => (true, earlier),
            all => (false, all),
        };
        let before = earlier.iter_mut().find_map(|one| one.rows.remove(position).then_some(one.number));
        if before.is_some() {
            let newest = self.steps.last().map(|newest| newest.number);
            self.steps.retain(|one| Some(one.number) == newest || !one.rows.is_empty());
        }
        if !last {
            let mut rows = RowSet::default();
            rows.insert(position);
            self.steps.push(Step { number: step, rows });
        }
        before
    }

    /// Forgets what nobody can go back to: own versions that were replaced, and the bounds of
    /// steps, up to `floor`, the oldest position that is left. Returns the versions to be freed.
    pub(crate) fn settle_below(&mut self, floor: u64) -> Vec<Word> {
        if self.steps.last().is_none_or(|last| last.number > floor) {
            return Vec::new();
        }
        if let [first, later @ ..] = &mut self.steps[..] {
            later.iter().for_each(|step| first.rows.extend(&step.rows));
            self.steps.truncate(1);
        }
        self.take_replaced()
    }

    /// Takes the own versions that later writes replaced.
    pub(crate) fn take_replaced(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.replaced).into_iter().map(|one| one.word).collect()
    }

    /// Inserts or updates the row in step `step`. `stored` loads its word from the directory, which
    /// for a page of its own the caller replaces. Returns whether this is the first write of the
    /// row.
    #[inline]
    pub(crate) fn write(&mut self, position: u16, word: Word, stored: impl FnOnce() -> Word, step: u64) -> bool {
        let before = if self.whole_page { Some(stored()) } else { self.after.set(position, word) };
        let Some(earlier) = self.touch(position, step) else { return true };
        if let Some(word) = before {
            self.replaced.push(Replaced { position, word, step: earlier, by: step });
        }
        false
    }

    /// Notes rows that a bulk insert has filled in its own page in step `step`.
    pub(crate) fn fill(&mut self, positions: Range<u16>, step: u64) {
        if self.steps.last().is_none_or(|last| last.number != step) {
            self.steps.push(Step { number: step, rows: RowSet::default() });
        }
        self.steps.last_mut().expect("just made sure").rows.insert_all(positions);
    }

    /// Deletes the row in step `step`. `stored` loads its word from the directory, which for a page
    /// of its own the caller empties.
    pub(crate) fn delete(&mut self, position: u16, stored: impl FnOnce() -> Word, step: u64) {
        let before = match self.whole_page {
            true => Some(stored()),
            false if self.wrote(position) => self.after.remove(position),
            false => None,
        };
        self.deleted.insert(position);
        let earlier = self.touch(position, step);
        if let (Some(word), Some(earlier)) = (before, earlier) {
            self.replaced.push(Replaced { position, word, step: earlier, by: step });
        }
    }

    /// Undoes the writes of the steps after `seen`, the last first. Locks stay.
    pub(crate) fn undo(&mut self, seen: u64) -> Vec<Undone> {
        let mut undone = Vec::new();
        while let Some(last) = self.replaced.pop_if(|one| one.by > seen) {
            let version = self.take_back(last.position);
            // Planted: undo does not give the row its earlier version back.
            if !self.whole_page && !perdura_pmem::planted(Mutant::UndoKeepsNewerOwnVersion) {
                self.after.set(last.position, last.word);
            }
            self.step_back(last.position, last.step);
            undone.push(Undone { position: last.position, version, restored: Some(last.word) });
        }
        while self.steps.last().is_some_and(|one| one.number > seen) {
            let last = self.steps.pop().expect("just seen");
            for position in last.rows.iter() {
                let version = self.take_back(position);
                self.locked.insert(position);
                undone.push(Undone { position, version, restored: None });
            }
        }
        undone
    }

    /// Takes back the insert of a row, its only write. Returns its version.
    pub(crate) fn take_back_insert(&mut self, position: u16) -> Option<Word> {
        self.steps.iter_mut().for_each(|step| {
            step.rows.remove(position);
        });
        self.take_back(position)
    }

    /// Takes the newest own state of a row away. Returns its version.
    fn take_back(&mut self, position: u16) -> Option<Word> {
        if self.deleted.remove(position) { None } else { self.after.remove(position) }
    }

    /// Moves a row back to the earlier step that it was written in.
    fn step_back(&mut self, position: u16, number: u64) {
        for step in &mut self.steps {
            if step.number != number {
                step.rows.remove(position);
            }
        }
        match self.steps.iter_mut().find(|step| step.number == number) {
            Some(step) => {
                step.rows.insert(position);
            }
            None => {
                let mut rows = RowSet::default();
                rows.insert(position);
                let place = self.steps.partition_point(|step| step.number < number);
                self.steps.insert(place, Step { number, rows });
            }
        }
    }

    /// Number of the last step with a write; `None` without any.
    pub(crate) fn last_step(&self) -> Option<u64> {
        self.steps.last().map(|step| step.number)
    }

    /// Takes back the rows that the transaction both inserted and deleted, as `is_new` tells.
    /// Nothing of them is published.
    pub(crate) fn drop_nothing(&mut self, is_new: impl Fn(u16) -> bool) -> Vec<u16> {
        let nothing: Vec<u16> = self.deleted.iter().filter(|position| is_new(*position)).collect();
        for position in &nothing {
            self.deleted.remove(*position);
            self.steps.iter_mut().for_each(|step| {
                step.rows.remove(*position);
            });
        }
        nothing
    }

    /// Brings spilled words back to DRAM, before they change. Returns the cell that held them.
    pub(crate) fn hold_words(&mut self) -> Option<Word> {
        self.after.hold()
    }

    /// Replaces the words by the same words, spilled.
    pub(crate) fn spill(&mut self, spilled: Spilled) {
        self.after = Words::Spilled(Box::new(spilled));
    }

    /// Enters rows of a prepared transaction whose words are spilled.
    pub(crate) fn restore(&mut self, spilled: Spilled, positions: impl Iterator<Item = u16>) {
        positions.for_each(|position| {
            self.touch(position, 0);
        });
        self.spill(spilled);
    }

    /// Words of the rows inserted or updated.
    pub(crate) fn after(&self) -> &Words {
        &self.after
    }

    /// The rows deleted.
    pub(crate) fn deleted(&self) -> &RowSet {
        &self.deleted
    }

    /// Positions of the rows written, each once, in no order.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u16> + '_ {
        self.steps.iter().flat_map(|step| step.rows.iter())
    }

    /// Number of rows written.
    pub(crate) fn rows_written(&self) -> usize {
        self.steps.iter().map(|step| step.rows.len()).sum()
    }

    /// Turns a change whose words `swap` has exchanged with those in the directory into an undo
    /// record.
    pub(crate) fn into_undo_record(self, csn: Csn) -> UndoRecord {
        let mut moved = RowSet::default();
        if self.writer.moves() {
            for (position, _) in self.after.iter() {
                moved.insert(position);
            }
        }
        UndoRecord { csn, moved, before: self.after, deleted: self.deleted }
    }

    /// Exchanges the words to be stored.
    pub(crate) fn after_mut(&mut self) -> &mut Words {
        &mut self.after
    }
}
