//! Data that a newer program has written: nothing is called damaged, and nothing is changed.

use std::sync::Arc;

use bytes::Bytes;
use perdura_kv::entry::{Kind, Tag};
use perdura_kv::store::{Error, ErrorKind, MapConfig, MapStore, PersistentState};
use perdura_map::{Config, Layout};
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
