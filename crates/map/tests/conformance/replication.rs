//! Needs of a replicated log: batches with tags, the meta blob, a durable watermark that tells the
//! truth, views, snapshots that travel and end, and loads that need no room for both contents.

use super::Check;
use crate::support::{
    NEWEST, Owned, Place, all, collect_all, layout, mutations, quiet, quiet_every, refused, tiny_layout, value,
};
use perdura_map::{Compared, Config, ErrorKind, KeyChange, META_BYTES_MAX, OrderedMap, Position, TAG_BYTES_MAX, Ts};
use std::time::Duration;

pub const CHECKS: &[(&str, Check)] = &[
    ("persisted falls with what is rolled back", persisted_falls_with_what_is_rolled_back),
    ("persisted is below a timestamp that goes on", persisted_is_below_a_timestamp_that_goes_on),
    ("a batch is one change", a_batch_is_one_change),
    ("a batch that meets Full leaves nothing", a_batch_that_meets_full_leaves_nothing),
    ("tags are rolled back, listed and kept", tags_are_rolled_back_listed_and_kept),
    ("an entry without data has a timestamp and a tag", an_entry_without_data),
    ("the meta blob outlives rollbacks, loads and restarts", the_meta_blob_outlives),
    ("a comparison tells what it rests on", a_comparison_tells_what_it_rests_on),
    ("a view holds what it shows", a_view_holds_what_it_shows),
    ("a backlog is forgotten in steps", a_backlog_is_forgotten_in_steps),
    ("a view ends with the content it is of", a_view_ends_with_its_content),
    ("a scan outlives the content it is of", a_scan_outlives_its_content),
    ("a stream goes on from any position", a_stream_goes_on_from_any_position),
    ("snapshots travel between threads and outlive their map", snapshots_travel),
    ("a loader outlives its map and is refused", a_loader_outlives_its_map),
    ("a limit counts garbage alone, also right after a start", a_limit_counts_garbage_alone),
    ("a snapshot with a limit ends", a_snapshot_with_a_limit_ends),
    ("a load after a reset needs no room for both", a_load_after_a_reset),
    ("an unfinished load after a reset is reported", an_unfinished_load_is_reported),
    ("tags travel in snapshots", tags_travel_in_snapshots),
    ("thousands of values can be held", thousands_of_values_can_be_held),
    ("a map is opened by its kind", a_map_is_opened_by_its_kind),
];

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> KeyChange<'a> {
    KeyChange { key, value: Some(value) }
}

fn tags(map: &dyn OrderedMap) -> Vec<(Ts, Vec<u8>)> {
    let mut found = Vec::new();
    map.mutations(0, &mut |mutation| {
        found.extend(mutation.tag.map(|tag| (mutation.ts, tag.to_vec())));
        true
    })
    .expect("it lists");
    found
}

/// Found: a server that acknowledged by `persisted >= ts` would have lied after a rollback.
fn persisted_falls_with_what_is_rolled_back(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 1 << 20), &quiet_every(1000));
    for ts in 1..=10u64 {
        map.set(ts, b"key", &[ts as u8]).expect("there is room");
    }
    map.persist().expect("persisted");
    map.rollback(5).expect("it is not applied");
    assert_eq!((map.timestamps().last, map.timestamps().persisted), (4, 4));
    map.set(5, b"key", b"other").expect("there is room");
    assert_eq!((map.timestamps().last, map.timestamps().persisted), (5, 4));
    map.persist().expect("persisted");
    assert_eq!(map.timestamps().persisted, 5);
}

fn persisted_is_below_a_timestamp_that_goes_on(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 1 << 20), &quiet_every(1000));
    map.set(7, b"a", b"x").expect("there is room");
    map.persist().expect("persisted");
    map.set(7, b"b", b"x").expect("there is room");
    assert_eq!(map.timestamps().persisted, 6, "not all of 7 is durable");
}

/// Found: a batch closed between changes of one timestamp.
fn a_batch_is_one_change(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 1 << 20), &quiet_every(1));
    map.set(9, b"b", b"before").expect("there is room");
    let changes = [put(b"a", b"1"), put(b"b", b"2"), KeyChange { key: b"none", value: None }, put(b"a", b"3")];
    map.batch(10, b"term 1", &changes).expect("there is room");
    assert_eq!((map.timestamps().last, map.timestamps().persisted), (10, 10));
    let seen = [&b"a"[..], b"b", b"none"].map(|key| value(&*map, key, NEWEST));
    assert_eq!(seen, [Some(b"3".to_vec()), Some(b"2".to_vec()), None]);
    map.batch(11, b"", &[KeyChange { key: b"b", value: None }]).expect("there is room");
    assert_eq!(value(&*map, b"b", NEWEST), None);
    refused(map.batch(10, b"", &[]), ErrorKind::Timestamp);
    refused(map.batch(12, &[0; TAG_BYTES_MAX + 1], &[]), ErrorKind::TooLarge);
    map.rollback(10).expect("it is not applied");
    assert_eq!(all(&*map, NEWEST), [(b"b".to_vec(), b"before".to_vec(), 9)]);
    assert_eq!(map.check().expect("sound"), 1);
}

fn a_batch_that_meets_full_leaves_nothing(place: &Place) {
    let map = place.create_with("map", &tiny_layout(64 << 10), &quiet_every(3));
    map.set(1, b"key 1", b"before").expect("there is room");
    map.delete(2, b"key 1").expect("there is room");
    map.set(2, b"key 2", b"before").expect("there is room");
    let before = (map.timestamps(), mutations(&*map, 0), all(&*map, NEWEST));
    let keys: Vec<Vec<u8>> = (0..200).map(|n| format!("key {n}").into_bytes()).collect();
    let large = vec![7; 2000];
    let changes: Vec<KeyChange<'_>> = keys.iter().map(|key| put(key, &large)).collect();
    for _ in 0..5 {
        refused(map.batch(3, b"tag", &changes), ErrorKind::Full);
        let after = map.timestamps();
        assert_eq!(
            (after.last, mutations(&*map, 0), all(&*map, NEWEST)),
            (before.0.last, before.1.clone(), before.2.clone())
        );
        assert_eq!(map.check().expect("sound"), 3);
    }
    map.batch(3, b"tag", &changes[..2]).expect("there is room for less");
    assert_eq!(map.check().expect("sound"), 5);
    drop(map);
    assert_eq!(place.open("map").check().expect("sound"), 5);
}

fn tags_are_rolled_back_listed_and_kept(place: &Place) {
    let mut map = place.create("map");
    for ts in 1..=6u64 {
        map.batch(ts, format!("term {}", ts / 3).as_bytes(), &[put(b"key", &[ts as u8])]).expect("there is room");
    }
    assert_eq!(map.forgotten_tag(), None);
    map.rollback(6).expect("it is not applied");
    map.apply(4).expect("it is there");
    map.forget(3).expect("it is applied");
    for _ in 0..2 {
        assert_eq!(map.forgotten_tag(), Some((3, b"term 1".to_vec())));
        assert_eq!(tags(&*map), [(4, b"term 1".to_vec()), (5, b"term 1".to_vec())]);
        collect_all(&*map);
        assert_eq!(map.check().expect("sound"), 3);
        drop(map);
        map = place.open("map");
    }
}

fn an_entry_without_data(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"value").expect("there is room");
    map.advance(5, b"term 2").expect("there is room");
    assert_eq!(map.timestamps().last, 5);
    refused(map.set(4, b"key", b"x"), ErrorKind::Timestamp);
    map.apply(5).expect("it is there");
    map.forget(5).expect("it is applied");
    assert_eq!(map.forgotten_tag(), Some((5, b"term 2".to_vec())));
    collect_all(&*map);
    assert_eq!(map.check().expect("sound"), 1);
}

fn the_meta_blob_outlives(place: &Place) {
    let map = place.create("map");
    assert_eq!(map.meta(), b"");
    map.set_meta(b"term 3, vote 1").expect("it is short");
    map.set(1, b"key", b"value").expect("there is room");
    map.rollback(1).expect("it is not applied");
    map.persist().expect("persisted");
    drop(map);
    let map = place.open("map");
    assert_eq!(map.meta(), b"term 3, vote 1");
    let other = place.create_other("other");
    other.set_meta(b"its own").expect("it is short");
    crate::support::load(&*other, &crate::support::stream(&*map, 100)).expect("it loads");
    assert_eq!(other.meta(), b"its own");
    refused(map.set_meta(&[0; META_BYTES_MAX + 1]), ErrorKind::TooLarge);
    map.set_meta(&[7; META_BYTES_MAX]).expect("the longest");
    drop(map);
    assert_eq!(place.open("map").meta(), [7; META_BYTES_MAX]);
}

/// Found: the answer of a comparison rested on a change that could be rolled back, and did not say
/// which.
fn a_comparison_tells_what_it_rests_on(place: &Place) {
    let map = place.create("map");
    let compare = |ts, expected, new| map.compare_and_set(ts, b"key", expected, new).expect("there is room");
    assert_eq!(compare(1, Some(&b"x"[..]), None), Compared { matched: false, ts: 0 });
    assert_eq!(compare(3, None, Some(&b"one"[..])), Compared { matched: true, ts: 3 });
    assert_eq!(compare(5, Some(&b"two"[..]), None), Compared { matched: false, ts: 3 });
    assert_eq!(compare(6, Some(&b"one"[..]), None), Compared { matched: true, ts: 6 });
    assert_eq!(compare(7, Some(&b"one"[..]), None), Compared { matched: false, ts: 6 }, "it rests on the deletion");
    assert_eq!(compare(7, None, None), Compared { matched: true, ts: 6 });
}

fn a_view_holds_what_it_shows(place: &Place) {
    let map = place.create("map");
    for ts in 1..=60u64 {
        map.set(ts, &[ts as u8 % 5], &[ts as u8; 50]).expect("there is room");
    }
    map.delete(61, &[2]).expect("there is room");
    map.apply(61).expect("it is there");
    let early = map.view(30).expect("nothing is forgotten");
    let late = map.view(50).expect("nothing is forgotten");
    map.forget(61).expect("it is applied");
    map.persist().expect("persisted");
    collect_all(&*map);
    assert_eq!(map.timestamps().forgotten, 30, "as far as views allow");
    refused(map.get(&[0], 29), ErrorKind::Forgotten);
    let seen = |view: &perdura_map::View<'_>| {
        (0..5u8).map(|key| view.get(&[key]).expect("held").map(|found| found.ts())).collect::<Vec<_>>()
    };
    assert_eq!(seen(&early), [30, 26, 27, 28, 29].map(Some));
    drop(early);
    assert_eq!(map.timestamps().forgotten, 50, "the rest is forgotten as views end");
    collect_all(&*map);
    assert_eq!(seen(&late), [50, 46, 47, 48, 49].map(Some));
    let mut scan = late.scan((std::ops::Bound::Unbounded, std::ops::Bound::Unbounded)).expect("held");
    assert_eq!(scan.advance().expect("held").map(|entry| entry.ts), Some(50));
    drop(scan);
    drop(late);
    assert_eq!(map.timestamps().forgotten, 61);
    refused(map.view(60), ErrorKind::Forgotten);
    assert_eq!(map.check().expect("sound"), 4);
}

/// Hazards: one change forgets all that a view had held, while others wait; or it is never
/// forgotten.
fn a_backlog_is_forgotten_in_steps(place: &Place) {
    const BACKLOG: Ts = 2000;
    let map = place.create("map");
    for ts in 1..=BACKLOG {
        map.set(ts, &[ts as u8], &ts.to_be_bytes()).expect("room");
    }
    let last = map.put(b"p", b"").expect("room");
    let forgotten = || map.timestamps().forgotten;
    assert!((1..BACKLOG).contains(&forgotten()), "a change has forgotten up to {}", forgotten());
    let puts = (0..).take_while(|_| forgotten() <= last && map.put(b"p", b"").is_ok()).count();
    assert!(puts <= 10, "{puts} changes went by");
    assert_eq!(map.timestamps().forgotten, map.timestamps().last);
    map.check().expect("a sound map");

    let map = place.create_with("busy", &layout(place.kind, 4 << 20), &Config { background: true, ..quiet() });
    for ts in 1..=BACKLOG {
        map.set(ts, &[ts as u8], &ts.to_be_bytes()).expect("room");
    }
    let last = map.put(b"p", b"").expect("room");
    let waits = (0..20_000).take_while(|_| map.timestamps().forgotten < last);
    waits.for_each(|_| std::thread::sleep(Duration::from_millis(1)));
    assert!(map.timestamps().forgotten >= last, "nobody goes on with it");
}

fn a_view_ends_with_its_content(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"value").expect("there is room");
    let chunks = crate::support::stream(&*map, 100);
    map.set(2, b"key", b"later").expect("there is room");
    let view = map.view(1).expect("nothing is forgotten");
    crate::support::load(&*map, &chunks).expect("it loads");
    refused(view.get(b"key"), ErrorKind::Forgotten);
    refused(view.scan((std::ops::Bound::Unbounded, std::ops::Bound::Unbounded)), ErrorKind::Forgotten);
}

/// Found: a scan that a load overtook took nodes that no persist had summed for damage.
fn a_scan_outlives_its_content(place: &Place) {
    let source = place.create_other("source");
    source.set(1, b"key", b"value").expect("there is room");
    let chunks = crate::support::stream(&*source, 1000);
    for resets in [false, true] {
        let name = format!("map.{resets}");
        let map = place.create_with(&name, &layout(place.kind, 4 << 20), &quiet_every(100_000));
        (0..500u64).for_each(|key| map.set(1, &key.to_be_bytes(), &[1; 20]).expect("there is room"));
        let mut scan = map.prefix(b"", 1).expect("it scans");
        assert!(scan.advance().expect("sound").is_some());
        let mut loader = if resets { map.reset_and_load() } else { map.load_snapshot() }.expect("nothing is held");
        chunks.iter().for_each(|chunk| loader.push(chunk).expect("there is room"));
        loader.finish().expect("it loads");
        let rest = crate::support::collect(scan).unwrap_or_else(|error| panic!("resets: {resets}: {error}"));
        assert_eq!(rest.len(), 499, "what it began with");
        assert_eq!(all(&*map, NEWEST).len(), 1);
    }
}

fn a_stream_goes_on_from_any_position(place: &Place) {
    let map = place.create("map");
    super::snapshots::prepare(&*map);
    map.batch(61, b"a tag", &[put(b"last", b"value")]).expect("there is room");
    let snapshot = map.snapshot().expect("a snapshot");
    let whole: Vec<Vec<u8>> = snapshot.chunks(70).map(|chunk| chunk.expect("it streams")).collect();
    let mut position = Position::default();
    let mut parts = Vec::new();
    loop {
        // A new stream for every chunk.
        let mut chunks = snapshot.resume(&position, 70);
        let Some(chunk) = chunks.next() else { break };
        parts.push(chunk.expect("it streams"));
        assert_eq!(chunks.is_over(), parts.len() == whole.len());
        position = chunks.position();
    }
    assert!(parts == whole && whole.len() > 20, "{} chunks, {}", parts.len(), whole.len());
}

/// Found: snapshots and scans could not be sent to another thread.
fn snapshots_travel(place: &Place) {
    fn sends<T: Send>(_: &T) {}
    let map = place.create("map");
    map.set(1, b"key", b"value").expect("there is room");
    sends(&map.prefix(b"", 1).expect("it scans"));
    sends(&map.view(1).expect("nothing is forgotten"));
    sends(&map.get(b"key", 1).expect("it reads"));
    sends(&map.load_snapshot().expect("nothing is held"));
    let snapshot = map.snapshot().expect("a snapshot");
    sends(&snapshot.chunks(100));
    drop(map);
    let chunks = std::thread::spawn(move || snapshot.chunks(100).collect::<Result<Vec<_>, _>>());
    let chunks = chunks.join().expect("it ends").expect("it streams");
    let target = place.create_other("other");
    crate::support::load(&*target, &chunks).expect("it loads");
    assert_eq!(value(&*target, b"key", 1), Some(b"value".to_vec()));
}

/// Found: a server could not keep a loader from one message to the next.
fn a_loader_outlives_its_map(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"value").expect("there is room");
    let chunks = crate::support::stream(&*map, 64);
    let (first, rest) = chunks.split_first().expect("a chunk");
    let mut loader = map.reset_and_load().expect("nothing is held");
    loader.push(first).expect("it is whole");
    drop(map);
    let map = place.open("map");
    assert!(rest.iter().any(|chunk| loader.push(chunk).is_err()), "another handle has the map");
    refused(loader.finish(), ErrorKind::Damaged);
    refused(map.get(b"key", NEWEST), ErrorKind::Partial);
    crate::support::load(&*map, &chunks).expect("it loads");
    assert_eq!(map.check().expect("sound"), 1);
}

/// Found: a slow reader of a snapshot kept all garbage until changes met `Full`.
fn a_snapshot_with_a_limit_ends(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 1 << 20), &quiet_every(10));
    for key in 0..50u8 {
        map.put(&[key], &[key; 500]).expect("there is room");
    }
    let unlimited = map.snapshot_within(u64::MAX).expect("a snapshot");
    drop(unlimited);
    let snapshot = map.snapshot_within(100 << 10).expect("a snapshot");
    let mut chunks = snapshot.chunks(1000);
    chunks.next().expect("there are many").expect("it streams");
    for round in 0..100u32 {
        for key in 0..50u8 {
            map.put(&[key], &[round as u8; 500]).expect("the snapshot gives way");
        }
        map.collect().expect("collected");
    }
    assert!(snapshot.has_expired());
    refused(chunks.next().expect("an error"), ErrorKind::Expired);
    assert!(chunks.next().is_none());
    assert_eq!(map.check().expect("sound"), 50);
}

/// Found: before a B+-tree is traversed all its pages counted as garbage, and a limit was as much
/// higher.
fn a_limit_counts_garbage_alone(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 1 << 20), &quiet_every(10));
    for key in 0..100u8 {
        map.put(&[key], &[key; 5000]).expect("there is room");
    }
    collect_all(&*map);
    drop(map);
    let map = place.open("map");
    let snapshot = map.snapshot_within(100 << 10).expect("a snapshot");
    map.check().expect("sound");
    for round in 0..4u8 {
        for key in 0..12u8 {
            map.put(&[key], &[round; 5000]).expect("the snapshot gives way");
        }
        map.persist().expect("persisted");
    }
    assert!(snapshot.has_expired(), "{:?}", map.space());
}

/// Found: a load needed room for both contents, and failed in a region that was half full.
fn a_load_after_a_reset(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 256 << 10), &quiet_every(10));
    let mut ts = 0;
    for key in 0..130u8 {
        ts += 1;
        map.set(ts, &[key], &[key; 1000]).expect("there is room");
    }
    map.set_meta(b"meta").expect("it is short");
    let chunks = crate::support::stream(&*map, 4096);
    let before: Vec<Owned> = all(&*map, NEWEST);
    let load = |resets: bool| {
        let mut loader = if resets { map.reset_and_load() } else { map.load_snapshot() }?;
        chunks.iter().try_for_each(|chunk| loader.push(chunk))?;
        loader.finish()
    };
    refused(load(false), ErrorKind::Full);
    assert_eq!(all(&*map, NEWEST), before, "it is as it was");
    for _ in 0..3 {
        load(true).expect("there is room for one");
        assert_eq!((all(&*map, NEWEST), map.meta()), (before.clone(), b"meta".to_vec()));
        assert_eq!(map.check().expect("sound"), 130);
    }
}

fn an_unfinished_load_is_reported(place: &Place) {
    let mut map = place.create("map");
    map.set(1, b"key", b"value").expect("there is room");
    map.set_meta(b"meta").expect("it is short");
    let chunks = crate::support::stream(&*map, 100);
    drop(map.reset_and_load().expect("nothing is held"));
    for _ in 0..2 {
        refused(map.get(b"key", NEWEST), ErrorKind::Partial);
        refused(map.prefix(b"", NEWEST), ErrorKind::Partial);
        refused(map.set(2, b"key", b"value"), ErrorKind::Partial);
        refused(map.snapshot(), ErrorKind::Partial);
        assert_eq!(map.meta(), b"meta");
        drop(map);
        map = place.open("map");
    }
    crate::support::load(&*map, &chunks).expect("it loads");
    assert_eq!(value(&*map, b"key", 1), Some(b"value".to_vec()));
    map.set(2, b"key", b"value").expect("there is room");
}

fn tags_travel_in_snapshots(place: &Place) {
    let map = place.create("map");
    for ts in 1..=5u64 {
        map.batch(ts, &[ts as u8; 3], &[put(b"key", &[ts as u8])]).expect("there is room");
    }
    map.apply(5).expect("it is there");
    map.forget(2).expect("it is applied");
    let chunks = crate::support::stream(&*map, 64);
    for (number, target) in [place.create("same"), place.create_other("other")].into_iter().enumerate() {
        crate::support::load(&*target, &chunks).expect("it loads");
        let name = ["same", "other"][number];
        assert_eq!((target.forgotten_tag(), tags(&*target)), (map.forgotten_tag(), tags(&*map)), "{name}");
        assert_eq!(target.check().expect("sound"), 4);
        drop(target);
        let target = place.open(name);
        assert_eq!((target.forgotten_tag(), tags(&*target)), (map.forgotten_tag(), tags(&*map)), "{name}");
    }
}

/// Found: a pin looked through all that were held.
fn thousands_of_values_can_be_held(place: &Place) {
    let map = place.create("map");
    for key in 0..100u8 {
        map.set(1, &[key], &[key; 50]).expect("there is room");
    }
    map.apply(1).expect("it is there");
    let held: Vec<_> =
        (0..10_000u32).map(|n| map.get(&[(n % 100) as u8], 1).expect("it reads").expect("it is there")).collect();
    for round in 0..20u64 {
        for key in 0..100u8 {
            map.put(&[key], &[0xee; 60]).expect("there is room");
        }
        map.collect().unwrap_or_else(|error| panic!("{round}: {error}"));
    }
    assert!(held.iter().enumerate().all(|(n, value)| **value == [(n % 100) as u8; 50]), "held values do not change");
    drop(held);
    collect_all(&*map);
    assert_eq!(map.check().expect("sound"), 100);
}

fn a_map_is_opened_by_its_kind(place: &Place) {
    drop(place.create("map"));
    let config = crate::support::quiet();
    refused(perdura_map::open_as(&place.medium, "map", crate::support::other(place.kind), &config), ErrorKind::Foreign);
    assert_eq!(perdura_map::open_as(&place.medium, "map", place.kind, &config).expect("it opens").kind(), place.kind);
}
