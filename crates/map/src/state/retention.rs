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
use crate::state::history::History;
use crate::state::pending::Change;
use crate::state::shared::Shared;
use crate::timestamps::{Timestamps, Ts};
use perdura_pmem::{Mutant, planted};

/// Changes forgotten in one step under the writer's lock, besides those of the same timestamp.
const STEP_CHANGES: usize = 256;
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
        let Timestamps { last, applied, .. } = self.history.times;
        if ts > last {
            let what = format!("timestamp {ts} cannot be applied: the newest change is at {last}");
            return Err(shared.records.error(ErrorKind::Timestamp, what));
        }
        if ts > applied {
            self.history.times.applied = ts;
            self.is_dirty = true;
            self.keep_for_rollback(shared, 0);
            shared.wake.stir();
        }
        Ok(())
    }

    pub(crate) fn rollback(&mut self, shared: &Shared<I>, from: Ts) -> Result<()> {
        self.check_revisable(shared)?;
        let Timestamps { last, applied, .. } = self.history.times;
        if from <= applied {
            let what = format!("no rollback from {from}: changes up to {applied} are applied");
            return Err(shared.records.error(ErrorKind::Timestamp, what));
        }
        self.history.read(&shared.records)?;
        if from > last {
            return Ok(());
        }
        let History { pending, head, .. } = &self.history;
        let count = pending.since(from).count();
        let head = match pending.since(from).next() {
            Some(oldest) => shared.records.next(oldest.record.offset())?,
            None => *head,
        };
        self.take_back(shared, count, head)?;
        // The change that comes next is not durable yet. Planted: a rollback leaves the newest
        // timestamp one too high.
        let last = last.min(from - u64::from(!planted(Mutant::RollbackOneTooHigh)));
        self.history.times.last = last;
        self.history.not_durable_from(last + 1);
        self.is_dirty = true;
        self.keep_for_rollback(shared, 0);
        shared.wake.stir();
        Ok(())
    }

    /// Takes back the newest `count` changes, before which the chain had the head `head`: puts back
    /// the versions that they took the place of, and takes their records off the chain. Room is
    /// kept for it.
    pub(super) fn take_back(&mut self, shared: &Shared<I>, count: usize, head: u64) -> Result<()> {
        for newer in 0..count {
            let change = self.history.pending.newest_but(newer).copied();
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
    pub(super) fn drop_newest(&mut self, shared: &Shared<I>, count: usize, head: u64) {
        self.history.drop_newest(count, head, &mut self.ended);
        self.is_dirty = true;
        self.recycle(shared);
    }

    /// Whether there is something to forget that views do not hold any more.
    pub(crate) fn wants_forget(&self, shared: &Shared<I>) -> bool {
        let up_to = self.history.forget_to.min(shared.views.oldest());
        up_to > self.history.times.forgotten && self.check_revisable(shared).is_ok()
    }

    /// Timestamp up to which callers have asked to forget, if that is not done.
    pub(crate) fn rest_to_forget(&self) -> Option<Ts> {
        let History { forget_to, times, .. } = self.history;
        (forget_to > times.forgotten && !self.holds.is_loading()).then_some(forget_to)
    }

    /// Forgets up to a timestamp, in as many steps as it needs. Returns whether there is more to do
    /// now.
    pub(crate) fn forget(&mut self, shared: &Shared<I>, up_to: Ts) -> Result<bool> {
        self.check_revisable(shared)?;
        let Timestamps { applied, forgotten, .. } = self.history.times;
        if up_to > applied {
            let what = format!("timestamp {up_to} cannot be forgotten: only {applied} is applied");
            return Err(shared.records.error(ErrorKind::Timestamp, what));
        }
        self.history.forget_to = self.history.forget_to.max(up_to);
        if up_to <= forgotten {
            return Ok(false);
        }
        self.history.read(&shared.records)?;
        let has_more = self.forget_some(shared);
        if has_more && self.ended.are_many() {
            self.persist(shared);
        }
        Ok(has_more)
    }

    /// Forgets the oldest changes up to where callers have asked to, those of a timestamp together,
    /// so that at every persist the pending changes are those above `forgotten`. Returns whether
    /// there is more to do now.
    pub(super) fn forget_some(&mut self, shared: &Shared<I>) -> bool {
        let History { forget_to, times, ref pending, .. } = self.history;
        let step = pending.at(STEP_CHANGES).map_or(forget_to, |change| forget_to.min(change.ts));
        // The mark rises before versions go that a read below it would see. Planted: only after.
        let is_late = planted(Mutant::ForgottenPublishedLate);
        let up_to = if is_late { step } else { shared.views.raise(step) };
        let may_go_on = up_to < step && shared.views.is_out_of_the_way(forget_to);
        if up_to <= times.forgotten && pending.oldest().is_none_or(|change| change.ts > up_to) {
            return may_go_on;
        }
        self.history.forget(&shared.records, up_to, &mut self.ended);
        is_late.then(|| shared.views.raise(up_to));
        self.is_dirty = true;
        shared.wake.stir();
        if !shared.config.background && self.ended.to_sweep.len() > TO_SWEEP_MAX {
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
            let Some(deletion) = self.ended.to_sweep.pop() else { return Ok(false) };
            looks += 1;
            match self.sweep_one(shared, deletion) {
                Ok(has_swept) => swept += usize::from(has_swept),
                Err(error) if error.kind() == ErrorKind::Full => {
                    self.ended.to_sweep.push(deletion);
                    goes_on = false;
                }
                Err(error) => return Err(error),
            }
        }
        // A tree has made nodes that the persist flushes.
        if self.ended.are_many() || I::KIND == Kind::BTree && !self.ended.dead.is_empty() {
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
        let before = self.ended.dead.len();
        if let Err(error) = shared.index.sweep(&mut self.editing(Urgency::Upkeep), found.key) {
            self.abort(shared);
            return Err(error);
        }
        shared.index.publish(&mut self.writer);
        self.is_dirty |= self.ended.dead.len() > before;
        self.recycle(shared);
        Ok(true)
    }
}
