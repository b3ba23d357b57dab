//! A restart finds everything that was persisted.

use super::Check;
use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use crate::support::{NEWEST, Place, all, layout, quiet, quiet_every, value};
use perdura_map::{Config, ErrorKind};

pub const CHECKS: &[(&str, Check)] = &[
    ("what is persisted is there after a restart", what_is_persisted_is_there),
    ("a batch closes after so many changes", a_batch_closes_after_so_many_changes),
    ("a map that was never changed can be opened again", a_map_never_changed),
    ("restarts do not wear the map out", restarts_do_not_wear_the_map_out),
    ("restarts find versions, deletions and changes not applied", restarts_find_everything),
    ("the background thread persists idle batches", the_background_thread_persists),
    ("names that are taken, or not there, are reported", names_are_reported),
];

fn what_is_persisted_is_there(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 4 << 20), &quiet_every(1000));
    for ts in 1..=100u64 {
        map.set(ts, &ts.to_be_bytes(), &[ts as u8; 77]).expect("there is room");
    }
    assert_eq!(map.timestamps().persisted, 0, "the batch is still open");
    map.persist().expect("persisted");
    assert_eq!(map.timestamps().persisted, 100);
    map.persist().expect("nothing to do");
    let before = all(&*map, NEWEST);
    drop(map);
    let map = place.open("map");
    assert_eq!((map.timestamps().last, map.timestamps().persisted), (100, 100));
    assert_eq!(all(&*map, NEWEST), before);
    for at in [1, 50, 99] {
        assert_eq!(all(&*map, at).len() as u64, at);
    }
}

fn a_batch_closes_after_so_many_changes(place: &Place) {
    for changes_max in [1, 2, 7] {
        let name = format!("map{changes_max}");
        let map = place.create_with(&name, &layout(place.kind, 1 << 20), &quiet_every(changes_max));
        for ts in 1..=50u64 {
            map.set(ts, b"key", &[1; 20]).expect("there is room");
            let open = ts - map.timestamps().persisted;
            assert!(open < u64::from(changes_max), "{open} changes not persisted at {ts}");
            assert!(changes_max == 1 || ts % u64::from(changes_max) == 0 || open > 0, "persisted early at {ts}");
        }
    }
}

fn a_map_never_changed(place: &Place) {
    drop(place.create("map"));
    for _ in 0..3 {
        let map = place.open("map");
        compare(&*map, &Model::default()).and_then(|()| audit(&*map, &Model::default())).expect("empty");
    }
    let map = place.open("map");
    map.set(1, b"key", b"value").expect("there is room");
    map.persist().expect("persisted");
    drop(map);
    assert_eq!(value(&*place.open("map"), b"key", 1), Some(b"value".to_vec()));
}

fn restarts_do_not_wear_the_map_out(place: &Place) {
    drop(place.create_with("map", &layout(place.kind, 256 << 10), &quiet()));
    for ts in 1..=60u64 {
        let map = place.open("map");
        map.set(ts, &[ts as u8 % 5], &ts.to_le_bytes()).expect("a page not filled is collected");
        map.apply(ts).expect("it is the newest");
        map.forget(ts).expect("it is applied");
        map.persist().expect("persisted");
        map.collect().expect("collected");
    }
    let map = place.open("map");
    crate::support::collect_all(&*map);
    assert_eq!((all(&*map, NEWEST).len(), map.check().expect("sound")), (5, 5));
    assert!(map.space().used <= 64 << 10, "runs being filled, and no more: {:?}", map.space());
}

fn restarts_find_everything(place: &Place) {
    let map = place.create("map");
    let mut model = super::snapshots::prepare(&*map);
    map.persist().expect("persisted");
    drop(map);
    for round in 0..4u64 {
        let map = place.open("map");
        compare(&*map, &model).and_then(|()| audit(&*map, &model)).unwrap_or_else(|what| panic!("{round}: {what}"));
        assert_eq!(map.timestamps().persisted, model.last);
        let ts = 61 + round;
        map.set(ts, b"key b", &ts.to_le_bytes()).expect("there is room");
        model.change(ts, b"key b", Some(&ts.to_le_bytes()));
        if round == 1 {
            map.rollback(58).expect("it is not applied");
            model.rollback(58, map.timestamps().last).expect("as documented");
        }
        if round == 2 {
            map.apply(50).expect("it is there");
            model.applied = 50;
            map.forget(48).expect("it is applied");
            model.forget(48);
        }
        map.persist().expect("persisted");
    }
}

fn the_background_thread_persists(place: &Place) {
    let config = Config { changes_max: 1000, background: true, ..quiet() };
    let map = place.create_with("map", &layout(place.kind, 1 << 20), &config);
    for ts in 1..=20 {
        map.set(ts, b"key", b"value").expect("there is room");
        // The map reports the persist, so the test does not depend on the clock.
        while map.timestamps().persisted < ts {
            std::thread::yield_now();
        }
    }
    drop(map);
    assert_eq!(place.open("map").timestamps().last, 20);
}

fn names_are_reported(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"value").expect("there is room");
    map.persist().expect("persisted");
    drop(map);
    let again = crate::support::create(&place.medium, "map", place.kind, &layout(place.kind, 1 << 20), &quiet());
    assert_eq!(crate::support::error_kind(again), Some(ErrorKind::Exists));
    assert_eq!(value(&*place.open("map"), b"key", 1), Some(b"value".to_vec()), "the first is untouched");
    let absent = perdura_map::open(&place.medium, "absent", &quiet());
    assert_eq!(crate::support::error_kind(absent), Some(ErrorKind::NotFound));
    let names: Vec<String> = place.medium.list().expect("it lists").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["map"], "no attempt leaves a file behind");
}
