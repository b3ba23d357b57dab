//! Data of other programs: a newer one's is not called damaged and not changed, and a snapshot of
//! an older one is taken.

use std::sync::Arc;

use crate::support::stores::{push, put, snapshot, value};
use bytes::Bytes;
use perdura_kv::entry::{Kind, Tag};
use perdura_kv::store::{Error, ErrorKind, MapConfig, MapStore, PersistentState, Store};
use perdura_map::{Config, KeyChange, Layout};
use perdura_pmem::{Medium, SimMedium};

fn store_on(medium: &Arc<dyn Medium>) -> MapStore {
    let (persistent_state, config) =
        (PersistentState::founder(7, 1, vec![1]), MapConfig { background: false, ..MapConfig::default() });
    let layout = Layout::list(1 << 20);
    MapStore::create(medium, "m", (perdura_map::Kind::List, &layout), &persistent_state, 1000, &config)
        .expect("a store")
}

/// Result of opening a store in whose map something was put.
fn refused(put: impl FnOnce(&dyn perdura_map::OrderedMap)) -> Error {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    drop(store_on(&medium));
    let map = perdura_map::open(&medium, "m", &Config { background: false, ..Config::default() }).expect("a map");
    put(&*map);
    map.persist().expect("persisted");
    drop(map);
    MapStore::open(&medium, "m", &MapConfig::default()).err().expect("it cannot be opened")
}

/// Hazard: an older program calls the data of all replicas damaged, and to move them away.
#[test]
fn what_a_newer_program_has_written_is_not_called_damaged() {
    let persistent_state = PersistentState::founder(7, 1, vec![1]).to_bytes();
    let newer = |bytes: &[u8]| [&[bytes[0] + 1][..], &bytes[1..]].concat();
    let tag = Tag { kind: Kind::Usual, term: 1, clock_ms: 1001, context: Bytes::new() }.to_bytes();
    for error in [
        refused(|map| map.set_meta(&newer(&persistent_state)).expect("room")),
        refused(|map| map.batch(2, &newer(&tag), &[]).expect("room")),
    ] {
        assert_eq!(error.kind(), ErrorKind::Version, "{error}");
        let text = error.to_string();
        assert!(text.contains("run that one, or a newer one") && !text.contains("remove"), "{text}");
    }
    // An entry of no version is damage still.
    let error = refused(|map| map.set_meta(&persistent_state[..20]).expect("room"));
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

/// The tag of a usual entry in layout 1.
fn tag_before(term: u64, clock_ms: u64) -> Vec<u8> {
    [&[1, 0][..], &term.to_le_bytes(), &clock_ms.to_le_bytes()].concat()
}

/// Hazard: a replica of this program can neither join a cluster of an older one nor restore its
/// backup, since a map's snapshot carries the tags of its entries.
#[test]
fn a_snapshot_of_a_program_before_tags_were_short_is_taken() {
    let older: Arc<dyn Medium> = Arc::new(SimMedium::new());
    drop(store_on(&older));
    let map = perdura_map::open(&older, "m", &Config { background: false, ..Config::default() }).expect("a map");
    for ts in 2..=5 {
        let key = format!("key{ts}");
        let change = KeyChange { key: key.as_bytes(), value: Some(b"older") };
        map.batch(ts, &tag_before(3, 1000 + ts), &[change]).expect("room");
    }
    // A snapshot has a forgotten tag, the tags of entries it keeps, and an entry not applied yet.
    map.apply(4).and_then(|()| map.forget(3)).and_then(|()| map.persist()).expect("persisted");
    drop(map);
    let source = MapStore::open(&older, "m", &MapConfig::default()).expect("its tags are read");
    let (metadata, chunks) = snapshot(&source);
    assert_eq!((metadata.index, metadata.term), (4, 3));

    let newer: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let mut store = store_on(&newer);
    store.receive(true).expect("it waits");
    push(&mut store, &chunks);
    while !store.finish_some(&metadata).expect("there is room") {}
    assert_eq!((store.applied(), value(&store, "key4").as_deref()), (4, Some(&b"older"[..])));
    store.append(&[put(5, 3, "key5", b"newer")]).expect("an entry");
    store.commit(5).and_then(|()| store.persist()).expect("persisted");
    drop(store);
    let store = MapStore::open(&newer, "m", &MapConfig::default()).expect("tags of both layouts are read");
    assert_eq!((store.applied(), value(&store, "key5").as_deref()), (5, Some(&b"newer"[..])));
    assert_eq!(value(&store, "key3").as_deref(), Some(&b"older"[..]));
}
