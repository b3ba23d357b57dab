//! Histories of what clients saw, by key, and the values that tell their writes apart.
//!
//! Keys are in use for a while only, so that the search through the history of one stays short.

use std::collections::BTreeMap;

use bytes::Bytes;
use perdura_pmem::sim::Random;

use super::history::{Action, Operation, Value, is_linearizable};

/// Operations on a key before another is used in its place.
const OPERATIONS_OF_KEY: usize = 24;
/// Keys in use.
const KEYS: u64 = 3;

/// Histories of all keys.
pub(super) struct Observed {
    values: u64,
    /// Longest padding of a value, exclusive.
    value_bytes: u64,
    /// The keys in use.
    keys: Vec<u64>,
    histories: BTreeMap<u64, Vec<Operation>>,
    /// Operations that were done, and those of an unknown outcome.
    pub(super) done: u64,
    pub(super) unknown: u64,
}

/// The name of a key.
pub(super) fn name(key: u64) -> Vec<u8> {
    format!("key{key}").into_bytes()
}

/// The number that a value begins with.
pub(super) fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).ok().and_then(|text| text.split('.').next()?.parse().ok()).unwrap_or(u64::MAX)
}

impl Observed {
    pub(super) fn new(value_bytes: u64) -> Self {
        Self { values: 0, value_bytes, keys: (0..KEYS).collect(), histories: BTreeMap::new(), done: 0, unknown: 0 }
    }

    /// A key in use. `pending` counts the operations on a key that are under way.
    pub(super) fn key(&mut self, pending: impl Fn(u64) -> usize, random: &mut Random) -> u64 {
        let slot = random.below(KEYS) as usize;
        let used = self.histories.get(&self.keys[slot]).map_or(0, Vec::len) + pending(self.keys[slot]);
        if used >= OPERATIONS_OF_KEY {
            self.keys[slot] = self.keys.iter().max().map_or(0, |newest| newest + 1);
        }
        self.keys[slot]
    }

    /// A number that tells a value apart from all others.
    pub(super) fn fresh(&mut self) -> u64 {
        self.values += 1;
        self.values
    }

    /// A number that tells values apart, and a value that begins with it, of random length.
    pub(super) fn value(&mut self, random: &mut Random) -> (u64, Bytes) {
        let fresh = self.fresh();
        (fresh, Bytes::from(format!("{fresh}.{}", "x".repeat(random.below(self.value_bytes) as usize))))
    }

    /// A value that the key may have.
    pub(super) fn guess(&self, key: u64, random: &mut Random) -> Value {
        let history = self.histories.get(&key)?;
        let written = history.iter().rev().filter_map(|operation| match operation.action {
            Action::Write(new) | Action::Compare { new, matched: Some(true), .. } => Some(new),
            _ => None,
        });
        let latest: Vec<u64> = written.take(2).collect();
        if latest.is_empty() || random.one_in(6) {
            None
        } else {
            Some(latest[random.below(latest.len() as u64) as usize])
        }
    }

    /// An operation has returned.
    pub(super) fn returned(&mut self, key: u64, action: Action, called: u64, now: u64) {
        self.done += 1;
        let operation = Operation { action, called, returned: Some(now), follows: false };
        self.histories.entry(key).or_default().push(operation);
    }

    /// A write has returned, and a read behind it in the same pipeline with what it saw.
    pub(super) fn returned_both(
        &mut self,
        key: u64,
        [write, seen]: [Action; 2],
        called: u64,
        [first, second]: [u64; 2],
    ) {
        self.returned(key, write, called, first);
        self.returned(key, seen, called, second);
        self.histories.entry(key).or_default().last_mut().expect("just pushed").follows = true;
    }

    /// An operation may have taken effect, or may yet.
    pub(super) fn lost(&mut self, key: u64, mut action: Action, called: u64) {
        match &mut action {
            Action::Read(_) | Action::Compare { matched: Some(false), .. } => return,
            Action::Compare { matched, .. } => *matched = None,
            Action::Write(_) | Action::Expire(_) => {}
        }
        self.unknown += 1;
        self.may_happen(key, action, called);
    }

    /// Something may take effect at any time from now on, or never.
    pub(super) fn may_happen(&mut self, key: u64, action: Action, called: u64) {
        self.histories.entry(key).or_default().push(Operation { action, called, returned: None, follows: false });
    }

    /// Checks that the history of each key is linearizable.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.histories.iter().find(|(_, history)| !is_linearizable(history)) {
            None => Ok(()),
            Some((key, history)) => {
                let mut lines: Vec<String> = history.iter().map(|operation| format!("{operation:?}")).collect();
                lines.sort();
                Err(format!("what was seen of key {key} is not linearizable:\n{}", lines.join("\n")))
            }
        }
    }
}
