//! Apply, roll back, forget: how long changes and old versions are kept.
//!
//! A rollback walks the rollback records from the newest, and puts back what each had taken the
//! place of. Forgetting walks them from the oldest: a version whose place a forgotten change took
//! is dead. It leaves the index alone, and needs no room. Every step leaves a consistent state. No
//! step needs to be durable by itself; the next persist makes them so.

use crate::config::Kind;
use crate::error::{ErrorKind, Result};
use crate::index::Index;
use crate::memory::format::Ref;
use crate::memory::pages::Urgency;
use crate::state::State;
use crate::state::pending::Change;
use crate::state::shared::Shared;
use crate::timestamps::Ts;
use perdura_pmem::planted;

/// Deletions swept in one step under the writer's lock.
const STEP_SWEEPS: usize = 16;
/// Forgotten deletions beyond which a map without a background thread sweeps some at each change
/// that it forgets.
const TO_SWEEP_MAX: usize = 1 << 16;
/// Deletions looked at in one step; most may have been swept with others of their leaves.
const STEP_LOOKS: usize = 256;

impl<I: Index> State<I> {
    pub(crate) fn apply(&mut self, shared: &Shared<I>, ts: Ts) -> Result<()> {
        self.check_revisable(shared)?;
        if self.history.apply(&shared.records, ts)? {
            self.unpersisted.note();
            self.keep_for_rollback(shared, 0);
            shared.wake.stir();
        }
        Ok(())
    }

    pub(crate) fn rollback(&mut self, shared: &Shared<I>, from: Ts) -> Result<()> {
        self.check_revisable(shared)?;
        let (count, head) = self.history.before(&shared.records, from)?;
        if from > self.history.times().last {
            return Ok(());
        }
        self.take_back(shared, count, head)?;
        // Planted: a rollback leaves the newest timestamp one too high.
        self.history.lower_last(from - u64::from(!planted(129)));
        self.unpersisted.note();
        self.keep_for_rollback(shared, 0);
        shared.wake.stir();
        Ok(())
    }

    /// Takes back the newest `count` changes, before which the chain had the head `head`: puts back
    /// the versions that they took the place of, and takes their records off the chain. Room is
    /// kept for it.
    pub(crate) fn take_back(&mut self, shared: &Shared<I>, count: usize, head: u64) -> Result<()> {
        for newer in 0..count {
            let change = self.history.newest_but(newer);
            if let Some(change) = change.filter(|change| !change.tag)
                && let Err(error) = self.put_back(shared, &change)
            {
                self.abort(shared);
                return Err(error);
            }
        }
        shared.index.publish(&mut self.writer);
        self.drop_newest(shared, count, head);
        Ok(())
    }

    /// Makes the index name the version before a change, which is the newest of its key.
    fn put_back(&mut self, shared: &Shared<I>, change: &Change) -> Result<()> {
        let key = shared.records.get(change.record)?.key;
        let (place, found) = shared.index.locate(&self.writer, key)?;
        if found.is_none_or(|(record, _)| record != change.record) {
            let what = "the index does not name the newest record of a key";
            return Err(shared.records.damaged(change.record.offset(), what));
        }
        let before = (!change.before.is_none()).then_some(change.before);
        shared.index.put(&mut self.editing(Urgency::Rollback), &place, key, before)
    }

    /// Takes the records of the newest `count` changes, which the index does not name any more, off
    /// the chain.
    pub(crate) fn drop_newest(&mut self, shared: &Shared<I>, count: usize, head: u64) {
        self.history.drop_newest(count, head, &mut self.ended);
        self.unpersisted.note();
        self.recycle(shared);
    }

    /// Forgets the oldest changes up to where callers have asked to, those of a timestamp together,
    /// so that at every persist the pending changes are those above `forgotten`. Returns whether
    /// there is more to do now.
    pub(crate) fn forget_some(&mut self, shared: &Shared<I>) -> bool {
        let (forget_to, step) = (self.history.forget_to(), self.history.forget_step());
        // The mark rises before versions go that a read below it would see. Planted: only after.
        let is_late = planted(132);
        let up_to = if is_late { step } else { shared.views.raise(step) };
        let may_go_on = up_to < step && shared.views.is_out_of_the_way(forget_to);
        if self.history.is_forgotten(up_to) {
            return may_go_on;
        }
        self.history.forget(&shared.records, up_to, &mut self.ended);
        is_late.then(|| shared.views.raise(up_to));
        self.unpersisted.note();
        shared.wake.stir();
        if !shared.config.background && self.ended.to_sweep() > TO_SWEEP_MAX {
            // Nobody else may ever do it. Damage shows to its readers.
            _ = self.sweep_some(shared);
        }
        may_go_on || up_to == step && step < forget_to
    }

    /// Takes forgotten deletions out of the index, a leaf at a time. Without room for that they
    /// stay. Returns whether there may be more to do.
    pub(crate) fn sweep_some(&mut self, shared: &Shared<I>) -> Result<bool> {
        if self.holds.is_loading() {
            return Ok(false);
        }
        let (mut looks, mut swept) = (0, 0);
        let mut goes_on = true;
        while goes_on && looks < STEP_LOOKS && swept < STEP_SWEEPS {
            let Some(deletion) = self.ended.next_to_sweep() else { return Ok(false) };
            looks += 1;
            match self.sweep_one(shared, deletion) {
                Ok(has_swept) => swept += usize::from(has_swept),
                Err(error) if error.kind() == ErrorKind::Full => {
                    self.ended.sweep_later(deletion);
                    goes_on = false;
                }
                Err(error) => return Err(error),
            }
        }
        // A tree has made nodes that the persist flushes.
        if self.ended.are_many() || I::KIND == Kind::BTree && self.ended.len() > 0 {
            self.persist(shared);
        }
        Ok(goes_on)
    }

    /// Sweeps the leaf of a deletion, unless that was done. Returns whether it was there.
    fn sweep_one(&mut self, shared: &Shared<I>, deletion: Ref) -> Result<bool> {
        let at = deletion.offset();
        // A deletion swept with others of its leaf may be gone, and something else in its place.
        let is_there = self.pages.live.is_set(at) || self.pages.is_unknown(at);
        if !is_there || self.pages.holds_nodes(self.pages.geometry.page_of(at)) {
            return Ok(false);
        }
        let (_, found) = shared.records.at(at)?;
        let before = self.ended.len();
        if let Err(error) = shared.index.sweep(&mut self.editing(Urgency::Upkeep), found.key) {
            self.abort(shared);
            return Err(error);
        }
        shared.index.publish(&mut self.writer);
        self.unpersisted.note_if(self.ended.len() > before);
        self.recycle(shared);
        Ok(true)
    }
}
