//! The files of a store with a log: the frames of logs and states, and what is in them.

use std::ops::Bound;
use std::sync::OnceLock;

use super::input::Input;
use bytes::Bytes;
use perdura_kv::entry::{Change, WriteBatch};
use perdura_kv::sim::{Place, Variant};
use perdura_kv::store::{ErrorKind, PersistentState, ReadLevel, Store};
use raft::eraftpb::Entry;

const HEADER_BYTES: usize = 24;
const KEYS: u64 = 5;

fn entry(index: u64) -> Entry {
    let key = Bytes::from(format!("key{}", index % KEYS));
    let value = (!index.is_multiple_of(4)).then(|| Bytes::from(vec![index as u8; 20]));
    let batch = WriteBatch { clock_ms: 1000 + index, changes: vec![Change { key, value }] };
    Entry { index, term: 2, data: batch.to_bytes(), ..Entry::default() }
}

/// The names and bytes of the files that every run begins with: a state, and a log that goes on
/// from it.
fn base() -> &'static Vec<(String, Vec<u8>)> {
    static BASE: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    BASE.get_or_init(|| {
        let (place, mut store) =
            Place::create(Variant::Wal, 0, &PersistentState::founder(7, 1, vec![1, 2, 3])).expect("a new store");
        store.set_vote(2, 2).expect("a store");
        for index in 2..60 {
            store.append(&[entry(index)]).expect("room");
            store.commit(index - 1).expect("it is there");
            store.compact(index - 1).expect("it is applied");
            store.persist().expect("a disk");
            while store.upkeep().expect("a disk") {}
        }
        drop(store);
        let names = (1..20).flat_map(|number| [format!("state.{number}"), format!("log.{number}")]);
        names.filter_map(|name| place.disk().bytes_of(&name).map(|bytes| (name, bytes))).collect()
    })
}

/// Makes the checksums of all frames right whose headers are sound.
fn mend(name: &str, bytes: &mut [u8]) {
    let file: u64 = name.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let mut at = 0;
    while at + HEADER_BYTES <= bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        let Some(body) = bytes.get(at + HEADER_BYTES..at + HEADER_BYTES + length) else { return };
        let number = u64::from_le_bytes(bytes[at + 16..at + 24].try_into().expect("eight bytes"));
        let words = [file, number, length as u64].map(u64::to_le_bytes).concat();
        let sum = crc32c::crc32c_append(crc32c::crc32c(&words), body);
        bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
        at = (at + HEADER_BYTES + length).next_multiple_of(8);
        if length == 0 {
            return;
        }
    }
}

/// Damages files, opens the store, and uses it. If the first byte is odd, checksums are right.
pub fn files(data: &[u8]) {
    let mut input = Input(data);
    let mends = input.u8() % 2 == 1;
    let mut files = base().clone();
    while !input.is_over() {
        let at = input.below(files.len() as u64) as usize;
        input.change(&mut files[at].1);
    }
    let (place, store) = Place::create(Variant::Wal, 0, &PersistentState::joiner(7, 9)).expect("a new store");
    drop(store);
    for name in ["state.1", "log.1"] {
        place.disk().take_away(name);
    }
    for (name, mut bytes) in files {
        if mends {
            mend(&name, &mut bytes);
        }
        place.disk().put_bytes(&name, bytes);
    }
    match place.open() {
        Ok(mut store) => use_all(&mut *store),
        Err(error) => {
            let is_expected = matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotFound | ErrorKind::Entry);
            assert!(is_expected, "{:?}: {error}", error.kind());
        }
    }
}

fn use_all(store: &mut dyn Store) {
    let _ = store.scan(ReadLevel::Newest, b"", Bound::Unbounded, &mut |_, _| true);
    let _ = store.scan(ReadLevel::Applied, b"key", Bound::Excluded(b"key1"), &mut |_, _| true);
    let _ = (store.get(ReadLevel::Newest, b"key1"), store.entries(store.first(), store.last() + 1, u64::MAX));
    let last = store.last();
    if last < 1 << 60 {
        let _ = (store.append(&[entry(last + 1)]), store.commit(last + 1), store.persist(), store.compact(last));
    }
    if let Ok(mut snapshot) = store.snapshot(200) {
        for number in 0.. {
            let Ok((_, false)) = snapshot.chunk(number) else { break };
        }
    }
    for _ in 0..20 {
        let _ = store.upkeep();
    }
}
