//! Changes: append a record and make the key's entry in the index name it. The next persist makes
//! it durable.
//!
//! A change that fails leaves the map as it was: nothing it made was published, and all of it is
//! given back.

use crate::changes::{Compared, KeyChange};
use crate::error::Result;
use crate::index::Index;
use crate::memory::append::New;
use crate::memory::format::Ref;
use crate::memory::pages::{Filling, Urgency};
use crate::state::State;
use crate::state::history::History;
use crate::state::pending::Change;
use crate::state::shared::Shared;
use crate::timestamps::Ts;
use perdura_pmem::{Mutant, planted};

impl<I: Index> State<I> {
    /// Gives a key a value, or deletes it. Returns whether that changed anything.
    pub(crate) fn set(&mut self, shared: &Shared<I>, ts: Ts, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        self.check_change(shared, ts)?;
        let changed = self.change(shared, (ts, None), key, value, |newest| value.is_some() || has_value(newest))?;
        if changed {
            self.changed(shared, 1);
        }
        Ok(changed)
    }

    pub(crate) fn compare_and_set(
        &mut self,
        shared: &Shared<I>,
        ts: Ts,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Compared> {
        self.check_change(shared, ts)?;
        let mut compared = Compared { matched: false, ts: 0 };
        let changed = self.change(shared, (ts, None), key, new, |newest| {
            let (value, found) = newest.unwrap_or((None, 0));
            compared = Compared { matched: value == expected, ts: found };
            // No value instead of no value is no change.
            compared.matched && (value.is_some() || new.is_some())
        })?;
        if changed {
            self.changed(shared, 1);
            compared.ts = ts;
        }
        Ok(compared)
    }

    /// Changes a key at the next timestamp, applies that and forgets what it replaces. Returns the
    /// timestamp, and whether the key was changed.
    pub(crate) fn put(&mut self, shared: &Shared<I>, key: &[u8], value: Option<&[u8]>) -> Result<(Ts, bool)> {
        let ts = self.history.times.last + 1;
        self.check_change(shared, ts)?;
        self.history.read(&shared.records)?;
        let changed = self.change(shared, (ts, None), key, value, |newest| value.is_some() || has_value(newest))?;
        if changed {
            self.apply_and_forget(shared, ts);
        }
        Ok((ts, changed))
    }

    /// Follows a change, before any persist covers it, so that no crash leaves the change
    /// unapplied.
    fn apply_and_forget(&mut self, shared: &Shared<I>, ts: Ts) {
        // Planted: the batch closes before the change is applied.
        planted(Mutant::BatchClosesBeforeApplication).then(|| self.persist(shared));
        self.history.times.applied = ts;
        self.history.forget_to = self.history.forget_to.max(ts);
        // A backlog that views have held so far goes on in steps, at later changes or in the
        // background.
        self.forget_some(shared);
        self.changed(shared, 1);
        if self.ended.are_many() {
            self.persist(shared);
        }
    }

    /// Several changes at one timestamp and their tag: all of them or, if there is no room for one,
    /// none.
    pub(crate) fn batch(&mut self, shared: &Shared<I>, ts: Ts, tag: &[u8], changes: &[KeyChange<'_>]) -> Result<()> {
        self.check_change(shared, ts)?;
        self.history.read(&shared.records)?;
        let History { head, times, ref pending, .. } = self.history;
        let (before, dead) = (pending.len(), self.ended.dead.len());
        let changed = self.change_all(shared, ts, tag, changes);
        let made = (self.history.pending.len() - before) as usize;
        if let Err(error) = changed {
            if self.abort(shared) {
                self.drop_newest(shared, made, head);
                // Forgotten deletions whose entries were taken over have them again.
                self.ended.dead.truncate(dead);
            } else {
                self.take_back(shared, made, head)?;
            }
            self.history.times = times;
            return Err(error);
        }
        self.changed(shared, u32::try_from(made).unwrap_or(u32::MAX));
        Ok(())
    }

    fn change_all(&mut self, shared: &Shared<I>, ts: Ts, tag: &[u8], changes: &[KeyChange<'_>]) -> Result<()> {
        // The first record that the batch makes bears its tag.
        let mut left = Some(tag);
        for KeyChange { key, value } in changes {
            let decide = |newest: Newest<'_>| value.is_some() || has_value(newest);
            if self.change(shared, (ts, left), key, *value, decide)? {
                left = None;
            }
            // Planted: a batch is persisted between its changes.
            planted(Mutant::BatchPersistedWithin).then(|| self.persist(shared));
        }
        if left.is_some() {
            let next = self.history.head;
            let new = New { ts, key: &[], value: left, tag: true, borne: None, next, older: 0 };
            let record = shared.records.append(&mut self.pages, Filling::Records, &new, Urgency::Ordinary)?;
            let before = Ref::NONE;
            self.history.add(Change { ts, record, before, replaces: false, tag: true, bears_tag: false });
        }
        Ok(())
    }

    #[inline]
    fn check_change(&self, shared: &Shared<I>, ts: Ts) -> Result<()> {
        self.check_writable(shared)?;
        self.history.check_change(&shared.records, ts)
    }

    /// Changes a key if `decide` agrees; it is given value and timestamp of the key's newest
    /// version, persisted or not, if there is one. The record bears the tag of its timestamp, if it
    /// is given one. Returns whether the key was changed. The change counts once the caller has
    /// called [`State::changed`].
    fn change(
        &mut self,
        shared: &Shared<I>,
        (ts, borne): (Ts, Option<&[u8]>),
        key: &[u8],
        value: Option<&[u8]>,
        decide: impl FnOnce(Newest<'_>) -> bool,
    ) -> Result<bool> {
        let urgency = if value.is_some() { Urgency::Ordinary } else { Urgency::Deletion };
        let (place, found) = shared.index.locate(&self.writer, key)?;
        let newest = found.map(|(record, found)| ((!record.is_deletion()).then_some(found.value), found.header.ts));
        if !decide(newest) {
            return Ok(false);
        }
        let (mut before, mut over) = (Ref::NONE, None);
        let replaces = newest.is_some_and(|(_, found)| found == ts);
        if let (Some((record, _)), Some((value, found))) = (found, newest) {
            // A forgotten deletion is no version: it only has not been swept.
            let is_over = value.is_none() && found <= self.history.times.forgotten;
            (before, over) = if is_over { (Ref::NONE, Some(record)) } else { (record, None) };
        }
        let new = New { ts, key, value, tag: false, borne, next: self.history.head, older: before.offset() };
        let record = shared.records.append(&mut self.pages, Filling::Records, &new, urgency)?;
        let put = shared.index.put(&mut self.editing(urgency), &place, key, Some(record));
        if let Err(error) = put {
            // Planted: a change that fails keeps its record's place.
            if !planted(Mutant::FailedChangeKeepsRoom) {
                self.pages.end(record);
            }
            return Err(error);
        }
        self.ended.dead.extend(over);
        // Planted: the record is freed although the chain runs through it.
        if replaces && planted(Mutant::ReplacedReleasedWhileLinked) {
            self.ended.dead.push(before);
        }
        self.history.add(Change { ts, record, before, replaces, tag: false, bears_tag: borne.is_some() });
        Ok(true)
    }

    /// Copies a live record elsewhere, links the copy to `next` and makes the index name it.
    /// Returns none if the record is no longer live or must stay: a record that may be rolled back,
    /// and one that is about to die, being no longer its key's newest.
    pub(crate) fn copy_record(&mut self, shared: &Shared<I>, object: Ref, next: u64) -> Result<Option<Ref>> {
        if !self.pages.live.is_set(object.offset()) {
            return Ok(None);
        }
        let _span = perdura_pmem::trace::span("map_copy");
        // The lock was released since the record was found, so something else may lie there now. A
        // reader reports damage.
        let Ok(found) = shared.records.get(object) else { return Ok(None) };
        let ts = found.header.ts;
        // Planted: records that may be rolled back are moved.
        if found.header.tag || ts > self.history.times.forgotten && !planted(Mutant::CollectorMovesRollbackRecord) {
            return Ok(None);
        }
        if found.header.deletion {
            // It is forgotten: sweeping ends it.
            self.ended.sweep_later(object);
            return Ok(None);
        }
        let (place, newest) = shared.index.locate(&self.writer, found.key)?;
        if newest.is_none_or(|(newest, _)| newest.offset() != object.offset()) {
            return Ok(None);
        }
        let new = New { ts, key: found.key, value: Some(found.value), tag: false, borne: None, next, older: 0 };
        let copy = shared.records.append(&mut self.pages, Filling::Moved, &new, Urgency::Upkeep)?;
        let put = shared.index.put(&mut self.editing(Urgency::Upkeep), &place, found.key, Some(copy));
        if let Err(error) = put {
            self.abort(shared);
            self.pages.end(copy);
            return Err(error);
        }
        self.ended.dead.push(object);
        self.moved(shared);
        Ok(Some(copy))
    }

    /// Counts an object that was moved.
    pub(crate) fn moved(&mut self, shared: &Shared<I>) {
        shared.index.publish(&mut self.writer);
        self.changes += 1;
        self.is_dirty = true;
        self.recycle(shared);
    }
}

/// Value and timestamp of a key's newest version, if there is one.
type Newest<'v> = Option<(Option<&'v [u8]>, Ts)>;

fn has_value(newest: Newest<'_>) -> bool {
    newest.is_some_and(|(value, _)| value.is_some())
}
