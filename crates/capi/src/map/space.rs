//! Maintenance: space, garbage collection, verification.

use super::argument::target;
use super::code::PerduraMapCode;
use super::open::{PerduraMap, with};
use super::result::note;
use perdura_map::Space;

/// How a map uses its file, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerduraMapSpace {
    /// All pages.
    pub total: u64,
    /// Pages that are in use, or may be.
    pub used: u64,
    /// Free pages.
    pub free: u64,
    /// Bytes that the newest persist reaches, and those added since.
    pub live: u64,
    /// Other bytes of used pages.
    pub garbage: u64,
    /// The longest run of free pages. A change fits if value, key and header are within this, and
    /// within `free` less `reserved`.
    pub free_run_max: u64,
    /// Free pages that only deletions, forgetting and the collector may take.
    pub reserved: u64,
    /// Whether the use of every page is known. After an open, a B+-tree finds it out in the
    /// background.
    pub exact: bool,
    /// Whether a snapshot or a load keeps garbage from being collected.
    pub held: bool,
}

impl From<Space> for PerduraMapSpace {
    fn from(from: Space) -> PerduraMapSpace {
        let Space { total, used, free, live, garbage, free_run_max, reserved, exact, held } = from;
        PerduraMapSpace { total, used, free, live, garbage, free_run_max, reserved, exact, held }
    }
}

/// Gets how the map uses its file.
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

/// Collects garbage now, as the background thread does. `bytes` gets the bytes freed, 0 while a
/// snapshot is held; it may be null.
///
/// # Errors
/// READ_ONLY.
///
/// # Safety
/// `map` must be open, `bytes` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_collect(map: *const PerduraMap, bytes: *mut u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            note(bytes, map.changeable()?.collect()?);
            Ok(PerduraMapCode::Ok)
        })
    }
}

/// Reads everything reachable and verifies checksums, order and links. `versions` gets the number
/// of versions found; it may be null.
///
/// # Errors
/// DAMAGED.
///
/// # Safety
/// `map` must be open, `versions` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_check(map: *const PerduraMap, versions: *mut u64) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            note(versions, map.map().check()?);
            Ok(PerduraMapCode::Ok)
        })
    }
}
