//! Looking after a map: space, collection, verification.

use super::argument::target;
use super::code::PerduraMapCode;
use super::open::{PerduraMap, with};
use perdura_map::Space;

/// Bytes of a map's region by use.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerduraMapSpace {
    /// For pages, in all.
    pub total: u64,
    /// Of pages that hold something or may.
    pub used: u64,
    /// Of free pages.
    pub free: u64,
    /// Of what is reachable from the newest confirmation.
    pub live: u64,
    /// In used pages, but not live.
    pub garbage: u64,
    /// Of the longest run of free pages. A value fits if its bytes, with key and header, are within this and free less reserved.
    pub free_run_max: u64,
    /// Of the free bytes, those that only deletions, forgetting and the collector may take.
    pub reserved: u64,
    /// Whether the use of every page is known; a B+-tree finds that out in the background after it is opened.
    pub exact: bool,
}

impl From<Space> for PerduraMapSpace {
    fn from(from: Space) -> PerduraMapSpace {
        let Space { total, used, free, live, garbage, free_run_max, reserved, exact } = from;
        PerduraMapSpace { total, used, free, live, garbage, free_run_max, reserved, exact }
    }
}

/// Tells how the region is used.
///
/// # Errors
/// ARGUMENT.
///
/// # Safety
/// `map` must be open, `space` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_space(map: *const PerduraMap, space: *mut PerduraMapSpace) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            target(space, "the space")?.write(map.map().space().into());
            Ok(PerduraMapCode::Ok)
        })
    }
}

/// Collects garbage now, as the background thread does. `bytes` gets the bytes freed, unless it is null; 0 while a
/// snapshot is held.
///
/// # Errors
/// DAMAGED, READ_ONLY, ARGUMENT.
///
/// # Safety
/// `map` must be open, `bytes` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_collect(map: *const PerduraMap, bytes: *mut u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            let freed = map.changeable()?.collect()?;
            if let Ok(target) = target(bytes, "the bytes") {
                target.write(freed);
            }
            Ok(PerduraMapCode::Ok)
        })
    }
}

/// Reads and verifies everything reachable. `versions` gets the number of versions found, unless it is null.
///
/// # Errors
/// DAMAGED, ARGUMENT.
///
/// # Safety
/// `map` must be open, `versions` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_check(map: *const PerduraMap, versions: *mut u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            let found = map.map().check()?;
            if let Ok(target) = target(versions, "the versions") {
                target.write(found);
            }
            Ok(PerduraMapCode::Ok)
        })
    }
}
