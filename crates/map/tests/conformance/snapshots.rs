//! Snapshots: the whole map at one moment, streamed while changes go on, and loaded into either
//! structure.

use super::Check;
use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use crate::support::{
    NEWEST, Place, all, collect_all, create, layout, load, mutations, other, quiet_every, refused, stream, value,
};
use perdura_map::{ErrorKind, OrderedMap};

pub const CHECKS: &[(&str, Check)] = &[
    ("a snapshot persists and tells where the map stood", a_snapshot_persists),
    ("a stream fills either structure, in chunks of any size", a_stream_fills_either_structure),
    ("a stream shows its moment, whatever changes meanwhile", a_stream_shows_its_moment),
    ("while a snapshot is held nothing is collected", while_a_snapshot_is_held_nothing_is_collected),
    ("a loaded map rolls back and forgets like the first", a_loaded_map_goes_on_like_the_first),
    ("loading replaces everything, durably", loading_replaces_everything),
    ("an empty map can be streamed and loaded", an_empty_map_can_be_streamed),
    ("several snapshots and streams are independent", several_snapshots_are_independent),
    ("loads one after another do not fill the region", loads_one_after_another),
];

/// Fills a map with versions, deletions, forgotten and unapplied changes. Returns its model.
pub fn prepare(map: &dyn OrderedMap) -> Model {
    let mut model = Model::default();
    for ts in 1..=60u64 {
        let key = [&b"key "[..], &[b'a' + (ts * 7 % 11) as u8]].concat();
        if ts % 5 == 0 && model.newest(&key).is_some() {
            assert!(map.delete(ts, &key).expect("there is room"));
            model.change(ts, &key, None);
        } else {
            let text = vec![ts as u8; (ts * 13 % 200) as usize];
            map.set(ts, &key, &text).expect("there is room");
            model.change(ts, &key, Some(&text));
        }
    }
    map.set(60, b"", b"empty").expect("there is room");
    model.change(60, b"", Some(b"empty"));
    map.apply(45).expect("it is there");
    model.applied = 45;
    map.forget(20).expect("it is applied");
    model.forget(20);
    model
}

fn a_snapshot_persists(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 4 << 20), &quiet_every(1000));
    let mut model = prepare(&*map);
    assert_eq!(map.timestamps().persisted, 0);
    let snapshot = map.snapshot().expect("a snapshot");
    let seen = snapshot.timestamps();
    assert_eq!((seen.last, seen.applied, seen.forgotten, seen.persisted), (60, 45, 20, 60));
    assert_eq!(map.timestamps(), seen);
    map.set(61, b"later", b"value").expect("there is room");
    assert_eq!(snapshot.timestamps(), seen, "a snapshot does not move");
    drop(snapshot);
    map.rollback(61).expect("it is not applied");
    assert!(map.timestamps().last <= 60);
    model.last = map.timestamps().last;
    compare(&*map, &model).expect("a snapshot changes nothing");
}

fn a_stream_fills_either_structure(place: &Place) {
    let map = place.create("map");
    let model = prepare(&*map);
    for (number, bytes_max) in [64, 65, 100, 1000, 1 << 20].into_iter().enumerate() {
        let chunks = stream(&*map, bytes_max);
        assert!(chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= bytes_max), "chunks of {bytes_max}");
        for (kind, name) in [(place.kind, "same"), (other(place.kind), "other")] {
            let name = format!("{name}{number}");
            let target =
                create(&place.medium, &name, kind, &layout(kind, 1 << 20), &crate::support::quiet()).expect("room");
            load(&*target, &chunks).unwrap_or_else(|error| panic!("{name}: {error}"));
            let same = |map: &dyn OrderedMap| compare(map, &model).and_then(|()| audit(map, &model));
            same(&*target).unwrap_or_else(|what| panic!("{name} in chunks of {bytes_max}: {what}"));
            assert_eq!(target.timestamps(), map.timestamps(), "{name}");
            drop(target);
            same(&*place.open(&name)).unwrap_or_else(|what| panic!("{name} reopened: {what}"));
        }
    }
    compare(&*map, &model).and_then(|()| audit(&*map, &model)).expect("a stream changes nothing");
}

fn a_stream_shows_its_moment(place: &Place) {
    let map = place.create("map");
    let model = prepare(&*map);
    let snapshot = map.snapshot().expect("a snapshot");
    let mut chunks = Vec::new();
    let mut ts = 60;
    for chunk in snapshot.chunks(64) {
        chunks.push(chunk.expect("it streams"));
        ts += 1;
        let key = [&b"key "[..], &[b'a' + (ts % 16) as u8]].concat();
        match ts % 4 {
            0 => drop(map.delete(ts, &key).expect("there is room")),
            1 if ts > 70 => {
                let last = map.timestamps().last;
                map.apply(last - 1).expect("it is there");
                map.forget(last - 2).expect("it is applied");
            }
            2 => map.rollback(map.timestamps().last).expect("it is not applied"),
            _ => map.set(ts, &key, &[0xaa; 90]).expect("there is room"),
        }
        map.persist().expect("persisted");
        map.collect().expect("collected");
    }
    assert!(chunks.len() > 20, "{}", chunks.len());
    assert_eq!(snapshot.timestamps().last, 60);
    drop(snapshot);
    let target = place.create_other("other");
    load(&*target, &chunks).expect("it loads");
    compare(&*target, &model).and_then(|()| audit(&*target, &model)).expect("the moment of the snapshot");
}

fn while_a_snapshot_is_held_nothing_is_collected(place: &Place) {
    let map = place.create("map");
    for ts in 1..=300u64 {
        map.set(ts, &[ts as u8 % 8], &[ts as u8; 300]).expect("there is room");
    }
    map.apply(300).expect("it is the newest");
    let snapshot = map.snapshot().expect("a snapshot");
    let second = map.snapshot().expect("another");
    map.forget(300).expect("it is applied");
    map.persist().expect("persisted");
    let free = map.space().free;
    for _ in 0..5 {
        assert_eq!(map.collect().expect("it does nothing"), 0);
    }
    assert_eq!(map.space().free, free);
    drop(snapshot);
    assert_eq!(map.collect().expect("it does nothing"), 0, "one is still held");
    let chunks: Vec<_> = second.chunks(4096).map(|chunk| chunk.expect("it streams")).collect();
    drop(second);
    collect_all(&*map);
    assert!(map.space().free > free + 60 * 1024, "{:?}", map.space());
    let target = place.create_other("other");
    load(&*target, &chunks).expect("it loads");
    assert_eq!((target.check().expect("sound"), target.timestamps().forgotten), (300, 0), "the snapshot was older");
}

fn a_loaded_map_goes_on_like_the_first(place: &Place) {
    let map = place.create("map");
    let mut model = prepare(&*map);
    let target = place.create_other("other");
    load(&*target, &stream(&*map, 500)).expect("it loads");
    let sorted = |map: &dyn OrderedMap| {
        let mut changes = mutations(map, 46);
        changes.sort();
        changes
    };
    assert_eq!(sorted(&*target), sorted(&*map), "in the order of their timestamps, if not within one");
    refused(target.set(59, b"key", b"value"), ErrorKind::Timestamp);
    refused(target.rollback(45), ErrorKind::Timestamp);
    refused(target.get(b"key", 19), ErrorKind::Forgotten);
    target.rollback(50).expect("it is not applied");
    model.rollback(50, target.timestamps().last).expect("as documented");
    compare(&*target, &model).and_then(|()| audit(&*target, &model)).expect("rolled back");
    target.set(50, b"new", b"value").expect("there is room");
    model.change(50, b"new", Some(b"value"));
    target.apply(50).expect("it is the newest");
    model.applied = 50;
    target.forget(48).expect("it is applied");
    model.forget(48);
    collect_all(&*target);
    compare(&*target, &model).and_then(|()| audit(&*target, &model)).expect("forgotten");
    drop(target);
    let target = place.open("other");
    compare(&*target, &model).and_then(|()| audit(&*target, &model)).expect("reopened");
}

fn loading_replaces_everything(place: &Place) {
    let map = place.create("map");
    let model = prepare(&*map);
    let target = place.create_other("other");
    for ts in 1..=500u64 {
        target.set(ts, &ts.to_be_bytes(), &[1; 100]).expect("there is room");
    }
    target.apply(500).expect("it is the newest");
    load(&*target, &stream(&*map, 300)).expect("it loads, though its timestamps are lower");
    compare(&*target, &model).and_then(|()| audit(&*target, &model)).expect("replaced");
    collect_all(&*target);
    assert!(target.space().used < 128 << 10, "what was there before is collected: {:?}", target.space());
    compare(&*target, &model).and_then(|()| audit(&*target, &model)).expect("collected");
    drop(target);
    let target = place.open("other");
    compare(&*target, &model).and_then(|()| audit(&*target, &model)).expect("replaced durably");
}

fn an_empty_map_can_be_streamed(place: &Place) {
    let map = place.create("map");
    let chunks = stream(&*map, 64);
    let target = place.create_other("other");
    target.set(5, b"key", b"value").expect("there is room");
    load(&*target, &chunks).expect("it loads");
    compare(&*target, &Model::default()).and_then(|()| audit(&*target, &Model::default())).expect("empty");
    target.set(1, b"key", b"value").expect("like a new one");
}

fn several_snapshots_are_independent(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"one").expect("there is room");
    let first = map.snapshot().expect("a snapshot");
    map.set(2, b"key", b"two").expect("there is room");
    let second = map.snapshot().expect("another");
    map.rollback(2).expect("it is not applied");
    map.set(3, b"key", b"three").expect("there is room");
    let third = map.snapshot().expect("a third");
    let streams = [&second, &first, &third, &first].map(|snapshot| {
        let mut chunks = snapshot.chunks(64);
        let head: Vec<_> = chunks.by_ref().take(1).map(|chunk| chunk.expect("it streams")).collect();
        let again: Vec<_> = snapshot.chunks(64).map(|chunk| chunk.expect("it streams")).collect();
        let whole: Vec<_> = head.into_iter().chain(chunks.map(|chunk| chunk.expect("it streams"))).collect();
        assert_eq!(whole, again, "two streams of one snapshot");
        whole
    });
    drop((first, second, third));
    for (number, (chunks, wanted)) in streams.iter().zip([&b"two"[..], b"one", b"three", b"one"]).enumerate() {
        let target = place.create_other(&format!("other{number}"));
        load(&*target, chunks).expect("it loads");
        assert_eq!(value(&*target, b"key", NEWEST), Some(wanted.to_vec()));
    }
}

fn loads_one_after_another(place: &Place) {
    let map = place.create("map");
    for ts in 1..=200u64 {
        map.set(ts, &ts.to_be_bytes(), &[ts as u8; 400]).expect("there is room");
    }
    let chunks = stream(&*map, 1 << 16);
    let kind = other(place.kind);
    let target =
        create(&place.medium, "other", kind, &layout(kind, 512 << 10), &crate::support::quiet()).expect("room");
    for _ in 0..12 {
        load(&*target, &chunks).expect("there is room beside the old content");
        collect_all(&*target);
    }
    assert_eq!(all(&*target, NEWEST), all(&*map, NEWEST));
}
