//! Confirmation: two fences make every change so far durable.
//!
//! The first fence covers everything the new root record reaches, the second the root word that names the record (I3).
//! What the new state no longer reaches has then ended; its place waits until no reader and no snapshot can see it.

use crate::config::Kind;
use crate::format::{ROOT_WORD_AT, RootRecord, bytes_of, root_word};
use crate::index::{Index, Store};
use crate::state::{Core, State};
use perdura_pmem::{planted, trace};

impl<I: Index> Core<I> {
    /// Confirms unless nothing has changed.
    pub(crate) fn confirm(&self, state: &mut State<I>) {
        // Planted: the confirmation gives up what it no longer reaches before it is durable.
        planted(105).then(|| self.settle(state));
        self.free_what_left(state);
        // Planted: timestamps that moved without a change are not confirmed.
        if !state.is_dirty || planted(104) && state.changes == 0 {
            return;
        }
        let _span = trace::span("map_confirm");
        let region = &self.records.region;
        let record = state.root_record();
        let slot = RootRecord::slot_at(record.number);
        region.write(slot, bytes_of(&record.encode(self.records.salt)));
        state.pages.batch.add(slot, crate::format::ROOT_RECORD_BYTES);
        // Planted: the root word is stored before what it names is fenced.
        planted(100).then(|| region.store(ROOT_WORD_AT, root_word(record.number, self.records.salt)));
        state.pages.batch.flush(region);
        region.fence();
        region.store(ROOT_WORD_AT, root_word(record.number, self.records.salt));
        region.persist(ROOT_WORD_AT, 8);
        // Planted: the next confirmation has the same number.
        state.pages.number = record.number + u64::from(!planted(102));
        state.times.confirmed = record.last;
        (state.changes, state.is_dirty) = (0, false);
        self.settle(state);
    }

    /// After a confirmation: ends the objects that it no longer reaches.
    fn settle(&self, state: &mut State<I>) {
        for record in state.cut.drain(..) {
            state.pages.cut(record);
        }
        for record in state.dead.drain(..) {
            if I::KIND == Kind::BTree {
                state.pages.end(record);
            } else if state.pages.died(record) && self.records.is_deletion(record) {
                state.dead_deletions.push(record.offset());
            }
        }
        state.store.confirmed(&mut state.pages, &self.pins);
        state.pages.set_aside(|| self.pins.advance());
    }

    /// Frees the pages that earlier confirmations set aside. The next confirmation makes their words durable. Returns
    /// the bytes freed.
    pub(crate) fn free_what_left(&self, state: &mut State<I>) -> u64 {
        let mut freed = 0;
        // Planted: a snapshot does not hold off the freeing of pages.
        if state.pages.has_leaving() && (state.snapshots == 0 || planted(109)) {
            freed = state.pages.free_leaving(self.pins.oldest());
            state.is_dirty |= freed > 0;
        }
        state.store.recycle(&mut state.pages, &self.pins, state.snapshots);
        freed
    }

    /// Counts a change, and confirms when the batch is full.
    #[inline]
    pub(crate) fn changed(&self, state: &mut State<I>) {
        state.changes += 1;
        state.is_dirty = true;
        // Planted: a change is reported durable when it is made.
        planted(106).then(|| state.times.confirmed = state.times.last);
        // Planted: a batch closes one change late.
        if state.changes >= self.config.changes_max + u32::from(planted(103)) {
            self.confirm(state);
        } else {
            state.store.recycle(&mut state.pages, &self.pins, state.snapshots);
        }
        self.stir();
    }

    /// Frees what has ended, which needs no object moved.
    pub(crate) fn make_room(&self, state: &mut State<I>) {
        state.is_dirty = true;
        self.confirm(state);
        self.free_what_left(state);
    }
}

impl<I: Index> State<I> {
    fn root_record(&self) -> RootRecord {
        RootRecord {
            number: self.pages.number,
            root: I::Store::saved(self.root),
            head: self.head,
            last: self.times.last,
            applied: self.times.applied,
            forgotten: self.times.forgotten,
            pending: self.pending.len(),
            versions: self.versions,
            live: self.pages.live_bytes(),
        }
    }
}
