//! Apply, roll back, forget: how long changes and old versions are kept.
//!
//! A rollback walks the rollback records from the newest, forgetting walks them from the oldest. Every step leaves a
//! consistent state. No step needs to be durable by itself; the next confirmation makes them so.

use crate::config::Kind;
use crate::error::{ErrorKind, Result};
use crate::format::Ref;
use crate::index::{Index, Store};
use crate::ordered_map::Mutation;
use crate::pages::Urgency;
use crate::pending::Change;
use crate::record::Target;
use crate::state::{Core, State};
use crate::timestamps::Ts;
use crate::tree::{self, Edit};
use perdura_pmem::planted;
use smallvec::SmallVec;

/// Changes forgotten by one edit, which copies the nodes they share once.
const CHANGES_AT_ONCE: usize = 16;

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
            self.stir();
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
            while let Some(ts) = state.pending.newest().map(|change| change.ts)
                && ts >= from
            {
                self.take_back(state, ts)?;
                state.times.last = ts - 1;
                state.is_dirty = true;
            }
            // Planted: a rollback leaves the newest timestamp one too high.
            state.times.last = state.times.last.min(from - u64::from(!planted(129)));
            state.is_dirty = true;
            self.stir();
            Ok(())
        })
    }

    /// Runs `run`, which removes rollback records one by one. When it runs out of room, runs it again as long as it
    /// makes progress: what it has removed becomes room once confirmed.
    fn by_steps(&self, run: impl Fn(&mut State<I>) -> Result<()>) -> Result<()> {
        loop {
            let before = self.state.lock().pending.len();
            match self.with_room(&run) {
                Err(error) if error.kind() == ErrorKind::Full && self.state.lock().pending.len() < before => {}
                other => return other,
            }
        }
    }

    /// Takes back the newest changes, those of timestamp `ts`, by one edit: drops their versions from the index and
    /// their records from the head of the chain.
    fn take_back(&self, state: &mut State<I>, ts: Ts) -> Result<()> {
        let group: Vec<Change> = state.pending.newest_first().take_while(|change| change.ts == ts).copied().collect();
        let Some(oldest) = group.last() else { return Ok(()) };
        let next = self.records.next(oldest.record.offset())?;
        let entries: Vec<Ref> =
            group.iter().map(|change| change.record).filter(|record| !state.orphans.contains(record)).collect();
        let (removed, edit) = self.edit(state, Urgency::Freeing, |nodes, root, edit| {
            edit.root = root;
            let mut removed = 0;
            for record in entries {
                let (root, target) = (edit.root, Target::new(self.records.get(record)?.key, ts));
                removed += u64::from(tree::remove(nodes, &self.records, root, &target, record, edit)?);
            }
            Ok(removed)
        })?;
        self.complete(state, edit);
        state.versions = state.versions.saturating_sub(removed);
        state.store.recycle(&mut state.pages, &self.pins, state.snapshots);
        for change in group {
            state.orphans.remove(&change.record);
            if I::KIND == Kind::List {
                state.cut.push(change.record);
            } else {
                state.dead.push(change.record);
            }
            state.pending.pop_newest();
        }
        // Planted: records that are rolled back stay linked.
        state.head = if planted(128) { state.head } else { next };
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
        // The mark rises before a root without those versions is published. (Planted: only after.)
        if !planted(132) {
            self.publish_forgotten(state.times.forgotten.max(up_to));
        }
        let mut at_once = CHANGES_AT_ONCE;
        loop {
            match self.forget_some(state, up_to, at_once) {
                Ok(true) => {}
                Ok(false) => break,
                // One edit of many changes takes more room than as many edits of one.
                Err(error) if error.kind() == ErrorKind::Full && at_once > 1 => at_once = 1,
                Err(error) => return Err(error),
            }
        }
        state.times.forgotten = state.times.forgotten.max(up_to);
        state.is_dirty = true;
        self.stir();
        Ok(())
    }

    /// Forgets the oldest changes up to a timestamp, about `at_once` of them, by one edit. Returns whether there were
    /// any. Changes of one timestamp go together, so that at every confirmation the pending changes are those above
    /// `forgotten`.
    fn forget_some(&self, state: &mut State<I>, up_to: Ts, at_once: usize) -> Result<bool> {
        let is_orphan = |change: &Change| !state.orphans.is_empty() && state.orphans.contains(&change.record);
        let mut due: SmallVec<[(Change, bool); CHANGES_AT_ONCE]> = SmallVec::new();
        for change in state.pending.oldest_first().take_while(|change| change.ts <= up_to) {
            if due.len() >= at_once && due.last().is_some_and(|(last, _)| last.ts < change.ts) {
                break;
            }
            due.push((*change, is_orphan(change)));
        }
        if due.iter().any(|(change, _)| change.has_older || change.deletion) {
            let (removed, edit) = self.edit(state, Urgency::Freeing, |nodes, root, edit| {
                edit.root = root;
                let mut removed = Vec::new();
                for (change, is_orphan) in &due {
                    self.drop_versions(nodes, edit, change, *is_orphan, &mut removed)?;
                }
                Ok(removed)
            })?;
            if !removed.is_empty() {
                self.complete(state, edit);
                // The audit compares the count. A count that was wrong from the start must not stop this change.
                state.versions = state.versions.saturating_sub(removed.len() as u64);
                state.dead.extend(removed);
                state.store.recycle(&mut state.pages, &self.pins, state.snapshots);
            }
        }
        for (change, is_orphan) in &due {
            if *is_orphan {
                state.orphans.remove(&change.record);
                state.dead.push(change.record);
            }
            state.pending.pop_oldest();
            state.times.forgotten = state.times.forgotten.max(change.ts);
            state.is_dirty = true;
        }
        Ok(!due.is_empty())
    }

    /// Drops from the index the versions that a forgotten change supersedes, and the change itself if it is a deletion.
    fn drop_versions(
        &self,
        nodes: &mut <I::Store as Store>::Writer<'_>,
        edit: &mut Edit,
        change: &Change,
        is_orphan: bool,
        removed: &mut Vec<Ref>,
    ) -> Result<()> {
        if !change.has_older && !change.deletion {
            return Ok(());
        }
        let key = self.records.get(change.record)?.key;
        // An orphan is not in the index: the entry at its timestamp is that of the later change, and stays.
        // Planted: the newest version goes with those it supersedes; a deletion goes with what replaced it.
        let (mut ts, mut itself) = (change.ts, change.deletion && (!is_orphan || planted(131)) || planted(130));
        loop {
            let root = edit.root;
            let found = tree::remove_versions(nodes, &self.records, root, &Target::new(key, ts), itself, edit)?;
            removed.extend_from_slice(&found.records);
            if !found.goes_on {
                return Ok(());
            }
            // Older versions may be in the leaf before.
            let before = tree::find(nodes, &self.records, edit.root, &Target::new(key, ts - 1))?;
            let Some((before, _)) = before else { return Ok(()) };
            let before = self.records.get(before)?;
            if before.key != key {
                return Ok(());
            }
            (ts, itself) = (before.header.ts, true);
        }
    }

    /// Reads the rollback records from before the last restart, unless that has been done.
    pub(crate) fn read_pending(&self, state: &mut State<I>) -> Result<()> {
        if state.pending.is_read() {
            return Ok(());
        }
        let State { pending, orphans, root, .. } = state;
        pending.read(&self.records, |change| {
            let key = self.records.get(change.record)?.key;
            let found = tree::find(&self.reader, &self.records, *root, &Target::new(key, change.ts))?;
            // Planted: after a restart every change counts as a version.
            if found != Some((change.record, true)) && !planted(133) {
                orphans.insert(change.record);
            }
            Ok(())
        })
    }

    pub(crate) fn mutations(&self, from: Ts, each: &mut dyn FnMut(Mutation<'_>) -> bool) -> Result<()> {
        // The pin keeps the records in place while the caller reads them without the lock.
        let _pin = self.pins.pin();
        let changes: Vec<Change> = {
            let mut state = self.state.lock();
            self.read_pending(&mut state)?;
            let orphans = &state.orphans;
            // A change may be forgotten while its rollback record waits for room to be dropped.
            let from = from.max(state.times.forgotten.saturating_add(1));
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
