//! Moving a map's timestamps on: persisting, applying, rolling back and forgetting.

use super::argument::target;
use super::code::{Failure, Outcome, PerduraMapCode};
use super::open::{PerduraMap, with};
use perdura_map::{Mutation, OrderedMap, Timestamps};
use std::ffi::c_void;
use std::ptr::null;

/// A map's timestamps.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerduraMapTimestamps {
    /// Of the newest change.
    pub last: u64,
    /// Of the newest change that cannot be rolled back.
    pub applied: u64,
    /// Older versions may be gone up to here; reads below it fail.
    pub forgotten: u64,
    /// Of the newest change that is durable.
    pub persisted: u64,
}

impl From<Timestamps> for PerduraMapTimestamps {
    fn from(from: Timestamps) -> PerduraMapTimestamps {
        let Timestamps { last, applied, forgotten, persisted } = from;
        PerduraMapTimestamps { last, applied, forgotten, persisted }
    }
}

/// # Safety
/// `map` must be null or open.
unsafe fn change(
    map: *const PerduraMap,
    body: impl FnOnce(&dyn OrderedMap) -> perdura_map::Result<()>,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            body(map.changeable()?)?;
            Ok(PerduraMapCode::Ok)
        })
    }
}

/// Makes all changes so far durable. Takes two fences, none if there are no changes.
///
/// # Safety
/// `map` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_persist(map: *const PerduraMap) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { change(map, |map| map.persist()) }
}

/// Moves the applied timestamp up to `ts`: changes up to there cannot be rolled back. Durable with
/// the next persist.
///
/// # Errors
/// TIMESTAMP if `ts` is above the newest change's, READ_ONLY.
///
/// # Safety
/// `map` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_apply(map: *const PerduraMap, ts: u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { change(map, |map| map.apply(ts)) }
}

/// Rolls back every change at timestamp `from` and later, newest first.
///
/// # Errors
/// TIMESTAMP if `from` is not above the applied one, READ_ONLY.
///
/// # Safety
/// `map` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_rollback(map: *const PerduraMap, from: u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { change(map, |map| map.rollback(from)) }
}

/// Drops the versions that no read at timestamp `up_to` or later sees. Durable with the next
/// persist.
///
/// # Errors
/// TIMESTAMP if `up_to` is above the applied one, READ_ONLY.
///
/// # Safety
/// `map` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_forget(map: *const PerduraMap, up_to: u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { change(map, |map| map.forget(up_to)) }
}

/// Gets the map's timestamps.
///
/// # Safety
/// `map` must be open, `timestamps` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_timestamps(
    map: *const PerduraMap,
    timestamps: *mut PerduraMapTimestamps,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            target(timestamps, "the timestamps")?.write(map.map().timestamps().into());
            Ok(PerduraMapCode::Ok)
        })
    }
}

/// A change that has not been forgotten. Its bytes are valid until the function that it is passed
/// to returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapMutation {
    /// Timestamp of the change.
    pub ts: u64,
    /// The key.
    pub key: *const c_void,
    /// Length of the key.
    pub key_bytes: usize,
    /// Whether the change deleted the key.
    pub deleted: bool,
    /// The new value. Null if the key was deleted.
    pub value: *const c_void,
    /// Length of the value.
    pub value_bytes: usize,
    /// If not null, this is no change of a key but the tag of the timestamp, which comes before its
    /// changes.
    pub tag: *const c_void,
    /// Length of the tag.
    pub tag_bytes: usize,
}

impl PerduraMapMutation {
    fn of(mutation: &Mutation<'_>) -> PerduraMapMutation {
        PerduraMapMutation {
            ts: mutation.ts,
            key: mutation.key.as_ptr().cast(),
            key_bytes: mutation.key.len(),
            deleted: mutation.value.is_none() && mutation.tag.is_none(),
            value: mutation.value.map_or(null(), |value| value.as_ptr().cast()),
            value_bytes: mutation.value.map_or(0, <[u8]>::len),
            tag: mutation.tag.map_or(null(), |tag| tag.as_ptr().cast()),
            tag_bytes: mutation.tag.map_or(0, <[u8]>::len),
        }
    }
}

/// Calls `each` with every change at timestamp `from` and later that has not been forgotten, oldest
/// first, until it returns false. It may not use the map.
///
/// # Safety
/// `map` must be open; `each` must be callable with `context`, and not leave by an exception or a
/// jump. Each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_mutations(
    map: *const PerduraMap,
    from: u64,
    each: Option<unsafe extern "C" fn(context: *mut c_void, mutation: *const PerduraMapMutation) -> bool>,
    context: *mut c_void,
) -> PerduraMapCode {
    let visit = |map: &'static PerduraMap| -> Outcome {
        let each = each.ok_or_else(|| Failure::new(PerduraMapCode::Argument, "each is null"))?;
        // SAFETY: as the caller vouches for.
        map.map().mutations(from, &mut |mutation| unsafe { each(context, &PerduraMapMutation::of(&mutation)) })?;
        Ok(PerduraMapCode::Ok)
    };
    // SAFETY: as the caller vouches for.
    unsafe { with(map, visit) }
}
