//! Keys and values from empty to the longest.

use super::Check;
use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use crate::support::{NEWEST, Place, all, collect_all, layout, load, other, quiet, refused, stream, value};
use perdura_map::{ErrorKind, KEY_BYTES_MAX, Layout, VALUE_BYTES_MAX};

pub const CHECKS: &[(&str, Check)] = &[
    ("empty keys and empty values are like others", empty_keys_and_values),
    ("every length of key and value comes back, in pages of every size", every_length_comes_back),
    ("keys of 64 KiB are like others", keys_of_64_kib),
    ("values of 64 MiB are like others", values_of_64_mib),
    ("longer keys and values are refused", longer_keys_and_values_are_refused),
];

fn empty_keys_and_values(place: &Place) {
    let map = place.create("map");
    map.set(1, b"", b"").expect("there is room");
    map.set(2, b"\0", b"").expect("there is room");
    assert_eq!(value(&*map, b"", 0), None);
    assert_eq!(value(&*map, b"", 1), Some(vec![]));
    assert_eq!(all(&*map, NEWEST), [(vec![], vec![], 1), (vec![0], vec![], 2)]);
    assert!(map.compare_and_set(3, b"", Some(b""), Some(b"x")).expect("there is room").matched);
    assert!(map.delete(4, b"").expect("there is room"));
    assert!(!map.delete(4, b"").expect("allowed"));
    assert_eq!(all(&*map, NEWEST), [(vec![0], vec![], 2)]);
    map.set(5, b"", b"again").expect("there is room");
    map.persist().expect("persisted");
    drop(map);
    let map = place.open("map");
    assert_eq!(all(&*map, NEWEST), [(vec![], b"again".to_vec(), 5), (vec![0], vec![], 2)]);
    assert_eq!(map.check().expect("sound"), 5);
}

/// Objects that end before, at and after the ends of lines and pages.
fn every_length_comes_back(place: &Place) {
    for (name, page_bytes) in [("small", 256), ("large", 65_536)] {
        let mut model = Model::default();
        let layout = Layout { page_bytes, ..layout(place.kind, 8 << 20) };
        let map = place.create_with(name, &layout, &quiet());
        for length in (0..600usize).chain([1000, 1024, 2000, 4096, 70_000, 200_000]) {
            let ts = 1 + length as u64;
            let key: Vec<u8> =
                (0..length.min(700) % 97).map(|n| (n + length) as u8).chain([(length / 97) as u8]).collect();
            let text: Vec<u8> = (0..length).map(|n| (n * 7 + length) as u8).collect();
            map.set(ts, &key, &text).expect("there is room");
            model.change(ts, &key, Some(&text));
            assert_eq!(value(&*map, &key, NEWEST), Some(text));
        }
        let wanted: Vec<_> =
            model.scan(NEWEST).into_iter().map(|(key, value, ts)| (key.to_vec(), value.to_vec(), ts)).collect();
        assert!(all(&*map, NEWEST) == wanted, "{name}");
        audit(&*map, &model).expect("sound");
        map.persist().expect("persisted");
        drop(map);
        let map = place.open(name);
        assert!(all(&*map, NEWEST) == wanted, "{name}");
        audit(&*map, &model).expect("sound");
    }
}

fn keys_of_64_kib(place: &Place) {
    let map = place.create("map");
    let mut model = Model::default();
    let key = |n: usize| {
        let mut key = vec![b'k'; KEY_BYTES_MAX - n % 2];
        let last = key.len() - 1;
        key[last] = n as u8;
        key
    };
    for n in 0..16 {
        let ts = 1 + n as u64;
        map.set(ts, &key(n), &[n as u8; 3]).expect("there is room");
        model.change(ts, &key(n), Some(&[n as u8; 3]));
    }
    assert!(map.delete(20, &key(4)).expect("there is room"));
    model.change(20, &key(4), None);
    compare(&*map, &model).and_then(|()| audit(&*map, &model)).expect("as the model");
    let found = map.prefix(&key(0)[..KEY_BYTES_MAX - 1], NEWEST).and_then(crate::support::collect).expect("it scans");
    assert_eq!(found.len(), 7, "those of the full length");
    map.apply(20).expect("it is the newest");
    model.applied = 20;
    map.forget(20).expect("it is applied");
    model.forget(20);
    collect_all(&*map);
    drop(map);
    let map = place.open("map");
    compare(&*map, &model).and_then(|()| audit(&*map, &model)).expect("as the model");
}

fn values_of_64_mib(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 180 << 20), &quiet());
    let text = |seed: usize| -> Vec<u8> { (0..VALUE_BYTES_MAX).map(|n| (n >> 12 ^ n ^ seed) as u8).collect() };
    let (one, two) = (text(1), text(2));
    map.set(1, b"large", &one).expect("there is room");
    map.set(1, b"other", b"small").expect("there is room");
    map.set(2, b"large", &two).expect("there is room");
    map.persist().expect("persisted");
    assert!(map.get(b"large", 1).expect("it reads").expect("it is there")[..] == one[..]);
    assert!(map.get(b"large", 2).expect("it reads").expect("it is there")[..] == two[..]);
    refused(map.set(3, b"large", &one), ErrorKind::Full);
    map.apply(2).expect("it is the newest");
    map.forget(2).expect("it is applied");
    collect_all(&*map);
    // A little shorter than the hole: small records may lie in the pages at both ends of it.
    let shorter = &one[..60 << 20];
    map.set(3, b"large", shorter).expect("there is room again");
    drop(two);
    map.persist().expect("persisted");
    drop(map);
    let map = place.open("map");
    assert!(map.get(b"large", 3).expect("it reads").expect("it is there")[..] == *shorter);
    map.rollback(3).expect("it is not applied");
    collect_all(&*map);
    let chunks = stream(&*map, 1 << 20);
    assert!(chunks.len() >= 64 && chunks.iter().all(|chunk| chunk.len() <= 1 << 20));
    drop(map);
    let kind = other(place.kind);
    let target =
        crate::support::create(&place.medium, "other", kind, &layout(kind, 100 << 20), &quiet()).expect("room");
    load(&*target, &chunks).expect("it loads");
    assert!(target.get(b"large", NEWEST).expect("it reads").expect("it is there")[..] == text(2)[..]);
    assert_eq!(target.check().expect("sound"), 2);
}

fn longer_keys_and_values_are_refused(place: &Place) {
    let map = place.create_with("map", &layout(place.kind, 70 << 20), &quiet());
    let (key, text) = (vec![1; KEY_BYTES_MAX + 1], vec![0; VALUE_BYTES_MAX + 1]);
    map.set(1, b"key", b"value").expect("there is room");
    refused(map.set(1, &key, b"value"), ErrorKind::TooLarge);
    refused(map.set(1, b"key", &text), ErrorKind::TooLarge);
    refused(map.put(&key, b"value"), ErrorKind::TooLarge);
    refused(map.put(b"key", &text), ErrorKind::TooLarge);
    refused(map.compare_and_set(1, &key, None, Some(b"value")), ErrorKind::TooLarge);
    refused(map.compare_and_set(1, b"key", Some(b"value"), Some(&text)), ErrorKind::TooLarge);
    assert!(!map.delete(1, &key).unwrap_or(false), "it cannot be there");
    assert_eq!(all(&*map, NEWEST), [(b"key".to_vec(), b"value".to_vec(), 1)]);
    assert!(map.prefix(&key, 1).and_then(crate::support::collect).expect("it scans").is_empty());
    assert_eq!((map.timestamps().last, map.check().expect("sound")), (1, 1));
}
