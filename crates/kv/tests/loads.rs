//! The end of a load of a store over a map: nothing waits for it, and nothing of it is seen before
//! it is installed.

#![allow(clippy::disallowed_methods, reason = "the thread takes the time that it takes: no seed runs it again")]

#[allow(dead_code, reason = "other tests use the rest")]
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::stores::{push, snapshot};
use bytes::Bytes;
use perdura_kv::entry::{Change, WriteBatch};
use perdura_kv::store::{
    ErrorKind, MapConfig, MapStore, PersistentState, ReadLevel, SimDisk, Store, WalConfig, WalStore,
};
use perdura_map::{Kind, Layout};
use perdura_pmem::{Medium, SimMedium};
use raft::eraftpb::{Entry, SnapshotMetadata};

const BYTES: u64 = 96 << 20;
/// Entries, and keys of each.
const ENTRIES: u64 = 100;
const KEYS: u64 = 2000;
/// Longest wait for room.
const PATIENCE: Duration = Duration::from_secs(60);

fn entry(index: u64, term: u64, keys: u64, message: u8) -> Entry {
    let change = |number: u64| Change {
        key: format!("{:016x}", (index * keys + number).wrapping_mul(0x9e37_79b9_7f4a_7c15)).into(),
        value: Some(Bytes::copy_from_slice(&[message])),
    };
    let mut changes: Vec<Change> = (0..keys).map(change).collect();
    changes.push(Change { key: Bytes::from_static(b"at"), value: Some(Bytes::copy_from_slice(&[message])) });
    changes.sort_by(|one, other| one.key.cmp(&other.key));
    let batch = WriteBatch { clock_ms: 1000 + index, changes };
    Entry { index, term, data: batch.to_bytes(), ..Entry::default() }
}

/// Appends an entry, as often as the map's thread has not cleared enough away for it yet.
fn append(store: &mut MapStore, entry: &Entry) {
    let begun = Instant::now();
    while let Err(error) = store.append(std::slice::from_ref(entry)) {
        assert!(error.kind() == ErrorKind::Full && begun.elapsed() < PATIENCE, "{error}");
        store.persist().expect("persisted");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A store with entries of some keys, which are applied, on a medium.
fn filled(kind: Kind, replica: u64, entries: u64, keys: u64, message: u8) -> (Arc<dyn Medium>, MapStore) {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let layout = if kind == Kind::List { Layout::list(BYTES) } else { Layout::btree(BYTES) };
    let persistent_state = PersistentState::founder(7, replica, vec![1, 2]);
    let config = MapConfig { ring_bytes: 2000, ..MapConfig::default() };
    let mut store = MapStore::create(&medium, "m", (kind, &layout), &persistent_state, 1000, &config).expect("a store");
    store.set_vote(2, 1).expect("a vote");
    for index in 2..2 + entries {
        append(&mut store, &entry(index, 2, keys, message));
        store.commit(index).expect("a commit");
    }
    store.compact(store.applied()).expect("compacted");
    store.persist().expect("persisted");
    (medium, store)
}

fn at(store: &MapStore) -> Option<Bytes> {
    store.get(ReadLevel::Applied, b"at").expect("it reads")
}

/// Begins to install a snapshot. Returns the time of the call.
fn begin(store: &mut MapStore, metadata: &SnapshotMetadata, chunks: &[Bytes]) -> Duration {
    store.receive(false).expect("it waits");
    push(store, chunks);
    let begun = Instant::now();
    assert!(!store.finish_some(metadata).expect("there is room"), "all of it in one call");
    begun.elapsed()
}

/// Hazard: the end of a load sorts, links and counts hundreds of thousands of keys in one call, and
/// the reactor answers nobody meanwhile. Until the content is built the store is what it was, takes
/// votes, and refuses entries, which are tried again.
#[test]
fn nothing_waits_for_the_end_of_a_load() {
    for kind in [Kind::List, Kind::BTree] {
        let (_given, source) = filled(kind, 1, ENTRIES, KEYS, b'n');
        let (metadata, chunks) = snapshot(&source);
        let (medium, mut store) = filled(kind, 2, 3, 10, b'o');
        let whole = Instant::now();
        let mut longest = begin(&mut store, &metadata, &chunks);
        let (mut looks, mut votes) = (0, 2);
        loop {
            let begun = Instant::now();
            if store.finishes() && looks < 20 {
                assert_eq!(at(&store).as_deref(), Some(&b"o"[..]));
                let refused = store.append(&[entry(store.last() + 1, 2, 1, b'x')]).expect_err("a load goes on");
                assert_eq!(refused.kind(), ErrorKind::Full);
                votes += 1;
                store.set_vote(votes, 1).expect("a vote");
                store.persist().expect("persisted");
                store.receive(false).expect_err("another load goes on");
                store.compact(store.applied()).expect("it waits");
                looks += 1;
                if looks == 1 {
                    // The process ends and is started again: nothing of the load counts.
                    drop(store);
                    store = MapStore::open(&medium, "m", &MapConfig::default()).expect("it opens");
                    assert_eq!((at(&store).as_deref(), store.persistent_state().term), (Some(&b"o"[..]), votes));
                    longest = longest.max(begin(&mut store, &metadata, &chunks));
                    continue;
                }
            }
            let is_over = store.finish_some(&metadata).expect("there is room");
            longest = longest.max(begun.elapsed());
            if is_over {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        eprintln!("{kind}: the longest call took {longest:?} of {:?}, {looks} looks", whole.elapsed());
        assert!(looks > 0, "{kind}: it was never seen at work");
        assert_eq!((at(&store).as_deref(), store.applied()), (Some(&b"n"[..]), ENTRIES + 1));
        assert_eq!(store.persistent_state().term, votes);
        let next = store.last() + 1;
        append(&mut store, &entry(next, votes, 1, b'x'));
        store.map().check().expect("sound");
    }
}

/// Appends, applies and makes durable the next entry, which gives some of the keys another value.
fn go_on(store: &mut MapStore, number: u64) {
    let next = Entry { index: store.last() + 1, ..entry(number, 2, KEYS, b'p') };
    append(store, &next);
    store.commit(next.index).expect("a commit");
    store.compact(next.index).expect("compacted");
    store.persist().expect("persisted");
}

/// Hazard: a replica that is offered a snapshot waits for a round of collection that runs, and
/// answers nobody meanwhile. It is told at once that one runs, which gives way then.
#[test]
fn nothing_waits_for_a_round_before_a_load() {
    const OLD: u64 = 30;
    for kind in [Kind::List, Kind::BTree] {
        let (_given, source) = filled(kind, 1, 3, 10, b'n');
        let (metadata, chunks) = snapshot(&source);
        let (_medium, mut store) = filled(kind, 2, OLD, KEYS, b'o');
        let mut attempts = 0;
        loop {
            attempts += 1;
            assert!(attempts < 30, "{kind}: no round was ever seen at work");
            // All pages keep some keys, which a round has to move.
            (0..OLD / 2).for_each(|number| go_on(&mut store, 2 + (attempts * OLD / 2 + number) % OLD));
            assert!(store.map().ask_collection(perdura_map::Demand::default()), "there is a thread");
            std::thread::sleep(Duration::from_micros(300));
            if !store.try_receive(false).expect("a store") {
                break;
            }
        }
        let begun = Instant::now();
        while !store.try_receive(false).expect("a store") {
            assert!(begun.elapsed() < PATIENCE, "{kind}: the round does not end");
            assert_eq!(store.get(ReadLevel::Applied, b"at").expect("it reads").as_deref(), Some(&b"p"[..]));
            std::thread::sleep(Duration::from_micros(50));
        }
        eprintln!("{kind}: a round was seen at attempt {attempts}, and gave way after {:?}", begun.elapsed());
        push(&mut store, &chunks);
        store.finish(&metadata).expect("there is room");
        assert_eq!((at(&store).as_deref(), store.applied()), (Some(&b"n"[..]), metadata.index));
        store.map().check().expect("sound");
    }
}

/// Hazard: a store with a log copies the references to all its keys when a snapshot is begun, and
/// lets go of them all when it ends or is given up: the reactor answers nobody meanwhile.
#[test]
fn a_snapshot_of_a_log_copies_nothing_when_it_begins_and_ends() {
    const MOST: Duration = Duration::from_millis(4);
    let persistent_state = PersistentState::founder(7, 1, vec![1, 2]);
    let config = WalConfig { ring_bytes: 2000, ..WalConfig::default() };
    let mut store = WalStore::create(Arc::new(SimDisk::default()), &persistent_state, 1000, &config).expect("a store");
    store.set_vote(2, 1).expect("a vote");
    for index in 2..2 + ENTRIES {
        store.append(&[entry(index, 2, KEYS, b'o')]).expect("a disk");
        store.commit(index).expect("a commit");
        store.compact(index).expect("compacted");
    }
    // The least of several: the machine may be busy with something else.
    let least = |times: &[Duration]| times.iter().copied().min().unwrap_or_default();
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    for index in 2 + ENTRIES..10 + ENTRIES {
        let begun = Instant::now();
        let mut taken = store.snapshot(1 << 18).expect("a snapshot");
        begins.push(begun.elapsed());
        store.append(&[entry(index, 2, 100, b'p')]).expect("a disk");
        store.commit(index).expect("a commit");
        assert!(taken.chunk(0).is_ok_and(|(chunk, is_last)| chunk.len() == 1 << 18 && !is_last));
        let begun = Instant::now();
        drop(taken);
        ends.push(begun.elapsed());
        while store.upkeep().expect("a disk") {}
    }
    eprintln!("the longest begin {:?}, the longest end {:?}", begins.iter().max(), ends.iter().max());
    assert!(least(&begins) < MOST && least(&ends) < MOST, "{begins:?} {ends:?}");
}
