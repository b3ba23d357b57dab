//! Where a map stands: confirming, applying, rolling back and forgetting.

use super::argument::target;
use super::code::{Failure, Outcome, PerduraMapCode};
use super::open::{PerduraMap, with};
use perdura_map::{Mutation, OrderedMap, Timestamps};
use std::ffi::c_void;
use std::ptr::null;

/// Where a map stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerduraMapTimestamps {
    /// Of the newest change.
    pub last: u64,
    /// Of the newest change that can no longer be rolled back.
    pub applied: u64,
    /// Up to here old versions may be gone; reads below it fail.
    pub forgotten: u64,
    /// `last` as of the newest confirmation.
    pub confirmed: u64,
}

impl From<Timestamps> for PerduraMapTimestamps {
    fn from(from: Timestamps) -> PerduraMapTimestamps {
        let Timestamps { last, applied, forgotten, confirmed } = from;
        PerduraMapTimestamps { last, applied, forgotten, confirmed }
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

/// Makes all changes so far durable. Two fences; none when nothing changed.
///
/// # Errors
/// ARGUMENT.
///
/// # Safety
/// `map` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_confirm(map: *const PerduraMap) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { change(map, |map| map.confirm()) }
}

/// Moves the applied timestamp up to `ts`: nothing up to it will be rolled back. Durable with the next confirmation.
///
/// # Errors
/// TIMESTAMP when `ts` is above the newest change's; READ_ONLY, DAMAGED.
///
/// # Safety
/// `map` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_apply(map: *const PerduraMap, ts: u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { change(map, |map| map.apply(ts)) }
}

/// Takes back every change at timestamp `from` and later.
///
/// # Errors
/// TIMESTAMP when `from` is not above the applied one; FULL, READ_ONLY, DAMAGED.
///
/// # Safety
/// `map` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_rollback(map: *const PerduraMap, from: u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { change(map, |map| map.rollback(from)) }
}

/// Drops the versions that no read at `up_to` or later sees. Not confirmed by itself.
///
/// # Errors
/// TIMESTAMP when `up_to` is above the applied one; FULL, READ_ONLY, DAMAGED.
///
/// # Safety
/// `map` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_forget(map: *const PerduraMap, up_to: u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { change(map, |map| map.forget(up_to)) }
}

/// Tells where the map stands.
///
/// # Errors
/// ARGUMENT.
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

/// One change that is not forgotten. Its bytes are valid until the call it is given to returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapMutation {
    /// Its timestamp.
    pub ts: u64,
    /// The key it changed.
    pub key: *const c_void,
    /// The key's bytes.
    pub key_bytes: usize,
    /// Whether it deleted the key.
    pub deleted: bool,
    /// The value it gave the key; null if it deleted it.
    pub value: *const c_void,
    /// The value's bytes.
    pub value_bytes: usize,
}

impl PerduraMapMutation {
    fn of(mutation: &Mutation<'_>) -> PerduraMapMutation {
        PerduraMapMutation {
            ts: mutation.ts,
            key: mutation.key.as_ptr().cast(),
            key_bytes: mutation.key.len(),
            deleted: mutation.value.is_none(),
            value: mutation.value.map_or(null(), |value| value.as_ptr().cast()),
            value_bytes: mutation.value.map_or(0, <[u8]>::len),
        }
    }
}

/// Calls `each` with the changes from timestamp `from` on that are not forgotten, oldest first, until it returns false.
/// It may not use the map.
///
/// # Errors
/// DAMAGED, ARGUMENT.
///
/// # Safety
/// `map` must be open; `each` must be callable with `context`, and not leave by an exception or a jump. Each may be null.
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
