//! Hazard: a full region loses something, or never accepts anything again.
//!
//! A refused change changes nothing. Reads go on, and so do deletions if the caller forgets from
//! time to time. What is forgotten and collected becomes room again, any number of times and after
//! a restart.

use crate::support;

use crate::support::{
    KINDS, Map, NEWEST, Place, all, collect_all, create, error_kind, layout, quiet, quiet_every, tiny_layout,
};
use perdura_map::{Config, ErrorKind, Kind, Layout, OrderedMap, Space};
use perdura_pmem::sim::Random;
use std::collections::BTreeMap;

/// The values that the map must have, by key.
type Wanted = BTreeMap<Vec<u8>, Vec<u8>>;

fn check(map: &dyn OrderedMap, wanted: &Wanted, what: &str) {
    let found = all(map, NEWEST).into_iter().map(|(key, value, _)| (key, value));
    assert!(found.eq(wanted.clone()), "{what}: the map has other content");
    let sound = map.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(sound as usize >= wanted.len(), "{what}");
    support::compare::audit_space(map).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Applies and forgets everything, and collects.
fn make_room(map: &dyn OrderedMap) {
    map.apply(map.timestamps().last).expect("it is the newest");
    map.forget(map.timestamps().applied).expect("it is applied");
    map.persist().expect("persisted");
    collect_all(map);
}

/// Deletes keys. When there is no room for a deletion, makes room, after which there must be some.
fn delete_all<'a>(map: &dyn OrderedMap, wanted: &mut Wanted, keys: impl Iterator<Item = &'a Vec<u8>>, what: &str) {
    for (place, key) in keys.enumerate() {
        let delete = || map.delete(map.timestamps().last + 1, key);
        let mut deleted = delete();
        if error_kind(deleted.clone()) == Some(ErrorKind::Full) {
            assert!(place > 5, "{what}: some room is kept for deletions");
            make_room(map);
            deleted = delete();
        }
        assert!(deleted.unwrap_or_else(|error| panic!("{what}: a deletion must go on: {error}")));
        wanted.remove(key);
    }
}

/// Sets keys until the region is full. Returns how many.
fn fill(map: &dyn OrderedMap, wanted: &mut Wanted, random: &mut Random, bytes_max: u64) -> usize {
    for count in 0.. {
        let key = random.next_u64().to_be_bytes().to_vec();
        let value = vec![key[7]; random.below(bytes_max) as usize];
        let before = map.timestamps();
        match map.set(before.last + 1, &key, &value) {
            Ok(()) => drop(wanted.insert(key, value)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                assert!(error.to_string().len() > 20, "it says what to do: {error}");
                assert_eq!(map.timestamps().last, before.last, "a refused change changes nothing");
                assert_eq!(map.get(&key, NEWEST).expect("it reads").map(|value| value.len()), None);
                return count;
            }
        }
    }
    unreachable!("the region is not endless")
}

fn layouts(kind: Kind) -> [(&'static str, Layout); 3] {
    let large_pages = Layout { page_bytes: 4096, ..layout(kind, 512 << 10) };
    [("tiny", tiny_layout(256 << 10)), ("default", layout(kind, 256 << 10)), ("large pages", large_pages)]
}

#[test]
fn a_full_map_goes_on_after_deletions_and_collection() {
    for kind in KINDS {
        for (name, layout) in layouts(kind) {
            for changes_max in [1, 10, 1000] {
                let place = Place::simulated(kind);
                let map = place.create_with("map", &layout, &quiet_every(changes_max));
                let what = format!("{kind}, {name}, batches of {changes_max}");
                cycle(&*map, &what);
            }
        }
    }
}

/// Fills the map and empties it, several times.
fn cycle(map: &dyn OrderedMap, what: &str) {
    let (mut random, mut wanted) = (Random::new(7), Wanted::new());
    let mut first = 0;
    for round in 0..6 {
        let what = format!("{what}, round {round}");
        let count = fill(map, &mut wanted, &mut random, 200);
        check(map, &wanted, &what);
        first = if round == 0 { count } else { first };
        assert!(count * 3 > first, "{what}: {count} keys fitted where {first} did at first");
        let keys: Vec<Vec<u8>> = wanted.keys().cloned().collect();
        delete_all(map, &mut wanted, keys.iter().filter(|_| !random.one_in(8)), &what);
        check(map, &wanted, &what);
        make_room(map);
        check(map, &wanted, &what);
        let space = map.space();
        assert!(space.used <= 2 * space.live + space.total / 4, "{what}: {space:?}");
    }
}

/// Nothing is deleted: new versions of the same keys, while old ones are forgotten.
#[test]
fn overwriting_goes_on_as_long_as_old_versions_are_forgotten() {
    for kind in KINDS {
        let place = Place::simulated(kind);
        let map = place.create_with("map", &tiny_layout(128 << 10), &quiet());
        let (mut random, mut wanted, mut full) = (Random::new(8), Wanted::new(), 0);
        for round in 0..4000u64 {
            let key = vec![b'k', random.below(60) as u8];
            let value = vec![round as u8; random.below(500) as usize];
            let set = |ts| map.set(ts, &key, &value);
            if error_kind(set(map.timestamps().last + 1)) == Some(ErrorKind::Full) {
                full += 1;
                make_room(&*map);
                set(map.timestamps().last + 1).unwrap_or_else(|error| panic!("{kind}, {round}: {error}"));
            }
            wanted.insert(key, value);
        }
        assert!(full > 5, "{kind}: full {full} times");
        check(&*map, &wanted, &kind.to_string());
    }
}

#[test]
fn nothing_of_a_full_map_is_lost_by_a_restart() {
    for kind in KINDS {
        let place = Place::simulated(kind);
        let (mut random, mut wanted) = (Random::new(9), Wanted::new());
        drop(place.create_with("map", &layout(kind, 128 << 10), &quiet()));
        for round in 0..5 {
            let map = place.open("map");
            check(&*map, &wanted, &format!("{kind}, round {round}"));
            fill(&*map, &mut wanted, &mut random, 150);
            map.persist().unwrap_or_else(|error| panic!("{kind}: a full map persists: {error}"));
            drop(map);
            let map = place.open("map");
            check(&*map, &wanted, &format!("{kind}, full, round {round}"));
            let keys: Vec<Vec<u8>> = wanted.keys().cloned().collect();
            delete_all(&*map, &mut wanted, keys.iter().step_by(2), &format!("{kind}, round {round}"));
            make_room(&*map);
            check(&*map, &wanted, &format!("{kind}, collected, round {round}"));
        }
    }
}

/// Every call on a full map that needs no room, or makes some.
#[test]
fn a_full_map_can_be_read_rolled_back_persisted_and_streamed() {
    for kind in KINDS {
        let place = Place::simulated(kind);
        let map = place.create_with("map", &tiny_layout(64 << 10), &quiet());
        let (mut random, mut wanted) = (Random::new(10), Wanted::new());
        map.set(1, b"first", b"value").expect("there is room");
        map.apply(1).expect("it is the newest");
        wanted.insert(b"first".to_vec(), b"value".to_vec());
        for round in 0..5 {
            fill(&*map, &mut wanted, &mut random, 300);
            check(&*map, &wanted, "full");
            map.persist().unwrap_or_else(|error| panic!("{kind}: persisting: {error}"));
            map.collect().unwrap_or_else(|error| panic!("{kind}: collecting: {error}"));
            let chunks = support::stream(&*map, 1000);
            let target = place.create_other(&format!("other{round}"));
            support::load(&*target, &chunks).expect("there is room in another");
            assert_eq!(all(&*target, NEWEST), all(&*map, NEWEST));
            map.rollback(2).unwrap_or_else(|error| panic!("{kind}: rolling back: {error}"));
            wanted.retain(|key, _| key == b"first");
            check(&*map, &wanted, "rolled back");
            map.persist().expect("persisted");
            collect_all(&*map);
        }
    }
}

/// A large value that does not fit leaves the map as it was, and leaves room for small ones.
#[test]
fn a_value_that_does_not_fit_leaves_room_for_others() {
    for kind in KINDS {
        let place = Place::simulated(kind);
        let map = place.create_with("map", &layout(kind, 256 << 10), &quiet());
        for ts in 1..=100u64 {
            assert_eq!(error_kind(map.set(ts, b"large", &vec![1; 300 << 10])), Some(ErrorKind::Full), "{kind}");
            map.set(ts, &[ts as u8], &[ts as u8; 100]).unwrap_or_else(|error| panic!("{kind}, {ts}: {error}"));
        }
        assert_eq!((all(&*map, NEWEST).len(), map.check().expect("sound")), (100, 100));
        // A part of the free pages is reserved for deletions.
        let Space { free, free_run_max, reserved, .. } = map.space();
        // A part of the rest is for the nodes that name the value.
        let fits = free_run_max.min(free - reserved) - (8 << 10);
        map.set(101, b"large", &vec![1; fits as usize]).expect("what the space report promises fits");
    }
}

#[test]
fn regions_too_small_are_refused_and_the_smallest_work() {
    for kind in KINDS {
        let mut smallest = None;
        for bytes in (0..200).map(|n| n * 64).chain((200..800).map(|n| n * 256)) {
            let place = Place::simulated(kind);
            match create(&place.medium, "map", kind, &tiny_layout(bytes), &quiet()) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Configuration, "{kind}, {bytes} bytes: {error}");
                    assert!(smallest.is_none(), "{kind}: {bytes} bytes refused, fewer taken");
                    assert!(place.medium.list().expect("it lists").is_empty(), "no file is left behind");
                }
                Ok(map) => {
                    if smallest.replace(bytes).is_none() {
                        usable(&map, &place, bytes);
                    }
                }
            }
        }
        assert!(smallest.is_some(), "{kind}");
    }
}

fn usable(map: &Map, place: &Place, bytes: u64) {
    for ts in 1..=50u64 {
        map.put(b"key", &ts.to_le_bytes()).unwrap_or_else(|error| panic!("{} in {bytes} bytes: {error}", place.kind));
        map.persist().expect("persisted");
        map.collect().expect("collected");
    }
    assert_eq!(map.check().expect("sound"), 1);
}

#[test]
fn layouts_and_settings_out_of_range_are_refused() {
    for kind in KINDS {
        let place = Place::simulated(kind);
        let right = layout(kind, 1 << 20);
        let pages = [0, 1, 128, 255, 257, 1000, 1 << 17, u32::MAX].map(|page_bytes| Layout { page_bytes, ..right });
        let branching = [0, 1, 2, 3, 65, u32::MAX].map(|branching| Layout { branching, ..right });
        for wrong in pages.iter().chain(&branching) {
            let made = create(&place.medium, "map", kind, wrong, &quiet());
            assert_eq!(error_kind(made), Some(ErrorKind::Configuration), "{kind}: {wrong:?}");
        }
        let never = Config { changes_max: 0, ..quiet() };
        assert_eq!(error_kind(create(&place.medium, "map", kind, &right, &never)), Some(ErrorKind::Configuration));
        assert!(place.medium.list().expect("it lists").is_empty(), "{kind}: no file is left behind");
        drop(place.create("map"));
        assert_eq!(error_kind(perdura_map::open(&place.medium, "map", &never)), Some(ErrorKind::Configuration));
    }
}

/// A device without room for the file: the error is `Full`, and nothing of the attempt stays.
#[test]
fn a_device_too_small_is_told() {
    for kind in KINDS {
        let medium = std::sync::Arc::new(perdura_pmem::SimMedium::with_capacity(64 << 10));
        let medium: std::sync::Arc<dyn perdura_pmem::Medium> = medium;
        let made = create(&medium, "map", kind, &layout(kind, 1 << 20), &quiet());
        assert_eq!(error_kind(made), Some(ErrorKind::Full), "{kind}");
        assert!(medium.list().expect("it lists").is_empty(), "{kind}");
        create(&medium, "map", kind, &tiny_layout(32 << 10), &quiet()).expect("a smaller one fits");
    }
}
