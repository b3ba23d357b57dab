//! Reading one key: in place, or as a copy.

use super::argument::{key as key_of, target};
use super::code::{Outcome, PerduraMapCode};
use super::open::{Hold, PerduraMap, with};
use super::result::{copy, note, release};
use perdura_map::Value;
use std::ffi::c_void;
use std::ptr::null_mut;

/// The timestamp at which a read sees the newest version of each key, persisted or not, applied or
/// not.
pub const PERDURA_MAP_NEWEST: u64 = u64::MAX;

/// Keeps a value in its place.
pub struct PerduraMapHold {
    _value: Value<'static>,
    /// Dropped after the value.
    _hold: Hold,
}

/// A value where it lies in the file. It is valid until released, whatever happens to the key
/// meanwhile. It holds off the reuse of the memory that it lies in, so release it soon.
#[repr(C)]
#[derive(Debug)]
pub struct PerduraMapValue {
    /// The bytes. Not to be written to.
    pub data: *const c_void,
    /// Number of the bytes.
    pub bytes: usize,
    /// Belongs to the library. Null if there is nothing to release.
    pub hold: *mut PerduraMapHold,
}

impl PerduraMapValue {
    pub(super) const NONE: PerduraMapValue = PerduraMapValue { data: std::ptr::null(), bytes: 0, hold: null_mut() };
}

/// Gets the value of `key` at timestamp `at`, without a copy. Release it with
/// [`perdura_map_value_release`]. ABSENT if the key has no value. Unless the outcome is OK, `value`
/// is empty and needs no release.
///
/// # Errors
/// FORGOTTEN, TOO_LARGE.
///
/// # Safety
/// `map` must be open, `key` readable for `key_bytes` bytes, `value` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_get(
    map: *const PerduraMap,
    key: *const c_void,
    key_bytes: usize,
    at: u64,
    value: *mut PerduraMapValue,
) -> PerduraMapCode {
    let get = |map: &'static PerduraMap| {
        // SAFETY: as the caller vouches for.
        let found = map.map().get(unsafe { key_of(key, key_bytes) }?, at)?;
        // SAFETY: as the caller vouches for.
        unsafe { value_of(map, found, value) }
    };
    // SAFETY: as the caller vouches for.
    unsafe { note(value, PerduraMapValue::NONE) };
    // SAFETY: as the caller vouches for.
    unsafe { with(map, get) }
}

/// Gives out a value that was found, or none.
///
/// # Safety
/// `value` must be null or writable.
pub(super) unsafe fn value_of(
    map: &'static PerduraMap,
    found: Option<Value<'static>>,
    value: *mut PerduraMapValue,
) -> Outcome {
    let target = target(value, "the value")?;
    // SAFETY: as the caller vouches for.
    unsafe { target.write(PerduraMapValue::NONE) };
    let Some(found) = found else { return Ok(PerduraMapCode::Absent) };
    let (data, bytes) = (found.as_ptr().cast(), found.len());
    let hold = Box::into_raw(Box::new(PerduraMapHold { _value: found, _hold: map.hold() }));
    // SAFETY: as the caller vouches for.
    unsafe { target.write(PerduraMapValue { data, bytes, hold }) };
    Ok(PerduraMapCode::Ok)
}

/// Releases a value and empties it. Does nothing with an empty one.
///
/// # Safety
/// `value` must be null or as `perdura_map_get` left it, and its bytes not be used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_value_release(value: *mut PerduraMapValue) {
    // SAFETY: as the caller vouches for.
    if let Some(value) = unsafe { value.as_mut() } {
        // SAFETY: made by `perdura_map_get`, and released once: the pointer is gone.
        unsafe { release(std::mem::replace(value, PerduraMapValue::NONE).hold) };
    }
}

/// Copies the value of `key` at timestamp `at` to `buffer`, cut to `buffer_bytes` bytes.
/// `value_bytes` gets the length of the whole value. ABSENT if the key has no value.
///
/// # Errors
/// FORGOTTEN, TOO_LARGE.
///
/// # Safety
/// `map` must be open, `key` readable for `key_bytes` bytes, `buffer` writable for `buffer_bytes`
/// bytes, `value_bytes` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_read(
    map: *const PerduraMap,
    key: *const c_void,
    key_bytes: usize,
    at: u64,
    buffer: *mut c_void,
    buffer_bytes: usize,
    value_bytes: *mut usize,
) -> PerduraMapCode {
    let read = |map: &'static PerduraMap| -> Outcome {
        let length = target(value_bytes, "the value's length")?;
        // SAFETY: as the caller vouches for.
        let found = map.map().get(unsafe { key_of(key, key_bytes) }?, at)?;
        // SAFETY: as the caller vouches for.
        found.map_or(Ok(PerduraMapCode::Absent), |found| unsafe { copy(&found, buffer, buffer_bytes, length) })
    };
    // SAFETY: as the caller vouches for.
    unsafe { with(map, read) }
}
