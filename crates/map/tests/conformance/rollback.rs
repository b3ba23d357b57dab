//! Rollback, application, and the list of changes that a rollback follows.

use super::Check;
use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use crate::support::{NEWEST, Place, all, layout, mutations, quiet_every, refused, value};
use perdura_map::ErrorKind;

pub const CHECKS: &[(&str, Check)] = &[
    ("a rollback takes back what is at its timestamp and newer", a_rollback_takes_back),
    ("a rollback takes back deletions", a_rollback_takes_back_deletions),
    ("a rollback takes compare-and-sets back with what they compared", a_rollback_takes_back_what_depends),
    ("a rollback takes back what is persisted", a_rollback_takes_back_what_is_persisted),
    ("nothing applied is rolled back", nothing_applied_is_rolled_back),
    ("a rollback of nothing does nothing", a_rollback_of_nothing_does_nothing),
    ("timestamps can be used again after a rollback", timestamps_can_be_used_again),
    ("what is applied stays applied", what_is_applied_stays_applied),
    ("the list of changes begins and ends where the caller says", the_list_of_changes),
    ("rollbacks of thousands leave what was before", rollbacks_of_thousands),
];

fn a_rollback_takes_back(place: &Place) {
    let map = place.create("map");
    for ts in 1..=5 {
        map.set(ts, b"key", &[ts as u8]).expect("there is room");
        map.set(ts, &[ts as u8], b"own").expect("there is room");
    }
    map.rollback(4).expect("it is not applied");
    assert_eq!(map.timestamps().last, 3);
    assert_eq!(value(&*map, b"key", NEWEST), Some(vec![3]));
    assert_eq!(all(&*map, NEWEST).len(), 4);
    assert_eq!(mutations(&*map, 0).len(), 6);
    assert_eq!(map.check().expect("sound"), 6);
    map.rollback(1).expect("it is not applied");
    assert!(all(&*map, NEWEST).is_empty());
    assert!(mutations(&*map, 0).is_empty());
    assert_eq!(map.check().expect("sound"), 0);
}

fn a_rollback_takes_back_deletions(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"value").expect("there is room");
    assert!(map.delete(2, b"key").expect("there is room"));
    map.set(3, b"key", b"newer").expect("there is room");
    map.rollback(3).expect("it is not applied");
    assert_eq!(value(&*map, b"key", NEWEST), None, "the deletion counts again");
    map.rollback(2).expect("it is not applied");
    assert_eq!(all(&*map, NEWEST), [(b"key".to_vec(), b"value".to_vec(), 1)], "the deletion is taken back");
}

fn a_rollback_takes_back_what_depends(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"one").expect("there is room");
    map.apply(1).expect("it is the newest");
    assert!(map.compare_and_set(2, b"key", Some(b"one"), Some(b"two")).expect("there is room").matched);
    assert!(map.compare_and_set(3, b"key", Some(b"two"), None).expect("there is room").matched);
    assert!(map.compare_and_set(4, b"key", None, Some(b"four")).expect("there is room").matched);
    map.rollback(2).expect("it is not applied");
    assert_eq!(all(&*map, NEWEST), [(b"key".to_vec(), b"one".to_vec(), 1)]);
    assert!(map.compare_and_set(2, b"key", Some(b"one"), Some(b"other")).expect("there is room").matched);
}

fn a_rollback_takes_back_what_is_persisted(place: &Place) {
    let map = place.create("map");
    let mut model = Model::default();
    for ts in 1..=30 {
        map.set(ts, &[ts as u8 % 4], &[ts as u8; 40]).expect("there is room");
        model.change(ts, &[ts as u8 % 4], Some(&[ts as u8; 40]));
    }
    map.persist().expect("persisted");
    assert_eq!(map.timestamps().persisted, 30);
    map.rollback(11).expect("it is not applied");
    model.rollback(11, map.timestamps().last).expect("as documented");
    compare(&*map, &model).and_then(|()| audit(&*map, &model)).expect("rolled back");
    map.persist().expect("persisted");
    drop(map);
    let map = place.open("map");
    compare(&*map, &model).and_then(|()| audit(&*map, &model)).expect("rolled back for good");
}

fn nothing_applied_is_rolled_back(place: &Place) {
    let map = place.create("map");
    refused(map.rollback(0), ErrorKind::Timestamp);
    for ts in 1..=5 {
        map.set(ts, b"key", &[ts as u8]).expect("there is room");
    }
    map.apply(3).expect("it is there");
    for from in [0, 1, 2, 3] {
        refused(map.rollback(from), ErrorKind::Timestamp);
    }
    assert_eq!(value(&*map, b"key", NEWEST), Some(vec![5]), "a refused rollback changes nothing");
    map.rollback(4).expect("it is not applied");
    assert_eq!((value(&*map, b"key", NEWEST), map.timestamps().last), (Some(vec![3]), 3));
}

fn a_rollback_of_nothing_does_nothing(place: &Place) {
    let map = place.create("map");
    map.rollback(1).expect("there is nothing");
    map.set(5, b"key", b"value").expect("there is room");
    let before = (map.timestamps(), mutations(&*map, 0), map.space());
    map.rollback(6).expect("there is nothing");
    map.rollback(u64::MAX).expect("there is nothing");
    assert_eq!((map.timestamps(), mutations(&*map, 0), map.space()), before);
}

fn timestamps_can_be_used_again(place: &Place) {
    let map = place.create("map");
    let mut model = Model::default();
    for round in 0..40u8 {
        for ts in 1..=6u64 {
            let key = [ts as u8, round % 3];
            map.set(ts, &key, &[round; 30]).expect("there is room");
            model.change(ts, &key, Some(&[round; 30]));
        }
        let from = 1 + u64::from(round) % 6;
        map.rollback(from).expect("it is not applied");
        model.rollback(from, map.timestamps().last).expect("as documented");
        compare(&*map, &model).and_then(|()| audit(&*map, &model)).unwrap_or_else(|what| panic!("{round}: {what}"));
        map.rollback(1).expect("it is not applied");
        model.rollback(1, map.timestamps().last).expect("as documented");
        map.collect().expect("collected");
    }
}

fn what_is_applied_stays_applied(place: &Place) {
    let map = place.create("map");
    refused(map.apply(1), ErrorKind::Timestamp);
    map.apply(0).expect("nothing happens");
    for ts in [2, 4, 6] {
        map.set(ts, b"key", b"value").expect("there is room");
    }
    refused(map.apply(7), ErrorKind::Timestamp);
    assert_eq!(map.timestamps().applied, 0);
    map.apply(5).expect("between changes");
    map.apply(3).expect("nothing happens");
    assert_eq!(map.timestamps().applied, 5);
    map.persist().expect("persisted");
    drop(map);
    let map = place.open("map");
    assert_eq!(map.timestamps().applied, 5, "durable with a persist");
    refused(map.rollback(5), ErrorKind::Timestamp);
    map.rollback(6).expect("it is not applied");
    assert!((4..6).contains(&map.timestamps().last));
    assert_eq!(map.timestamps().applied.max(5), 5);
}

fn the_list_of_changes(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 4 << 20), &quiet_every(3));
    let owned = |key: &[u8], value: Option<&[u8]>| (key.to_vec(), value.map(<[u8]>::to_vec));
    map.set(1, b"b", b"one").expect("there is room");
    map.set(2, b"a", b"").expect("there is room");
    assert!(map.delete(2, b"b").expect("there is room"));
    assert!(map.compare_and_set(5, b"b", None, Some(b"five")).expect("there is room").matched);
    let wanted = [
        (1, owned(b"b", Some(b"one"))),
        (2, owned(b"a", Some(b""))),
        (2, owned(b"b", None)),
        (5, owned(b"b", Some(b"five"))),
    ]
    .map(|(ts, (key, value))| (ts, key, value));
    for (from, skipped) in [(0, 0), (1, 0), (2, 1), (3, 3), (5, 3), (6, 4), (u64::MAX, 4)] {
        assert_eq!(mutations(&*map, from), wanted[skipped..], "from {from}");
    }
    for limit in 1..4 {
        let mut calls = 0;
        let stop = &mut |_: perdura_map::Mutation<'_>| {
            calls += 1;
            calls < limit
        };
        map.mutations(0, stop).expect("listed");
        assert_eq!(calls, limit);
    }
    map.apply(4).expect("it is there");
    assert_eq!(mutations(&*map, 0), wanted, "applying forgets nothing");
    map.forget(2).expect("it is applied");
    assert_eq!(mutations(&*map, 0), wanted[3..], "the records are gone");
    drop(map);
}

fn rollbacks_of_thousands(place: &Place) {
    let map = place.create("map");
    let key = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
    for n in 0..1500 {
        map.set(1, &key(n), b"before").expect("there is room");
    }
    map.apply(1).expect("it is the newest");
    let before = all(&*map, NEWEST);
    for n in 0..3000 {
        let ts = 2 + n / 7;
        if n % 3 == 0 {
            map.delete(ts, &key(n % 1500)).expect("there is room");
        } else {
            map.set(ts, &key(n), b"after").expect("there is room");
        }
    }
    assert_ne!(all(&*map, NEWEST), before);
    map.rollback(2).expect("it is not applied");
    assert!(all(&*map, NEWEST) == before, "not what was before");
    assert_eq!(map.check().expect("sound"), 1500);
    assert_eq!(mutations(&*map, 2), []);
    map.persist().expect("persisted");
    crate::support::collect_all(&*map);
    assert!(all(&*map, NEWEST) == before, "not what was before");
}
