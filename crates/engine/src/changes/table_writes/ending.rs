//! The end of a transaction in a table: its writes are settled, logged, published and retired.

use super::TableWrites;
use crate::changes::bulk::BulkInsert;
use crate::changes::deferred_flush::DeferredFlush;
use crate::changes::table_records::TableRecords;
use crate::error::Result;
use crate::files::context::RedoForm;
use crate::format::{PageState, Record, Rid};
use perdura_log::Csn;
use perdura_pmem::{Medium, Mutant, publish};

/// Pages whose states are stored by one write: some 160 KB of a journal.
const PAGES_PUBLISHED_AT_ONCE: usize = 4096;

impl TableWrites {
    /// Flushes what is not flushed yet. Returns whether anything was written since the last call;
    /// if so, the caller fences.
    pub(crate) fn flush_rest(&mut self) -> bool {
        self.versions.flush_last(&self.target.table);
        let flushed = self.versions.segments().flush_rest();
        if flushed && let Some(bulk) = &mut self.bulk {
            bulk.flush_rest();
        }
        self.keys.flush_rest(&self.target) | flushed
    }

    /// Bytes of the log that the writes take by value, undone ones included; `None` if they go by
    /// reference, since some are in pages or segments of the transaction's own.
    pub(crate) fn value_bytes(&self) -> Option<u64> {
        Some(self.versions.value_bytes().filter(|_| self.bulk.is_none())? + self.keys.value_bytes())
    }

    /// Flushes versions and entries that wait for the record: it does not carry them. The caller
    /// fences.
    pub(crate) fn flush_waiting(&mut self) {
        self.versions.flush_waiting(&self.target.table);
        if !self.keys.is_empty() {
            self.keys.flush_waiting(&self.target);
        }
    }

    /// Brings the writes to their final state before the commit: frees what only the transaction
    /// ever saw.
    pub(crate) fn settle(&mut self) {
        if let Some(bulk) = &mut self.bulk {
            bulk.settle();
        }
        if !std::mem::take(&mut self.rewritten) {
            return;
        }
        for page in self.touched.pages() {
            let directory = self.target.table.directory();
            let row = |position| directory.page_base(page) + u64::from(position);
            let (mut versions, mut rids) = (Vec::new(), Vec::new());
            if let Some(mut shadow) = self.target.table.shadows().slot(page).lock_existing()
                && let Some(change) = shadow.change_mut(&self.target.writer)
            {
                versions = change.take_replaced();
                let nothing = change.drop_nothing(|position| directory.raw_word(row(position)).is_empty());
                let rid = |position| Rid::new(row(position), directory.raw_word(row(position)).incarnation());
                rids = nothing.into_iter().map(rid).collect();
            }
            self.target.table.space().free_all(versions);
            self.target.table.space().free_rids(rids);
        }
    }

    /// Hands the redo records to `add` in the form `form`, none of more than `most` bytes. Called
    /// after [`TableWrites::settle`], and by reference after a fence.
    pub(crate) fn log(
        &self,
        (most, form): (usize, RedoForm),
        add: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut records = TableRecords::new(&self.target, (most, form), add);
        self.touched.pages().try_for_each(|page| records.page(page))?;
        self.bulk.iter().flat_map(BulkInsert::records).try_for_each(&mut *add)?;
        if self.keys.is_empty() { Ok(()) } else { self.keys.log(&self.target, form, add) }
    }

    /// Collects the RIDs that the bulk insert leaves free; called before the commit is visible
    /// (I8).
    pub(crate) fn collect_holes(&mut self) {
        if let Some(bulk) = &mut self.bulk {
            bulk.collect_holes();
        }
    }

    /// Stores the states of the pages that the transaction has filled, many at once, where that is
    /// one write: by themselves each would be one.
    fn publish_pages(&self, csn: Csn) {
        let Some(bulk) = self.bulk.as_ref().filter(|_| self.target.table.chain().context().medium.settles()) else {
            return;
        };
        let directory = self.target.table.directory();
        let pages: Vec<u64> = bulk.pages().collect();
        for pages in pages.chunks(PAGES_PUBLISHED_AT_ONCE) {
            let steps = pages.iter().map(|page| directory.publishing(*page, PageState::published(csn)));
            publish(&steps.collect::<Vec<_>>());
        }
    }

    /// Stores the words of the committed transaction, page by page, notes in `deferred` what is to
    /// be flushed, and gathers what [`TableWrites::retire`] hands over.
    pub(crate) fn publish(&mut self, csn: Csn, deferred: &DeferredFlush) {
        if !self.keys.is_empty() {
            self.keys.publish(&self.target, csn, deferred);
        }
        self.publish_pages(csn);
        let retired = &mut self.retired;
        retired.csn = csn;
        let mut grown = 0;
        let bulk = self.bulk.iter().flat_map(BulkInsert::pages);
        for page in self.touched.pages().chain(bulk) {
            let mut shadow = self.target.table.shadows().slot(page).lock();
            let tally = shadow.publish(&self.target.writer, page, self.target.table.directory());
            if tally.is_unflushed {
                deferred.add(&self.target.table, page);
            }
            drop(shadow);
            retired.rows += tally.changed;
            grown += tally.grown;
            if tally.is_new {
                retired.pages.push(page);
            }
            if tally.is_crowded {
                retired.crowded.push(page);
            }
        }
        self.target.table.count_rows(grown);
        self.target.table.space().retired().count(retired.rows);
    }

    /// Retires what is published: hands replaced versions to purge, and counts rows. `now` is the
    /// time for reports, in seconds since 1970.
    pub(crate) fn retire(&mut self, now: u64) {
        let waited_for = std::mem::take(&mut self.waited_for);
        self.target.free([], waited_for);
        let retired = std::mem::take(&mut self.retired);
        if (retired.rows > 0 || self.bulk.is_some()) && !self.target.writer.moves() {
            self.target.table.set_changed(now);
        }
        if let Some(bulk) = self.bulk.take() {
            self.target.table.count_rows(bulk.rows());
            bulk.finish();
        }
        self.versions.segments().release(&self.target.table);
        // Planted: the places that moved rows have left are never purged.
        if retired.rows > 0 && !(perdura_pmem::planted(Mutant::MovedRowPlaceNeverPurged) && self.target.writer.moves())
        {
            self.target.table.space().retire(retired);
        }
    }
}
