//! Reads of one key.

use super::Check;
use crate::support::{NEWEST, Place, all, collect_all, refused, value};
use perdura_map::{ErrorKind, Timestamps};

pub const CHECKS: &[(&str, Check)] = &[
    ("an empty map has nothing at any time", an_empty_map_has_nothing),
    ("a read sees the newest version not above its timestamp", a_read_sees_the_newest_version_not_above),
    ("a deletion hides what is older, not what is newer", a_deletion_hides_what_is_older),
    ("a change is seen once its call returns", a_change_is_seen_once_its_call_returns),
    ("a value stays what it was while it is held", a_value_stays_what_it_was),
    ("many versions of one key are distinguished", many_versions_of_one_key),
    ("both ways of opening find the same", both_ways_of_opening_find_the_same),
];

fn an_empty_map_has_nothing(place: &Place) {
    let map = place.create("map");
    assert_eq!(map.kind(), place.kind);
    assert_eq!(map.timestamps(), Timestamps::default());
    for at in [0, 1, NEWEST] {
        assert_eq!(value(&*map, b"key", at), None);
        assert_eq!(value(&*map, b"", at), None);
        assert!(all(&*map, at).is_empty());
    }
    assert_eq!(map.check().expect("sound"), 0);
}

fn a_read_sees_the_newest_version_not_above(place: &Place) {
    let map = place.create("map");
    for (ts, text) in [(10, "ten"), (20, "twenty"), (30, "thirty")] {
        map.set(ts, b"key", text.as_bytes()).expect("there is room");
    }
    let seen = [0, 9, 10, 11, 19, 20, 29, 30, 31, NEWEST].map(|at| value(&*map, b"key", at));
    let texts = ["", "", "ten", "ten", "ten", "twenty", "twenty", "thirty", "thirty", "thirty"];
    assert_eq!(seen, texts.map(|text| (!text.is_empty()).then(|| text.as_bytes().to_vec())));
    assert_eq!(value(&*map, b"ke", NEWEST), None, "a key is a whole key");
    assert_eq!(value(&*map, b"key\0", NEWEST), None, "a key is a whole key");
}

fn a_deletion_hides_what_is_older(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"old").expect("there is room");
    assert!(map.delete(3, b"key").expect("there is room"));
    map.set(5, b"key", b"new").expect("there is room");
    let seen = [0, 1, 2, 3, 4, 5].map(|at| value(&*map, b"key", at));
    assert_eq!(seen, [None, Some(b"old".to_vec()), Some(b"old".to_vec()), None, None, Some(b"new".to_vec())]);
}

/// A change is visible before it is persisted or applied.
fn a_change_is_seen_once_its_call_returns(place: &Place) {
    let map = place.create("map");
    for number in 1..50u64 {
        let key = number.to_be_bytes();
        map.set(number, &key, &key).expect("there is room");
        assert_eq!(value(&*map, &key, number), Some(key.to_vec()));
        assert_eq!(all(&*map, number).len() as u64, number);
        assert_eq!(map.timestamps().last, number);
        assert_eq!(map.timestamps().applied, 0);
    }
}

/// A value is read in place: whatever happens to its version, its page must not be reused while the
/// value is held.
fn a_value_stays_what_it_was(place: &Place) {
    let map = place.create("map");
    let text = vec![7; 900];
    map.set(1, b"held", &text).expect("there is room");
    let held = map.get(b"held", 1).expect("it reads").expect("it is there");
    for ts in 2..100 {
        map.set(ts, b"held", &vec![ts as u8; 900]).expect("there is room");
        map.set(ts, &ts.to_be_bytes(), &[9; 300]).expect("there is room");
        map.apply(ts).expect("it is the newest");
        map.forget(ts).expect("it is applied");
        map.persist().expect("persisted");
        map.collect().expect("collected");
        assert!(held[..] == text[..], "the value changed while it was held, at {ts}");
    }
    refused(map.get(b"held", 1), ErrorKind::Forgotten);
    drop(held);
    collect_all(&*map);
    assert_eq!(value(&*map, b"held", NEWEST), Some(vec![99; 900]));
}

fn many_versions_of_one_key(place: &Place) {
    let map = place.create("map");
    for ts in 1..=500u64 {
        map.set(ts * 2, b"key", &ts.to_le_bytes()).expect("there is room");
    }
    for ts in 1..=500u64 {
        for at in [ts * 2, ts * 2 + 1] {
            assert_eq!(value(&*map, b"key", at), Some(ts.to_le_bytes().to_vec()));
        }
    }
    assert_eq!(all(&*map, 700), [(b"key".to_vec(), 350u64.to_le_bytes().to_vec(), 700)]);
    assert_eq!(map.check().expect("sound"), 500);
}

fn both_ways_of_opening_find_the_same(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"value").expect("there is room");
    map.persist().expect("persisted");
    drop(map);
    let map = place.open("map");
    assert_eq!((map.kind(), value(&*map, b"key", 1)), (place.kind, Some(b"value".to_vec())));
    drop(map);
    let config = crate::support::quiet();
    let name = "map";
    let seen = match place.kind {
        perdura_map::Kind::List => {
            value(&perdura_map::List::open(&place.medium, name, &config).expect("it opens"), b"key", 1)
        }
        perdura_map::Kind::BTree => {
            value(&perdura_map::BTree::open(&place.medium, name, &config).expect("it opens"), b"key", 1)
        }
    };
    assert_eq!(seen, Some(b"value".to_vec()));
}
