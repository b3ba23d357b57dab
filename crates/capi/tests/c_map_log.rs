//! Hazard: a C program that keeps a replicated log in a map, and loses a part of an entry, or what
//! the entry belongs to.

use crate::c_map_support::*;
use perdura_capi::map::change::*;
use perdura_capi::map::code::PerduraMapCode;
use perdura_capi::map::cursor::*;
use perdura_capi::map::load::*;
use perdura_capi::map::open::*;
use perdura_capi::map::progress::*;
use perdura_capi::map::read::*;
use perdura_capi::map::replicated::*;
use perdura_capi::map::snapshot::*;
use perdura_capi::map::view::*;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

const NONE: PerduraMapBytes = PerduraMapBytes { data: null(), bytes: 0 };

fn pair(bytes: &[u8]) -> PerduraMapBytes {
    PerduraMapBytes { data: pointer(bytes), bytes: bytes.len() }
}

/// Makes a batch of changes, each a key and its new value, at `ts`.
fn batch(map: &Map, ts: u64, tag: &[u8], changes: &[(&[u8], Option<&[u8]>)]) -> PerduraMapCode {
    let changes: Vec<PerduraMapChange> = changes
        .iter()
        .map(|(key, value)| PerduraMapChange {
            key: pair(key),
            deletes: value.is_none(),
            value: value.map_or(NONE, pair),
        })
        .collect();
    // SAFETY: the map is open, all pointers are to live values.
    unsafe { perdura_map_batch(map.0, ts, pointer(tag), tag.len(), changes.as_ptr(), changes.len()) }
}

/// The changes and tags that are not forgotten, one text each.
fn mutations(map: &Map) -> Vec<String> {
    unsafe extern "C" fn each(context: *mut c_void, mutation: *const PerduraMapMutation) -> bool {
        // SAFETY: the context is the vector below, the mutation live.
        unsafe {
            let (found, mutation) = (&mut *context.cast::<Vec<String>>(), &*mutation);
            let text = |data: *const c_void, length: usize| {
                if data.is_null() { "-".into() } else { String::from_utf8(bytes(data, length)).expect("text") }
            };
            let (key, value) = (text(mutation.key, mutation.key_bytes), text(mutation.value, mutation.value_bytes));
            found.push(match mutation.tag.is_null() {
                true => format!("{} {key} {value}", mutation.ts),
                false => format!("{} tag {}", mutation.ts, text(mutation.tag, mutation.tag_bytes)),
            });
        }
        true
    }
    let mut found: Vec<String> = Vec::new();
    // SAFETY: the map is open; the context is what `each` expects.
    ok(unsafe { perdura_map_mutations(map.0, 0, Some(each), (&raw mut found).cast()) });
    found
}

fn forgotten_tag(map: &Map) -> Result<(u64, Vec<u8>), PerduraMapCode> {
    let (mut ts, mut buffer, mut length) = (0, [0u8; 16], 0);
    // SAFETY: the map is open, the buffer has as many bytes.
    match unsafe { perdura_map_forgotten_tag(map.0, &mut ts, buffer.as_mut_ptr().cast(), buffer.len(), &mut length) } {
        PerduraMapCode::Ok => Ok((ts, buffer[..length].to_vec())),
        code => Err(code),
    }
}

#[test]
fn an_entry_comes_and_goes_with_its_tag() {
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        map.put(b"gone", b"x");
        ok(batch(&map, 2, b"term 1", &[(b"a", Some(b"1")), (b"gone", None), (b"none", None)]));
        ok(batch(&map, 3, b"term 1", &[]));
        ok(batch(&map, 4, b"term 2", &[(b"a", Some(b"2")), (b"b", Some(b""))]));
        let entries = ["2 tag term 1", "2 a 1", "2 gone -", "3 tag term 1", "4 tag term 2", "4 a 2", "4 b "];
        assert_eq!(mutations(&map), entries);
        assert_eq!(batch(&map, 3, b"late", &[]), PerduraMapCode::Timestamp);
        assert_eq!(batch(&map, 5, &[0; 1025], &[]), PerduraMapCode::TooLarge);
        let too_large = vec![0; 8 << 20];
        assert_eq!(batch(&map, 5, b"", &[(b"c", Some(b"3")), (b"d", Some(&too_large))]), PerduraMapCode::Full);
        assert_eq!((mutations(&map).len(), map.stands().last), (7, 4), "nothing is left of it");
        assert_eq!(forgotten_tag(&map), Err(PerduraMapCode::Absent));
        // SAFETY: the map is open.
        unsafe {
            ok(perdura_map_rollback(map.0, 4));
            ok(perdura_map_apply(map.0, 3));
            ok(perdura_map_forget(map.0, 3));
        }
        assert_eq!((mutations(&map), map.get(b"a", NEWEST)), (vec![], Ok(b"1".to_vec())));
        assert_eq!(forgotten_tag(&map), Ok((3, b"term 1".to_vec())));
        drop(map);
        let map = maps.open("m").expect("a sound map");
        assert_eq!(forgotten_tag(&map), Ok((3, b"term 1".to_vec())));
    }
}

#[test]
fn a_server_keeps_its_vote() {
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        let read = |map: &Map, room: usize| {
            let (mut buffer, mut length) = ([0u8; 8], 0);
            // SAFETY: the map is open, the buffer has the room said.
            ok(unsafe { perdura_map_meta(map.0, buffer.as_mut_ptr().cast(), room, &mut length) });
            (buffer, length)
        };
        assert_eq!(read(&map, 8), ([0; 8], 0));
        // SAFETY: the map is open, all pointers are to live values.
        unsafe {
            ok(perdura_map_set_meta(map.0, pointer(b"vote 7"), 6));
            assert_eq!(perdura_map_set_meta(map.0, pointer(&[0; 1025]), 1025), PerduraMapCode::TooLarge);
            ok(perdura_map_persist(map.0));
        }
        drop(map);
        let map = maps.open("m").expect("a sound map");
        assert_eq!((read(&map, 8), read(&map, 4)), ((*b"vote 7\0\0", 6), (*b"vote\0\0\0\0", 6)));
    }
}

#[test]
fn an_answer_tells_what_it_rests_on() {
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        let compare = |ts: u64, expected: Option<&[u8]>, desired: Option<&[u8]>| {
            let (expected, desired, mut rests_on) = (expected.map(pair), desired.map(pair), 77);
            let given = |value: &Option<PerduraMapBytes>| value.as_ref().map_or(null(), |pair| pair as *const _);
            // SAFETY: the map is open, all pointers are to live values.
            let code = unsafe {
                perdura_map_compare_and_set(
                    map.0,
                    ts,
                    pointer(b"k"),
                    1,
                    given(&expected),
                    given(&desired),
                    &mut rests_on,
                )
            };
            (code, rests_on)
        };
        assert_eq!(compare(3, Some(b"x"), Some(b"y")), (PerduraMapCode::Differs, 0));
        assert_eq!(compare(3, None, Some(b"y")), (PerduraMapCode::Ok, 3));
        assert_eq!(compare(5, None, Some(b"z")), (PerduraMapCode::Differs, 3));
        assert_eq!(compare(5, Some(b"y"), None), (PerduraMapCode::Ok, 5));
        assert_eq!(compare(6, Some(b"y"), None), (PerduraMapCode::Differs, 5));
    }
}

#[test]
fn a_view_sees_one_moment_whatever_is_forgotten() {
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        for ts in 1..=3 {
            ok(map.set(ts, b"k", &[ts as u8]));
        }
        let (mut view, mut early) = (null_mut(), null_mut());
        let mut value = PerduraMapValue { data: null(), bytes: 0, hold: null_mut() };
        // SAFETY: the map is open, what is taken is released once.
        unsafe {
            ok(perdura_map_view(map.0, 2, &mut view));
            ok(perdura_map_apply(map.0, 3));
            ok(perdura_map_forget(map.0, 3));
            assert_eq!(map.stands().forgotten, 2, "the view holds it");
            ok(perdura_map_view_get(view, pointer(b"k"), 1, &mut value));
            assert_eq!(bytes(value.data, value.bytes), [2]);
            perdura_map_value_release(&mut value);
            assert_eq!(perdura_map_view(map.0, 1, &mut early), PerduraMapCode::Forgotten);
            assert_eq!(perdura_map_view_get(view, pointer(b"no"), 2, &mut value), PerduraMapCode::Absent);
            value.bytes = 7;
            assert_eq!(perdura_map_view_get(null(), pointer(b"k"), 1, &mut value), PerduraMapCode::Argument);
            assert_eq!(value.bytes, 0, "a value that a failed call leaves can be released");
            let mut cursor = null_mut();
            ok(perdura_map_view_scan(view, null(), null(), &mut cursor));
            let mut entry = MaybeUninit::<PerduraMapEntry>::uninit();
            ok(perdura_map_cursor_next(cursor, entry.as_mut_ptr()));
            let entry = entry.assume_init();
            assert_eq!((bytes(entry.key, entry.key_bytes), entry.ts), (b"k".to_vec(), 2), "as the view shows it");
            perdura_map_cursor_release(cursor);
            assert_eq!(perdura_map_view_scan(null(), null(), null(), &mut cursor), PerduraMapCode::Argument);
            assert_eq!(perdura_map_close(map.0), PerduraMapCode::Busy);
            perdura_map_view_release(view);
            perdura_map_view_release(null_mut());
        }
        assert!(early.is_null());
    }
}

#[test]
fn a_slow_reader_of_a_snapshot_does_not_fill_the_map() {
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        map.put(b"key", &[1; 3000]);
        let (mut snapshot, mut data, mut length) = (null_mut(), null(), 0);
        // SAFETY: the map is open, the snapshot is released once.
        unsafe {
            ok(perdura_map_snapshot_within(map.0, 1000, 64 << 10, &mut snapshot));
            ok(perdura_map_snapshot_next(snapshot, &mut data, &mut length));
            for number in 0..100u8 {
                map.put(b"key", &[number; 3000]);
                ok(perdura_map_persist(map.0));
            }
            assert_eq!(perdura_map_snapshot_next(snapshot, &mut data, &mut length), PerduraMapCode::Expired);
            assert_eq!(perdura_map_snapshot_next(snapshot, &mut data, &mut length), PerduraMapCode::End);
            perdura_map_snapshot_release(snapshot);
        }
    }
}

#[test]
fn a_map_emptied_for_a_load_can_only_be_loaded() {
    for kind in KINDS {
        let maps = Maps::new();
        let (map, source) = (maps.create("m", kind), maps.create("source", kind));
        map.put(b"old", b"1");
        source.put(b"new", b"2");
        let (mut loader, mut snapshot, mut data, mut length) = (null_mut(), null_mut(), null(), 0);
        // SAFETY: the maps are open, what is taken is released once.
        unsafe {
            ok(perdura_map_load_reset(map.0, &mut loader));
            perdura_map_load_abandon(loader);
            assert_eq!(map.get(b"old", NEWEST), Err(PerduraMapCode::Partial));
            assert_eq!(map.set(9, b"k", b""), PerduraMapCode::Partial);
        }
        drop(map);
        let map = maps.open("m").expect("a sound map");
        assert_eq!(map.get(b"old", NEWEST), Err(PerduraMapCode::Partial));
        // SAFETY: as above.
        unsafe {
            ok(perdura_map_load_begin(map.0, &mut loader));
            ok(perdura_map_snapshot(source.0, 1000, &mut snapshot));
            while perdura_map_snapshot_next(snapshot, &mut data, &mut length) == PerduraMapCode::Ok {
                ok(perdura_map_load_push(loader, data, length));
            }
            perdura_map_snapshot_release(snapshot);
            ok(perdura_map_load_finish(loader));
        }
        assert_eq!(map.pairs(), source.pairs());
    }
}
