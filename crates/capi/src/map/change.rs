//! Changing a map. A change is visible once its call returns, and durable once confirmed.
//!
//! Errors of all calls here: TIMESTAMP, TOO_LARGE, FULL (nothing is changed), READ_ONLY, DAMAGED, ARGUMENT.

use super::argument::{key as key_of, target, value as value_of};
use super::code::{Outcome, PerduraMapCode};
use super::open::{PerduraMap, with};
use std::ffi::c_void;

/// Bytes of the caller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapBytes {
    /// Where they are; may be null if there are none.
    pub data: *const c_void,
    /// Their number.
    pub bytes: usize,
}

/// Gives `key` a value at timestamp `ts`. A second change of a key at one timestamp replaces the first.
///
/// # Errors
/// TIMESTAMP when `ts` is below the newest change's or not above the applied one; TOO_LARGE, FULL, READ_ONLY, DAMAGED,
/// ARGUMENT.
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

/// Deletes `key` at timestamp `ts`. ABSENT if it had no value; then nothing changes.
///
/// # Errors
/// As `perdura_map_set`.
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

/// If the newest version of `key`, confirmed or not, is `expected`, changes it to `desired` at timestamp `ts`;
/// otherwise DIFFERS. `expected` null: it has no value. `desired` null: it is deleted.
///
/// # Errors
/// As `perdura_map_set`.
///
/// # Safety
/// `map` must be open, `key` readable for `key_bytes` bytes, `expected` and `desired` readable and what they point to
/// too; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_compare_and_set(
    map: *const PerduraMap,
    ts: u64,
    key: *const c_void,
    key_bytes: usize,
    expected: *const PerduraMapBytes,
    desired: *const PerduraMapBytes,
) -> PerduraMapCode {
    let change = |map: &'static PerduraMap| {
        // SAFETY: as the caller vouches for.
        let (key, expected, desired) =
            unsafe { (key_of(key, key_bytes)?, optional_value(expected)?, optional_value(desired)?) };
        let changed = map.changeable()?.compare_and_set(ts, key, expected, desired)?;
        Ok(if changed { PerduraMapCode::Ok } else { PerduraMapCode::Differs })
    };
    // SAFETY: as the caller vouches for.
    unsafe { with(map, change) }
}

/// Gives `key` a value at the next timestamp, applied, and forgets what it replaces: for programs without replication.
/// `ts` gets the timestamp, unless it is null.
///
/// # Errors
/// As `perdura_map_set`.
///
/// # Safety
/// `map` must be open, `key` and `value` readable for as many bytes as said, `ts` writable; each may be null.
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
            let given = map.changeable()?.put(key_of(key, key_bytes)?, value_of(value, value_bytes)?)?;
            if let Ok(target) = target(ts, "the timestamp") {
                target.write(given);
            }
            Ok(PerduraMapCode::Ok)
        })
    }
}

/// Deletes `key` as `perdura_map_put` puts it. ABSENT if it had no value.
///
/// # Errors
/// As `perdura_map_set`.
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
