//! The model of an ordered map in its simplest form: all versions in one `BTreeMap`, and the
//! changes in order.
//!
//! Choices that `OrderedMap` leaves open, the model takes from the map it is compared with, within
//! the documented bounds: `last` after a rollback.

use perdura_map::Ts;
use std::collections::BTreeMap;

/// A key, its value, and the timestamp of the change that gave it.
pub type Seen<'a> = (&'a [u8], &'a [u8], Ts);

/// A timestamp and its tag.
pub type Tagged = (Ts, Vec<u8>);

/// A timestamp, a key, and the value it was given then, or none if it was deleted.
pub type Changed<'a> = (Ts, &'a [u8], Option<&'a [u8]>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    versions: BTreeMap<(Vec<u8>, Ts), Option<Vec<u8>>>,
    /// Timestamps and keys of the changes not forgotten, oldest first. Of two of one key at one
    /// timestamp, the second.
    changes: Vec<(Ts, Vec<u8>)>,
    /// Tags of timestamps not forgotten, and the newest of the others.
    tags: BTreeMap<Ts, Vec<u8>>,
    /// The caller's blob.
    pub meta: Vec<u8>,
    /// Whether a load that had emptied the map did not end.
    pub is_partial: bool,
    /// As [`perdura_map::Timestamps::last`].
    pub last: Ts,
    /// As [`perdura_map::Timestamps::applied`].
    pub applied: Ts,
    /// As [`perdura_map::Timestamps::forgotten`].
    pub forgotten: Ts,
}

impl Model {
    /// The same content with another blob.
    pub fn with_meta(mut self, meta: Vec<u8>) -> Model {
        self.meta = meta;
        self
    }

    /// A map that was emptied for a load.
    pub fn emptied(meta: Vec<u8>) -> Model {
        Model { meta, is_partial: true, ..Model::default() }
    }

    /// Value and timestamp of the newest version of `key` not above `at`, or none if that is a
    /// deletion.
    pub fn get(&self, key: &[u8], at: Ts) -> Option<(&[u8], Ts)> {
        let mut range = self.versions.range((key.to_vec(), 0)..=(key.to_vec(), at));
        let ((_, ts), value) = range.next_back()?;
        Some((value.as_deref()?, *ts))
    }

    pub fn newest(&self, key: &[u8]) -> Option<&[u8]> {
        self.get(key, Ts::MAX).map(|(value, _)| value)
    }

    /// All keys that have a value at `at`.
    pub fn scan(&self, at: Ts) -> Vec<Seen<'_>> {
        let mut keys: Vec<&[u8]> = self.versions.keys().map(|(key, _)| &key[..]).collect();
        keys.dedup();
        let seen = |key| self.get(key, at).map(|(value, ts)| (key, value, ts));
        keys.into_iter().filter_map(seen).collect()
    }

    /// Whether a change at `ts` is allowed.
    pub fn takes(&self, ts: Ts) -> bool {
        ts >= self.last && ts > self.applied
    }

    /// Gives `key` a value, or deletes it.
    pub fn change(&mut self, ts: Ts, key: &[u8], value: Option<&[u8]>) {
        assert!(self.takes(ts), "the caller asks first");
        let change = (ts, key.to_vec());
        self.changes.retain(|earlier| *earlier != change);
        self.changes.push(change);
        self.versions.insert((key.to_vec(), ts), value.map(<[u8]>::to_vec));
        self.last = ts;
    }

    /// Gives a timestamp a tag.
    pub fn tag(&mut self, ts: Ts, tag: Vec<u8>) {
        assert!(self.takes(ts), "the caller asks first");
        self.tags.insert(ts, tag);
        self.last = ts;
    }

    /// The tags that are not forgotten, and the newest of the others.
    pub fn tags(&self) -> (Vec<Tagged>, Option<Tagged>) {
        let of = |(ts, tag): (&Ts, &Vec<u8>)| (*ts, tag.clone());
        let kept = self.tags.range(self.forgotten + 1..).map(of).collect();
        (kept, self.tags.range(..=self.forgotten).next_back().map(of))
    }

    /// Takes back all changes from `from` on. `last` becomes what the map reports, which must be
    /// allowed.
    pub fn rollback(&mut self, from: Ts, last: Ts) -> Result<(), String> {
        if from > self.last {
            return if last == self.last { Ok(()) } else { Err(format!("last {last} where nothing was rolled back")) };
        }
        self.versions.retain(|(_, ts), _| *ts < from);
        self.changes.retain(|(ts, _)| *ts < from);
        self.tags.retain(|ts, _| *ts < from);
        let tagged = self.tags.keys().next_back().copied().unwrap_or(0);
        let least = self.changes.last().map_or(self.applied, |(ts, _)| *ts).max(self.applied).max(tagged);
        if !(least..from).contains(&last) {
            return Err(format!("last {last} after a rollback from {from}, {least} being there"));
        }
        self.last = last;
        Ok(())
    }

    /// Drops the versions that no read at `up_to` or later sees, and the changes up to there.
    pub fn forget(&mut self, up_to: Ts) {
        self.forgotten = self.forgotten.max(up_to);
        self.changes.retain(|(ts, _)| *ts > up_to);
        if let Some((newest, _)) = self.tags().1 {
            self.tags.retain(|ts, _| *ts >= newest);
        }
        let mut kept: BTreeMap<(Vec<u8>, Ts), Option<Vec<u8>>> = BTreeMap::new();
        for ((key, ts), value) in std::mem::take(&mut self.versions) {
            if ts <= up_to {
                kept.retain(|(other, _), _| *other != key);
            }
            if ts > up_to || value.is_some() {
                kept.insert((key, ts), value);
            }
        }
        self.versions = kept;
    }

    /// The changes from `from` on that are not forgotten, oldest first.
    pub fn mutations(&self, from: Ts) -> Vec<Changed<'_>> {
        let of = |(ts, key): &(Ts, Vec<u8>)| self.versions[&(key.clone(), *ts)].as_deref();
        self.changes.iter().filter(|(ts, _)| *ts >= from).map(|change| (change.0, &change.1[..], of(change))).collect()
    }

    /// Number of versions, deletions included.
    pub fn version_count(&self) -> u64 {
        self.versions.len() as u64
    }

    /// All keys that have or had a value, and the timestamps of changes with their neighbours.
    pub fn interesting(&self) -> (Vec<&[u8]>, Vec<Ts>) {
        let mut keys: Vec<&[u8]> = self.versions.keys().map(|(key, _)| &key[..]).collect();
        keys.dedup();
        let beside = |ts: Ts| [ts.saturating_sub(1), ts, ts.saturating_add(1)];
        let mut times: Vec<Ts> = self.versions.keys().flat_map(|(_, ts)| beside(*ts)).collect();
        times.extend([self.forgotten, self.applied, self.last, Ts::MAX]);
        times.retain(|ts| *ts >= self.forgotten);
        times.sort_unstable();
        times.dedup();
        (keys, times)
    }
}
