//! Maps in a directory of their own, driven as a C program drives them.

#![allow(dead_code)] // Each test file uses a part of it.

use perdura_capi::map::change::*;
use perdura_capi::map::code::{PerduraMapCode, perdura_map_message};
use perdura_capi::map::cursor::*;
use perdura_capi::map::directory::*;
use perdura_capi::map::open::*;
use perdura_capi::map::progress::*;
use perdura_capi::map::read::*;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use tempfile::TempDir;

pub const KINDS: [u32; 2] = [PERDURA_MAP_LIST, PERDURA_MAP_BTREE];
pub const NEWEST: u64 = PERDURA_MAP_NEWEST;

pub fn message() -> String {
    let mut text = [0u8; 500];
    // SAFETY: the buffer has as many bytes.
    unsafe { perdura_map_message(text.as_mut_ptr().cast(), text.len()) };
    let end = text.iter().position(|byte| *byte == 0).expect("an end");
    String::from_utf8_lossy(&text[..end]).into_owned()
}

pub fn ok(code: PerduraMapCode) {
    assert_eq!(code, PerduraMapCode::Ok, "{}", message());
}

/// An open directory of maps.
pub struct Maps {
    pub directory: *mut PerduraMapDirectory,
    _place: TempDir,
}

impl Maps {
    pub fn new() -> Maps {
        let place = tempfile::tempdir_in(Path::new("/dev/shm")).or_else(|_| tempfile::tempdir()).expect("a directory");
        let path = CString::new(place.path().to_str().expect("text")).expect("no zero byte");
        let mut directory = null_mut();
        // SAFETY: all pointers are to live values.
        ok(unsafe { perdura_map_directory_open(path.as_ptr(), false, true, &mut directory) });
        Maps { directory, _place: place }
    }

    pub fn create(&self, name: &str, kind: u32) -> Map {
        let name = CString::new(name).expect("no zero byte");
        let (layout, config, mut map) = (perdura_map_layout(kind, 4 << 20), config(), null_mut());
        // SAFETY: all pointers are to live values.
        ok(unsafe { perdura_map_create(self.directory, name.as_ptr(), &layout, &config, &mut map) });
        Map(map)
    }

    pub fn open(&self, name: &str) -> Result<Map, PerduraMapCode> {
        let name = CString::new(name).expect("no zero byte");
        let (config, mut map) = (config(), null_mut());
        // SAFETY: all pointers are to live values.
        match unsafe { perdura_map_open(self.directory, name.as_ptr(), &config, &mut map) } {
            PerduraMapCode::Ok => Ok(Map(map)),
            code => Err(code),
        }
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { perdura_map_directory_close(self.directory) }
    }
}

pub fn config() -> PerduraMapConfig {
    PerduraMapConfig { changes_max: u32::MAX, background: false, ..perdura_map_config() }
}

/// An open map, closed when dropped.
pub struct Map(pub *mut PerduraMap);

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: tests release what they hold before.
        let code = unsafe { perdura_map_close(self.0) };
        assert!(code == PerduraMapCode::Ok || std::thread::panicking(), "{}", message());
    }
}

pub fn pointer(bytes: &[u8]) -> *const c_void {
    bytes.as_ptr().cast()
}

/// # Safety
/// `data` must be readable for `bytes` bytes.
pub unsafe fn bytes(data: *const c_void, bytes: usize) -> Vec<u8> {
    // SAFETY: as the caller vouches for.
    unsafe { std::slice::from_raw_parts(data.cast(), bytes) }.to_vec()
}

impl Map {
    pub fn put(&self, key: &[u8], value: &[u8]) -> u64 {
        let mut ts = 0;
        // SAFETY: the map is open, all pointers are to live values.
        ok(unsafe { perdura_map_put(self.0, pointer(key), key.len(), pointer(value), value.len(), &mut ts) });
        ts
    }

    pub fn set(&self, ts: u64, key: &[u8], value: &[u8]) -> PerduraMapCode {
        // SAFETY: as above.
        unsafe { perdura_map_set(self.0, ts, pointer(key), key.len(), pointer(value), value.len()) }
    }

    pub fn hold(&self, key: &[u8]) -> PerduraMapValue {
        let mut value = PerduraMapValue { data: null(), bytes: 0, hold: null_mut() };
        // SAFETY: as above.
        ok(unsafe { perdura_map_get(self.0, pointer(key), key.len(), NEWEST, &mut value) });
        value
    }

    pub fn get(&self, key: &[u8], at: u64) -> Result<Vec<u8>, PerduraMapCode> {
        let mut value = PerduraMapValue { data: null(), bytes: 0, hold: null_mut() };
        // SAFETY: as above; the value is released once it is copied.
        unsafe {
            match perdura_map_get(self.0, pointer(key), key.len(), at, &mut value) {
                PerduraMapCode::Ok => {
                    let copy = bytes(value.data, value.bytes);
                    perdura_map_value_release(&mut value);
                    Ok(copy)
                }
                code => Err(code),
            }
        }
    }

    pub fn compare_and_set(
        &self,
        ts: u64,
        key: &[u8],
        expected: Option<&[u8]>,
        desired: Option<&[u8]>,
    ) -> PerduraMapCode {
        let pair = |value: &[u8]| PerduraMapBytes { data: pointer(value), bytes: value.len() };
        let (expected, desired) = (expected.map(pair), desired.map(pair));
        let expected = expected.as_ref().map_or(null(), |pair| pair);
        let desired = desired.as_ref().map_or(null(), |pair| pair);
        // SAFETY: as above.
        unsafe { perdura_map_compare_and_set(self.0, ts, pointer(key), key.len(), expected, desired, null_mut()) }
    }

    pub fn stands(&self) -> PerduraMapTimestamps {
        let mut stands = PerduraMapTimestamps::default();
        // SAFETY: as above.
        ok(unsafe { perdura_map_timestamps(self.0, &mut stands) });
        stands
    }

    /// The keys between two bounds, each a key and whether it is excluded.
    pub fn keys(&self, lower: Option<(&[u8], bool)>, upper: Option<(&[u8], bool)>) -> Vec<Vec<u8>> {
        let bound =
            |(key, excluded): (&[u8], bool)| PerduraMapBound { key: pointer(key), key_bytes: key.len(), excluded };
        let (lower, upper) = (lower.map(bound), upper.map(bound));
        let lower = lower.as_ref().map_or(null(), |bound| bound);
        let upper = upper.as_ref().map_or(null(), |bound| bound);
        let mut cursor = null_mut();
        // SAFETY: as above.
        ok(unsafe { perdura_map_scan(self.0, lower, upper, NEWEST, &mut cursor) });
        rest(cursor).into_iter().map(|(key, _)| key).collect()
    }

    pub fn pairs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut cursor = null_mut();
        // SAFETY: as above.
        ok(unsafe { perdura_map_prefix(self.0, null(), 0, NEWEST, &mut cursor) });
        rest(cursor)
    }
}

/// Reads what a cursor has left, and releases it.
pub fn rest(cursor: *mut PerduraMapCursor) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entry = PerduraMapEntry { key: null(), key_bytes: 0, value: null(), value_bytes: 0, ts: 0 };
    let mut pairs = Vec::new();
    // SAFETY: the cursor is live, and released once.
    unsafe {
        while perdura_map_cursor_next(cursor, &mut entry) == PerduraMapCode::Ok {
            pairs.push((bytes(entry.key, entry.key_bytes), bytes(entry.value, entry.value_bytes)));
        }
        assert_eq!(perdura_map_cursor_next(cursor, &mut entry), PerduraMapCode::End, "the end is the end");
        perdura_map_cursor_release(cursor);
    }
    pairs
}
