//! What is kept of the past: applied, rolled back, forgotten.
//!
//! Rolling back walks the rollback records from the newest, forgetting from the oldest. Each step leaves a whole state;
//! none is durable before the next confirmation, and none has to be.

use crate::config::Kind;
use crate::error::{ErrorKind, Result};
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
        self.by_steps(|state| {
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

    /// Runs what takes rollback records away one by one: if there is no room, again from where it stopped, as long as that
    /// gets on. What it has done makes room once it is confirmed.
    fn by_steps(&self, run: impl Fn(&mut State<I>) -> Result<()>) -> Result<()> {
        loop {
            let before = self.state.lock().pending.len();
            match self.with_room(&run) {
                Err(error) if error.kind() == ErrorKind::Full && self.state.lock().pending.len() < before => {}
                other => return other,
            }
        }
    }

    /// Takes the newest change back: its version out of the index, its record off the head.
    fn take_back(&self, state: &mut State<I>, change: &Change) -> Result<()> {
        let next = self.records.next(change.record.offset())?;
        if state.orphans.contains(&change.record) {
            state.orphans.remove(&change.record);
        } else {
            let target = Target::new(self.records.get(change.record)?.key, change.ts);
            let (was_there, edit) = self.edit(state, Urgency::Reserve, |nodes, root, edit| {
                tree::remove(nodes, &self.records, root, &target, change.record, edit)
            })?;
            if was_there {
                self.complete(state, &edit);
                state.versions -= 1;
                state.store.recycle(&mut state.pages, &self.pins, state.snapshots);
            }
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

    pub(crate) fn forget(&self, up_to: Ts) -> Result<()> {
        self.by_steps(|state| {
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
        let is_orphan = !state.orphans.is_empty() && state.orphans.contains(&change.record);
        if change.has_older || change.deletion {
            let key = self.records.get(change.record)?.key;
            // A deletion that was changed again at its timestamp is no version any more; what did that is.
            let mut itself = change.deletion && !is_orphan;
            let mut ts = change.ts;
            while self.drop_versions(state, &Target::new(key, ts), itself)?
                && let Some(older) = self.older_version(state, key, ts)?
            {
                (ts, itself) = (older, true);
            }
        }
        if is_orphan {
            state.orphans.remove(&change.record);
            state.dead.push(change.record);
        }
        Ok(())
    }

    /// Drops the versions of the target's key that are older than it, and its own if `itself`, as far as they are in one
    /// leaf; whether there may be more.
    fn drop_versions(&self, state: &mut State<I>, target: &Target<'_>, itself: bool) -> Result<bool> {
        let (removed, edit) = self.edit(state, Urgency::Reserve, |nodes, root, edit| {
            tree::remove_versions(nodes, &self.records, root, target, itself, edit)
        })?;
        if !removed.records.is_empty() {
            self.complete(state, &edit);
            state.versions -= removed.records.len() as u64;
            state.dead.extend_from_slice(&removed.records);
            state.store.recycle(&mut state.pages, &self.pins, state.snapshots);
        }
        Ok(removed.goes_on)
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
