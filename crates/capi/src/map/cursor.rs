//! Scans: walks over the keys in order.

use super::argument::{key as key_of, live, owned, target};
use super::call::call_on;
use super::code::{Outcome, PerduraMapCode};
use super::open::{Hold, PerduraMap, with};
use super::result::{hand_out, release};
use super::view::{PerduraMapView, map_of};
use perdura_map::Scan;
use std::ffi::c_void;
use std::ops::Bound;

/// One end of a range of keys.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapBound {
    /// The key at the end.
    pub key: *const c_void,
    /// Length of the key.
    pub key_bytes: usize,
    /// Leaves the key itself out of the range.
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

/// A scan over keys in ascending order, at one timestamp. What is applied does not change under it.
/// Above the applied timestamp a change or a rollback made since it began may show or not. It goes
/// on in the content that it began in if a snapshot is loaded.
pub struct PerduraMapCursor {
    scan: Scan<'static>,
    ended: bool,
    map: &'static PerduraMap,
    /// Dropped after the scan.
    _hold: Hold,
}

/// A key and its value where they lie in the file. Valid until the next call on the cursor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapEntry {
    /// The key. Not to be written to.
    pub key: *const c_void,
    /// Length of the key.
    pub key_bytes: usize,
    /// The value. Not to be written to.
    pub value: *const c_void,
    /// Length of the value.
    pub value_bytes: usize,
    /// The timestamp at which the value was set.
    pub ts: u64,
}

/// # Safety
/// `map` must be null or open, `cursor` null or writable.
unsafe fn begin(
    map: *const PerduraMap,
    cursor: *mut *mut PerduraMapCursor,
    scan: impl FnOnce(&'static PerduraMap) -> Outcome<Scan<'static>>,
) -> PerduraMapCode {
    let begin = |map| Ok(PerduraMapCursor { scan: scan(map)?, ended: false, map, _hold: map.hold() });
    // SAFETY: as the caller vouches for; the cursor holds the map.
    unsafe { with(map, |map| hand_out(cursor, "the cursor", || begin(map))) }
}

/// Begins a scan of the keys between `lower` and `upper` that have a value at timestamp `at`. A
/// bound that is null does not limit the range. Release the cursor with
/// [`perdura_map_cursor_release`].
///
/// # Errors
/// FORGOTTEN, TOO_LARGE.
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
    unsafe { begin(map, cursor, |map| Ok(map.map().scan((bound_of(lower)?, bound_of(upper)?), at)?)) }
}

/// Begins a scan of the keys that begin with `prefix` and have a value at timestamp `at`.
///
/// # Errors
/// FORGOTTEN, TOO_LARGE.
///
/// # Safety
/// `map` must be open, `prefix` readable for `prefix_bytes` bytes, `cursor` writable; each may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_prefix(
    map: *const PerduraMap,
    prefix: *const c_void,
    prefix_bytes: usize,
    at: u64,
    cursor: *mut *mut PerduraMapCursor,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { begin(map, cursor, |map| Ok(map.map().prefix(key_of(prefix, prefix_bytes)?, at)?)) }
}

/// [`perdura_map_scan`] of what a view shows.
///
/// # Errors
/// FORGOTTEN if a snapshot was loaded since the view began, TOO_LARGE.
///
/// # Safety
/// `view` must be live, the bounds readable and their keys too, `cursor` writable; each may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_view_scan(
    view: *const PerduraMapView,
    lower: *const PerduraMapBound,
    upper: *const PerduraMapBound,
    cursor: *mut *mut PerduraMapCursor,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for; the cursor holds the map.
    unsafe {
        begin(map_of(view), cursor, |_| Ok(live(view, "the view")?.view.scan((bound_of(lower)?, bound_of(upper)?))?))
    }
}

/// Gets the next key and its value. END after the last, and after a failure.
///
/// # Safety
/// `cursor` must be live and used by this thread alone, `entry` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_cursor_next(
    cursor: *mut PerduraMapCursor,
    entry: *mut PerduraMapEntry,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    let map = unsafe { cursor.as_ref() }.map(|cursor| cursor.map.fail_stop());
    call_on(map, || {
        // SAFETY: as the caller vouches for.
        let (cursor, target) = (unsafe { owned(cursor, "the cursor") }?, target(entry, "the entry")?);
        // After any error on the way the scan is over.
        if std::mem::replace(&mut cursor.ended, true) {
            return Ok(PerduraMapCode::End);
        }
        // Not moved: the entry found may lie in the scan itself.
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

/// Ends a scan.
///
/// # Safety
/// `cursor` must be null or live, and neither it nor its entry may be used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_cursor_release(cursor: *mut PerduraMapCursor) {
    // SAFETY: as the caller vouches for.
    unsafe { release(cursor) };
}
