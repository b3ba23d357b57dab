//! The history of a run: each transaction's changes and CSN, and what its readers saw.
//!
//! The workload's threads share a [`Ledger`] and write to it as they go. When the run ends, the
//! ledger becomes the [`History`].

use perdura_engine::Rid;
use perdura_pmem::sync::Mutex;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A row's key in the model: the first eight bytes of its image. The next eight are its stamp,
/// which no other image has.
pub type Key = u64;
/// Rows of a table by key.
pub type Rows = BTreeMap<Key, Vec<u8>>;
/// Tables by name.
pub type State = BTreeMap<String, Rows>;

/// One change a transaction makes.
#[derive(Clone, Debug)]
pub enum Change {
    /// The row is inserted or replaced by this image.
    Put(String, Key, Vec<u8>),
    /// The row is deleted.
    Remove(String, Key),
    /// The table is created.
    Create(String),
    /// The table is dropped.
    Drop(String),
    /// The table is renamed.
    Rename(String, String),
    /// The table is truncated.
    Truncate(String),
    /// The table gets indexes of these kinds.
    Alter(String, Vec<u8>),
    /// The table's definition comes to name another table.
    Name(String, Vec<u8>),
}

/// The key under which a state has the kinds of a table's indexes, once they were altered.
pub const KINDS: Key = Key::MAX;
/// The key under which a state has the name of the table that a table's definition names.
pub const NAMED: Key = Key::MAX - 1;

/// Applies a transaction's changes. Returns whether they are possible in this state.
pub fn apply(state: &mut State, changes: &[Change]) -> bool {
    changes.iter().all(|change| match change {
        Change::Put(table, key, row) => state.get_mut(table).is_some_and(|rows| {
            let before = rows.insert(*key, row.clone());
            // A row that was computed from its predecessor must replace the very image that was
            // read.
            [0, before.as_deref().map_or(0, stamp_of)].contains(&replaced_by(row))
        }),
        Change::Remove(table, key) => state.get_mut(table).map(|rows| rows.remove(key)).is_some(),
        Change::Create(table) => state.insert(table.clone(), BTreeMap::new()).is_none(),
        Change::Drop(table) => state.remove(table).is_some(),
        Change::Rename(from, to) => match state.remove(from) {
            Some(rows) => state.insert(to.clone(), rows).is_none(),
            None => false,
        },
        Change::Truncate(table) => {
            state.get_mut(table).map(|rows| rows.retain(|key, _| [KINDS, NAMED].contains(key))).is_some()
        }
        Change::Alter(table, kinds) => state.get_mut(table).is_some_and(|rows| {
            rows.remove(&NAMED);
            rows.insert(KINDS, kinds.clone());
            true
        }),
        Change::Name(table, name) => state.get_mut(table).map(|rows| rows.insert(NAMED, name.clone())).is_some(),
    })
}

/// Key of a row image.
pub fn key_of(row: &[u8]) -> Key {
    word_at(row, 0)
}

/// Stamp of a row image.
pub fn stamp_of(row: &[u8]) -> u64 {
    word_at(row, 8)
}

/// Stamp of the image that this one replaces, as its writer read it; 0 if the writer did not read
/// it.
pub fn replaced_by(row: &[u8]) -> u64 {
    word_at(row, 16)
}

fn word_at(row: &[u8], at: usize) -> u64 {
    row.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// A transaction that was committed, or prepared.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Its changes.
    pub changes: Vec<Change>,
    /// Its CSN once committed. The CSN of a table definition is not known.
    pub csn: Option<u64>,
    /// Prepared, then rolled back.
    pub is_undone: bool,
}

impl Written {
    /// Whether it changes rows of a table.
    pub fn changes_rows_of(&self, table: &str) -> bool {
        self.changes.iter().any(|change| match change {
            Change::Put(name, ..) | Change::Remove(name, _) => name == table,
            _ => false,
        })
    }

    /// Whether it defines a table.
    pub fn is_definition(&self) -> bool {
        self.changes.iter().any(|change| !matches!(change, Change::Put(..) | Change::Remove(..)))
    }
}

/// The state of the table that a reader saw in one snapshot.
pub struct Observation {
    /// Hash of the rows.
    pub rows: u64,
    /// CSN of a commit that was acknowledged before the snapshot was taken.
    pub at_least: u64,
}

/// The record of one run.
#[derive(Default)]
pub struct History {
    /// Transactions by number.
    pub txns: Vec<Written>,
    /// CSN and number of those with a CSN, in commit order.
    pub order: Vec<(u64, usize)>,
    /// The observations of each reader, in order.
    pub seen: Vec<Vec<Observation>>,
}

impl History {
    /// Whether each reader saw states of the commit order only, in that order, and none older than
    /// the commits acknowledged before it took its snapshot.
    pub fn check_readers(&self, table: &str) -> Result<(), String> {
        let mut state = State::from([(table.to_owned(), Rows::new())]);
        let mut states = vec![(0, hash_of(&state[table]))];
        for (csn, txn) in &self.order {
            let changes = &self.txns[*txn].changes;
            let here =
                |change: &&Change| matches!(change, Change::Put(name, ..) | Change::Remove(name, _) if name == table);
            let changes: Vec<Change> = changes.iter().filter(here).cloned().collect();
            if !changes.is_empty() {
                apply(&mut state, &changes);
                states.push((*csn, hash_of(&state[table])));
            }
        }
        for (reader, seen) in self.seen.iter().enumerate() {
            let mut from = 0;
            for (number, observation) in seen.iter().enumerate() {
                let known = states.iter().rposition(|(csn, _)| *csn <= observation.at_least).unwrap_or(0);
                from = from.max(known);
                let Some(place) = states[from..].iter().position(|(_, hash)| *hash == observation.rows) else {
                    return Err(format!("what reader {reader} saw in scan {number} is no state, or one too old"));
                };
                from += place;
            }
        }
        Ok(())
    }
}

/// Hash of a table's rows.
pub fn hash_of(rows: &Rows) -> u64 {
    let mut hasher = DefaultHasher::new();
    rows.hash(&mut hasher);
    hasher.finish()
}

/// The record that all threads of a run share.
#[derive(Default)]
pub struct Ledger {
    inner: Mutex<Inner>,
    /// Rows in [`Inner::gone`], to be read where the scheduler does not switch threads.
    deletions: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    history: History,
    /// Transaction that wrote the row image with this stamp.
    stamps: BTreeMap<u64, usize>,
    stamp: u64,
    /// Rows that are committed, for anyone to change.
    rows: BTreeMap<Key, Rid>,
    /// Rows whose deletion is committed.
    gone: Vec<(Key, Rid)>,
    acknowledged: u64,
}

impl Ledger {
    /// Records a transaction before its commit begins. Returns its number.
    pub fn add(&self, changes: Vec<Change>) -> usize {
        let mut inner = self.inner.lock();
        let number = inner.history.txns.len();
        for change in &changes {
            if let Change::Put(_, _, row) = change {
                inner.stamps.insert(stamp_of(row), number);
            }
        }
        inner.history.txns.push(Written { changes, ..Written::default() });
        number
    }

    /// Records the CSN of a commit that returned.
    pub fn committed(&self, txn: usize, csn: u64) {
        let mut inner = self.inner.lock();
        inner.history.txns[txn].csn = Some(csn);
        inner.acknowledged = inner.acknowledged.max(csn);
    }

    /// Records that a prepared transaction is rolled back.
    pub fn undone(&self, txn: usize) {
        self.inner.lock().history.txns[txn].is_undone = true;
    }

    /// A stamp that no row image has yet.
    pub fn next_stamp(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.stamp += 1;
        inner.stamp
    }

    /// The transaction that wrote a row image, if it has begun to commit.
    pub fn writer_of(&self, row: &[u8]) -> Option<usize> {
        self.inner.lock().stamps.get(&stamp_of(row)).copied()
    }

    /// Highest CSN acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.inner.lock().acknowledged
    }

    /// Tells all threads of the rows that a commit inserted or deleted. The commit has returned.
    pub fn settle(&self, inserted: impl IntoIterator<Item = (Key, Rid)>, removed: impl IntoIterator<Item = Key>) {
        let mut inner = self.inner.lock();
        inner.rows.extend(inserted);
        for key in removed {
            if let Some(rid) = inner.rows.remove(&key) {
                inner.gone.push((key, rid));
            }
        }
        self.deletions.store(inner.gone.len(), Ordering::Relaxed);
    }

    /// Number of rows that are known with a key in the range.
    pub fn count(&self, keys: std::ops::Range<Key>) -> u64 {
        self.inner.lock().rows.range(keys).count() as u64
    }

    /// The row at that index in the range.
    pub fn row(&self, keys: std::ops::Range<Key>, place: u64) -> Option<(Key, Rid)> {
        self.inner.lock().rows.range(keys).nth(place as usize).map(|(key, rid)| (*key, *rid))
    }

    /// Number of rows whose deletion was committed.
    pub fn deletions(&self) -> usize {
        self.deletions.load(Ordering::Relaxed)
    }

    /// One of the `most` rows deleted last, chosen by `pick`: the number of its deletion, its key
    /// and its RID.
    pub fn gone(&self, most: usize, pick: u64) -> Option<(usize, Key, Rid)> {
        let inner = self.inner.lock();
        let first = inner.gone.len().saturating_sub(most);
        let place = first + pick.checked_rem((inner.gone.len() - first) as u64)? as usize;
        let (key, rid) = inner.gone[place];
        Some((place, key, rid))
    }

    /// Records what a reader saw.
    pub fn saw(&self, seen: Vec<Observation>) {
        self.inner.lock().history.seen.push(seen);
    }

    /// Ends the record.
    pub fn into_history(self) -> History {
        let mut history = self.inner.into_inner().history;
        let order = history.txns.iter().enumerate().filter_map(|(txn, written)| Some((written.csn?, txn)));
        history.order = order.collect();
        history.order.sort_unstable();
        history
    }
}
