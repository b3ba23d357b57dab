//! Changing a map. A change is visible once its call returns, and durable once persisted.

use super::argument::{key as key_of, value as value_of};
use super::code::{Outcome, PerduraMapCode};
use super::open::{PerduraMap, with};
use super::result::note;
use std::ffi::c_void;

/// A string of bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapBytes {
    /// The bytes. May be null if there are none.
    pub data: *const c_void,
    /// Number of the bytes.
    pub bytes: usize,
}

/// Sets the value of `key` at timestamp `ts`. A second change of a key at one timestamp replaces
/// the first.
///
/// # Errors
/// TIMESTAMP if `ts` is below the newest change's or not above the applied one, TOO_LARGE, FULL,
/// READ_ONLY.
///
/// # Safety
/// `map` must be open, `key` and `value` readable for as many bytes as said; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_set(
    map: *const PerduraMap,
    ts: u64,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            map.changeable()?.set(ts, key_of(key, key_bytes)?, value_of(value, value_bytes)?)?;
            Ok(PerduraMapCode::Ok)
        })
    }
}

/// Deletes `key` at timestamp `ts`. ABSENT if it has no value; nothing has changed then.
///
/// # Errors
/// As for [`perdura_map_set`].
///
/// # Safety
/// `map` must be open, `key` readable for `key_bytes` bytes; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_delete(
    map: *const PerduraMap,
    ts: u64,
    key: *const c_void,
    key_bytes: usize,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { with(map, |map| Ok(deleted(map.changeable()?.delete(ts, key_of(key, key_bytes)?)?))) }
}

fn deleted(deleted: bool) -> PerduraMapCode {
    if deleted { PerduraMapCode::Ok } else { PerduraMapCode::Absent }
}

/// # Safety
/// `bytes` must be null or readable, and what it points to too.
unsafe fn optional_value<'a>(bytes: *const PerduraMapBytes) -> Outcome<Option<&'a [u8]>> {
    // SAFETY: as the caller vouches for.
    unsafe { bytes.as_ref().map(|bytes| value_of(bytes.data, bytes.bytes)).transpose() }
}

/// Changes `key` from `expected` to `desired` at timestamp `ts`. DIFFERS if its newest version,
/// persisted or not, is not `expected`. If `expected` is null the key must have no value; if
/// `desired` is null it is deleted.
///
/// `rests_on` gets the timestamp of the change that the answer rests on, which may be rolled back
/// until it is applied: `ts` if the key was changed, otherwise that of the version compared with,
/// or 0 if there is none. It may be null.
///
/// # Errors
/// As for [`perdura_map_set`].
///
/// # Safety
/// `map` must be open, `key` readable for `key_bytes` bytes, `expected` and `desired` readable and
/// what they point to too, `rests_on` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_compare_and_set(
    map: *const PerduraMap,
    ts: u64,
    key: *const c_void,
    key_bytes: usize,
    expected: *const PerduraMapBytes,
    desired: *const PerduraMapBytes,
    rests_on: *mut u64,
) -> PerduraMapCode {
    let change = |map: &'static PerduraMap| {
        // SAFETY: as the caller vouches for.
        let (key, expected, desired) =
            unsafe { (key_of(key, key_bytes)?, optional_value(expected)?, optional_value(desired)?) };
        let compared = map.changeable()?.compare_and_set(ts, key, expected, desired)?;
        // SAFETY: as the caller vouches for.
        unsafe { note(rests_on, compared.ts) };
        Ok(if compared.matched { PerduraMapCode::Ok } else { PerduraMapCode::Differs })
    };
    // SAFETY: as the caller vouches for.
    unsafe { with(map, change) }
}

/// Sets the value of `key` at the next timestamp, applies it, and forgets the version that it
/// replaces: for programs without replication. `ts` gets the timestamp; it may be null.
///
/// # Errors
/// As for [`perdura_map_set`].
///
/// # Safety
/// `map` must be open, `key` and `value` readable for as many bytes as said, `ts` writable; each
/// may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_put(
    map: *const PerduraMap,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ts: *mut u64,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            note(ts, map.changeable()?.put(key_of(key, key_bytes)?, value_of(value, value_bytes)?)?);
            Ok(PerduraMapCode::Ok)
        })
    }
}

/// Deletes `key` in the manner of [`perdura_map_put`]. ABSENT if it has no value.
///
/// # Errors
/// As for [`perdura_map_set`].
///
/// # Safety
/// `map` must be open, `key` readable for `key_bytes` bytes; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_remove(
    map: *const PerduraMap,
    key: *const c_void,
    key_bytes: usize,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { with(map, |map| Ok(deleted(map.changeable()?.remove(key_of(key, key_bytes)?)?))) }
}
