//! The pages of a table in which a transaction has locked or written rows, and in which step it
//! first wrote to each, so that undo finds what it looks for.

use super::memory::Memory;
use super::row_request::Step;
use crate::format::Word;
use crate::shadow::change::Change;
use crate::shadow::slots::{LockedPage, Shadows};
use crate::shadow::writer::Writer;
use perdura_pmem::Mutant;
use smallvec::SmallVec;
use std::sync::Arc;

/// A page's first write in a step.
struct Touch {
    step: u64,
    page: u64,
}

/// The pages that a transaction has touched in one table, those of its bulk insert apart.
#[derive(Default)]
pub(super) struct Touched {
    pages: SmallVec<[u64; 4]>,
    /// In the order of time; forgotten up to the oldest position that is left. It names pages of
    /// the bulk insert too.
    journal: SmallVec<[Touch; 2]>,
    /// The transaction is known as a writer of the table: it has a change in a page since nobody
    /// read the table as a whole, or it has locked the table. One that only moves rows keeps nobody
    /// off.
    is_admitted: bool,
    /// Their DRAM.
    pub memory: Memory,
}

impl Touched {
    /// The pages with a change of the transaction, in the order in which it came to them.
    #[inline]
    pub(super) fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages.iter().copied()
    }

    /// Takes all pages.
    pub(super) fn take_pages(&mut self) -> SmallVec<[u64; 4]> {
        std::mem::take(&mut self.pages)
    }

    /// The transaction's change of page `page`, begun now if there is none.
    #[inline]
    pub(super) fn change<'s>(
        &mut self,
        shadow: &'s mut LockedPage<'_>,
        page: u64,
        writer: &Arc<Writer>,
    ) -> &'s mut Change {
        let (change, is_new) = shadow.change_or_new(writer, false);
        if is_new {
            self.pages.push(page);
            self.memory.add_page();
        }
        change.set_only_shares(false);
        change
    }

    /// Locks a row of page `page` shared that the transaction does not hold. It need not be known
    /// as a writer for that.
    pub(super) fn share(&mut self, shadow: &mut LockedPage<'_>, page: u64, writer: &Arc<Writer>, position: u16) {
        if shadow.change(writer).is_none() {
            self.change(shadow, page, writer).set_only_shares(true);
        }
        shadow.change_mut(writer).expect("just made sure").share(position);
    }

    /// Whether the transaction is known as a writer of the table.
    #[inline]
    pub(super) fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    /// Notes that the transaction may write the table without a look for readers.
    pub(super) fn set_admitted(&mut self) {
        self.is_admitted = true;
    }

    /// Makes the transaction known as a writer of the table, unless it is, by a change of page
    /// `page` that stays until its end. Returns false if somebody reads the table as a whole, who
    /// may have looked at the page before.
    #[inline]
    pub(super) fn admit(
        &mut self,
        shadows: &Shadows,
        shadow: &mut LockedPage<'_>,
        page: u64,
        writer: &Arc<Writer>,
    ) -> bool {
        if self.is_admitted {
            return true;
        }
        // Planted: a writer enters its first change without a look for readers.
        if shadows.has_readers() && !perdura_pmem::planted(Mutant::WriterSkipsReaders) {
            return false;
        }
        self.change(shadow, page, writer);
        self.is_admitted = true;
        true
    }

    /// The transaction's change of a page, ready for a write; `words` says that its words will
    /// change. Returns with it what is to be freed: versions that nobody can go back to, and the
    /// cell of a spilled page whose words are in DRAM again.
    #[inline]
    pub(super) fn open_change<'s>(
        &mut self,
        shadow: &'s mut LockedPage<'_>,
        page: u64,
        writer: &Arc<Writer>,
        at: Step,
        words: bool,
    ) -> (&'s mut Change, Vec<Word>) {
        let change = self.change(shadow, page, writer);
        let mut settled = change.settle_below(at.floor);
        self.memory.take_replaced(settled.len());
        if change.last_step() != Some(at.step) {
            self.journal.push(Touch { step: at.step, page });
        }
        if words && let Some(place) = change.hold_words() {
            self.memory.add_held(page, change.after().len());
            settled.push(place);
        }
        (change, settled)
    }

    /// Notes that step `step` wrote to page `page`.
    pub(super) fn note(&mut self, step: u64, page: u64) {
        if self.journal.last().is_none_or(|last| (last.step, last.page) != (step, page)) {
            self.journal.push(Touch { step, page });
        }
    }

    /// Forgets what nobody can go back to, up to step `floor`.
    pub(super) fn forget_below(&mut self, floor: u64) {
        if self.journal.last().is_some_and(|last| last.step <= floor) {
            self.journal.clear();
        }
    }

    /// The pages written in steps after `seen`, in ascending order; they are forgotten.
    pub(super) fn take_since(&mut self, seen: u64) -> Vec<u64> {
        let kept = self.journal.iter().rposition(|touch| touch.step <= seen).map_or(0, |last| last + 1);
        let mut pages: Vec<u64> = self.journal.drain(kept..).map(|touch| touch.page).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }
}
