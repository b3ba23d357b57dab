//! Concurrent ordered maps in DRAM that could have served as the list's index, and our own tree
//! beside them. Each entry has the first 8 bytes of a key and the place of its record, where the
//! rest of the key is read if these bytes are equal.

use crate::keys::Key;
use crossbeam_skiplist::SkipSet;
use perdura_tree::{Keys, Tree};
use scc::{Guard, TreeIndex};
use std::cmp::Ordering;

/// Stands for a record in the region. It begins its own cache line, as most records there do.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Record(pub Key);

/// An entry, ordered like the keys of the records.
#[derive(Clone, Copy)]
pub struct Entry {
    beginning: u64,
    record: &'static Record,
}

impl Entry {
    /// The entry of a record.
    pub fn new(record: &'static Record) -> Entry {
        let beginning = record.0.first_chunk().expect("a key is longer than 8 bytes");
        Entry { beginning: u64::from_be_bytes(*beginning), record }
    }

    /// Address of the record.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self.record).addr()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.beginning.cmp(&other.beginning).then_with(|| self.record.0.cmp(&other.record.0))
    }
}

/// An ordered index of entries.
pub trait Index {
    /// Inserts a new entry.
    fn insert(&self, entry: Entry);
    /// Finds the entry that equals `probe`, which must exist.
    fn find(&self, probe: &Entry) -> Entry;
    /// Removes the entry that equals `probe`, which must exist.
    fn remove(&self, probe: &Entry);
}

impl Index for SkipSet<Entry> {
    fn insert(&self, entry: Entry) {
        SkipSet::insert(self, entry);
    }

    fn find(&self, probe: &Entry) -> Entry {
        *self.get(probe).expect("the entry is there").value()
    }

    fn remove(&self, probe: &Entry) {
        SkipSet::remove(self, probe).expect("the entry is there");
    }
}

impl Index for TreeIndex<Entry, ()> {
    fn insert(&self, entry: Entry) {
        assert!(self.insert_sync(entry, ()).is_ok(), "the entry is new");
    }

    fn find(&self, probe: &Entry) -> Entry {
        let guard = Guard::new();
        *self.peek_entry(probe, &guard).expect("the entry is there").0
    }

    fn remove(&self, probe: &Entry) {
        assert!(self.remove_sync(probe), "the entry is there");
    }
}

/// Finds records by their addresses.
struct Addresses;

impl Addresses {
    fn record(reference: u64) -> &'static Record {
        // SAFETY: references are the addresses of records, exposed below, which live as long as the
        // program.
        unsafe { &*std::ptr::with_exposed_provenance(reference as usize) }
    }
}

impl Keys for Addresses {
    fn key(&self, reference: u64) -> &[u8] {
        &Addresses::record(reference).0
    }
}

impl Index for Tree<Addresses> {
    fn insert(&self, entry: Entry) {
        let address = std::ptr::from_ref(entry.record).expose_provenance();
        assert_eq!(self.writer().insert(&entry.record.0, address as u64), None, "the entry is new");
    }

    fn find(&self, probe: &Entry) -> Entry {
        Entry::new(Addresses::record(self.get(&probe.record.0).expect("the entry is there")))
    }

    fn remove(&self, probe: &Entry) {
        self.writer().remove(&probe.record.0).expect("the entry is there");
    }
}

/// All indexes by name, empty.
pub fn all() -> [(&'static str, Box<dyn Index>); 3] {
    [
        ("crossbeam_skiplist", Box::new(SkipSet::new())),
        ("scc_treeindex", Box::new(TreeIndex::new())),
        ("perdura_tree", Box::new(Tree::new(Addresses))),
    ]
}
