//! Changes: set, delete, compare-and-set, put and remove, and the timestamps they accept.

use super::Check;
use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use crate::support::{NEWEST, Place, all, mutations, refused, value};
use perdura_map::{ErrorKind, OrderedMap, Timestamps, Ts};

pub const CHECKS: &[(&str, Check)] = &[
    ("a second change at one timestamp replaces the first", a_second_change_at_one_timestamp_replaces_the_first),
    ("several keys change at one timestamp", several_keys_change_at_one_timestamp),
    ("a deletion tells whether there was a value", a_deletion_tells_whether_there_was_a_value),
    ("deleting nothing changes nothing", deleting_nothing_changes_nothing),
    ("compare-and-set changes what is expected only", compare_and_set_changes_what_is_expected_only),
    ("compare-and-set compares with the newest version", compare_and_set_compares_with_the_newest_version),
    ("timestamps never fall", timestamps_never_fall),
    ("nothing changes at or below what is applied", nothing_changes_at_or_below_what_is_applied),
    ("put takes the next timestamp and keeps one version", put_takes_the_next_timestamp),
    ("remove is put's deletion", remove_is_puts_deletion),
    ("the greatest timestamp but one is like others", the_greatest_timestamp),
];

fn a_second_change_at_one_timestamp_replaces_the_first(place: &Place) {
    let map = place.create("map");
    map.set(1, b"key", b"before").expect("there is room");
    map.set(2, b"key", b"first").expect("there is room");
    map.set(2, b"key", b"second").expect("there is room");
    assert_eq!(value(&*map, b"key", 2), Some(b"second".to_vec()));
    assert_eq!(map.check().expect("sound"), 2, "the first is gone");
    assert!(map.delete(2, b"key").expect("there is room"));
    assert_eq!(value(&*map, b"key", 2), None);
    assert!(!map.delete(2, b"key").expect("there is room"));
    map.set(2, b"key", b"third").expect("there is room");
    assert_eq!((value(&*map, b"key", 1), value(&*map, b"key", 2)), (Some(b"before".to_vec()), Some(b"third".to_vec())));
    assert_eq!(mutations(&*map, 2).last(), Some(&(2, b"key".to_vec(), Some(b"third".to_vec()))));
    map.rollback(2).expect("it is not applied");
    assert_eq!(all(&*map, NEWEST), [(b"key".to_vec(), b"before".to_vec(), 1)], "no replaced change comes back");
}

fn several_keys_change_at_one_timestamp(place: &Place) {
    let map = place.create("map");
    for key in [b"b", b"a", b"c"] {
        map.set(7, key, key).expect("there is room");
    }
    assert!(all(&*map, 6).is_empty());
    assert_eq!(all(&*map, 7).len(), 3);
    let keys: Vec<_> = mutations(&*map, 7).into_iter().map(|(ts, key, _)| (ts, key)).collect();
    assert_eq!(keys, [(7, b"b".to_vec()), (7, b"a".to_vec()), (7, b"c".to_vec())], "oldest first");
    map.rollback(7).expect("it is not applied");
    assert!(all(&*map, NEWEST).is_empty());
}

fn a_deletion_tells_whether_there_was_a_value(place: &Place) {
    let map = place.create("map");
    assert!(!map.delete(1, b"key").expect("allowed"));
    map.set(1, b"key", b"").expect("there is room");
    assert!(map.delete(2, b"key").expect("there is room"), "an empty value is a value");
    assert!(!map.delete(3, b"key").expect("allowed"));
    map.set(3, b"key", b"x").expect("there is room");
    assert!(map.delete(3, b"key").expect("there is room"));
    assert_eq!(map.timestamps().last, 3);
}

fn deleting_nothing_changes_nothing(place: &Place) {
    let map = place.create("map");
    map.set(1, b"other", b"value").expect("there is room");
    map.set(2, b"key", b"value").expect("there is room");
    assert!(map.delete(3, b"key").expect("there is room"));
    map.persist().expect("persisted");
    let before = (map.timestamps(), mutations(&*map, 0), map.check().expect("sound"), map.space());
    for key in [&b"key"[..], b"absent", b"", b"othe", b"other\0"] {
        assert!(!map.delete(9, key).expect("allowed"));
    }
    assert_eq!((map.timestamps(), mutations(&*map, 0), map.check().expect("sound"), map.space()), before);
    map.set(3, b"key", b"again").expect("the timestamp has not moved");
}

/// Every state of a key, with every expectation and every replacement.
fn compare_and_set_changes_what_is_expected_only(place: &Place) {
    type State = (&'static str, Option<&'static [u8]>, fn(&dyn OrderedMap));
    let states: [State; 4] = [
        ("absent", None, |_| {}),
        ("a value", Some(b"value"), |map| map.set(1, b"key", b"value").expect("there is room")),
        ("an empty value", Some(b""), |map| map.set(1, b"key", b"").expect("there is room")),
        ("deleted", None, |map| {
            map.set(1, b"key", b"value").expect("there is room");
            assert!(map.delete(2, b"key").expect("there is room"));
        }),
    ];
    let choices: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"value"), Some(b"value2")];
    let map = place.create("map");
    for (name, present, prepare) in states {
        for expected in choices {
            for new in choices {
                prepare(&*map);
                let before = (map.timestamps(), mutations(&*map, 0));
                let done = map.compare_and_set(5, b"key", expected, new).expect("there is room").matched;
                let what = format!("{name}: {expected:?} to {new:?}");
                assert_eq!(done, expected == present, "{what}");
                let wanted = if done { new } else { present };
                assert_eq!(value(&*map, b"key", NEWEST).as_deref(), wanted, "{what}");
                if !done {
                    assert_eq!((map.timestamps(), mutations(&*map, 0)), before, "{what}");
                } else if (present, new) != (None, None) {
                    assert_eq!(map.timestamps().last, 5, "{what}");
                    assert_eq!(mutations(&*map, 5), [(5, b"key".to_vec(), new.map(<[u8]>::to_vec))], "{what}");
                }
                assert_eq!(value(&*map, b"other", NEWEST), None);
                map.rollback(1).expect("nothing is applied");
                assert!(all(&*map, NEWEST).is_empty(), "{what}");
            }
        }
    }
}

/// "Newest" means the last one inserted, whether or not it is persisted or applied.
fn compare_and_set_compares_with_the_newest_version(place: &Place) {
    let map =
        place.create_with("map", &crate::support::layout(place.kind, 4 << 20), &crate::support::quiet_every(1000));
    map.set(1, b"key", b"one").expect("there is room");
    map.apply(1).expect("it is the newest");
    map.persist().expect("persisted");
    map.set(2, b"key", b"two").expect("there is room");
    assert_eq!((map.timestamps().applied, map.timestamps().persisted), (1, 1));
    assert!(!map.compare_and_set(2, b"key", Some(b"one"), Some(b"three")).expect("allowed").matched);
    assert!(
        map.compare_and_set(2, b"key", Some(b"two"), Some(b"three")).expect("there is room").matched,
        "at the same timestamp"
    );
    assert!(map.compare_and_set(3, b"key", Some(b"three"), None).expect("there is room").matched);
    assert!(!map.compare_and_set(3, b"key", Some(b"three"), Some(b"four")).expect("allowed").matched);
    assert!(
        map.compare_and_set(3, b"key", None, Some(b"four")).expect("there is room").matched,
        "what is deleted is absent"
    );
    let seen = [1, 2, 3].map(|at| value(&*map, b"key", at));
    assert_eq!(seen, [b"one".to_vec(), b"three".to_vec(), b"four".to_vec()].map(Some));
    let long = vec![b'x'; 5000];
    assert!(map.compare_and_set(4, b"key", Some(b"four"), Some(&long)).expect("there is room").matched);
    let mut almost = long.clone();
    almost[4999] = b'y';
    assert!(!map.compare_and_set(4, b"key", Some(&almost), None).expect("allowed").matched, "all bytes count");
    assert!(map.compare_and_set(4, b"key", Some(&long), None).expect("there is room").matched);
}

/// Every kind of change, at `ts`.
fn all_changes(map: &dyn OrderedMap, ts: Ts) -> [perdura_map::Result<()>; 3] {
    [
        map.set(ts, b"key", b"new"),
        map.delete(ts, b"key").map(drop),
        map.compare_and_set(ts, b"key", Some(b"value"), Some(b"new")).map(drop),
    ]
}

fn timestamps_never_fall(place: &Place) {
    let map = place.create("map");
    let mut model = Model::default();
    map.set(10, b"key", b"value").expect("there is room");
    model.change(10, b"key", Some(b"value"));
    for ts in [0, 1, 9] {
        for result in all_changes(&*map, ts) {
            refused(result, ErrorKind::Timestamp);
        }
    }
    compare(&*map, &model).and_then(|()| audit(&*map, &model)).expect("refused changes change nothing");
    map.set(10, b"key", b"again").expect("the same timestamp is fine");
    map.set(1000, b"key", b"later").expect("gaps are fine");
    assert_eq!(map.timestamps().last, 1000);
}

fn nothing_changes_at_or_below_what_is_applied(place: &Place) {
    let map = place.create("map");
    refused(map.set(0, b"key", b"value"), ErrorKind::Timestamp);
    let mut model = Model::default();
    map.set(10, b"key", b"value").expect("there is room");
    model.change(10, b"key", Some(b"value"));
    map.apply(10).expect("it is the newest");
    model.applied = 10;
    for result in all_changes(&*map, 10) {
        refused(result, ErrorKind::Timestamp);
    }
    compare(&*map, &model).and_then(|()| audit(&*map, &model)).expect("refused changes change nothing");
    map.set(11, b"key", b"next").expect("above what is applied");
}

fn put_takes_the_next_timestamp(place: &Place) {
    let map = place.create("map");
    assert_eq!(map.put(b"a", b"one").expect("there is room"), 1);
    assert_eq!(map.put(b"b", b"two").expect("there is room"), 2);
    let ts = map.put(b"a", b"three").expect("there is room");
    let Timestamps { last, applied, forgotten, .. } = map.timestamps();
    assert_eq!((ts, last, applied), (3, 3, 3));
    assert!((1..=3).contains(&forgotten), "what was replaced is forgotten: {forgotten}");
    assert_eq!(all(&*map, NEWEST), [(b"a".to_vec(), b"three".to_vec(), 3), (b"b".to_vec(), b"two".to_vec(), 2)]);
    assert_eq!(map.check().expect("sound"), 2);
    map.set(9, b"a", b"not applied").expect("there is room");
    assert_eq!(map.put(b"a", b"ten").expect("there is room"), 10);
    assert_eq!(map.timestamps().applied, 10, "what is older is applied too");
    assert_eq!(map.check().expect("sound"), 2);
    refused(map.rollback(10), ErrorKind::Timestamp);
    map.set(11, b"a", b"taken back").expect("there is room");
    map.rollback(11).expect("it is not applied");
    assert_eq!(value(&*map, b"a", NEWEST), Some(b"ten".to_vec()));
}

fn remove_is_puts_deletion(place: &Place) {
    let map = place.create("map");
    assert!(!map.remove(b"a").expect("allowed"));
    assert_eq!(map.timestamps(), Timestamps::default(), "removing nothing changes nothing");
    map.put(b"a", b"").expect("there is room");
    map.put(b"b", b"x").expect("there is room");
    assert!(map.remove(b"a").expect("there is room"));
    assert!(!map.remove(b"a").expect("allowed"));
    let Timestamps { last, applied, .. } = map.timestamps();
    assert_eq!((last, applied), (3, 3));
    assert_eq!(all(&*map, NEWEST), [(b"b".to_vec(), b"x".to_vec(), 2)]);
    assert_eq!(map.check().expect("sound"), 1, "nothing is left of what was removed");
}

fn the_greatest_timestamp(place: &Place) {
    let map = place.create("map");
    map.set(Ts::MAX - 2, b"key", b"almost").expect("there is room");
    map.set(Ts::MAX - 1, b"key", b"last").expect("there is room");
    assert_eq!(value(&*map, b"key", Ts::MAX - 2), Some(b"almost".to_vec()));
    assert_eq!(value(&*map, b"key", Ts::MAX), Some(b"last".to_vec()));
    refused(map.set(Ts::MAX, b"key", b"more"), ErrorKind::Timestamp);
    refused(map.put(b"key", b"more"), ErrorKind::Timestamp);
    refused(map.remove(b"key"), ErrorKind::Timestamp);
    refused(map.apply(Ts::MAX), ErrorKind::Timestamp);
    map.rollback(Ts::MAX).expect("there is nothing");
    map.rollback(Ts::MAX - 1).expect("it is not applied");
    assert_eq!(value(&*map, b"key", Ts::MAX), Some(b"almost".to_vec()));
    map.set(Ts::MAX - 1, b"key", b"again").expect("there is room");
    map.apply(Ts::MAX - 1).expect("it is the newest");
    map.forget(Ts::MAX - 1).expect("it is applied");
    assert_eq!(map.check().expect("sound"), 1);
    refused(map.get(b"key", Ts::MAX - 2), ErrorKind::Forgotten);
    refused(map.rollback(Ts::MAX - 1), ErrorKind::Timestamp);
    map.rollback(Ts::MAX).expect("there is nothing");
}
