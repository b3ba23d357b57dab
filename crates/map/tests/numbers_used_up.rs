//! Hazard: a map goes on after its last persist number, and the next start calls it damaged.

use crate::support::root_slot::{self, RootSlot};
use crate::support::{KINDS, NEWEST, Place, all, create, layout, load, mutations, quiet_every, refused, stream, value};
use perdura_map::{ErrorKind, OrderedMap};
use perdura_pmem::sim::Image;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

const NUMBER_BITS: u32 = 48;

/// The bytes of a map's file as they are after so many persists.
fn aged(bytes: &[u8], number: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut root = RootSlot::newest(&bytes);
    root.set(root_slot::NUMBER, number);
    root.put(&mut bytes);
    bytes
}

#[test]
fn a_map_stops_before_its_numbers_are_used_up() {
    for kind in KINDS {
        let medium = Arc::new(SimMedium::new());
        let shared: Arc<dyn Medium> = medium.clone();
        let map = create(&shared, "map", kind, &layout(kind, 256 << 10), &quiet_every(1)).expect("there is room");
        map.set(1, b"key", b"value").expect("there is room");
        drop(map);
        let bytes = aged(&medium.image().bytes_of("map").expect("it exists"), (1 << NUMBER_BITS) - (1 << 20) - 10);
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(Image::from_files([("map", &bytes[..])])));
        let mut changes = 0;
        for _ in 0..2 {
            let map = perdura_map::open(&medium, "map", &quiet_every(1)).expect("it opens");
            while let Ok(()) = map.set(2 + changes, b"key", b"later") {
                changes += 1;
                assert!(changes < 100, "{kind}: it never stops");
            }
            refused(map.set(1000, b"key", b"later"), ErrorKind::ReadOnly);
            assert_eq!(value(&*map, b"key", NEWEST), Some(b"later".to_vec()), "{kind}: it can be read");
            map.persist().expect("nothing is left");
        }
        assert!(changes > 0, "{kind}");
        let map = perdura_map::open(&medium, "map", &quiet_every(1)).expect("it opens");
        take_the_remedy(&*map, changes);
    }
}

/// Takes the error's remedy: the map goes on in a new file. Found: a snapshot was refused with that
/// very error.
fn take_the_remedy(map: &dyn OrderedMap, changes: u64) {
    let kind = map.kind();
    let last = map.timestamps().last;
    assert_eq!(last, 1 + changes);
    map.rollback(last).unwrap_or_else(|error| panic!("{kind}: {error}"));
    map.apply(last - 1).unwrap_or_else(|error| panic!("{kind}: {error}"));
    map.forget(last - 2).unwrap_or_else(|error| panic!("{kind}: {error}"));
    map.set_meta(b"meta").unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_eq!(map.check().unwrap_or_else(|error| panic!("{kind}: {error}")), 2, "the versions at and below the mark");
    let chunks = stream(map, 1000);
    let place = Place::simulated(kind);
    let copy = place.create("copy");
    load(&*copy, &chunks).expect("there is room");
    assert_eq!(copy.timestamps(), map.timestamps(), "{kind}");
    assert_eq!((all(&*copy, NEWEST), mutations(&*copy, 0)), (all(map, NEWEST), mutations(map, 0)), "{kind}");
    for ts in last..last + 100 {
        copy.set(ts, b"key", &ts.to_be_bytes()).unwrap_or_else(|error| panic!("{kind}: {error}"));
        copy.persist().expect("persisted");
    }
    drop(copy);
    assert_eq!(value(&*place.open("copy"), b"key", NEWEST), Some((last + 99).to_be_bytes().to_vec()), "{kind}");
}

/// Hazard: what may still be done when changes are refused uses up the numbers that are left, and
/// the file is lost.
#[test]
fn what_is_left_of_the_numbers_is_kept() {
    for kind in KINDS {
        let medium = Arc::new(SimMedium::new());
        let shared: Arc<dyn Medium> = medium.clone();
        let map = create(&shared, "map", kind, &layout(kind, 256 << 10), &quiet_every(1)).expect("there is room");
        (1..10).for_each(|ts| map.set(ts, b"key", b"value").expect("there is room"));
        drop(map);
        let bytes = aged(&medium.image().bytes_of("map").expect("it exists"), (1 << NUMBER_BITS) - (1 << 19) - 10);
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(Image::from_files([("map", &bytes[..])])));
        let map = perdura_map::open(&medium, "map", &quiet_every(1)).expect("it opens");
        let mut done = 0;
        while let Ok(()) = map.set_meta(&[done as u8]) {
            map.persist().expect("persisted");
            done += 1;
            assert!(done < 100, "{kind}: it never stops");
        }
        refused(map.set_meta(b""), ErrorKind::ReadOnly);
        refused(map.apply(2), ErrorKind::ReadOnly);
        refused(map.rollback(9), ErrorKind::ReadOnly);
        refused(map.forget(0), ErrorKind::ReadOnly);
        refused(map.load_snapshot(), ErrorKind::ReadOnly);
        assert_eq!(map.check().expect("it can be checked"), 9, "{kind}");
        let copy = Place::simulated(kind).create("copy");
        load(&*copy, &stream(&*map, 1000)).expect("there is room");
        assert_eq!(all(&*copy, NEWEST), all(&*map, NEWEST), "{kind}");
    }
}

/// Hazard: a root record has only the lowest 16 bits of the aside record's number, and after more
/// changes of the meta blob than that the one in force is not found, or another is taken for it.
#[test]
fn the_meta_blob_is_found_after_any_number_of_changes() {
    let place = Place::simulated(KINDS[0]);
    let mut map = place.create("map");
    let around = (1 << 16) - 4..(1 << 16) + 4;
    for change in 1..around.end {
        let blob = u32::to_be_bytes(change);
        map.set_meta(&blob).expect("it is short");
        map.persist().expect("persisted");
        if around.contains(&change) {
            drop(map);
            map = place.open("map");
            assert_eq!(map.meta(), blob, "after {change} changes");
        }
    }
}
