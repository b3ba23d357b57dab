//! Changes: append a record, copy the path of the index, publish the new root. The next confirmation makes it durable.
//!
//! A change that fails leaves the map as it was: nothing it made was published, and all of it is given back.

use crate::config::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::error::{ErrorKind, Result};
use crate::format::{RECORD_HEADER_BYTES, RecordHeader, Ref, bytes_of, link, record_bytes};
use crate::index::{Index, Store};
use crate::pages::{Filling, Pages, Urgency};
use crate::pending::Change;
use crate::record::{Target, record_crc};
use crate::state::{Core, State};
use crate::timestamps::Ts;
use crate::tree::{self, Edit, Inserted, Nodes};
use perdura_pmem::checksum::crc32c_append;
use perdura_pmem::planted;

/// Records up to this length are assembled in a buffer and written with one store.
const SMALL_BYTES: usize = 256;
const HEADER: usize = RECORD_HEADER_BYTES as usize;

impl<I: Index> Core<I> {
    pub(crate) fn set(&self, ts: Ts, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_size(key, Some(value))?;
        self.with_room(|state| {
            self.check_change(state, ts)?;
            self.change(state, ts, key, Some(value), |_| true)?;
            self.changed(state);
            Ok(())
        })
    }

    pub(crate) fn delete(&self, ts: Ts, key: &[u8]) -> Result<bool> {
        self.with_room(|state| {
            self.check_change(state, ts)?;
            let changed = self.change(state, ts, key, None, |newest| newest.is_some())?;
            if changed {
                self.changed(state);
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
    ) -> Result<bool> {
        self.check_size(key, new)?;
        self.with_room(|state| {
            self.check_change(state, ts)?;
            let mut matches = false;
            let changed = self.change(state, ts, key, new, |newest| {
                matches = newest == expected;
                // No value instead of no value is no change.
                matches && (newest.is_some() || new.is_some())
            })?;
            if changed {
                self.changed(state);
            }
            Ok(matches)
        })
    }

    /// Makes a change at the next timestamp, applies it and forgets what it replaces. Returns the timestamp.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<Ts> {
        self.check_size(key, Some(value))?;
        self.with_room(|state| {
            let ts = state.times.last + 1;
            self.check_change(state, ts)?;
            self.read_pending(state)?;
            self.change(state, ts, key, Some(value), |_| true)?;
            self.apply_and_forget(state, ts)?;
            Ok(ts)
        })
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Result<bool> {
        self.with_room(|state| {
            let ts = state.times.last + 1;
            self.check_change(state, ts)?;
            self.read_pending(state)?;
            let changed = self.change(state, ts, key, None, |newest| newest.is_some())?;
            if changed {
                self.apply_and_forget(state, ts)?;
            }
            Ok(changed)
        })
    }

    /// Follows a change, before any confirmation covers it, so that no crash leaves the change unapplied.
    fn apply_and_forget(&self, state: &mut State<I>, ts: Ts) -> Result<()> {
        // Planted: the batch closes before the change is applied.
        planted(136).then(|| self.confirm(state));
        state.times.applied = ts;
        let forgotten = self.forget_up_to(state, ts);
        self.changed(state);
        match forgotten {
            // The change is made. The next one forgets what this one has replaced.
            Err(error) if error.kind() == ErrorKind::Full => Ok(()),
            other => other,
        }
    }

    /// Runs a change under the writer's lock. If the region is full, runs it again after a confirmation has freed what
    /// ended, and once more after a collection.
    pub(crate) fn with_room<T>(&self, mut change: impl FnMut(&mut State<I>) -> Result<T>) -> Result<T> {
        let is_full = |result: &Result<T>| matches!(result, Err(error) if error.kind() == ErrorKind::Full);
        let mut result = change(&mut self.state.lock());
        if is_full(&result) {
            let mut state = self.state.lock();
            self.make_room(&mut state);
            result = change(&mut state);
        }
        if is_full(&result) && self.config.background && self.collect()? > 0 {
            result = change(&mut self.state.lock());
        }
        result
    }

    fn check_size(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let too_large = |what: &str, found: usize, most: usize| {
            Err(self.error(ErrorKind::TooLarge, format!("a {what} of {found} bytes; at most {most} are possible")))
        };
        if key.len() > KEY_BYTES_MAX {
            return too_large("key", key.len(), KEY_BYTES_MAX);
        }
        match value {
            Some(value) if value.len() > VALUE_BYTES_MAX => too_large("value", value.len(), VALUE_BYTES_MAX),
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

    pub(crate) fn check_writable(&self, state: &State<I>) -> Result<()> {
        if state.is_loading {
            return Err(self.error(ErrorKind::ReadOnly, "a snapshot is being loaded; wait until it is finished".into()));
        }
        Ok(())
    }

    /// Changes a key if `decide` agrees; it is given the value of the key's newest version, confirmed or not. Returns
    /// whether the key was changed. The change counts once the caller has called [`Core::changed`].
    fn change(
        &self,
        state: &mut State<I>,
        ts: Ts,
        key: &[u8],
        value: Option<&[u8]>,
        decide: impl FnOnce(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let urgency = if value.is_some() { Urgency::Ordinary } else { Urgency::Deletion };
        let (head, target) = (state.head, Target::new(key, ts));
        let (mut has_older, mut appended) = (false, None);
        let edited = self.edit(state, urgency, |nodes, root, edit| {
            tree::insert(nodes, &self.records, root, &target, edit, |nodes, found| {
                let older = found.before.map(|before| self.records.get(before)).transpose()?;
                let older = older.filter(|older| older.key == key);
                has_older = older.is_some();
                let newest = found.same.map(|same| self.records.get(same)).transpose()?.or(older);
                if decide(newest.filter(|newest| !newest.header.deletion).map(|newest| newest.value)) {
                    appended = Some(self.append(nodes.pages(), Filling::Records, (ts, key, value), head, urgency)?);
                }
                Ok(appended)
            })
        });
        let (inserted, edit) = match edited {
            Ok((Some(inserted), edit)) => (inserted, edit),
            Ok((None, _)) => return Ok(false),
            Err(error) => {
                // Planted: a change that fails keeps its record's place.
                if let Some(record) = appended.filter(|_| !planted(135)) {
                    state.pages.cut(record);
                }
                return Err(error);
            }
        };
        let Inserted { record, same } = inserted;
        self.complete(state, edit);
        state.head = record.offset();
        state.times.last = ts;
        state.pending.push(Change { ts, record, has_older, deletion: value.is_none() });
        match same {
            // The chain still runs through the replaced record until that is forgotten or rolled back, but it is no
            // longer a version.
            // Planted: the record is freed although the chain runs through it.
            Some(same) if planted(134) => state.dead.push(same),
            Some(same) => _ = state.orphans.insert(same),
            None => state.versions += 1,
        }
        Ok(true)
    }

    /// Publishes an edit's root and retires the nodes it replaces.
    pub(crate) fn complete(&self, state: &mut State<I>, edit: Edit) {
        self.publish(state, edit.root);
        for link in &edit.replaced {
            state.store.retire(&mut state.pages, *link);
        }
        state.spare = edit;
        state.is_dirty = true;
    }

    /// Edits the index without publishing; [`Core::complete`] publishes. A failed edit gives back the nodes it has
    /// made.
    pub(crate) fn edit<T>(
        &self,
        state: &mut State<I>,
        urgency: Urgency,
        run: impl FnOnce(&mut <I::Store as Store>::Writer<'_>, u64, &mut Edit) -> Result<T>,
    ) -> Result<(T, Edit)> {
        let mut edit = std::mem::take(&mut state.spare);
        edit.clear();
        let result = {
            let mut nodes = state.store.writer(&self.reader, &mut state.pages, urgency);
            run(&mut nodes, state.root, &mut edit)
        };
        match result {
            Ok(found) => Ok((found, edit)),
            Err(error) => {
                edit.made.iter().for_each(|link| state.store.undo(&mut state.pages, *link));
                Err(error)
            }
        }
    }

    /// Appends a record whose link leads to the record at `next` (0: none). Error: `Full`.
    pub(crate) fn append(
        &self,
        pages: &mut Pages,
        filling: Filling,
        (ts, key, value): (Ts, &[u8], Option<&[u8]>),
        next: u64,
        urgency: Urgency,
    ) -> Result<Ref> {
        let content = value.unwrap_or_default();
        let len = record_bytes(key.len() as u64, content.len() as u64);
        let Some(offset) = pages.allocate(filling, len, urgency) else {
            return Err(crate::space::full(pages, len));
        };
        let header = RecordHeader {
            next: link(next, self.records.salt),
            ts,
            deletion: value.is_none(),
            key_bytes: key.len() as u32,
            value_bytes: content.len() as u32,
            crc: 0,
        };
        if len as usize <= SMALL_BYTES {
            self.fill_small(pages, (offset, len), header, key, content);
        } else {
            self.fill_large(pages, offset, header, key, content);
        }
        Ok(Ref::new(offset, len))
    }

    /// Assembles a record in a buffer and writes it with one store.
    #[inline]
    fn fill_small(
        &self,
        pages: &mut Pages,
        (offset, len): (u64, u64),
        mut header: RecordHeader,
        key: &[u8],
        value: &[u8],
    ) {
        let mut bytes = [0; SMALL_BYTES];
        let key_end = HEADER + key.len();
        let end = key_end + value.len();
        bytes[..HEADER].copy_from_slice(bytes_of(&header.encode()));
        bytes[HEADER..key_end].copy_from_slice(key);
        bytes[key_end..end].copy_from_slice(value);
        header.crc = record_crc(self.records.salt, offset, &bytes[..end]);
        bytes[..HEADER].copy_from_slice(bytes_of(&header.encode()));
        pages.fill(offset, &bytes[..len as usize]);
    }

    fn fill_large(&self, pages: &mut Pages, offset: u64, mut header: RecordHeader, key: &[u8], value: &[u8]) {
        let mut bytes = [bytes_of(&header.encode()), key].concat();
        header.crc = crc32c_append(record_crc(self.records.salt, offset, &bytes), value);
        bytes[..HEADER].copy_from_slice(bytes_of(&header.encode()));
        pages.fill(offset, &bytes);
        pages.fill(offset + bytes.len() as u64, value);
    }
}
