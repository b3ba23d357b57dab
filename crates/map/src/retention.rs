//! What is kept of the past: applied, rolled back, forgotten.
//!
//! Rolling back walks the rollback records from the newest, forgetting from the oldest. Each step leaves a whole state;
//! none is durable before the next confirmation, and none has to be.

use crate::config::Kind;
use crate::error::{ErrorKind, Result};
use crate::format::Ref;
use crate::index::{Index, Store};
use crate::ordered_map::{Mutation, Ts};
use crate::pages::Urgency;
use crate::pending::Change;
use crate::record::Target;
use crate::state::{Core, State};
use crate::tree;

impl<I: Index> Core<I> {
    pub(crate) fn apply(&self, ts: Ts) -> Result<()> {
        let mut state = self.state.lock();
        self.check_writable(&state)?;
        if ts > state.times.last {
            let what = format!("timestamp {ts} cannot be applied: the newest change is at {}", state.times.last);
            return Err(self.error(ErrorKind::Timestamp, what));
        }
        if ts > state.times.applied {
            state.times.applied = ts;
            state.is_dirty = true;
        }
        Ok(())
    }

    pub(crate) fn rollback(&self, from: Ts) -> Result<()> {
        self.with_room(|state| {
            self.check_writable(state)?;
            if from <= state.times.applied {
                let what = format!("no rollback from {from}: changes up to {} are applied", state.times.applied);
                return Err(self.error(ErrorKind::Timestamp, what));
            }
            self.read_pending(state)?;
            while let Some(change) = state.pending.newest().copied()
                && change.ts >= from
            {
                self.take_back(state, &change)?;
                state.times.last = change.ts;
            }
            state.times.last = state.times.last.min(from - 1);
            state.is_dirty = true;
            self.stir();
            Ok(())
        })
    }

    /// Takes the newest change back: its version out of the index, its record off the head.
    fn take_back(&self, state: &mut State<I>, change: &Change) -> Result<()> {
        let next = self.records.next(change.record.offset())?;
        if !state.orphans.remove(&change.record) {
            let found = self.records.get(change.record)?;
            self.take_out(state, &Target::new(found.key, change.ts), Some(change.record))?;
        }
        if I::KIND == Kind::List {
            state.cut.push(change.record);
        } else {
            state.dead.push(change.record);
        }
        state.head = next;
        state.pending.pop_newest();
        Ok(())
    }

    /// Takes a version out of the index; whether it was there.
    fn take_out(&self, state: &mut State<I>, target: &Target<'_>, expected: Option<Ref>) -> Result<Option<Ref>> {
        let (found, edit) = self.edit(state, Urgency::Reserve, |nodes, root, edit| {
            tree::remove(nodes, &self.records, root, target, expected, edit)
        })?;
        if found.is_some() {
            self.complete(state, &edit);
            state.versions -= 1;
            state.store.recycle(&mut state.pages, &self.pins, state.snapshots);
        }
        Ok(found)
    }

    pub(crate) fn forget(&self, up_to: Ts) -> Result<()> {
        self.with_room(|state| {
            self.check_writable(state)?;
            if up_to > state.times.applied {
                let what = format!("timestamp {up_to} cannot be forgotten: only {} is applied", state.times.applied);
                return Err(self.error(ErrorKind::Timestamp, what));
            }
            self.forget_up_to(state, up_to)
        })
    }

    pub(crate) fn forget_up_to(&self, state: &mut State<I>, up_to: Ts) -> Result<()> {
        if up_to <= state.times.forgotten && state.pending.oldest().is_none_or(|change| change.ts > up_to) {
            return Ok(());
        }
        self.read_pending(state)?;
        // Before a root that does without them is published.
        state.times.forgotten = state.times.forgotten.max(up_to);
        self.publish_forgotten(state.times.forgotten);
        state.is_dirty = true;
        while let Some(change) = state.pending.oldest().copied()
            && change.ts <= up_to
        {
            self.forget_change(state, &change)?;
            state.pending.pop_oldest();
        }
        self.stir();
        Ok(())
    }

    /// Drops what a forgotten change supersedes, and the change itself if it is a deletion or was changed again.
    fn forget_change(&self, state: &mut State<I>, change: &Change) -> Result<()> {
        if change.has_older || change.deletion {
            let key = self.records.get(change.record)?.key;
            while change.has_older
                && let Some(ts) = self.older_version(state, key, change.ts)?
                && let Some(older) = self.take_out(state, &Target::new(key, ts), None)?
            {
                state.dead.push(older);
            }
            if change.deletion
                && let Some(record) = self.take_out(state, &Target::new(key, change.ts), Some(change.record))?
            {
                state.dead.push(record);
            }
        }
        if state.orphans.remove(&change.record) {
            state.dead.push(change.record);
        }
        Ok(())
    }

    /// Timestamp of the newest version of `key` before `ts`.
    fn older_version(&self, state: &State<I>, key: &[u8], ts: Ts) -> Result<Option<Ts>> {
        let found = tree::find(&self.reader, &self.records, state.root, &Target::new(key, ts - 1))?;
        let Some((record, _)) = found else { return Ok(None) };
        let record = self.records.get(record)?;
        Ok((record.key == key).then_some(record.header.ts))
    }

    /// Reads the rollback records of before the last restart, if that has not been done.
    pub(crate) fn read_pending(&self, state: &mut State<I>) -> Result<()> {
        if state.pending.is_read() {
            return Ok(());
        }
        let State { pending, orphans, root, .. } = state;
        pending.read(&self.records, |change| {
            let key = self.records.get(change.record)?.key;
            let found = tree::find(&self.reader, &self.records, *root, &Target::new(key, change.ts))?;
            if found != Some((change.record, true)) {
                orphans.insert(change.record);
            }
            Ok(())
        })
    }

    pub(crate) fn mutations(&self, from: Ts, each: &mut dyn FnMut(Mutation<'_>) -> bool) -> Result<()> {
        // The pin keeps the records while the caller looks at them without the lock.
        let _pin = self.pins.pin();
        let changes: Vec<Change> = {
            let mut state = self.state.lock();
            self.read_pending(&mut state)?;
            let orphans = &state.orphans;
            state.pending.since(from).filter(|change| !orphans.contains(&change.record)).copied().collect()
        };
        for change in changes {
            let record = self.records.get(change.record)?;
            let value = (!change.deletion).then_some(record.value);
            if !each(Mutation { ts: change.ts, key: record.key, value }) {
                break;
            }
        }
        Ok(())
    }
}
