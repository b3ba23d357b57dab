//! Hazard: `forget` or `rollback` runs out of room half-way in a full region, because a snapshot
//! holds what it replaces.
//!
//! Forgetting once changed the index, and ended in `Full` with a mark for readers that was above
//! what it had forgotten. Rolling back once ended in `Full`, so that a follower could not truncate
//! its log. Neither may happen: forgetting needs no room, and room for rolling back is kept.

use perdura_map::{BTree, Config, Error, ErrorKind, KeyChange, Layout, List, OrderedMap, Ts};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeMap;
use std::sync::Arc;

const KEYS: u64 = 80;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn config() -> Config {
    Config { changes_max: 4, background: false, seed: Some(1), ..Config::default() }
}

/// Whether there was room.
fn had_room<T>(result: Result<T, Error>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::Full => false,
        Err(error) => panic!("{error}"),
    }
}

/// Sets keys again and again until the region is full.
fn fill(map: &dyn OrderedMap) -> Model {
    let mut model = Model::new();
    for number in 0.. {
        let (key, value) = (format!("key {}", number * 7 % KEYS).into_bytes(), vec![number as u8; 30]);
        if !had_room(map.set(number + 1, &key, &value)) {
            break;
        }
        model.insert(key, value);
    }
    model
}

fn check(map: &dyn OrderedMap, model: &Model) {
    let forgotten = map.timestamps().forgotten;
    map.mutations(0, &mut |mutation| {
        assert!(mutation.ts > forgotten, "a change at {} is listed, forgotten is {forgotten}", mutation.ts);
        true
    })
    .expect("the map is whole");
    let mut scan = map.prefix(b"key", Ts::MAX).expect("the map is whole");
    let mut found = Model::new();
    while let Some(entry) = scan.advance().expect("the map is whole") {
        found.insert(entry.key.to_vec(), entry.value.to_vec());
    }
    assert_eq!(found, *model);
    map.check().expect("the map is whole");
}

type Create = dyn Fn(&Arc<dyn Medium>, &Layout) -> Box<dyn OrderedMap>;

fn list(medium: &Arc<dyn Medium>, layout: &Layout) -> Box<dyn OrderedMap> {
    Box::new(List::create(medium, "map", layout, &config()).expect("the medium is empty"))
}

fn btree(medium: &Arc<dyn Medium>, layout: &Layout) -> Box<dyn OrderedMap> {
    Box::new(BTree::create(medium, "map", layout, &config()).expect("the medium is empty"))
}

fn what_is_forgotten_is_forgotten_whole(bytes: u64, create: &Create) {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let layout = Layout { bytes, page_bytes: 256, branching: 4 };
    let map = create(&medium, &layout);
    let model = fill(&*map);
    let last = map.timestamps().last;
    map.apply(last).expect("nothing is written");
    {
        // The snapshot keeps everything that is replaced from being freed.
        let _snapshot = map.snapshot().expect("the map is whole");
        map.forget(last).expect("forgetting needs no room");
        assert_eq!(map.timestamps().forgotten, last);
        assert!(map.get(b"key 0", last).is_ok());
        assert_eq!(map.get(b"key 0", last - 1).map(drop).map_err(|error| error.kind()), Err(ErrorKind::Forgotten));
    }
    check(&*map, &model);
    for _ in 0..4 {
        map.collect().expect("there is garbage");
        check(&*map, &model);
    }
    map.persist().expect("the map is whole");
    drop(map);
    let map = perdura_map::open(&medium, "map", &config()).expect("the map is whole");
    check(&*map, &model);
    map.collect().expect("the map is whole");
    check(&*map, &model);
}

/// Fills a region with changes that are not applied, deletions at last, and takes them back under a
/// snapshot.
fn what_is_not_applied_can_be_taken_back(bytes: u64, create: &Create) {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let layout = Layout { bytes, page_bytes: 256, branching: 4 };
    let map = create(&medium, &layout);
    let mut before = Model::new();
    for number in 0..bytes >> 10 {
        let key = format!("key {}", number * 7 % KEYS).into_bytes();
        map.set(number + 1, &key, b"before").expect("there is room");
        before.insert(key, b"before".to_vec());
    }
    let applied = map.timestamps().last;
    map.apply(applied).expect("it is there");
    let mut ts = applied;
    for round in 1..1000 {
        if !had_room(map.set(ts + 1, format!("key {}", round * 11 % KEYS).as_bytes(), &[1; 20])) {
            break;
        }
        ts += 1;
        if round % 50 == 0 {
            map.rollback(ts - 20).expect("room is kept for it");
            ts -= 21;
        }
    }
    for number in 0..KEYS {
        if !had_room(map.delete(ts + 1 + number, format!("key {number}").as_bytes())) {
            break;
        }
    }
    let snapshot = map.snapshot().expect("the map is whole");
    map.rollback(applied + 1).unwrap_or_else(|error| panic!("{bytes} bytes: room is kept for it: {error}"));
    check(&*map, &before);
    drop(snapshot);
    check(&*map, &before);
    map.persist().expect("the map is whole");
    drop(map);
    check(&*perdura_map::open(&medium, "map", &config()).expect("the map is whole"), &before);
}

/// Fills a region with batches that are not applied, and takes them back under a snapshot.
fn batches_can_be_taken_back(bytes: u64, create: &Create) {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let map = create(&medium, &Layout { bytes, page_bytes: 256, branching: 4 });
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|number| format!("key {number}").into_bytes()).collect();
    let change =
        |round: usize, number: usize| KeyChange { key: &keys[(number * 13 + round) % keys.len()], value: Some(b"1") };
    map.batch(1, b"", &[change(0, 0), change(0, 1)]).expect("there is room");
    map.apply(1).expect("it is there");
    for (round, count) in [60, 45, 30, 20, 10, 4, 2, 1].into_iter().enumerate().flat_map(|one| [one; 9]) {
        let changes: Vec<KeyChange<'_>> = (0..count).map(|number| change(round, number)).collect();
        had_room(map.batch(map.timestamps().last + 1, b"tag", &changes));
    }
    let snapshot = map.snapshot().expect("the map is whole");
    map.rollback(2).unwrap_or_else(|error| panic!("{bytes} bytes: room is kept for it: {error}"));
    drop(snapshot);
    check(&*map, &Model::from([0, 13].map(|number: usize| (keys[number].clone(), b"1".to_vec()))));
}

#[test]
fn batches_in_a_full_list_can_be_rolled_back() {
    (36 << 10..60 << 10).step_by(512).for_each(|bytes| batches_can_be_taken_back(bytes, &list));
}

#[test]
fn batches_in_a_full_btree_can_be_rolled_back() {
    (36 << 10..60 << 10).step_by(512).for_each(|bytes| batches_can_be_taken_back(bytes, &btree));
}

#[test]
fn a_list_forgets_without_room() {
    (40 << 10..48 << 10).step_by(512).for_each(|bytes| what_is_forgotten_is_forgotten_whole(bytes, &list));
}

#[test]
fn a_btree_forgets_without_room() {
    (40 << 10..48 << 10).step_by(512).for_each(|bytes| what_is_forgotten_is_forgotten_whole(bytes, &btree));
}

#[test]
fn a_full_list_can_be_rolled_back() {
    (40 << 10..60 << 10).step_by(512).for_each(|bytes| what_is_not_applied_can_be_taken_back(bytes, &list));
}

#[test]
fn a_full_btree_can_be_rolled_back() {
    (40 << 10..60 << 10).step_by(512).for_each(|bytes| what_is_not_applied_can_be_taken_back(bytes, &btree));
}

/// Hazard: room for rolling back is kept for a tree of fewer levels than this one has.
#[test]
fn the_room_kept_is_for_every_level() {
    const CHANGES: u64 = 40;
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let layout = Layout { bytes: 16 << 20, page_bytes: 256, branching: 4 };
    let config = Config { changes_max: 1000, ..config() };
    let map = BTree::create(&medium, "map", &layout, &config).expect("the medium is empty");
    // Nodes of at most 4 entries: more than 7 levels, since 4^7 is less.
    const KEYS: u64 = 20_000;
    let key = |number: u64| (number * 7919 % KEYS).to_be_bytes();
    (0..KEYS).for_each(|number| map.set(1, &key(number), b"").expect("there is room"));
    map.apply(1).expect("it is there");
    map.persist().expect("persisted");
    let before = map.space().reserved;
    (0..CHANGES).for_each(|number| map.set(2, &key(number), b"later").expect("there is room"));
    // An inner node has 8 bytes of checksum, 8 of header and 24 for each entry, in whole cache
    // lines: 2 to a page.
    let kept = map.space().reserved - before;
    assert!(kept >= CHANGES * 8 * 128, "{kept} bytes are kept for {CHANGES} changes of paths of 8 nodes");
    map.rollback(2).expect("room is kept");
    assert_eq!(map.space().reserved, before);
}
