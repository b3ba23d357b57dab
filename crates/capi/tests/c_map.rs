//! Hazard: a value that moves under a C program's pointer, an outcome that it takes for another, a
//! map closed under a cursor.

use crate::c_map_support::*;
use perdura_capi::map::change::*;
use perdura_capi::map::code::{PerduraMapCode, perdura_map_message};
use perdura_capi::map::cursor::*;
use perdura_capi::map::directory::*;
use perdura_capi::map::load::*;
use perdura_capi::map::open::*;
use perdura_capi::map::progress::*;
use perdura_capi::map::read::*;
use perdura_capi::map::snapshot::*;
use perdura_capi::map::space::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

#[test]
fn a_held_value_stays_while_its_key_changes() {
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        map.put(b"key", &[1; 3000]);
        let mut held = map.hold(b"key");
        for number in 0..200u8 {
            map.put(b"key", &[number; 3000]);
            // SAFETY: the map is open.
            unsafe {
                ok(perdura_map_persist(map.0));
                ok(perdura_map_collect(map.0, null_mut()));
            }
        }
        // SAFETY: the value is held, then released; releasing it again is allowed.
        unsafe {
            assert_eq!(bytes(held.data, held.bytes), [1; 3000]);
            assert_eq!(perdura_map_close(map.0), PerduraMapCode::Busy);
            assert!(message().contains("1 values"), "{}", message());
            perdura_map_value_release(&mut held);
            perdura_map_value_release(&mut held);
        }
        assert!(held.data.is_null() && held.bytes == 0);
        assert_eq!(map.get(b"key", NEWEST), Ok(vec![199; 3000]));
    }
}

#[test]
fn a_copy_is_cut_to_the_buffer_and_tells_the_whole_length() {
    let maps = Maps::new();
    let map = maps.create("m", PERDURA_MAP_LIST);
    map.put(b"key", b"12345");
    let (mut buffer, mut length) = ([0u8; 8], 0);
    let mut read = |key: &[u8], room: usize| {
        // SAFETY: the map is open, the buffer has the room said.
        let code = unsafe {
            let target = if room > 0 { buffer.as_mut_ptr().cast() } else { null_mut() };
            perdura_map_read(map.0, pointer(key), key.len(), NEWEST, target, room, &mut length)
        };
        (code, length, buffer)
    };
    assert_eq!(read(b"key", 3), (PerduraMapCode::Ok, 5, *b"123\0\0\0\0\0"));
    assert_eq!(read(b"key", 8), (PerduraMapCode::Ok, 5, *b"12345\0\0\0"));
    assert_eq!(read(b"key", 0), (PerduraMapCode::Ok, 5, *b"12345\0\0\0"));
    assert_eq!(read(b"no", 8).0, PerduraMapCode::Absent);
}

#[test]
fn keys_come_in_order_and_within_their_bounds() {
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        for key in ["b", "", "c", "a", "bb"] {
            map.put(key.as_bytes(), b"value");
        }
        let list = |keys: &[&str]| keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(map.keys(None, None), list(&["", "a", "b", "bb", "c"]));
        assert_eq!(map.keys(Some((b"a", false)), Some((b"bb", false))), list(&["a", "b", "bb"]));
        assert_eq!(map.keys(Some((b"a", true)), Some((b"bb", true))), list(&["b"]));
        assert_eq!(map.keys(Some((b"", true)), None), list(&["a", "b", "bb", "c"]));
        assert!(map.keys(Some((b"c", false)), Some((b"a", false))).is_empty());
        let mut cursor = null_mut();
        // SAFETY: the map is open; `rest` releases the cursor.
        unsafe {
            ok(perdura_map_prefix(map.0, pointer(b"b"), 1, NEWEST, &mut cursor));
            assert_eq!(perdura_map_close(map.0), PerduraMapCode::Busy);
        }
        assert_eq!(rest(cursor).len(), 2);
    }
}

#[test]
fn changes_tell_what_they_found() {
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        assert_eq!(map.compare_and_set(1, b"k", Some(b""), Some(b"x")), PerduraMapCode::Differs);
        assert_eq!(map.compare_and_set(1, b"k", None, Some(b"")), PerduraMapCode::Ok);
        assert_eq!(map.compare_and_set(2, b"k", None, Some(b"x")), PerduraMapCode::Differs);
        assert_eq!(map.compare_and_set(2, b"k", Some(b""), Some(b"x")), PerduraMapCode::Ok);
        assert_eq!(map.compare_and_set(3, b"k", Some(b"x"), None), PerduraMapCode::Ok);
        assert_eq!(map.get(b"k", NEWEST), Err(PerduraMapCode::Absent));
        assert_eq!((map.get(b"k", 1), map.get(b"k", 2)), (Ok(vec![]), Ok(b"x".to_vec())));
        // SAFETY: the map is open.
        unsafe {
            assert_eq!(perdura_map_delete(map.0, 3, pointer(b"k"), 1), PerduraMapCode::Absent);
            assert_eq!(perdura_map_remove(map.0, pointer(b"k"), 1), PerduraMapCode::Absent);
            map.put(b"k", b"y");
            assert_eq!(perdura_map_remove(map.0, pointer(b"k"), 1), PerduraMapCode::Ok);
        }
    }
}

#[test]
fn timestamps_are_applied_rolled_back_and_forgotten() {
    unsafe extern "C" fn each(context: *mut c_void, mutation: *const PerduraMapMutation) -> bool {
        // SAFETY: the context is the vector below, the mutation live.
        unsafe {
            let (found, mutation) = (&mut *context.cast::<Vec<(u64, bool)>>(), &*mutation);
            found.push((mutation.ts, mutation.deleted));
        }
        true
    }
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        for ts in 1..=5 {
            ok(map.set(ts, b"k", &[ts as u8]));
        }
        assert_eq!(map.set(4, b"k", b""), PerduraMapCode::Timestamp);
        let mut found: Vec<(u64, bool)> = Vec::new();
        // SAFETY: the map is open; the context is what `each` expects.
        unsafe {
            ok(perdura_map_delete(map.0, 6, pointer(b"k"), 1));
            ok(perdura_map_apply(map.0, 3));
            assert_eq!(perdura_map_rollback(map.0, 3), PerduraMapCode::Timestamp);
            ok(perdura_map_rollback(map.0, 5));
            assert_eq!(perdura_map_forget(map.0, 4), PerduraMapCode::Timestamp);
            ok(perdura_map_forget(map.0, 2));
            ok(perdura_map_persist(map.0));
            ok(perdura_map_mutations(map.0, 0, Some(each), (&raw mut found).cast()));
        }
        assert_eq!(found, [(3, false), (4, false)]);
        assert_eq!(map.get(b"k", NEWEST), Ok(vec![4]));
        assert_eq!(map.get(b"k", 1), Err(PerduraMapCode::Forgotten));
        assert_eq!(map.stands(), PerduraMapTimestamps { last: 4, applied: 3, forgotten: 2, persisted: 4 });
    }
}

#[test]
fn a_map_survives_its_close() {
    for kind in KINDS {
        let maps = Maps::new();
        let map = maps.create("m", kind);
        map.put(b"k", b"v");
        // SAFETY: the map is open.
        ok(unsafe { perdura_map_persist(map.0) });
        assert_eq!(maps.open("m").err(), Some(PerduraMapCode::Busy));
        drop(map);
        assert_eq!(maps.open("n").err(), Some(PerduraMapCode::NotFound));
        let map = maps.open("m").expect("a sound map");
        assert_eq!(map.get(b"k", NEWEST), Ok(b"v".to_vec()));
        let (mut versions, mut space) = (0, PerduraMapSpace::default());
        // SAFETY: the map is open.
        unsafe {
            ok(perdura_map_check(map.0, &mut versions));
            ok(perdura_map_space(map.0, &mut space));
        }
        assert_eq!(versions, 1);
        assert!(space.used + space.free == space.total && space.live > 0, "{space:?}");
    }
}

#[test]
fn a_snapshot_goes_from_one_structure_to_the_other() {
    for (from, to) in [(PERDURA_MAP_LIST, PERDURA_MAP_BTREE), (PERDURA_MAP_BTREE, PERDURA_MAP_LIST)] {
        let maps = Maps::new();
        let (source, target) = (maps.create("source", from), maps.create("target", to));
        for number in 0..100u8 {
            source.put(&[number], &[number; 100]);
        }
        target.put(b"old", b"goes");
        let (mut snapshot, mut stands) = (null_mut(), PerduraMapTimestamps::default());
        let (mut loader, mut data, mut length, mut chunks) = (null_mut(), null(), 0, 0);
        // SAFETY: the maps are open; what is taken is released once.
        unsafe {
            assert_eq!(perdura_map_snapshot(source.0, 63, &mut snapshot), PerduraMapCode::Argument);
            ok(perdura_map_snapshot(source.0, 1000, &mut snapshot));
            ok(perdura_map_snapshot_timestamps(snapshot, &mut stands));
            ok(perdura_map_load_begin(target.0, &mut loader));
            while perdura_map_snapshot_next(snapshot, &mut data, &mut length) == PerduraMapCode::Ok {
                assert!(length <= 1000);
                ok(perdura_map_load_push(loader, data, length));
                assert_eq!(target.get(b"old", NEWEST), Ok(b"goes".to_vec()));
                chunks += 1;
            }
            assert_eq!(perdura_map_snapshot_next(snapshot, &mut data, &mut length), PerduraMapCode::End);
            // The receiver has lost all that came after a mark.
            ok(perdura_map_snapshot_rewind(snapshot));
            ok(perdura_map_snapshot_next(snapshot, &mut data, &mut length));
            ok(perdura_map_snapshot_mark(snapshot));
            let rest = |snapshot| {
                let (mut rest, mut data, mut length) = (Vec::new(), null(), 0);
                while perdura_map_snapshot_next(snapshot, &mut data, &mut length) == PerduraMapCode::Ok {
                    rest.push(bytes(data, length));
                }
                rest
            };
            let first = rest(snapshot);
            ok(perdura_map_snapshot_rewind(snapshot));
            assert_eq!(rest(snapshot), first);
            assert_eq!(perdura_map_snapshot_rewind(null_mut()), PerduraMapCode::Argument);
            assert_eq!(perdura_map_close(source.0), PerduraMapCode::Busy);
            assert_eq!(perdura_map_close(target.0), PerduraMapCode::Busy);
            perdura_map_snapshot_release(snapshot);
            ok(perdura_map_load_finish(loader));
            // A load that is abandoned or incomplete changes nothing.
            ok(perdura_map_load_begin(target.0, &mut loader));
            perdura_map_load_abandon(loader);
            ok(perdura_map_load_begin(target.0, &mut loader));
            assert_eq!(perdura_map_load_finish(loader), PerduraMapCode::Damaged);
        }
        assert!(chunks > 10);
        assert_eq!(target.pairs(), source.pairs());
        assert_eq!(target.stands().last, stands.last);
    }
}

#[test]
fn null_and_numbers_out_of_range_are_answered() {
    let maps = Maps::new();
    let map = maps.create("m", PERDURA_MAP_BTREE);
    let wrong = |code: PerduraMapCode| assert_eq!(code, PerduraMapCode::Argument, "{}", message());
    let (mut layout, mut other, mut value) =
        (perdura_map_layout(9, 1 << 20), null_mut(), PerduraMapBytes { data: null(), bytes: 1 });
    // SAFETY: pointers are null or to live values; lengths that are wrong are beyond the limits.
    unsafe {
        wrong(perdura_map_directory_open(null(), false, true, null_mut()));
        wrong(perdura_map_open(null(), c"m".as_ptr(), null(), &mut other));
        wrong(perdura_map_open(maps.directory, null(), null(), &mut other));
        wrong(perdura_map_open(maps.directory, c"m".as_ptr(), null(), null_mut()));
        wrong(perdura_map_open(maps.directory, c"\xff".as_ptr(), null(), &mut other));
        wrong(perdura_map_create(maps.directory, c"n".as_ptr(), &layout, null(), &mut other));
        layout.kind = PERDURA_MAP_LIST;
        layout.page_bytes = 1000;
        wrong(perdura_map_create(maps.directory, c"n".as_ptr(), &layout, null(), &mut other));
        wrong(perdura_map_create(maps.directory, c"n".as_ptr(), null(), null(), &mut other));
        wrong(perdura_map_put(null(), null(), 0, null(), 0, null_mut()));
        wrong(perdura_map_put(map.0, null(), 1, null(), 0, null_mut()));
        wrong(perdura_map_compare_and_set(map.0, 1, null(), 0, null(), &value, null_mut()));
        wrong(perdura_map_get(map.0, null(), 0, NEWEST, null_mut()));
        wrong(perdura_map_scan(map.0, null(), null(), NEWEST, null_mut()));
        wrong(perdura_map_cursor_next(null_mut(), null_mut()));
        wrong(perdura_map_mutations(map.0, 0, None, null_mut()));
        wrong(perdura_map_load_finish(null_mut()));
        value.bytes = usize::MAX;
        let too_large = PerduraMapCode::TooLarge;
        assert_eq!(perdura_map_put(map.0, null(), 0, null(), usize::MAX, null_mut()), too_large);
        assert_eq!(perdura_map_set(map.0, 1, pointer(b"k"), (64 << 10) + 1, null(), 0), too_large);
        assert_eq!(perdura_map_compare_and_set(map.0, 1, null(), 0, &value, null(), null_mut()), too_large);
        perdura_map_value_release(null_mut());
        perdura_map_cursor_release(null_mut());
        perdura_map_snapshot_release(null_mut());
        perdura_map_load_abandon(null_mut());
        perdura_map_directory_close(null_mut());
        perdura_map_message(null_mut(), 7);
        ok(perdura_map_close(null_mut()));
        // Keys and values may be empty, and null then.
        ok(perdura_map_put(map.0, null(), 0, null(), 0, null_mut()));
    }
    assert!(other.is_null());
    assert_eq!(map.pairs(), [(vec![], vec![])]);
}
