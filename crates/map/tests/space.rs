//! Hazards: overwriting uses up space; a deletion, a restart or a power failure loses pages.

use crate::support::compare::audit_space;
use crate::support::{KINDS, Map, NEWEST, all, collect_all, create, layout, quiet, quiet_every, tiny_layout};
use perdura_map::{Config, Kind, OrderedMap};
use perdura_pmem::sim::{Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::{Medium, SimMedium};
use std::ops::ControlFlow;
use std::sync::Arc;

fn map(kind: Kind, bytes: u64) -> Map {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    create(&medium, "map", kind, &layout(kind, bytes), &quiet_every(100)).expect("there is room")
}

/// Sets each of `keys` keys ten times, in changing order, and forgets as it goes.
fn overwrite(map: &dyn OrderedMap, keys: u64, value_bytes: usize) {
    let mut random = Random::new(1);
    let mut ts = 0;
    for round in 0..11u8 {
        let offset = random.below(keys);
        for n in 0..keys {
            // A step coprime to the number of keys meets each key once.
            let key = (n * 7919 + offset) % keys;
            ts += 1;
            map.set(ts, &format!("{key:010}").into_bytes(), &vec![round; value_bytes]).expect("there is room");
            if ts % 4000 == 0 {
                forget_all(map);
            }
        }
    }
    forget_all(map);
}

fn forget_all(map: &dyn OrderedMap) {
    map.apply(map.timestamps().last).expect("it is the newest");
    map.forget(map.timestamps().applied).expect("it is applied");
    map.persist().expect("persisted");
    map.collect().expect("collected");
}

#[test]
fn ten_overwrites_of_every_key_leave_twice_what_is_live_at_most() {
    for kind in KINDS {
        for (keys, value_bytes) in [(20_000, 10), (3000, 1000)] {
            let map = map(kind, 24 << 20);
            overwrite(&*map, keys, value_bytes);
            collect_all(&*map);
            let space = map.space();
            audit_space(&*map).expect("it adds up");
            assert!(space.used <= 2 * space.live, "{kind}, {value_bytes}: {space:?}");
            let given = keys * (10 + value_bytes as u64);
            assert!(value_bytes < 1000 || space.used <= 2 * given, "{kind}: {space:?} for {given} bytes given");
            let found = all(&*map, NEWEST);
            assert!(found.len() as u64 == keys && found.iter().all(|(_, value, _)| *value == vec![10; value_bytes]));
            assert_eq!(map.check().expect("sound"), keys);
        }
    }
}

/// Without a call to `collect`: the background thread does the work.
#[test]
fn the_background_thread_collects_by_itself() {
    for kind in KINDS {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let config = Config { background: true, ..Config::default() };
        let map = create(&medium, "map", kind, &layout(kind, 1 << 20), &config).expect("there is room");
        let mut refused = 0u64;
        let mut ts = 0;
        while ts < 20_000u64 {
            match map.put(&(ts % 50).to_be_bytes(), &[ts as u8; 200]) {
                Ok(_) => ts += 1,
                Err(error) => {
                    assert_eq!(error.kind(), perdura_map::ErrorKind::Full, "{error}");
                    refused += 1;
                    assert!(refused < 1 << 32, "{kind}: it stays full");
                    std::thread::yield_now();
                }
            }
        }
        assert_eq!((all(&*map, NEWEST).len(), map.check().expect("sound")), (50, 50), "{kind}");
        audit_space(&*map).expect("it adds up");
    }
}

/// Nothing of what was deleted stays, wherever it lay.
#[test]
fn what_is_deleted_leaves_no_page_behind() {
    for kind in KINDS {
        for restart in [false, true] {
            let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
            let mut map = create(&medium, "map", kind, &layout(kind, 4 << 20), &quiet()).expect("there is room");
            let empty = map.space();
            for round in 0..3u64 {
                let mut random = Random::new(round);
                let first = map.timestamps().last + 1;
                for n in 0..2000u64 {
                    let value = vec![1; random.below(if n % 100 == 0 { 5000 } else { 300 }) as usize];
                    map.set(first, &n.to_be_bytes(), &value).expect("what was deleted makes room");
                }
                for n in 0..2000u64 {
                    assert!(map.delete(first + 1, &n.to_be_bytes()).expect("there is room"));
                }
                forget_all(&*map);
                if restart {
                    drop(map);
                    map = perdura_map::open(&medium, "map", &quiet()).expect("it opens");
                }
                collect_all(&*map);
                let space = map.space();
                audit_space(&*map).expect("it adds up");
                assert!(space.live <= empty.live + 1024 && space.used <= 16 << 10, "{kind}, {round}: {space:?}");
                assert_eq!(map.check().expect("sound"), 0);
            }
        }
    }
}

/// A power failure while pages are allocated, freed or moved loses none of them, whatever survives.
#[test]
fn no_page_is_lost_by_a_power_failure() {
    for kind in KINDS {
        let (medium, recorder) = Recorder::attach(SimMedium::new());
        let medium: Arc<dyn Medium> = Arc::new(medium);
        let map = create(&medium, "map", kind, &tiny_layout(96 << 10), &quiet_every(4)).expect("there is room");
        let mut random = Random::new(5);
        for ts in 1..=200u64 {
            let key = [random.below(12) as u8];
            if random.one_in(4) {
                map.delete(ts, &key).expect("there is room");
            } else {
                map.set(ts, &key, &vec![ts as u8; random.below(700) as usize]).expect("there is room");
            }
            if ts % 20 == 0 {
                forget_all(&*map);
            }
        }
        let trace = recorder.trace();
        let (mut seen, mut images) = (Seen::default(), 0);
        trace.replay(&ReplayOptions::default(), |point| {
            if random.one_in(4) {
                point.for_each_image(&mut random, &mut seen, 1, |image| {
                    images += 1;
                    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
                    // Before the map exists there is nothing to lose.
                    if let Ok(map) = perdura_map::open(&medium, "map", &quiet()) {
                        empties(&*map, &format!("{kind}, event {}", point.index));
                    }
                });
            }
            ControlFlow::Continue(())
        });
        assert!(images > 50, "{kind}: {images} images");
    }
}

/// Deletes and collects the whole map, after which hardly a page is in use.
fn empties(map: &dyn OrderedMap, what: &str) {
    map.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    audit_space(map).unwrap_or_else(|error| panic!("{what}: {error}"));
    map.rollback(map.timestamps().applied + 1).unwrap_or_else(|error| panic!("{what}: {error}"));
    for (number, (key, _, _)) in all(map, NEWEST).into_iter().enumerate() {
        let ts = map.timestamps().last.max(map.timestamps().applied) + 1;
        assert!(map.delete(ts, &key).unwrap_or_else(|error| panic!("{what}: {error}")));
        if number % 8 == 7 {
            forget_all(map);
        }
    }
    forget_all(map);
    collect_all(map);
    let space = map.space();
    assert!(space.exact && space.used <= 4 << 10, "{what}: {space:?}");
    assert_eq!(map.check().unwrap_or_else(|error| panic!("{what}: {error}")), 0, "{what}");
}

/// Sets `keys` keys of about `value_bytes`, then some of them again and again, in `changes` changes
/// in all. Each value names its key. Returns how often there was no room although there were the
/// bytes, so that the map was compacted.
fn overwrite_some(map: &dyn OrderedMap, keys: u64, value_bytes: u64, changes: u64) -> u64 {
    let (mut random, mut scattered) = (Random::new(value_bytes), 0);
    for ts in 1..=changes {
        let key = if ts <= keys { ts } else { 1 + random.below(keys) };
        let value = vec![key as u8; (value_bytes - random.below(value_bytes / 12)) as usize];
        if let Err(error) = map.set(ts, &key.to_be_bytes(), &value) {
            assert_eq!(error.kind(), perdura_map::ErrorKind::Full, "{error}");
            let space = map.usage();
            scattered += u64::from(space.free - space.reserved > value_bytes + 80);
            map.collect().expect("collected");
            map.set(ts, &key.to_be_bytes(), &value).unwrap_or_else(|error| {
                panic!("{} of {value_bytes} bytes, change {ts}: {error}: {:?}", map.kind(), map.space())
            });
        }
        if ts % 10 == 0 {
            map.apply(ts).expect("it is there");
            map.forget(ts).expect("it is applied");
            map.persist().expect("persisted");
        }
    }
    scattered
}

/// Found: with three fifths of a region live, values in pages that they did not fit evenly were
/// refused for good, though a third of it was free or garbage: no two free pages were adjacent, so
/// that the collector could move nothing either.
#[test]
fn three_quarters_of_a_region_can_be_overwritten_for_ever() {
    const BYTES: u64 = 8 << 20;
    for kind in KINDS {
        for value_bytes in [500, 2000, 5000, 20_000] {
            let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
            let config = Config { background: false, ..Config::default() };
            let map = create(&medium, "map", kind, &layout(kind, BYTES), &config).expect("there is room");
            let keys = BYTES / 4 * 3 / (value_bytes + 80);
            overwrite_some(&*map, keys, value_bytes, keys * 5);
            audit_space(&*map).expect("it adds up");
            assert!(map.check().expect("sound") >= keys);
            assert_eq!(named_rightly(&*map), keys, "{kind}, {value_bytes}");
        }
    }
}

/// Count of the keys whose values name them; others fail the test.
fn named_rightly(map: &dyn OrderedMap) -> u64 {
    let found = all(map, NEWEST);
    found.iter().for_each(|(key, value, _)| assert_eq!(value.first(), key.last()));
    found.len() as u64
}

/// A power failure while a map is compacted loses no page and no key, whatever survives.
#[test]
fn a_compaction_is_safe_from_power_failures() {
    for (kind, keys) in [(Kind::List, 90), (Kind::BTree, 64)] {
        let (medium, recorder) = Recorder::attach(SimMedium::new());
        let medium: Arc<dyn Medium> = Arc::new(medium);
        let map = create(&medium, "map", kind, &tiny_layout(96 << 10), &quiet_every(4)).expect("there is room");
        let scattered = overwrite_some(&*map, keys, 600, 4 * keys);
        assert!(scattered > 1, "{kind}: compacted {scattered} times");
        let trace = recorder.trace();
        let (mut random, mut seen, mut images) = (Random::new(6), Seen::default(), 0);
        trace.replay(&ReplayOptions::default(), |point| {
            if random.one_in(10) {
                point.for_each_image(&mut random, &mut seen, 1, |image| {
                    images += 1;
                    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
                    if let Ok(map) = perdura_map::open(&medium, "map", &quiet()) {
                        let (found, last) = (named_rightly(&*map), map.timestamps().last);
                        assert_eq!(found, keys.min(last), "{kind}, event {}: keys at {last}", point.index);
                        empties(&*map, &format!("{kind}, event {}", point.index));
                    }
                });
            }
            ControlFlow::Continue(())
        });
        assert!(images > 50, "{kind}: {images} images");
    }
}
