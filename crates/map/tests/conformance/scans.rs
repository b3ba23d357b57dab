//! Ordered scans, by bounds and by prefix.

use super::Check;
use crate::support::{NEWEST, Owned, Place, all, collect, collect_all, refused};
use perdura_map::{ErrorKind, OrderedMap, Ts};
use perdura_pmem::sim::Random;
use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

pub const CHECKS: &[(&str, Check)] = &[
    ("scans keep to their bounds, whatever their kind", scans_keep_to_their_bounds),
    ("scans see one timestamp", scans_see_one_timestamp),
    ("keys are ordered by bytes, then by length", keys_are_ordered_by_bytes_then_by_length),
    ("prefixes bound scans, also those of the greatest bytes", prefixes_bound_scans),
    ("thousands of keys stay in order while they come and go", thousands_of_keys_stay_in_order),
    ("a scan is not moved by later changes", a_scan_is_not_moved_by_later_changes),
    ("scans that are broken off leave nothing behind", scans_that_are_broken_off),
];

fn keys(map: &dyn OrderedMap, range: (Bound<&[u8]>, Bound<&[u8]>), at: Ts) -> Vec<Vec<u8>> {
    let found = map.scan(range, at).and_then(collect).unwrap_or_else(|error| panic!("scanning {range:?}: {error}"));
    found.into_iter().map(|(key, _, _)| key).collect()
}

fn scans_keep_to_their_bounds(place: &Place) {
    let map = place.create("map");
    let present: Vec<Vec<u8>> = (0..60u8).map(|n| vec![n / 6 * 20, n % 6 * 40]).collect();
    for key in &present {
        map.set(1, key, b"").expect("there is room");
    }
    let ends: Vec<Vec<u8>> =
        [&b""[..], b"\0", b"\0\0", &[20], &[20, 0], &[20, 40], &[20, 41], &[180, 200], &[180, 201], &[255; 3]]
            .map(<[u8]>::to_vec)
            .into();
    let bounds: Vec<Bound<&[u8]>> = std::iter::once(Unbounded)
        .chain(ends.iter().flat_map(|end| [Included(&end[..]), Excluded(&end[..])]))
        .collect();
    for from in &bounds {
        for to in &bounds {
            let above = |key: &[u8]| match from {
                Unbounded => true,
                Included(from) => key >= *from,
                Excluded(from) => key > *from,
            };
            let below = |key: &[u8]| match to {
                Unbounded => true,
                Included(to) => key <= *to,
                Excluded(to) => key < *to,
            };
            let wanted: Vec<_> = present.iter().filter(|key| above(key) && below(key)).cloned().collect();
            assert_eq!(keys(&*map, (*from, *to), 1), wanted, "{from:?} to {to:?}");
        }
    }
}

fn scans_see_one_timestamp(place: &Place) {
    let map = place.create("map");
    for (ts, key) in [(1, b"a"), (2, b"b"), (3, b"c")] {
        map.set(ts, key, key).expect("there is room");
    }
    assert!(map.delete(4, b"b").expect("there is room"));
    map.set(5, b"a", b"new").expect("there is room");
    let owned = |key: &[u8], value: &[u8], ts| -> Owned { (key.to_vec(), value.to_vec(), ts) };
    let (a, b, c) = (owned(b"a", b"a", 1), owned(b"b", b"b", 2), owned(b"c", b"c", 3));
    let a_new = owned(b"a", b"new", 5);
    let at = |at| all(&*map, at);
    assert_eq!(at(0), []);
    assert_eq!(at(1), std::slice::from_ref(&a));
    assert_eq!(at(2), [a.clone(), b.clone()]);
    assert_eq!(at(3), [a.clone(), b, c.clone()]);
    assert_eq!(at(4), [a, c.clone()]);
    assert_eq!(at(5), [a_new.clone(), c.clone()]);
    assert_eq!(at(NEWEST), [a_new, c]);
}

/// Keys that agree in their first 8 bytes, that are prefixes of each other, that end in zero bytes,
/// and the empty key.
fn keys_are_ordered_by_bytes_then_by_length(place: &Place) {
    let map = place.create("map");
    let mut wanted: Vec<Vec<u8>> = Vec::new();
    for stem in [&b""[..], b"12345678", b"1234567", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"a"] {
        for tail in
            [&b""[..], b"\0", b"\0\0", b"\0\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\0\0", b"\x01", b"\xff", b"\0\xff", b"z\0"]
        {
            wanted.push([stem, tail].concat());
        }
    }
    for (place, key) in wanted.iter().enumerate() {
        map.set(1 + place as u64, key, key).expect("there is room");
    }
    wanted.sort();
    wanted.dedup();
    assert_eq!(keys(&*map, (Unbounded, Unbounded), NEWEST), wanted);
    for (place, key) in wanted.iter().enumerate() {
        assert_eq!(map.get(key, NEWEST).expect("it reads").as_deref(), Some(&key[..]));
        assert_eq!(keys(&*map, (Included(key), Unbounded), NEWEST), wanted[place..]);
        assert_eq!(keys(&*map, (Excluded(key), Unbounded), NEWEST), wanted[place + 1..]);
        assert_eq!(keys(&*map, (Unbounded, Excluded(key)), NEWEST), wanted[..place]);
    }
    for key in wanted.iter().step_by(2) {
        assert!(map.delete(1000, key).expect("there is room"), "{key:?}");
    }
    let left: Vec<_> = wanted.iter().skip(1).step_by(2).cloned().collect();
    assert_eq!(keys(&*map, (Unbounded, Unbounded), NEWEST), left);
}

fn prefixes_bound_scans(place: &Place) {
    let map = place.create("map");
    let present: Vec<Vec<u8>> = [
        &b""[..],
        b"a",
        b"ab",
        b"abc",
        b"abd",
        b"ac",
        b"b",
        b"\xfe\xff",
        b"\xff",
        b"\xff\0",
        b"\xff\xfe",
        b"\xff\xff",
        b"\xff\xff\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ]
    .map(<[u8]>::to_vec)
    .into();
    for key in &present {
        map.set(1, key, key).expect("there is room");
    }
    let others = [&b"abcd"[..], b"\xfe", b"\xff\xff\xff", b"\0", b"zz", &[0xff; 300], &[b'a'; 300]];
    for prefix in present.iter().map(|key| &key[..]).chain(others) {
        let found = map.prefix(prefix, 1).and_then(collect).expect("it scans");
        let wanted: Vec<_> = present.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
        assert_eq!(found.into_iter().map(|(key, _, _)| key).collect::<Vec<_>>(), wanted, "{prefix:?}");
    }
    assert!(map.prefix(b"", 0).and_then(collect).expect("it scans").is_empty());
}

fn thousands_of_keys_stay_in_order(place: &Place) {
    let map = place.create("map");
    let (mut random, mut wanted) = (Random::new(11), BTreeMap::new());
    for ts in 1..=6000u64 {
        let key = format!("{:x}", random.below(2500)).into_bytes();
        // At first the map grows, then it shrinks.
        if random.percent(if ts < 3500 { 75 } else { 15 }) {
            map.set(ts, &key, &ts.to_le_bytes()).expect("there is room");
            wanted.insert(key, (ts.to_le_bytes().to_vec(), ts));
        } else {
            assert_eq!(map.delete(ts, &key).expect("there is room"), wanted.remove(&key).is_some(), "at {ts}");
        }
        if ts % 500 == 0 {
            let wanted: Vec<Owned> =
                wanted.iter().map(|(key, (value, ts))| (key.clone(), value.clone(), *ts)).collect();
            assert!(all(&*map, ts) == wanted, "at {ts}");
            let last = map.timestamps().last;
            map.apply(last).expect("it is the newest");
            map.forget(last).expect("it is applied");
            map.collect().expect("collected");
            assert!(all(&*map, ts) == wanted, "at {ts}, what is older being forgotten");
            assert_eq!(map.check().expect("sound") as usize, wanted.len());
        }
    }
}

fn a_scan_is_not_moved_by_later_changes(place: &Place) {
    let map = place.create("map");
    for n in 0..300u64 {
        map.set(1, &n.to_be_bytes(), &[n as u8; 50]).expect("there is room");
    }
    map.apply(1).expect("it is the newest");
    let mut scan = map.prefix(b"", 1).expect("it scans");
    for n in 0..300u64 {
        let ts = n + 2;
        let entry = scan.advance().expect("it goes on").expect("there are 300");
        assert_eq!((entry.key, entry.value, entry.ts), (&n.to_be_bytes()[..], &[n as u8; 50][..], 1));
        map.delete(ts, &(299 - n).to_be_bytes()).expect("there is room");
        map.set(ts, &[&n.to_be_bytes()[..], b"between"].concat(), &[0xee; 60]).expect("there is room");
        map.apply(ts).expect("it is the newest");
        map.forget(ts).expect("it is applied");
        map.persist().expect("persisted");
        map.collect().expect("collected");
    }
    assert!(scan.advance().expect("it ends").is_none());
    assert!(scan.advance().expect("it has ended").is_none(), "an ended scan stays ended");
    drop(scan);
    refused(map.prefix(b"", 1), ErrorKind::Forgotten);
    refused(map.scan((Unbounded, Unbounded), 1), ErrorKind::Forgotten);
}

fn scans_that_are_broken_off(place: &Place) {
    let map = place.create("map");
    for n in 0..100u64 {
        map.set(1, &n.to_be_bytes(), &[1; 100]).expect("there is room");
    }
    for n in 0..100u64 {
        let mut scan = map.scan((Included(&n.to_be_bytes()), Unbounded), 1).expect("it scans");
        assert!(scan.advance().expect("it goes on").is_some());
    }
    for n in 0..100u64 {
        map.delete(2, &n.to_be_bytes()).expect("there is room");
    }
    map.apply(2).expect("it is the newest");
    map.forget(2).expect("it is applied");
    collect_all(&*map);
    assert_eq!(map.check().expect("sound"), 0);
    assert!(map.space().live < 4096, "{:?}", map.space());
}
