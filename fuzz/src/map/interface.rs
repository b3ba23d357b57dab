//! Calls the C interface with every argument but a wild pointer, in every order but use after
//! release.
//!
//! Run with `-detect_leaks=0`: libpmem2 loses a few bytes per mapped file.

use super::input::Input;
use perdura_capi::map::change::*;
use perdura_capi::map::code::{PerduraMapCode, perdura_map_message};
use perdura_capi::map::cursor::*;
use perdura_capi::map::directory::*;
use perdura_capi::map::load::*;
use perdura_capi::map::open::*;
use perdura_capi::map::progress::*;
use perdura_capi::map::read::*;
use perdura_capi::map::replicated::*;
use perdura_capi::map::snapshot::*;
use perdura_capi::map::space::*;
use perdura_capi::map::view::*;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The bytes of keys and values.
const POOL: [u8; 4096] = [b'p'; 4096];

/// A handle that belongs to the map of a number, or null.
#[derive(Clone, Copy)]
struct Handle<T> {
    pointer: *mut T,
    map: usize,
}

impl<T> Handle<T> {
    const NONE: Handle<T> = Handle { pointer: null_mut(), map: 0 };
}

/// A held value, and its bytes when it was read.
struct Held {
    value: PerduraMapValue,
    copy: Vec<u8>,
    map: usize,
}

/// Everything that is open.
struct World {
    directory: *mut PerduraMapDirectory,
    maps: [*mut PerduraMap; 2],
    values: Vec<Held>,
    cursors: [Handle<PerduraMapCursor>; 2],
    views: [Handle<PerduraMapView>; 2],
    snapshots: [Handle<PerduraMapSnapshot>; 2],
    loaders: [Handle<PerduraMapLoader>; 2],
    chunks: Vec<Vec<u8>>,
}

/// Calls the C interface as the input says, on maps in a directory of its own.
pub fn interface(data: &[u8]) {
    let (directory, place) = directory();
    let mut world = World {
        directory,
        maps: [null_mut(); 2],
        values: Vec::new(),
        cursors: [Handle::NONE; 2],
        views: [Handle::NONE; 2],
        snapshots: [Handle::NONE; 2],
        loaders: [Handle::NONE; 2],
        chunks: Vec::new(),
    };
    let mut input = Input(data);
    // SAFETY: the world holds handles that were opened and not released, or null; lengths are those
    // of the bytes given.
    unsafe {
        world.make(&mut input);
        while !input.is_over() {
            let code = world.step(&mut input);
            assert_ne!(code, PerduraMapCode::Internal, "{}", message());
            assert!(
                (code as u32) < PerduraMapCode::NotFound as u32 || !message().is_empty(),
                "{code:?} without a message"
            );
        }
        world.end();
    }
    for name in ["m", "n"] {
        // The input may not have created it.
        let _ = std::fs::remove_file(place.join(name));
    }
}

/// The directory that all inputs use in turn. To open one per input would be slow, and would
/// exhaust libpmem2, which keeps a thread-specific key for every file that was ever mapped.
fn directory() -> (*mut PerduraMapDirectory, &'static Path) {
    static DIRECTORY: OnceLock<(TempDir, usize)> = OnceLock::new();
    let (place, address) = DIRECTORY.get_or_init(|| {
        let place = tempfile::tempdir_in(Path::new("/dev/shm")).or_else(|_| tempfile::tempdir()).expect("a directory");
        let path = CString::new(place.path().to_str().expect("text")).expect("no zero byte");
        let mut directory = null_mut();
        // SAFETY: pointers are null or to live values.
        let codes = unsafe {
            [
                perdura_map_directory_open(null(), true, true, &mut directory),
                perdura_map_directory_open(path.as_ptr(), true, true, null_mut()),
                perdura_map_directory_open(c"/nowhere/at/all".as_ptr(), true, true, &mut directory),
                perdura_map_directory_open(path.as_ptr(), false, true, &mut directory),
            ]
        };
        assert_eq!(codes[3], PerduraMapCode::Ok, "{}", message());
        assert!(codes[..3].iter().all(|code| *code as u32 >= PerduraMapCode::NotFound as u32), "{codes:?}");
        (place, directory as usize)
    });
    (*address as *mut PerduraMapDirectory, place.path())
}

fn message() -> String {
    let mut text = [0u8; 600];
    // SAFETY: the buffer has that many bytes.
    unsafe { perdura_map_message(text.as_mut_ptr().cast(), text.len()) };
    let end = text.iter().position(|byte| *byte == 0).expect("an end");
    String::from_utf8_lossy(&text[..end]).into_owned()
}

/// A pointer with its length. The length is false only where it is refused before anything is read.
fn bytes(input: &mut Input<'_>) -> (*const c_void, usize) {
    let data = POOL.as_ptr().cast::<c_void>();
    match input.u8() {
        0 => (null(), 0),
        1 => (null(), 1),
        2 => (data, usize::MAX),
        3 => (data, (64 << 20) + 1),
        4 => (null(), usize::MAX),
        5 => (data, 0),
        6 => (data, POOL.len()),
        other => (data, usize::from(other) % 40),
    }
}

fn timestamp(input: &mut Input<'_>) -> u64 {
    match input.u8() {
        0 => u64::MAX,
        1 => u64::MAX - 1,
        other => u64::from(other) - 2,
    }
}

/// One of the choices, mostly the first, which is valid.
fn number(input: &mut Input<'_>, choices: &[u64]) -> u64 {
    let choice = usize::from(input.u8());
    if choice < 224 { choices[0] } else { choices[choice % choices.len()] }
}

fn name(input: &mut Input<'_>) -> CString {
    let long = "n".repeat(300);
    let names: [&[u8]; 8] = [b"m", b"n", b"", b"../m", b"M", b".m", b"\xff", long.as_bytes()];
    let choice = usize::from(input.u8());
    CString::new(names[if choice < 8 { choice } else { choice % 2 }]).expect("no zero byte")
}

impl World {
    /// # Safety
    /// Everything that the world holds is live or null.
    unsafe fn make(&mut self, input: &mut Input<'_>) -> PerduraMapCode {
        let at = usize::from(input.u8()) % 2;
        let kind = number(input, &[2, 1, 0, 3, u64::from(u32::MAX)]) as u32;
        let layout = PerduraMapLayout {
            kind,
            page_bytes: number(input, &[256, 1024, 0, 1000, 1 << 31, 1 << 16]) as u32,
            branching: number(input, &[7, 4, 64, 0, 1, u64::from(u32::MAX)]) as u32,
            bytes: number(input, &[256 << 10, 1 << 20, 0, 1, 4096, 5000, 1 << 62, u64::MAX]),
        };
        let config = PerduraMapConfig {
            changes_max: number(input, &[10, 1, 0, u64::from(u32::MAX)]) as u32,
            interval_us: number(input, &[1000, 0, u64::MAX]),
            background: false,
        };
        let name = name(input);
        let mut made = null_mut();
        // SAFETY: as the caller vouches for.
        unsafe {
            let config = if input.u8() == 7 { null() } else { &raw const config };
            let code = match input.u8() % 4 {
                3 => perdura_map_open(self.directory, name.as_ptr(), config, &mut made),
                _ => perdura_map_create(self.directory, name.as_ptr(), &layout, config, &mut made),
            };
            if code == PerduraMapCode::Ok {
                if self.maps[at].is_null() {
                    self.maps[at] = made;
                } else {
                    assert_eq!(perdura_map_close(made), PerduraMapCode::Ok, "{}", message());
                }
            }
            code
        }
    }

    /// # Safety
    /// As for [`World::make`].
    unsafe fn step(&mut self, input: &mut Input<'_>) -> PerduraMapCode {
        let what = input.u8() % 40;
        let at = usize::from(input.u8()) % 2;
        let map = self.maps[at];
        // SAFETY: as the caller vouches for.
        unsafe {
            match what {
                0 => self.make(input),
                1 => self.close(at),
                2..=12 => change(map, what, input),
                13..=17 => self.read(at, input),
                18..=20 => self.walk(at, input),
                21..=23 => self.stream(at, input),
                24..=27 => self.load(at, input),
                28..=31 => look(map, what, input),
                32..=34 => batch(map, input),
                35 | 36 => replicated(map, input),
                _ => self.view(at, input),
            }
        }
    }

    /// # Safety
    /// As for [`World::make`].
    unsafe fn close(&mut self, at: usize) -> PerduraMapCode {
        let held = self.values.iter().filter(|held| held.map == at).count()
            + self.cursors.iter().filter(|handle| !handle.pointer.is_null() && handle.map == at).count()
            + self.views.iter().filter(|handle| !handle.pointer.is_null() && handle.map == at).count()
            + self.snapshots.iter().filter(|handle| !handle.pointer.is_null() && handle.map == at).count()
            + self.loaders.iter().filter(|handle| !handle.pointer.is_null() && handle.map == at).count();
        // SAFETY: as the caller vouches for.
        let code = unsafe { perdura_map_close(self.maps[at]) };
        assert_eq!(code, if held > 0 { PerduraMapCode::Busy } else { PerduraMapCode::Ok }, "{held} held");
        if held == 0 {
            self.maps[at] = null_mut();
        }
        code
    }

    /// # Safety
    /// As for [`World::make`].
    unsafe fn read(&mut self, at: usize, input: &mut Input<'_>) -> PerduraMapCode {
        if input.u8().is_multiple_of(4) && !self.values.is_empty() {
            let index = input.below(self.values.len() as u64) as usize;
            // SAFETY: as the caller vouches for.
            unsafe { self.values.swap_remove(index).release() };
            return PerduraMapCode::Ok;
        }
        let ((key, key_bytes), at_ts) = (bytes(input), timestamp(input));
        let mut value = PerduraMapValue { data: null(), bytes: 7, hold: null_mut() };
        let mut buffer = [0u8; 64];
        let (mut length, room) = (0, usize::from(input.u8()) % 65);
        let map = self.maps[at];
        // SAFETY: as the caller vouches for.
        unsafe {
            let copied = perdura_map_read(map, key, key_bytes, at_ts, buffer.as_mut_ptr().cast(), room, &mut length);
            let code = perdura_map_get(map, key, key_bytes, at_ts, &mut value);
            assert_eq!(code, copied, "one reads what the other does not");
            if code == PerduraMapCode::Ok {
                let copy = slice(value.data, value.bytes).to_vec();
                assert_eq!((copy.len(), &copy[..copy.len().min(room)]), (length, &buffer[..length.min(room)]));
                self.values.push(Held { value, copy, map: at });
            } else {
                assert!(value.hold.is_null() && value.bytes == 0, "{code:?} with a value");
            }
            code
        }
    }

    /// # Safety
    /// As for [`World::make`].
    unsafe fn walk(&mut self, at: usize, input: &mut Input<'_>) -> PerduraMapCode {
        let what = input.u8();
        let handle = &mut self.cursors[usize::from(what) % 2];
        // SAFETY: as the caller vouches for.
        unsafe {
            if what >= 128 {
                let mut entry = PerduraMapEntry { key: null(), key_bytes: 0, value: null(), value_bytes: 0, ts: 0 };
                let code = perdura_map_cursor_next(handle.pointer, &mut entry);
                if code == PerduraMapCode::Ok {
                    let read = slice(entry.key, entry.key_bytes).len() + slice(entry.value, entry.value_bytes).len();
                    assert_eq!(read, entry.key_bytes + entry.value_bytes);
                }
                return code;
            }
            perdura_map_cursor_release(std::mem::replace(handle, Handle { pointer: null_mut(), map: at }).pointer);
            let ((key, key_bytes), (other, other_bytes)) = (bytes(input), bytes(input));
            let lower = PerduraMapBound { key, key_bytes, excluded: what & 4 != 0 };
            let upper = PerduraMapBound { key: other, key_bytes: other_bytes, excluded: what & 8 != 0 };
            let lower = if what & 16 != 0 { null() } else { &raw const lower };
            let upper = if what & 32 != 0 { null() } else { &raw const upper };
            let at_ts = timestamp(input);
            if what & 64 != 0 {
                perdura_map_prefix(self.maps[at], key, key_bytes, at_ts, &mut handle.pointer)
            } else {
                perdura_map_scan(self.maps[at], lower, upper, at_ts, &mut handle.pointer)
            }
        }
    }

    /// # Safety
    /// As for [`World::make`].
    unsafe fn view(&mut self, at: usize, input: &mut Input<'_>) -> PerduraMapCode {
        let what = input.u8();
        let handle = &mut self.views[usize::from(what) % 2];
        // SAFETY: as the caller vouches for.
        unsafe {
            if what < 64 {
                perdura_map_view_release(std::mem::replace(handle, Handle { pointer: null_mut(), map: at }).pointer);
                return perdura_map_view(self.maps[at], timestamp(input), &mut handle.pointer);
            }
            let (key, key_bytes) = bytes(input);
            let mut value = PerduraMapValue { data: null(), bytes: 0, hold: null_mut() };
            let code = perdura_map_view_get(handle.pointer, key, key_bytes, &mut value);
            if code == PerduraMapCode::Ok {
                let (copy, map) = (slice(value.data, value.bytes).to_vec(), handle.map);
                self.values.push(Held { value, copy, map });
            }
            code
        }
    }

    /// # Safety
    /// As for [`World::make`].
    unsafe fn stream(&mut self, at: usize, input: &mut Input<'_>) -> PerduraMapCode {
        let what = input.u8();
        let handle = &mut self.snapshots[usize::from(what) % 2];
        // SAFETY: as the caller vouches for.
        unsafe {
            if what >= 64 {
                let (mut data, mut length) = (null(), 0);
                let code = perdura_map_snapshot_next(handle.pointer, &mut data, &mut length);
                if code == PerduraMapCode::Ok {
                    self.chunks.push(slice(data, length).to_vec());
                }
                return code;
            }
            self.chunks.clear();
            perdura_map_snapshot_release(std::mem::replace(handle, Handle { pointer: null_mut(), map: at }).pointer);
            let chunk_bytes_max = number(input, &[64, 200, 100_000, 0, 63]) as usize;
            let garbage_max = number(input, &[u64::MAX, 0, 4096]);
            let code = perdura_map_snapshot_within(self.maps[at], chunk_bytes_max, garbage_max, &mut handle.pointer);
            let mut stands = PerduraMapTimestamps::default();
            let found = perdura_map_snapshot_timestamps(handle.pointer, &mut stands);
            assert_eq!(found == PerduraMapCode::Ok, code == PerduraMapCode::Ok);
            code
        }
    }

    /// # Safety
    /// As for [`World::make`].
    unsafe fn load(&mut self, at: usize, input: &mut Input<'_>) -> PerduraMapCode {
        let what = input.u8();
        let handle = &mut self.loaders[usize::from(what) % 2];
        // SAFETY: as the caller vouches for.
        unsafe {
            match what / 2 % 8 {
                0 => {
                    let loader = std::mem::replace(handle, Handle::NONE).pointer;
                    perdura_map_load_finish(loader)
                }
                1 => {
                    perdura_map_load_abandon(std::mem::replace(handle, Handle::NONE).pointer);
                    PerduraMapCode::Ok
                }
                2 => perdura_map_load_push(handle.pointer, null(), usize::MAX),
                3 => {
                    let chunk = input.bytes(40);
                    perdura_map_load_push(handle.pointer, chunk.as_ptr().cast(), chunk.len())
                }
                4 if handle.pointer.is_null() => {
                    handle.map = at;
                    perdura_map_load_begin(self.maps[at], &mut handle.pointer)
                }
                5 if handle.pointer.is_null() => {
                    handle.map = at;
                    perdura_map_load_reset(self.maps[at], &mut handle.pointer)
                }
                _ => {
                    let mut code = PerduraMapCode::Ok;
                    for chunk in &self.chunks {
                        code = perdura_map_load_push(handle.pointer, chunk.as_ptr().cast(), chunk.len());
                    }
                    code
                }
            }
        }
    }

    /// Releases everything, after which every map must close.
    ///
    /// # Safety
    /// As for [`World::make`].
    unsafe fn end(mut self) {
        // SAFETY: as the caller vouches for; nothing is used afterwards.
        unsafe {
            self.values.drain(..).for_each(|held| held.release());
            self.cursors.iter().for_each(|handle| perdura_map_cursor_release(handle.pointer));
            self.views.iter().for_each(|handle| perdura_map_view_release(handle.pointer));
            self.snapshots.iter().for_each(|handle| perdura_map_snapshot_release(handle.pointer));
            self.loaders.iter().for_each(|handle| perdura_map_load_abandon(handle.pointer));
            for map in self.maps.into_iter().filter(|map| !map.is_null()) {
                let checked = perdura_map_check(map, null_mut());
                assert!(matches!(checked, PerduraMapCode::Ok | PerduraMapCode::Partial), "{}", message());
                assert_eq!(perdura_map_close(map), PerduraMapCode::Ok, "{}", message());
            }
        }
    }
}

impl Held {
    /// # Safety
    /// The value is held, and nobody uses it afterwards.
    unsafe fn release(mut self) {
        // SAFETY: as the caller vouches for.
        unsafe {
            assert!(slice(self.value.data, self.value.bytes) == self.copy, "a value held has changed");
            perdura_map_value_release(&mut self.value);
            perdura_map_value_release(&mut self.value);
        }
    }
}

/// # Safety
/// `data` must be readable for `bytes` bytes, or `bytes` must be 0.
unsafe fn slice<'a>(data: *const c_void, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: as the caller vouches for.
    unsafe { std::slice::from_raw_parts(data.cast(), bytes) }
}

/// # Safety
/// `map` must be null or open.
unsafe fn change(map: *const PerduraMap, what: u8, input: &mut Input<'_>) -> PerduraMapCode {
    let ((key, key_bytes), (value, value_bytes)) = (bytes(input), bytes(input));
    let (ts, pair) = (timestamp(input), PerduraMapBytes { data: value, bytes: value_bytes });
    let pair = |null_wanted: bool| if null_wanted { null() } else { &raw const pair };
    let (mut given, mut rests_on) = (0, 0);
    // SAFETY: as the caller vouches for.
    unsafe {
        match what {
            2 | 3 => perdura_map_set(map, ts, key, key_bytes, value, value_bytes),
            4 => perdura_map_delete(map, ts, key, key_bytes),
            5 => {
                let (expected, desired) = (pair(input.u8().is_multiple_of(2)), pair(input.u8().is_multiple_of(2)));
                let rests_on = if input.u8() == 0 { null_mut() } else { &raw mut rests_on };
                perdura_map_compare_and_set(map, ts, key, key_bytes, expected, desired, rests_on)
            }
            6 | 7 => perdura_map_put(map, key, key_bytes, value, value_bytes, &mut given),
            8 => perdura_map_remove(map, key, key_bytes),
            9 => perdura_map_persist(map),
            10 => perdura_map_apply(map, ts),
            11 => perdura_map_rollback(map, ts),
            _ => perdura_map_forget(map, ts),
        }
    }
}

/// # Safety
/// `map` must be null or open.
unsafe fn batch(map: *const PerduraMap, input: &mut Input<'_>) -> PerduraMapCode {
    let (ts, (tag, tag_bytes)) = (timestamp(input), bytes(input));
    let mut pair = || {
        let (data, bytes) = bytes(input);
        PerduraMapBytes { data, bytes }
    };
    let changes = [(); 3].map(|()| PerduraMapChange { key: pair(), deletes: pair().bytes == 7, value: pair() });
    let (count, given) = (usize::from(input.u8()) % 4, if input.u8() == 0 { null() } else { changes.as_ptr() });
    // SAFETY: as the caller vouches for; there are three changes.
    unsafe { perdura_map_batch(map, ts, tag, tag_bytes, given, count) }
}

/// Sets the meta blob and reads it back, or reads the tag.
///
/// # Safety
/// `map` must be null or open.
unsafe fn replicated(map: *const PerduraMap, input: &mut Input<'_>) -> PerduraMapCode {
    let (mut buffer, mut length, room) = ([0u8; 64], 0, usize::from(input.u8()) % 65);
    let ((meta, meta_bytes), mut ts) = (bytes(input), 0);
    // SAFETY: as the caller vouches for; the buffer has as many bytes.
    unsafe {
        let buffer_at = buffer.as_mut_ptr().cast();
        if input.u8().is_multiple_of(2) {
            return perdura_map_forgotten_tag(map, &mut ts, buffer_at, room, &mut length);
        }
        let code = perdura_map_set_meta(map, meta, meta_bytes);
        let read = perdura_map_meta(map, buffer_at, room, &mut length);
        if (code, read) == (PerduraMapCode::Ok, PerduraMapCode::Ok) {
            let meta = slice(meta, meta_bytes);
            assert_eq!((length, &buffer[..room.min(length)]), (meta.len(), &meta[..room.min(length)]));
        }
        code
    }
}

/// # Safety
/// `map` must be null or open.
unsafe fn look(map: *const PerduraMap, what: u8, input: &mut Input<'_>) -> PerduraMapCode {
    unsafe extern "C" fn each(context: *mut c_void, mutation: *const PerduraMapMutation) -> bool {
        // SAFETY: the context is a number, the mutation live.
        unsafe {
            let (count, mutation) = (&mut *context.cast::<u64>(), &*mutation);
            assert!(slice(mutation.key, mutation.key_bytes).len() <= 64 << 10);
            assert!(slice(mutation.tag, mutation.tag_bytes).len() <= 1024);
            *count += 1;
            *count < 1000
        }
    }
    let (mut space, mut stands, mut count) = (PerduraMapSpace::default(), PerduraMapTimestamps::default(), 0u64);
    let from = timestamp(input);
    // SAFETY: as the caller vouches for.
    unsafe {
        match what {
            28 => perdura_map_mutations(map, from, Some(each), (&raw mut count).cast()),
            29 => perdura_map_collect(map, &mut count),
            30 => perdura_map_check(map, &mut count),
            _ => {
                let code = perdura_map_timestamps(map, &mut stands);
                assert!(stands.forgotten <= stands.applied && stands.applied <= stands.last, "{stands:?}");
                assert_eq!(perdura_map_space(map, &mut space), code);
                code
            }
        }
    }
}
