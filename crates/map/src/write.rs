//! Changes of a map by its callers: sizes are checked, and room is made.

use crate::changes::{Compared, KeyChange};
use crate::config::{KEY_BYTES_MAX, META_BYTES_MAX, TAG_BYTES_MAX, VALUE_BYTES_MAX};
use crate::error::{ErrorKind, Result};
use crate::state::State;
use crate::state::core::Core;
use crate::timestamps::Ts;
use crate::upkeep::collection;
use crate::upkeep::round::{Aim, Round};
use crate::upkeep::structure::Structure;

impl<I: Structure> Core<I> {
    pub(crate) fn set(&self, ts: Ts, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_size(key, Some(value))?;
        self.with_room(1, |state| state.set(&self.shared, ts, key, Some(value))).map(drop)
    }

    pub(crate) fn delete(&self, ts: Ts, key: &[u8]) -> Result<bool> {
        self.with_room(1, |state| state.set(&self.shared, ts, key, None))
    }

    pub(crate) fn compare_and_set(
        &self,
        ts: Ts,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Compared> {
        self.check_size(key, new)?;
        self.with_room(1, |state| state.compare_and_set(&self.shared, ts, key, expected, new))
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<Ts> {
        self.check_size(key, Some(value))?;
        self.with_room(1, |state| state.put(&self.shared, key, Some(value))).map(|(ts, _)| ts)
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Result<bool> {
        self.with_room(1, |state| state.put(&self.shared, key, None)).map(|(_, changed)| changed)
    }

    pub(crate) fn batch(&self, ts: Ts, tag: &[u8], changes: &[KeyChange<'_>]) -> Result<()> {
        changes.iter().try_for_each(|change| self.check_size(change.key, change.value))?;
        self.check_length("tag", tag.len(), TAG_BYTES_MAX)?;
        self.with_room(changes.len() as u64, |state| state.batch(&self.shared, ts, tag, changes))
    }

    pub(crate) fn set_meta(&self, meta: &[u8]) -> Result<()> {
        self.check_length("meta blob", meta.len(), META_BYTES_MAX)?;
        let mut state = self.state.lock();
        state.check_last_numbers(&self.shared)?;
        state.set_meta(meta);
        self.shared.wake.stir();
        Ok(())
    }

    pub(crate) fn apply(&self, ts: Ts) -> Result<()> {
        self.state.lock().apply(&self.shared, ts)
    }

    pub(crate) fn rollback(&self, from: Ts) -> Result<()> {
        self.state.lock().rollback(&self.shared, from)
    }

    /// Runs a thorough round.
    pub(crate) fn collect(&self) -> Result<u64> {
        collection::run(Round::begin(self), Aim::Thorough)
    }

    /// Runs `count` changes under the writer's lock. If the region is full, runs it again after a
    /// persist has freed what ended, and once more after a collection.
    fn with_room<T>(&self, count: u64, mut change: impl FnMut(&mut State<I>) -> Result<T>) -> Result<T> {
        let is_full = |result: &Result<T>| matches!(result, Err(error) if error.kind() == ErrorKind::Full);
        let mut run = |state: &mut State<I>| {
            state.keep_for_rollback(&self.shared, count);
            change(state).inspect_err(|_| _ = state.abort(&self.shared))
        };
        let mut result = run(&mut self.state.lock());
        let mut has_more = true;
        while is_full(&result) && has_more {
            let mut state = self.state.lock();
            has_more = state.make_room(&self.shared);
            result = run(&mut state);
        }
        let collects = self.shared.config.background && self.shared.config.collects_in_changes;
        if is_full(&result) && collects {
            self.collect()?;
            result = run(&mut self.state.lock());
        }
        result
    }

    fn check_size(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.check_length("key", key.len(), KEY_BYTES_MAX)?;
        self.check_length("value", value.map_or(0, <[u8]>::len), VALUE_BYTES_MAX)
    }

    #[inline]
    fn check_length(&self, what: &str, found: usize, most: usize) -> Result<()> {
        if found <= most {
            return Ok(());
        }
        let what = format!("a {what} of {found} bytes; at most {most} are possible");
        Err(self.shared.records.error(ErrorKind::TooLarge, what))
    }
}
