//! Stores with logs that have something, and their snapshots.

use bytes::Bytes;
use perdura_kv::entry::{Change, WriteBatch};
use perdura_kv::sim::{Place, Variant};
use perdura_kv::store::{PersistentState, ReadLevel, Store};
use raft::eraftpb::{Entry, SnapshotMetadata};

pub fn put(index: u64, term: u64, key: &str, value: &[u8]) -> Entry {
    let change = Change { key: key.to_owned().into(), value: Some(Bytes::copy_from_slice(value)) };
    let batch = WriteBatch { clock_ms: 1000 + index, changes: vec![change] };
    Entry { index, term, data: batch.to_bytes(), ..Entry::default() }
}

/// A store with some entries of a term, which are applied: a key each, one of which is `key`.
pub fn filled(replica: u64, term: u64, key: &str, last: u64) -> (Place, Box<dyn Store>) {
    let (place, mut store) =
        Place::create(Variant::Wal, 0, &PersistentState::founder(7, replica, vec![1, 2, 3])).expect("a store");
    store.set_vote(term, 3).expect("a vote");
    for index in 2..=last {
        let name = if index == last { key.to_owned() } else { format!("{key}{index}") };
        store.append(&[put(index, term, &name, &[index as u8; 700])]).expect("an entry");
    }
    store.append(&[put(last + 1, term, "long", &[7; 20_000])]).expect("an entry");
    store.commit(last + 1).expect("a commit");
    store.persist().expect("a disk");
    (place, store)
}

pub fn snapshot(store: &dyn Store) -> (SnapshotMetadata, Vec<Bytes>) {
    let mut snapshot = store.snapshot(1000).expect("a snapshot");
    let mut chunks = Vec::new();
    loop {
        let (chunk, is_last) = snapshot.chunk(chunks.len() as u32).expect("a chunk");
        chunks.push(chunk);
        if is_last {
            return (snapshot.metadata().clone(), chunks);
        }
    }
}

pub fn push(store: &mut dyn Store, chunks: &[Bytes]) {
    chunks.iter().zip(0..).for_each(|(chunk, number)| store.push(number, chunk).expect("a chunk"));
}

pub fn value(store: &dyn Store, key: &str) -> Option<Bytes> {
    store.get(ReadLevel::Newest, key.as_bytes()).expect("it reads")
}
