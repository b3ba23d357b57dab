//! Forgetting drops old versions, deletions and rollback records. What later reads see stays.

use super::Check;
use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use crate::support::{NEWEST, Place, all, collect_all, mutations, refused, value};
use perdura_map::ErrorKind;
use std::ops::Bound::Unbounded;

pub const CHECKS: &[(&str, Check)] = &[
    ("forgotten versions are gone, what later reads see is not", forgotten_versions_are_gone),
    ("older reads fail as forgotten", older_reads_fail),
    ("forgotten deletions leave nothing", forgotten_deletions_leave_nothing),
    ("only what is applied is forgotten", only_what_is_applied_is_forgotten),
    ("forgetting less than before does nothing", forgetting_less_does_nothing),
    ("rollback goes on above what is forgotten", rollback_goes_on_above),
    ("what is forgotten stays so after a restart", what_is_forgotten_stays_so),
];

fn forgotten_versions_are_gone(place: &Place) {
    let map = place.create("map");
    let mut model = Model::default();
    for ts in 1..=40u64 {
        for key in [&b"often"[..], if ts == 3 { b"once" } else { b"often" }] {
            map.set(ts, key, &ts.to_le_bytes()).expect("there is room");
            model.change(ts, key, Some(&ts.to_le_bytes()));
        }
    }
    map.apply(30).expect("it is there");
    model.applied = 30;
    for up_to in [1, 2, 3, 10, 29, 30] {
        map.forget(up_to).expect("it is applied");
        model.forget(up_to);
        compare(&*map, &model).and_then(|()| audit(&*map, &model)).unwrap_or_else(|what| panic!("{up_to}: {what}"));
        map.persist().expect("persisted");
        map.collect().expect("collected");
        compare(&*map, &model).and_then(|()| audit(&*map, &model)).unwrap_or_else(|what| panic!("{up_to}: {what}"));
    }
    assert_eq!(value(&*map, b"once", NEWEST), Some(3u64.to_le_bytes().to_vec()), "the only version stays");
    assert_eq!(map.check().expect("sound"), 12);
}

fn older_reads_fail(place: &Place) {
    let map = place.create("map");
    for ts in 1..=9 {
        map.set(ts, b"key", &[ts as u8]).expect("there is room");
    }
    map.apply(9).expect("it is the newest");
    map.forget(5).expect("it is applied");
    assert_eq!(map.timestamps().forgotten, 5);
    for at in 0..5 {
        refused(map.get(b"key", at), ErrorKind::Forgotten);
        refused(map.get(b"absent", at), ErrorKind::Forgotten);
        refused(map.scan((Unbounded, Unbounded), at), ErrorKind::Forgotten);
        refused(map.prefix(b"k", at), ErrorKind::Forgotten);
    }
    for at in 5..=9 {
        assert_eq!(value(&*map, b"key", at), Some(vec![at as u8]));
    }
}

fn forgotten_deletions_leave_nothing(place: &Place) {
    let map = place.create("map");
    for n in 0..200u64 {
        map.set(1, &n.to_be_bytes(), &[1; 64]).expect("there is room");
    }
    for n in 0..200u64 {
        assert!(map.delete(2, &n.to_be_bytes()).expect("there is room"));
    }
    map.apply(2).expect("it is the newest");
    assert_eq!(map.check().expect("sound"), 400, "versions and deletions");
    map.forget(1).expect("it is applied");
    assert_eq!(all(&*map, 1).len(), 200);
    assert_eq!(map.check().expect("sound"), 400);
    map.forget(2).expect("it is applied");
    assert_eq!(map.check().expect("sound"), 0);
    assert!(all(&*map, 2).is_empty() && mutations(&*map, 0).is_empty());
    collect_all(&*map);
    assert_eq!(map.check().expect("sound"), 0);
    assert!(map.space().live < 8192, "{:?}", map.space());
    drop(map);
    let map = place.open("map");
    assert!(all(&*map, NEWEST).is_empty(), "nothing comes back");
}

fn only_what_is_applied_is_forgotten(place: &Place) {
    let map = place.create("map");
    refused(map.forget(1), ErrorKind::Timestamp);
    map.forget(0).expect("there is nothing");
    map.set(3, b"key", b"three").expect("there is room");
    map.set(4, b"key", b"four").expect("there is room");
    refused(map.forget(3), ErrorKind::Timestamp);
    map.apply(3).expect("it is there");
    refused(map.forget(4), ErrorKind::Timestamp);
    assert_eq!(map.timestamps().forgotten, 0, "a refused call changes nothing");
    assert_eq!(mutations(&*map, 0).len(), 2);
    map.forget(2).expect("between changes");
    assert_eq!(map.timestamps().forgotten, 2);
    assert_eq!(mutations(&*map, 0).len(), 2);
}

fn forgetting_less_does_nothing(place: &Place) {
    let map = place.create("map");
    for ts in 1..=5 {
        map.set(ts, b"key", &[ts as u8]).expect("there is room");
    }
    map.apply(5).expect("it is the newest");
    map.forget(4).expect("it is applied");
    for up_to in [0, 1, 4] {
        map.forget(up_to).expect("nothing happens");
        assert_eq!(map.timestamps().forgotten, 4);
        assert_eq!(map.check().expect("sound"), 2);
    }
}

fn rollback_goes_on_above(place: &Place) {
    let map = place.create("map");
    let mut model = Model::default();
    for ts in 1..=20u64 {
        let (key, value) = ([ts as u8 % 5], [ts as u8; 20]);
        map.set(ts, &key, &value).expect("there is room");
        model.change(ts, &key, Some(&value));
    }
    map.apply(12).expect("it is there");
    model.applied = 12;
    map.forget(12).expect("it is applied");
    model.forget(12);
    compare(&*map, &model).expect("forgotten");
    map.rollback(13).expect("it is not applied");
    model.rollback(13, map.timestamps().last).expect("as documented");
    compare(&*map, &model).and_then(|()| audit(&*map, &model)).expect("rolled back");
    assert_eq!(all(&*map, NEWEST).len(), 5, "the newest of each that is not above 12");
}

fn what_is_forgotten_stays_so(place: &Place) {
    let map = place.create("map");
    let mut model = Model::default();
    for ts in 1..=25u64 {
        let key = [ts as u8 % 3];
        if ts % 4 == 0 {
            map.delete(ts, &key).expect("there is room");
            if model.newest(&key).is_some() {
                model.change(ts, &key, None);
            }
        } else {
            map.set(ts, &key, &[ts as u8]).expect("there is room");
            model.change(ts, &key, Some(&[ts as u8]));
        }
    }
    map.apply(20).expect("it is there");
    model.applied = 20;
    map.forget(17).expect("it is applied");
    model.forget(17);
    map.persist().expect("persisted");
    drop(map);
    let map = place.open("map");
    compare(&*map, &model).and_then(|()| audit(&*map, &model)).expect("as before the restart");
    assert_eq!(map.timestamps().persisted, map.timestamps().last);
}
