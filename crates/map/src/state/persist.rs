//! Persisting: two fences make every change so far durable.
//!
//! The first fence covers everything the new root record reaches, the second the root record (I3).
//! Objects that the new state no longer reaches have then ended; their space
//! waits until no reader and no snapshot can see them (I8).

use crate::index::Index;
use crate::memory::aside::Aside;
use crate::memory::record::Records;
use crate::memory::root::{self, RootRecord};
use crate::state::State;
use crate::state::history::{History, Tagged};
use crate::state::shared::Shared;
use crate::timestamps::Timestamps;
use perdura_pmem::{Mutant, planted, trace};

/// State that a persist has left.
#[derive(Clone)]
pub(crate) struct Persisted {
    pub(crate) times: Timestamps,
    pub(crate) root: u64,
    pub(crate) head: u64,
    /// Number of the next persist.
    pub(crate) number: u64,
    /// Count of the rollback records from the head on.
    pub(crate) pending: u64,
    /// Count of the versions.
    pub(crate) versions: u64,
    pub(crate) forgotten_tag: Tagged,
}

impl<I: Index> State<I> {
    /// The state that was persisted just now.
    pub(crate) fn persisted(&self, shared: &Shared<I>) -> Persisted {
        let History { head, times, pending, forgotten_tag, versions, .. } = &self.history;
        Persisted {
            times: *times,
            root: shared.index.root(),
            head: *head,
            number: self.pages.number(),
            pending: pending.len(),
            versions: *versions,
            forgotten_tag: forgotten_tag.clone(),
        }
    }

    /// Persists unless nothing has changed.
    pub(crate) fn persist(&mut self, shared: &Shared<I>) {
        // Planted: the persist gives up what it no longer reaches before it is durable.
        planted(Mutant::ReleasedBeforePersist).then(|| self.settle(shared));
        self.free_ended(shared);
        // Planted: timestamps that moved without a change are not persisted.
        if !self.is_dirty || planted(Mutant::TimestampsNotPersisted) && self.changes == 0 {
            return;
        }
        let _span = trace::span("map_persist");
        let Records { region, salt, .. } = &shared.records;
        shared.index.publish(&mut self.writer);
        I::seal(&mut self.writer, &mut self.pages);
        self.write_aside(shared);
        let record = self.root_record(shared);
        // Planted: the root record is stored before what it names is fenced.
        planted(Mutant::RootBeforeContent).then(|| record.store(region, I::KIND, *salt));
        self.pages.batch.flush(region);
        region.fence();
        let (at, len) = record.store(region, I::KIND, *salt);
        region.persist(at, len);
        self.pages.persisted(record.number);
        self.history.times.persisted = record.last;
        (self.changes, self.is_dirty) = (0, false);
        self.settle(shared);
        // A flushed line has left the cache; the next persist stores to these.
        root::prefetch(region, self.pages.number(), I::KIND);
    }

    /// Writes what the root record names beside it, if that has changed.
    fn write_aside(&mut self, shared: &Shared<I>) {
        let tagged = &self.history.forgotten_tag;
        let is_aside = tagged.short().is_none();
        let is_tag_there = !is_aside || self.aside.has_tag(tagged.ts, &tagged.tag);
        // Planted: the meta blob stays as it was.
        if is_tag_there && (self.aside.has_meta(&self.meta) || planted(Mutant::AsideKeptAfterChange)) {
            return;
        }
        let Tagged { ts: tag_ts, tag } = if is_aside { tagged.clone() } else { Tagged::default() };
        self.aside = Aside { number: self.aside.number + 1, tag_ts, tag, meta: self.meta.clone() };
        self.aside.write(&shared.records.region, &mut self.pages.batch, shared.records.salt);
    }

    fn root_record(&self, shared: &Shared<I>) -> RootRecord {
        RootRecord {
            number: self.pages.number(),
            root: shared.index.root(),
            live: self.pages.live_bytes(),
            aside: self.aside.short_number(),
            nodes: I::node_count(&self.writer),
            is_partial: shared.is_partial(),
            ..self.history.root_record()
        }
    }

    /// After a persist: ends the objects that it no longer reaches.
    fn settle(&mut self, shared: &Shared<I>) {
        self.ended.settle(&mut self.pages, I::LINKS_ALL);
        I::persisted(&mut self.writer, &shared.pins);
        self.pages.set_aside(&shared.pins);
        if self.holds.any() {
            let garbage = self.garbage();
            self.holds.limit(garbage, &shared.pins);
        }
    }

    /// Frees the pages that earlier persists set aside, and reuses the places of nodes, some in
    /// each step. The next persist makes the pages' words durable. Returns whether there are more.
    pub(crate) fn free_ended(&mut self, shared: &Shared<I>) -> bool {
        let mut has_more = false;
        self.holds.end(&shared.pins);
        // Planted: a snapshot does not hold off the freeing of pages.
        if self.pages.has_leaving() && (!self.holds.keep_garbage() || planted(Mutant::SnapshotHoldsNoPages)) {
            let freed;
            (freed, has_more) = self.pages.free_leaving(shared.pins.oldest());
            self.is_dirty |= freed > 0;
        }
        let gives_up = self.give_up_some();
        self.recycle(shared) || has_more || gives_up
    }

    /// Gives up some of the records of loads that were broken off. Returns whether there are more.
    pub(crate) fn give_up_some(&mut self) -> bool {
        let (gave_up, has_more) = self.ended.give_up_some(&mut self.pages);
        self.is_dirty |= gave_up;
        has_more
    }

    /// Reuses the places of nodes that nobody can see any more, some in each step. Returns whether
    /// there are more.
    #[inline]
    pub(crate) fn recycle(&mut self, shared: &Shared<I>) -> bool {
        let is_kept = self.holds.keep_garbage();
        I::recycle(&mut self.writer, &mut self.pages, &shared.pins, is_kept)
    }

    /// Counts changes that were made, and persists when the batch is full.
    #[inline]
    pub(crate) fn changed(&mut self, shared: &Shared<I>, count: u32) {
        self.changes = self.changes.saturating_add(count);
        self.is_dirty = true;
        shared.index.publish(&mut self.writer);
        let last = self.history.times.last;
        self.history.not_durable_from(last);
        // Planted: a change is reported durable when it is made.
        planted(Mutant::PersistedWhenMade).then(|| self.history.times.persisted = last);
        // Planted: a batch closes one change late.
        if !self.persist_full(shared, u32::from(planted(Mutant::BatchClosesLate))) {
            self.recycle(shared);
        }
        shared.wake.stir();
    }

    /// Persists when the batch is full, with `more` changes. Returns whether it was.
    pub(crate) fn persist_full(&mut self, shared: &Shared<I>, more: u32) -> bool {
        let is_full = self.changes >= shared.config.changes_max + more;
        if is_full {
            self.persist(shared);
        }
        is_full
    }

    /// Keeps room for rolling back what is not applied. `more` changes are about to be made.
    pub(crate) fn keep_for_rollback(&mut self, shared: &Shared<I>, more: u64) {
        let State { pages, writer, history, .. } = self;
        shared.index.keep_for_rollback(writer, pages, more, || history.pending.count_above(history.times.applied));
    }

    /// Frees what has ended, which needs no object moved: some of it in each step. Returns whether
    /// there is more.
    pub(crate) fn make_room(&mut self, shared: &Shared<I>) -> bool {
        self.persist_part(shared);
        self.free_ended(shared)
    }

    /// Persists, also if no change of the content would need it.
    pub(crate) fn persist_part(&mut self, shared: &Shared<I>) {
        self.is_dirty = true;
        self.persist(shared);
    }
}
