//! The state in DRAM: the applied value of each key, and what entries that are not applied have
//! made of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::ops::Bound;

use bytes::Bytes;

use super::super::ReadLevel;
use super::pairs::Pairs;
use super::pairs::weight;
use crate::entry::Change;
use crate::machine::draft::{Each, begin};

/// The versions of all keys that can still be read.
#[derive(Default)]
pub(super) struct Versions {
    applied: Pairs,
    /// Versions of keys that entries have made, by index, the newest last.
    pending: BTreeMap<Bytes, Vec<(u64, Option<Bytes>)>>,
    /// Bytes of what is applied, and of what is not.
    applied_bytes: u64,
    pending_bytes: u64,
}

fn weight_of(key: &[u8], value: Option<&Bytes>) -> u64 {
    weight(key, value.map_or(&[], |value| &value[..]))
}

impl Versions {
    /// A state of which all is applied, and the sum of what its pairs weigh.
    pub(super) fn of(applied: BTreeMap<Bytes, Bytes>, applied_bytes: u64) -> Self {
        Self { applied: Pairs::of(applied), pending: BTreeMap::new(), applied_bytes, pending_bytes: 0 }
    }

    /// A state that was read at the start.
    pub(super) fn read(applied: BTreeMap<Bytes, Bytes>) -> Self {
        let bytes = applied.iter().map(|(key, value)| weight(key, value)).sum();
        Self::of(applied, bytes)
    }

    /// The applied state.
    pub(super) fn into_applied(self) -> Pairs {
        self.applied
    }

    /// Bytes that the applied state takes, and what is not applied.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.applied_bytes, self.pending_bytes)
    }

    /// The applied state.
    pub(super) fn applied(&self) -> &Pairs {
        &self.applied
    }

    /// Adds what an entry does.
    pub(super) fn change(&mut self, index: u64, changes: Vec<Change>) {
        for Change { key, value } in changes {
            self.pending_bytes += weight_of(&key, value.as_ref());
            let versions = self.pending.entry(key.clone()).or_default();
            if let Some(at) = versions.iter().position(|(at, _)| *at == index) {
                let (_, before) = versions.remove(at);
                self.pending_bytes -= weight_of(&key, before.as_ref());
            }
            versions.push((index, value));
        }
    }

    /// Takes back what the entries from an index on have done.
    pub(super) fn take_back(&mut self, from: u64) {
        let bytes = &mut self.pending_bytes;
        self.pending.retain(|key, versions| {
            while let Some((_, value)) = versions.pop_if(|(at, _)| *at >= from) {
                *bytes -= weight_of(key, value.as_ref());
            }
            !versions.is_empty()
        });
    }

    /// Applies what an entry has done, which is the oldest that is not applied.
    pub(super) fn apply(&mut self, index: u64, changes: Vec<Change>) {
        for Change { key, value } in changes {
            if let Place::Occupied(mut place) = self.pending.entry(key.clone()) {
                let bytes = &mut self.pending_bytes;
                place.get_mut().retain(|(at, value)| {
                    let stays = *at > index;
                    *bytes -= if stays { 0 } else { weight_of(&key, value.as_ref()) };
                    stays
                });
                if place.get().is_empty() {
                    place.remove();
                }
            }
            self.applied_bytes += value.as_ref().map_or(0, |value| weight(&key, value));
            let before = self.applied.set(key.clone(), value);
            self.applied_bytes -= before.map_or(0, |before| weight(&key, &before));
        }
    }

    pub(super) fn get(&self, level: ReadLevel, place: &[u8]) -> Option<Bytes> {
        match (level, self.pending.get(place).and_then(|versions| versions.last())) {
            (ReadLevel::Newest, Some((_, value))) => value.clone(),
            _ => self.applied.present().get(place).cloned(),
        }
    }

    pub(super) fn scan(&self, level: ReadLevel, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) {
        let range = (begin(prefix, from), Bound::Unbounded);
        let applied = self.applied.present();
        let mut applied = applied.range::<[u8], _>(range).peekable();
        let mut pending = self.pending.range::<[u8], _>(range).filter(|_| level == ReadLevel::Newest).peekable();
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
