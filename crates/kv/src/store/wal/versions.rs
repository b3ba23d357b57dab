//! The state in DRAM: the applied value of each key, and what entries that are not applied have made of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::ops::Bound;

use bytes::Bytes;

use super::super::Moment;
use crate::entry::Change;
use crate::machine::draft::{Each, begin};

/// The versions of all keys that can still be read.
#[derive(Default)]
pub(super) struct Versions {
    applied: BTreeMap<Bytes, Bytes>,
    /// What entries have made of keys, by index, the newest last.
    pending: BTreeMap<Bytes, Vec<(u64, Option<Bytes>)>>,
}

impl Versions {
    /// A state of which all is applied.
    pub(super) fn of(applied: BTreeMap<Bytes, Bytes>) -> Self {
        Self { applied, pending: BTreeMap::new() }
    }

    /// What is applied.
    pub(super) fn applied(&self) -> &BTreeMap<Bytes, Bytes> {
        &self.applied
    }

    /// Adds what an entry does.
    pub(super) fn change(&mut self, index: u64, changes: Vec<Change>) {
        for Change { key, value } in changes {
            let versions = self.pending.entry(key).or_default();
            versions.retain(|(at, _)| *at != index);
            versions.push((index, value));
        }
    }

    /// Takes back what the entries from an index on have done.
    pub(super) fn take_back(&mut self, from: u64) {
        self.pending.retain(|_, versions| {
            versions.retain(|(at, _)| *at < from);
            !versions.is_empty()
        });
    }

    /// Applies what an entry has done, which is the oldest that is not applied.
    pub(super) fn apply(&mut self, index: u64, changes: Vec<Change>) {
        for Change { key, value } in changes {
            if let Place::Occupied(mut place) = self.pending.entry(key.clone()) {
                place.get_mut().retain(|(at, _)| *at > index);
                if place.get().is_empty() {
                    place.remove();
                }
            }
            match value {
                Some(value) => self.applied.insert(key, value),
                None => self.applied.remove(&key),
            };
        }
    }

    pub(super) fn get(&self, moment: Moment, place: &[u8]) -> Option<Bytes> {
        match (moment, self.pending.get(place).and_then(|versions| versions.last())) {
            (Moment::Newest, Some((_, value))) => value.clone(),
            _ => self.applied.get(place).cloned(),
        }
    }

    pub(super) fn scan(&self, moment: Moment, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) {
        let range = (begin(prefix, from), Bound::Unbounded);
        let mut applied = self.applied.range::<[u8], _>(range).peekable();
        let mut pending = self.pending.range::<[u8], _>(range).filter(|_| moment == Moment::Newest).peekable();
        loop {
            let next = match (applied.peek(), pending.peek()) {
                (Some((below, _)), Some((above, _))) => (*below).min(*above),
                (Some((key, _)), None) | (None, Some((key, _))) => *key,
                (None, None) => return,
            };
            if !next.starts_with(prefix) {
                return;
            }
            let below = applied.next_if(|(key, _)| *key == next).map(|(_, value)| value);
            let value = match pending.next_if(|(key, _)| *key == next).and_then(|(_, versions)| versions.last()) {
                Some((_, value)) => value.as_ref(),
                None => below,
            };
            if value.is_some_and(|value| !each(next, value)) {
                return;
            }
        }
    }
}
