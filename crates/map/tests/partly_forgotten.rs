//! Hazard: `forget` runs out of room half-way, because a snapshot holds what it replaces.
//!
//! What is forgotten by then stays forgotten, everything else stays as it was, and without the snapshot the rest can be
//! forgotten. Found by the crash explorer: the collector took a rollback record left behind for garbage, and
//! `mutations` listed it as not forgotten. Later, one edit of many changes needed more room than there was, so that no
//! retry could succeed.

use perdura_map::{BTree, Config, Error, ErrorKind, Layout, List, OrderedMap, Ts};
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

/// Returns whether there was too little room to forget everything.
fn what_is_partly_forgotten_stays_whole(
    bytes: u64,
    create: impl Fn(&Arc<dyn Medium>, &Layout) -> Box<dyn OrderedMap>,
) -> bool {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let layout = Layout { bytes, page_bytes: 256, branching: 4 };
    let map = create(&medium, &layout);
    let model = fill(&*map);
    let last = map.timestamps().last;
    map.apply(last).expect("nothing is written");
    let is_partly = {
        // The snapshot keeps everything that is replaced from being freed.
        let _snapshot = map.snapshot().expect("the map is whole");
        !had_room(map.forget(last))
    };
    check(&*map, &model);
    for _ in 0..4 {
        map.collect().expect("there is garbage");
        check(&*map, &model);
    }
    map.confirm().expect("the map is whole");
    drop(map);
    let map = perdura_map::open(&medium, "map", &config()).expect("the map is whole");
    check(&*map, &model);
    map.collect().expect("the map is whole");
    map.forget(last).expect("there is room again");
    check(&*map, &model);
    is_partly
}

#[test]
fn of_a_list() {
    for bytes in (32 << 10..40 << 10).step_by(512) {
        what_is_partly_forgotten_stays_whole(bytes, |medium, layout| {
            Box::new(List::create(medium, "map", layout, &config()).expect("the medium is empty"))
        });
    }
}

#[test]
fn of_a_btree() {
    let sizes = (32 << 10..40 << 10).step_by(512);
    let partly = sizes.filter(|bytes| {
        what_is_partly_forgotten_stays_whole(*bytes, |medium, layout| {
            Box::new(BTree::create(medium, "map", layout, &config()).expect("the medium is empty"))
        })
    });
    assert!(partly.count() > 0, "there was room to forget all, each time");
}
