//! Persist: two fences make every change so far durable.
//!
//! The first fence covers everything the new root record reaches, the second the root word that
//! names the record (I3). Objects that the new state no longer reaches have then ended; their space
//! waits until no reader and no snapshot can see them (I8).

use crate::config::Kind;
use crate::format::{ROOT_RECORD_BYTES, ROOT_WORD_AT, RootRecord, bytes_of, root_word};
use crate::index::Index;
use crate::state::{Core, State};
use crate::timestamps::Ts;
use perdura_pmem::{LINE_BYTES, planted, trace};
use std::sync::atomic::Ordering;

/// Nodes that a rollback of one change makes, besides those of a path from the root.
const NODES_BESIDES: u64 = 1;

impl<I: Index> State<I> {
    /// Says that changes at `ts` and later are not all durable.
    #[inline]
    pub(crate) fn not_durable_from(&mut self, ts: Ts) {
        // Planted: what was persisted once counts as persisted, whatever came in its place.
        if self.times.persisted >= ts && !planted(152) {
            self.times.persisted = ts - 1;
        }
    }
}

impl<I: Index> Core<I> {
    /// Persists unless nothing has changed.
    pub(crate) fn persist(&self, state: &mut State<I>) {
        // Planted: the persist gives up what it no longer reaches before it is durable.
        planted(105).then(|| self.settle(state));
        self.free_what_left(state);
        // Planted: timestamps that moved without a change are not persisted.
        if !state.is_dirty || planted(104) && state.changes == 0 {
            return;
        }
        let _span = trace::span("map_persist");
        let region = &self.records.region;
        self.index.publish(&mut state.writer);
        if let Some(nodes) = I::nodes(&mut state.writer) {
            nodes.add_checksums(&mut state.pages);
        }
        let record = self.root_record(state);
        let slot = RootRecord::slot_at(record.number);
        let salt = self.records.salt;
        let blob = [&state.forgotten_tag.tag[..], &state.meta].concat();
        region.write(slot, bytes_of(&record.encode(&blob, salt)));
        region.write(slot + ROOT_RECORD_BYTES, &blob);
        state.pages.batch.add(slot, ROOT_RECORD_BYTES + blob.len() as u64);
        // Planted: the root word is stored before what it names is fenced.
        planted(100).then(|| region.store(ROOT_WORD_AT, root_word(record.number, salt)));
        state.pages.batch.flush(region);
        region.fence();
        region.store(ROOT_WORD_AT, root_word(record.number, salt));
        region.persist(ROOT_WORD_AT, 8);
        state.pages.persisted(record.number);
        state.times.persisted = record.last;
        (state.changes, state.is_dirty) = (0, false);
        self.settle(state);
        // A flushed line has left the cache; the next persist stores to these.
        let next = RootRecord::slot_at(record.number + 1);
        [ROOT_WORD_AT, next, next + LINE_BYTES].into_iter().for_each(|at| region.prefetch(at));
    }

    /// After a persist: ends the objects that it no longer reaches.
    fn settle(&self, state: &mut State<I>) {
        for record in state.cut.drain(..) {
            state.pages.end(record);
        }
        for record in state.dead.drain(..) {
            if I::KIND == Kind::BTree {
                state.pages.end(record);
            } else if state.pages.died(record) && record.is_deletion() {
                state.dead_deletions.push(record.offset());
            }
        }
        if let Some(nodes) = I::nodes(&mut state.writer) {
            nodes.persisted(&self.pins);
        }
        state.pages.set_aside(&self.pins);
        if state.holds.any() && state.holds.limit(state.garbage()) {
            // What an ended hold has kept waits for those who read under it when it ended.
            state.ending = Some(self.pins.advance());
        }
    }

    /// Frees the pages that earlier persists set aside, and reuses the places of nodes, some
    /// in each step. The next persist makes the pages' words durable. Returns whether there
    /// are more.
    pub(crate) fn free_what_left(&self, state: &mut State<I>) -> bool {
        let mut has_more = false;
        if state.ending.is_some_and(|epoch| self.pins.oldest() > epoch) {
            state.ending = None;
        }
        // Planted: a snapshot does not hold off the freeing of pages.
        if state.pages.has_leaving() && (!state.keeps_garbage() || planted(109)) {
            let freed;
            (freed, has_more) = state.pages.free_leaving(self.pins.oldest());
            state.is_dirty |= freed > 0;
        }
        let gives_up = self.give_up_some(state);
        self.recycle(state) || has_more || gives_up
    }

    /// Reuses the places of nodes that nobody can see any more, some in each step. Returns whether
    /// there are more.
    #[inline]
    pub(crate) fn recycle(&self, state: &mut State<I>) -> bool {
        let is_kept = state.keeps_garbage();
        I::recycle(&mut state.writer, &mut state.pages, &self.pins, is_kept)
    }

    /// Counts changes that were made, and persists when the batch is full.
    #[inline]
    pub(crate) fn changed(&self, state: &mut State<I>, count: u32) {
        state.changes = state.changes.saturating_add(count);
        state.is_dirty = true;
        self.index.publish(&mut state.writer);
        state.not_durable_from(state.times.last);
        // Planted: a change is reported durable when it is made.
        planted(106).then(|| state.times.persisted = state.times.last);
        // Planted: a batch closes one change late.
        if state.changes >= self.config.changes_max + u32::from(planted(103)) {
            self.persist(state);
        } else {
            self.recycle(state);
        }
        self.stir();
    }

    /// Keeps room for rolling back what is not applied, which is one edit: it makes each node anew
    /// at most once, and for each change no more than those of a path. `more` changes are about to
    /// be made, each of which may add two nodes.
    pub(crate) fn keep_for_rollback(&self, state: &mut State<I>, more: u64) {
        let Some(nodes) = I::nodes(&mut state.writer) else { return };
        let node_bytes = crate::format::node_bytes(1, self.layout.branching);
        let changes = state.pending.count_above(state.times.applied) + more;
        // The changes may add a level: more only if they add so many nodes that all these are
        // fewer.
        let levels = self.index.levels() + 1;
        let nodes = nodes.count + 2 * more + levels;
        let nodes = nodes.min(changes * (levels + NODES_BESIDES));
        state.pages.keep_for_rollback(nodes, node_bytes);
    }

    /// Frees what has ended, which needs no object moved: some of it in each step. Returns whether
    /// there is more.
    pub(crate) fn make_room(&self, state: &mut State<I>) -> bool {
        state.is_dirty = true;
        self.persist(state);
        self.free_what_left(state)
    }

    fn root_record(&self, state: &mut State<I>) -> RootRecord {
        RootRecord {
            number: state.pages.number(),
            root: self.index.root(),
            head: state.head,
            last: state.times.last,
            applied: state.times.applied,
            forgotten: state.times.forgotten,
            pending: state.pending.len(),
            versions: state.versions,
            live: state.pages.live_bytes(),
            tag_ts: state.forgotten_tag.ts,
            tag_bytes: state.forgotten_tag.tag.len() as u32,
            meta_bytes: state.meta.len() as u32,
            nodes: I::nodes(&mut state.writer).map_or(0, |nodes| nodes.count),
            is_partial: self.is_partial.load(Ordering::Relaxed),
        }
    }

    /// Where the chain's settled part begins: the offset of the newest record that is not pending.
    /// 0: there is none.
    pub(crate) fn settled_head(&self, state: &State<I>) -> crate::error::Result<u64> {
        match state.pending.oldest() {
            Some(oldest) => self.records.next(oldest.record.offset()),
            None => Ok(state.head),
        }
    }
}
