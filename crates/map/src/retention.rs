//! Apply, roll back, forget: how long changes and old versions are kept.
//!
//! A rollback walks the rollback records from the newest, and puts back what each had taken the
//! place of. Forgetting walks them from the oldest: what a forgotten change took the place of is
//! dead. It leaves the index alone, and needs no room. Every step leaves a consistent state. No
//! step needs to be durable by itself; the next persist makes them so.

use crate::config::Kind;
use crate::error::{ErrorKind, Result};
use crate::format::Ref;
use crate::index::Index;
use crate::ordered_map::Mutation;
use crate::pages::Urgency;
use crate::pending::Change;
use crate::state::{Core, State, Tagged};
use crate::timestamps::Ts;
use perdura_pmem::planted;
use rustc_hash::FxHashSet;

/// Changes forgotten in one step under the writer's lock, besides those of the same timestamp.
const STEP_CHANGES: usize = 256;
/// Dead records for which a step persists, so that the persist has not too many to settle.
pub(crate) const DEAD_MAX: usize = 1024;
/// Deletions swept in one step under the writer's lock.
const STEP_SWEEPS: usize = 16;
/// Forgotten deletions beyond which a map without a background thread sweeps some at each change
/// that it forgets.
const TO_SWEEP_MAX: usize = 1 << 16;
/// Deletions looked at in one step; most may have been swept with others of their leaves.
const STEP_LOOKS: usize = 256;

impl<I: Index> Core<I> {
    pub(crate) fn apply(&self, ts: Ts) -> Result<()> {
        let mut state = self.state.lock();
        self.check_revisable(&state)?;
        if ts > state.times.last {
            let what = format!("timestamp {ts} cannot be applied: the newest change is at {}", state.times.last);
            return Err(self.error(ErrorKind::Timestamp, what));
        }
        if ts > state.times.applied {
            state.times.applied = ts;
            state.is_dirty = true;
            self.keep_for_rollback(&mut state, 0);
            self.stir();
        }
        Ok(())
    }

    pub(crate) fn rollback(&self, from: Ts) -> Result<()> {
        let mut state = self.state.lock();
        self.check_revisable(&state)?;
        if from <= state.times.applied {
            let what = format!("no rollback from {from}: changes up to {} are applied", state.times.applied);
            return Err(self.error(ErrorKind::Timestamp, what));
        }
        self.read_pending(&mut state)?;
        if from > state.times.last {
            return Ok(());
        }
        let count = state.pending.since(from).count();
        let head = match state.pending.since(from).next() {
            Some(oldest) => self.records.next(oldest.record.offset())?,
            None => state.head,
        };
        self.take_back(&mut state, count, head)?;
        // Planted: a rollback leaves the newest timestamp one too high.
        self.set_last(&mut state, from - u64::from(!planted(129)));
        self.keep_for_rollback(&mut state, 0);
        self.stir();
        Ok(())
    }

    /// Lowers [`crate::Timestamps::last`] to `last`. What comes there next is not durable yet.
    fn set_last(&self, state: &mut State<I>, last: Ts) {
        state.times.last = state.times.last.min(last);
        state.not_durable_from(state.times.last + 1);
        state.is_dirty = true;
    }

    /// Takes back the newest `count` changes, before which the chain had the head `head`: puts back
    /// the versions that they took the place of, and takes their records off the chain. Room is
    /// kept for it.
    pub(crate) fn take_back(&self, state: &mut State<I>, count: usize, head: u64) -> Result<()> {
        for newer in 0..count {
            let change = state.pending.newest_but(newer).copied();
            if let Some(change) = change.filter(|change| !change.tag)
                && let Err(error) = self.put_back(state, &change)
            {
                self.index.abort(&mut state.writer, &mut state.pages);
                return Err(error);
            }
        }
        self.index.publish(&mut state.writer);
        self.drop_newest(state, count, head);
        Ok(())
    }

    /// Makes the index name the version before a change, which is the newest of its key.
    fn put_back(&self, state: &mut State<I>, change: &Change) -> Result<()> {
        let key = self.records.get(change.record)?.key;
        let (place, found) = self.index.locate(&state.writer, key)?;
        if found.is_none_or(|(record, _)| record != change.record) {
            let what = "the index does not name the newest record of a key";
            return Err(self.records.damaged(change.record.offset(), what));
        }
        let before = (!change.before.is_none()).then_some(change.before);
        self.index.put(&mut state.editing(Urgency::Rollback), &place, key, before)
    }

    /// Takes the records of the newest `count` changes, which the index does not name any more, off
    /// the chain.
    pub(crate) fn drop_newest(&self, state: &mut State<I>, count: usize, head: u64) {
        for _ in 0..count {
            let Some(change) = state.pending.pop_newest() else { break };
            if !change.tag {
                state.versions = state.versions.saturating_sub(u64::from(!change.replaces));
            }
            if change.before.is_deletion() {
                state.to_sweep.push(change.before);
            }
            state.cut.push(change.record);
        }
        // Planted: records that are rolled back stay linked.
        state.head = if planted(128) { state.head } else { head };
        state.is_dirty = true;
        self.recycle(state);
    }

    pub(crate) fn forget(&self, up_to: Ts) -> Result<()> {
        loop {
            let mut state = self.state.lock();
            self.check_revisable(&state)?;
            if up_to > state.times.applied {
                let what = format!("timestamp {up_to} cannot be forgotten: only {} is applied", state.times.applied);
                return Err(self.error(ErrorKind::Timestamp, what));
            }
            state.forget_to = state.forget_to.max(up_to);
            if up_to <= state.times.forgotten {
                return Ok(());
            }
            self.read_pending(&mut state)?;
            if !self.forget_some(&mut state) {
                return Ok(());
            }
            if state.dead.len() > DEAD_MAX {
                self.persist(&mut state);
            }
        }
    }

    /// Goes on with forgetting that a view had held.
    pub(crate) fn forget_rest(&self) -> Result<()> {
        let up_to = {
            let state = self.state.lock();
            if state.forget_to <= state.times.forgotten || state.is_loading {
                return Ok(());
            }
            state.forget_to
        };
        self.forget(up_to)
    }

    /// Forgets the oldest changes up to [`State::forget_to`], those of a timestamp together, so
    /// that at every persist the pending changes are those above `forgotten`. Returns whether
    /// there is more to do now.
    pub(crate) fn forget_some(&self, state: &mut State<I>) -> bool {
        let up_to = state.forget_to;
        let step = state.pending.at(STEP_CHANGES).map_or(up_to, |change| up_to.min(change.ts));
        // The mark rises before versions go that a read below it would see. Planted: only after.
        let is_late = planted(132);
        let up_to = if is_late { step } else { self.views.raise(step) };
        let may_go_on = up_to < step && self.views.is_out_of_the_way(state.forget_to);
        if up_to <= state.times.forgotten && state.pending.oldest().is_none_or(|change| change.ts > up_to) {
            return may_go_on;
        }
        while let Some(change) = state.pending.oldest().copied()
            && change.ts <= up_to
        {
            self.forget_one(state, &change);
            state.pending.pop_oldest();
        }
        is_late.then(|| self.views.raise(up_to));
        state.times.forgotten = state.times.forgotten.max(up_to);
        state.is_dirty = true;
        self.stir();
        if !self.config.background && state.to_sweep.len() > TO_SWEEP_MAX {
            // Nobody else may ever do it. What is damaged tells those who read it.
            _ = self.sweep_some(state);
        }
        may_go_on || up_to == step && step < state.forget_to
    }

    fn forget_one(&self, state: &mut State<I>, change: &Change) {
        if change.tag {
            let tag = self.records.get(change.record).map_or(&[][..], |record| record.value).to_vec();
            state.forgotten_tag = Tagged { ts: change.ts, tag };
            state.dead.push(change.record);
            return;
        }
        if !change.before.is_none() {
            state.dead.push(change.before);
            match (change.replaces, change.before.is_deletion()) {
                (false, false) => state.versions = state.versions.saturating_sub(1),
                // It was taken for a version that ends with its own forgetting.
                (true, true) => state.versions += 1,
                _ => {}
            }
        }
        // Planted: forgetting drops the newest version.
        if planted(130) {
            state.dead.push(change.record);
        }
        if change.record.is_deletion() {
            state.versions = state.versions.saturating_sub(1);
            state.to_sweep.push(change.record);
        }
    }

    /// Takes forgotten deletions out of the index, a leaf at a time. Without room for that they
    /// stay.
    pub(crate) fn sweep(&self) -> Result<()> {
        while self.sweep_some(&mut self.state.lock_behind())? && !self.leaves_rounds_out() {}
        Ok(())
    }

    /// One step of [`Core::sweep`]. Returns whether there may be more to do.
    fn sweep_some(&self, state: &mut State<I>) -> Result<bool> {
        if state.is_loading {
            return Ok(false);
        }
        let (mut looks, mut swept) = (0, 0);
        let mut goes_on = true;
        while goes_on && looks < STEP_LOOKS && swept < STEP_SWEEPS {
            let Some(deletion) = state.to_sweep.pop() else { return Ok(false) };
            looks += 1;
            match self.sweep_one(state, deletion) {
                Ok(has_swept) => swept += usize::from(has_swept),
                Err(error) if error.kind() == ErrorKind::Full => {
                    state.to_sweep.push(deletion);
                    goes_on = false;
                }
                Err(error) => return Err(error),
            }
        }
        // A tree has made nodes that the persist flushes.
        if state.dead.len() > DEAD_MAX || I::KIND == Kind::BTree && !state.dead.is_empty() {
            self.persist(state);
        }
        Ok(goes_on)
    }

    /// Sweeps the leaf of a deletion, unless that was done. Returns whether it was there.
    fn sweep_one(&self, state: &mut State<I>, deletion: Ref) -> Result<bool> {
        let at = deletion.offset();
        // What was swept with others of its leaf may be gone, and something else in its place.
        let is_there = state.pages.live.is_set(at) || state.pages.is_unknown(at);
        if !is_there || state.pages.holds_nodes(state.pages.geometry.page_of(at)) {
            return Ok(false);
        }
        let (_, found) = self.records.at(at)?;
        let before = state.dead.len();
        if let Err(error) = self.index.sweep(&mut state.editing(Urgency::Upkeep), found.key) {
            self.index.abort(&mut state.writer, &mut state.pages);
            return Err(error);
        }
        self.index.publish(&mut state.writer);
        state.is_dirty |= state.dead.len() > before;
        self.recycle(state);
        Ok(true)
    }

    /// Reads the rollback records from before the last restart, unless that has been done.
    #[inline]
    pub(crate) fn read_pending(&self, state: &mut State<I>) -> Result<()> {
        if state.pending.is_read() {
            return Ok(());
        }
        state.pending.read(&self.records, state.times.forgotten)
    }

    pub(crate) fn mutations(&self, from: Ts, each: &mut dyn FnMut(Mutation<'_>) -> bool) -> Result<()> {
        // The pin keeps the records in place while the caller reads them without the lock.
        let _pin = self.pins.pin();
        let changes: Vec<Change> = {
            let mut state = self.state.lock();
            self.read_pending(&mut state)?;
            state.pending.since(from).copied().collect()
        };
        // Planted: changes count that others at the same timestamp have replaced.
        let replaced: FxHashSet<Ref> =
            changes.iter().filter(|change| change.replaces && !planted(133)).map(|change| change.before).collect();
        for change in changes.iter().filter(|change| !replaced.contains(&change.record)) {
            let record = self.records.get(change.record)?;
            let mutation = if change.tag {
                Mutation { ts: change.ts, key: &[], value: None, tag: Some(record.value) }
            } else {
                let value = (!change.record.is_deletion()).then_some(record.value);
                Mutation { ts: change.ts, key: record.key, value, tag: None }
            };
            if !each(mutation) {
                break;
            }
        }
        Ok(())
    }
}
