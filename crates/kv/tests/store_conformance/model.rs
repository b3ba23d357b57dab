//! Model of a store: a log, its applied part, and the persistent state.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use perdura_kv::entry::WriteBatch;
use perdura_kv::store::{ErrorKind, FOUNDING, PersistentState, ReadLevel, Store};
use raft::eraftpb::{Entry, EntryType};

pub type State = BTreeMap<Bytes, Bytes>;

/// A model of a store, after some call.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub persistent_state: PersistentState,
    /// State of the applied entries that are not in the log: all up to the base.
    pub below: State,
    pub base: u64,
    pub base_term: u64,
    pub base_clock_ms: u64,
    /// The entries from after the base.
    pub log: Vec<Entry>,
    pub applied: u64,
    pub is_partial: bool,
}

impl Model {
    pub fn new(persistent_state: PersistentState) -> Model {
        let is_founder = persistent_state.is_founder();
        let (base, base_clock_ms) = if is_founder { (FOUNDING, 1000) } else { (0, 0) };
        let (below, log) = (State::new(), Vec::new());
        Model { persistent_state, below, base, base_term: base, base_clock_ms, log, applied: base, is_partial: false }
    }

    pub fn last(&self) -> u64 {
        self.base + self.log.len() as u64
    }

    pub fn truncate(&mut self, from: u64) {
        self.log.truncate((from - self.base - 1) as usize);
    }

    pub fn entry(&self, index: u64) -> &Entry {
        &self.log[(index - self.base - 1) as usize]
    }

    pub fn term(&self, index: u64) -> u64 {
        if index == self.base { self.base_term } else { self.entry(index).term }
    }

    pub fn state(&self, at: u64) -> State {
        let mut state = self.below.clone();
        for entry in self.log.iter().filter(|entry| entry.index <= at && entry.entry_type == EntryType::EntryNormal) {
            if entry.data.is_empty() {
                continue;
            }
            for change in WriteBatch::from_bytes(entry.data.clone()).expect("our own").changes {
                match change.value {
                    Some(value) => state.insert(change.key, value),
                    None => state.remove(&change.key),
                };
            }
        }
        state
    }

    pub fn clock_ms(&self, at: u64) -> u64 {
        let own = |entry: &Entry| match entry.entry_type {
            EntryType::EntryNormal if entry.data.is_empty() => 0,
            EntryType::EntryNormal => WriteBatch::from_bytes(entry.data.clone()).expect("our own").clock_ms,
            _ => entry.context.get(..8).map_or(0, |clock| u64::from_le_bytes(clock.try_into().expect("eight bytes"))),
        };
        self.log.iter().filter(|entry| entry.index <= at).map(own).fold(self.base_clock_ms, u64::max)
    }

    /// Makes it that of a store which has received what is applied here.
    pub fn received(&self, mut persistent_state: PersistentState) -> Model {
        let (index, term) = (self.applied, self.term(self.applied));
        if term > persistent_state.term {
            (persistent_state.term, persistent_state.vote) = (term, 0);
        }
        (persistent_state.members_at, persistent_state.members) = (index, self.persistent_state.members.clone());
        let base_clock_ms = self.clock_ms(index);
        let (below, log) = (self.state(index), Vec::new());
        Model {
            persistent_state,
            below,
            base: index,
            base_term: term,
            base_clock_ms,
            log,
            applied: index,
            is_partial: false,
        }
    }

    pub fn emptied(&self) -> Model {
        let (below, log, persistent_state) = (State::new(), Vec::new(), self.persistent_state.clone());
        Model { persistent_state, below, base: 0, base_term: 0, base_clock_ms: 0, log, applied: 0, is_partial: true }
    }

    /// Compares a store with the model.
    pub fn compare(&self, store: &dyn Store) -> Result<(), String> {
        same("partial", &store.is_partial(), &self.is_partial)?;
        same("persistent_state", store.persistent_state(), &self.persistent_state)?;
        if self.is_partial {
            return Ok(());
        }
        same("applied", &store.applied(), &self.applied)?;
        same("last", &store.last(), &self.last())?;
        let first = store.first();
        if first > self.applied + 1 {
            return Err(format!("the first entry is {first}, and only {} is applied", self.applied));
        }
        // A received log may begin before what was applied.
        for index in (first - 1).max(self.base)..=self.last() {
            same(
                &format!("term of {index}"),
                &store.term(index).map_err(|error| error.to_string())?,
                &self.term(index),
            )?;
        }
        let from = first.max(self.base + 1);
        let entries = store.entries(from, self.last() + 1, u64::MAX).map_err(|error| error.to_string())?;
        same("entries", &&entries[..], &&self.log[(from - self.base - 1) as usize..])?;
        if first > 1 {
            let before = store.term(first - 2).map_err(|error| error.kind());
            same("term before the base", &before, &Err(ErrorKind::Compacted))?;
        }
        same(
            "entry after the last",
            &store.term(self.last() + 1).map_err(|error| error.kind()),
            &Err(ErrorKind::Beyond),
        )?;
        for (moment, at) in [(ReadLevel::Newest, self.last()), (ReadLevel::Applied, self.applied)] {
            same(&format!("clock {moment:?}"), &store.clock_ms(moment), &self.clock_ms(at))?;
            same(&format!("state {moment:?}"), &scan(store, moment)?, &self.state(at))?;
        }
        Ok(())
    }
}

/// The whole state of a store, by a scan and by single reads.
fn scan(store: &dyn Store, moment: ReadLevel) -> Result<State, String> {
    let mut state = State::new();
    let each = &mut |key: &[u8], value: &[u8]| {
        state.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        true
    };
    store.scan(moment, b"", Bound::Unbounded, each).map_err(|error| error.to_string())?;
    for key in 0..12_u8 {
        let key = Bytes::copy_from_slice(&[b'k', key]);
        let found = store.get(moment, &key).map_err(|error| error.to_string())?;
        same("a single read", &found.as_ref(), &state.get(&key))?;
    }
    Ok(state)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what}: found {found:?}, wanted {wanted:?}")) }
}
