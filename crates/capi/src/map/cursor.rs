//! Walking keys in order.

use super::argument::{key as key_of, owned, target};
use super::barrier::{call, call_on};
use super::code::{Outcome, PerduraMapCode};
use super::open::{Hold, PerduraMap, with};
use perdura_map::{OrderedMap, Scan};
use std::ffi::c_void;
use std::ops::Bound;

/// One end of a range of keys. A null pointer instead of it is no bound.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapBound {
    /// The key.
    pub key: *const c_void,
    /// Its bytes.
    pub key_bytes: usize,
    /// Whether the key itself is outside the range.
    pub excluded: bool,
}

/// # Safety
/// `bound` must be null or readable, its key readable for as many bytes as it says.
unsafe fn bound_of<'a>(bound: *const PerduraMapBound) -> Outcome<Bound<&'a [u8]>> {
    // SAFETY: as the caller vouches for.
    let Some(bound) = (unsafe { bound.as_ref() }) else { return Ok(Bound::Unbounded) };
    // SAFETY: as above.
    let key = unsafe { key_of(bound.key, bound.key_bytes) }?;
    Ok(if bound.excluded { Bound::Excluded(key) } else { Bound::Included(key) })
}

/// A walk over keys in ascending order. It sees the map as it was when the walk began.
pub struct PerduraMapCursor {
    scan: Scan<'static>,
    ended: bool,
    map: &'static PerduraMap,
    /// Dropped after the scan.
    _hold: Hold,
}

/// A key, its value and the timestamp that gave it, in their place in the region: valid until the next call on the cursor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapEntry {
    /// The key's bytes; not to be written to.
    pub key: *const c_void,
    /// Their number.
    pub key_bytes: usize,
    /// The value's bytes; not to be written to.
    pub value: *const c_void,
    /// Their number.
    pub value_bytes: usize,
    /// Timestamp of the version.
    pub ts: u64,
}

/// # Safety
/// `map` must be null or open, `cursor` null or writable.
unsafe fn begin(
    map: *const PerduraMap,
    cursor: *mut *mut PerduraMapCursor,
    scan: impl FnOnce(&'static dyn OrderedMap) -> Outcome<Scan<'static>>,
) -> PerduraMapCode {
    let begin = |map: &'static PerduraMap| {
        let target = target(cursor, "the cursor")?;
        let made = PerduraMapCursor { scan: scan(map.map())?, ended: false, map, _hold: map.hold() };
        // SAFETY: as the caller vouches for.
        unsafe { target.write(Box::into_raw(Box::new(made))) };
        Ok(PerduraMapCode::Ok)
    };
    // SAFETY: as the caller vouches for; the cursor holds the map.
    unsafe { with(map, begin) }
}

/// Begins a walk over the keys between two bounds that have a value at timestamp `at`. A null bound is none.
///
/// # Errors
/// FORGOTTEN, DAMAGED, TOO_LARGE, ARGUMENT.
///
/// # Safety
/// `map` must be open, the bounds readable and their keys too, `cursor` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_scan(
    map: *const PerduraMap,
    lower: *const PerduraMapBound,
    upper: *const PerduraMapBound,
    at: u64,
    cursor: *mut *mut PerduraMapCursor,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { begin(map, cursor, |map| Ok(map.scan((bound_of(lower)?, bound_of(upper)?), at)?)) }
}

/// Begins a walk over the keys that begin with `prefix` and have a value at timestamp `at`.
///
/// # Errors
/// FORGOTTEN, DAMAGED, TOO_LARGE, ARGUMENT.
///
/// # Safety
/// `map` must be open, `prefix` readable for `prefix_bytes` bytes, `cursor` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_prefix(
    map: *const PerduraMap,
    prefix: *const c_void,
    prefix_bytes: usize,
    at: u64,
    cursor: *mut *mut PerduraMapCursor,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { begin(map, cursor, |map| Ok(map.prefix(key_of(prefix, prefix_bytes)?, at)?)) }
}

/// Goes to the next key. END after the last one, and after a failure.
///
/// # Errors
/// DAMAGED, ARGUMENT.
///
/// # Safety
/// `cursor` must be live and used by this thread alone, `entry` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_cursor_next(
    cursor: *mut PerduraMapCursor,
    entry: *mut PerduraMapEntry,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    let map = unsafe { cursor.as_ref() }.map(|cursor| cursor.map);
    call_on(map, || {
        // SAFETY: as the caller vouches for.
        let (cursor, target) = (unsafe { owned(cursor, "the cursor") }?, target(entry, "the entry")?);
        // Whatever goes wrong on the way, the walk is over.
        if std::mem::replace(&mut cursor.ended, true) {
            return Ok(PerduraMapCode::End);
        }
        // In its place: what is found may lie in the scan itself.
        let Some(found) = cursor.scan.advance()? else { return Ok(PerduraMapCode::End) };
        let entry = PerduraMapEntry {
            key: found.key.as_ptr().cast(),
            key_bytes: found.key.len(),
            value: found.value.as_ptr().cast(),
            value_bytes: found.value.len(),
            ts: found.ts,
        };
        cursor.ended = false;
        // SAFETY: as the caller vouches for.
        unsafe { target.write(entry) };
        Ok(PerduraMapCode::Ok)
    })
}

/// Ends a walk. Null is no error.
///
/// # Safety
/// `cursor` must be null or live, and neither it nor its entry may be used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_cursor_release(cursor: *mut PerduraMapCursor) {
    if !cursor.is_null() {
        call(|| {
            // SAFETY: as the caller vouches for.
            drop(unsafe { Box::from_raw(cursor) });
            Ok(PerduraMapCode::Ok)
        });
    }
}
