//! Changes: append a record and make the key's entry in the index name it. The next persist
//! makes it durable.
//!
//! A change that fails leaves the map as it was: nothing it made was published, and all of it is
//! given back.

use crate::append::New;
use crate::config::{KEY_BYTES_MAX, META_BYTES_MAX, TAG_BYTES_MAX, VALUE_BYTES_MAX};
use crate::error::{ErrorKind, Result};
use crate::format::Ref;
use crate::ordered_map::{Compared, KeyChange};
use crate::pages::{Filling, Urgency};
use crate::pending::Change;
use crate::retention::DEAD_MAX;
use crate::state::{Core, State};
use crate::structure::Structure;
use crate::timestamps::Ts;
use perdura_pmem::planted;

impl<I: Structure> Core<I> {
    pub(crate) fn set(&self, ts: Ts, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_size(key, Some(value))?;
        self.with_room(1, |state| {
            self.check_change(state, ts)?;
            self.change(state, ts, key, Some(value), |_| true)?;
            self.changed(state, 1);
            Ok(())
        })
    }

    pub(crate) fn delete(&self, ts: Ts, key: &[u8]) -> Result<bool> {
        self.with_room(1, |state| {
            self.check_change(state, ts)?;
            let changed =
                self.change(state, ts, key, None, |newest| newest.is_some_and(|(value, _)| value.is_some()))?;
            if changed {
                self.changed(state, 1);
            }
            Ok(changed)
        })
    }

    pub(crate) fn compare_and_set(
        &self,
        ts: Ts,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Compared> {
        self.check_size(key, new)?;
        self.with_room(1, |state| {
            self.check_change(state, ts)?;
            let mut compared = Compared { matched: false, ts: 0 };
            let changed = self.change(state, ts, key, new, |newest| {
                let (value, found) = newest.unwrap_or((None, 0));
                compared = Compared { matched: value == expected, ts: found };
                // No value instead of no value is no change.
                compared.matched && (value.is_some() || new.is_some())
            })?;
            if changed {
                self.changed(state, 1);
                compared.ts = ts;
            }
            Ok(compared)
        })
    }

    /// Makes a change at the next timestamp, applies it and forgets what it replaces. Returns the
    /// timestamp.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<Ts> {
        self.check_size(key, Some(value))?;
        self.with_room(1, |state| {
            let ts = state.times.last + 1;
            self.check_change(state, ts)?;
            self.read_pending(state)?;
            self.change(state, ts, key, Some(value), |_| true)?;
            self.apply_and_forget(state, ts);
            Ok(ts)
        })
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Result<bool> {
        self.with_room(1, |state| {
            let ts = state.times.last + 1;
            self.check_change(state, ts)?;
            self.read_pending(state)?;
            let changed =
                self.change(state, ts, key, None, |newest| newest.is_some_and(|(value, _)| value.is_some()))?;
            if changed {
                self.apply_and_forget(state, ts);
            }
            Ok(changed)
        })
    }

    /// Follows a change, before any persist covers it, so that no crash leaves the change
    /// unapplied.
    fn apply_and_forget(&self, state: &mut State<I>, ts: Ts) {
        // Planted: the batch closes before the change is applied.
        planted(136).then(|| self.persist(state));
        state.times.applied = ts;
        state.forget_to = state.forget_to.max(ts);
        // What views have held so far goes on in steps, at later changes or in the background.
        self.forget_some(state);
        self.changed(state, 1);
        if state.dead.len() > DEAD_MAX {
            self.persist(state);
        }
    }

    /// Several changes at one timestamp and their tag: all of them or, if there is no room for one,
    /// none.
    pub(crate) fn batch(&self, ts: Ts, tag: &[u8], changes: &[KeyChange<'_>]) -> Result<()> {
        changes.iter().try_for_each(|change| self.check_size(change.key, change.value))?;
        if tag.len() > TAG_BYTES_MAX {
            return self.too_large("tag", tag.len(), TAG_BYTES_MAX);
        }
        self.with_room(changes.len() as u64, |state| {
            self.check_change(state, ts)?;
            self.read_pending(state)?;
            let (before, times, head, dead) = (state.pending.len(), state.times, state.head, state.dead.len());
            if let Err(error) = self.change_all(state, ts, tag, changes) {
                let made = (state.pending.len() - before) as usize;
                if self.index.abort(&mut state.writer, &mut state.pages) {
                    self.drop_newest(state, made, head);
                    // Forgotten deletions whose entries were taken over have them again.
                    state.dead.truncate(dead);
                } else {
                    self.take_back(state, made, head)?;
                }
                state.times = times;
                return Err(error);
            }
            let made = state.pending.len() - before;
            state.times.last = ts;
            self.changed(state, u32::try_from(made).unwrap_or(u32::MAX));
            Ok(())
        })
    }

    fn change_all(&self, state: &mut State<I>, ts: Ts, tag: &[u8], changes: &[KeyChange<'_>]) -> Result<()> {
        let new = New { ts, key: &[], value: Some(tag), tag: true, next: state.head, older: 0 };
        let record = self.append(&mut state.pages, Filling::Records, &new, Urgency::Ordinary)?;
        state.head = record.offset();
        state.pending.push(Change { ts, record, before: Ref::NONE, replaces: false, tag: true });
        for change in changes {
            // Planted: a batch is persisted between its changes.
            planted(154).then(|| self.persist(state));
            self.change(state, ts, change.key, change.value, |newest| {
                change.value.is_some() || newest.is_some_and(|(value, _)| value.is_some())
            })?;
        }
        Ok(())
    }

    /// Runs `count` changes under the writer's lock. If the region is full, runs it again after a
    /// persist has freed what ended, and once more after a collection.
    pub(crate) fn with_room<T>(&self, count: u64, mut change: impl FnMut(&mut State<I>) -> Result<T>) -> Result<T> {
        let is_full = |result: &Result<T>| matches!(result, Err(error) if error.kind() == ErrorKind::Full);
        let mut run = |state: &mut State<I>| {
            self.keep_for_rollback(state, count);
            change(state).inspect_err(|_| _ = self.index.abort(&mut state.writer, &mut state.pages))
        };
        let mut result = run(&mut self.state.lock());
        let mut has_more = true;
        while is_full(&result) && has_more {
            let mut state = self.state.lock();
            has_more = self.make_room(&mut state);
            result = run(&mut state);
        }
        let collects = self.config.background && self.config.collects_in_changes;
        if is_full(&result) && collects && self.collect()? > 0 {
            result = run(&mut self.state.lock());
        }
        result
    }

    fn too_large<T>(&self, what: &str, found: usize, most: usize) -> Result<T> {
        Err(self.error(ErrorKind::TooLarge, format!("a {what} of {found} bytes; at most {most} are possible")))
    }

    pub(crate) fn set_meta(&self, meta: &[u8]) -> Result<()> {
        if meta.len() > META_BYTES_MAX {
            return self.too_large("meta blob", meta.len(), META_BYTES_MAX);
        }
        let mut state = self.state.lock();
        self.check_last_numbers(&state)?;
        state.meta = meta.to_vec();
        state.is_dirty = true;
        self.stir();
        Ok(())
    }

    fn check_size(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            return self.too_large("key", key.len(), KEY_BYTES_MAX);
        }
        match value {
            Some(value) if value.len() > VALUE_BYTES_MAX => self.too_large("value", value.len(), VALUE_BYTES_MAX),
            _ => Ok(()),
        }
    }

    fn check_change(&self, state: &State<I>, ts: Ts) -> Result<()> {
        self.check_writable(state)?;
        if ts < state.times.last || ts <= state.times.applied || ts == Ts::MAX {
            let (last, applied) = (state.times.last, state.times.applied);
            let what =
                format!("a change at timestamp {ts}: use at least {last}, and more than {applied}, which is applied");
            return Err(self.error(ErrorKind::Timestamp, what));
        }
        Ok(())
    }

    /// Changes a key if `decide` agrees; it is given value and timestamp of the key's newest
    /// version, persisted or not, if there is one. Returns whether the key was changed. The change
    /// counts once the caller has called [`Core::changed`].
    fn change(
        &self,
        state: &mut State<I>,
        ts: Ts,
        key: &[u8],
        value: Option<&[u8]>,
        decide: impl FnOnce(Option<(Option<&[u8]>, Ts)>) -> bool,
    ) -> Result<bool> {
        let urgency = if value.is_some() { Urgency::Ordinary } else { Urgency::Deletion };
        let (place, found) = self.index.locate(&state.writer, key)?;
        let newest = found.map(|(record, found)| ((!record.is_deletion()).then_some(found.value), found.header.ts));
        if !decide(newest) {
            return Ok(false);
        }
        let (mut before, mut over) = (Ref::NONE, None);
        let replaces = newest.is_some_and(|(_, found)| found == ts);
        if let (Some((record, _)), Some((value, found))) = (found, newest) {
            // A forgotten deletion is no version: it only has not been swept.
            let is_over = value.is_none() && found <= state.times.forgotten;
            (before, over) = if is_over { (Ref::NONE, Some(record)) } else { (record, None) };
        }
        let new = New { ts, key, value, tag: false, next: state.head, older: before.offset() };
        let record = self.append(&mut state.pages, Filling::Records, &new, urgency)?;
        let put = self.index.put(&mut state.editing(urgency), &place, key, Some(record));
        if let Err(error) = put {
            // Planted: a change that fails keeps its record's place.
            if !planted(135) {
                state.pages.end(record);
            }
            return Err(error);
        }
        state.dead.extend(over);
        // Planted: the record is freed although the chain runs through it.
        if replaces && planted(134) {
            state.dead.push(before);
        }
        state.head = record.offset();
        state.times.last = ts;
        state.pending.push(Change { ts, record, before, replaces, tag: false });
        state.versions += u64::from(!replaces);
        Ok(true)
    }
}
