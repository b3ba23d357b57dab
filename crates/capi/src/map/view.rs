//! Views: several reads that all see one timestamp, whatever is forgotten meanwhile.

use super::argument::{key as key_of, live};
use super::code::{Outcome, PerduraMapCode};
use super::open::{Hold, PerduraMap, with};
use super::read::{PerduraMapValue, value_of};
use super::result::{hand_out, note, release};
use perdura_map::View;
use std::ffi::c_void;

/// Holds what a timestamp shows.
pub struct PerduraMapView {
    pub(super) view: View<'static>,
    map: &'static PerduraMap,
    /// Dropped after the view.
    _hold: Hold,
}

/// Begins a view of timestamp `at`: nothing that it shows is forgotten until it is released.
/// Release it with [`perdura_map_view_release`].
///
/// # Errors
/// FORGOTTEN.
///
/// # Safety
/// `map` must be open, `view` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_view(
    map: *const PerduraMap,
    at: u64,
    view: *mut *mut PerduraMapView,
) -> PerduraMapCode {
    let begin = |map: &'static PerduraMap| Ok(PerduraMapView { view: map.map().view(at)?, map, _hold: map.hold() });
    // SAFETY: as the caller vouches for; the view holds the map.
    unsafe { with(map, |map| hand_out(view, "the view", || begin(map))) }
}

/// Gets the value of `key` in a view, as [`super::read::perdura_map_get`] does.
///
/// # Errors
/// FORGOTTEN if a snapshot was loaded since the view began, TOO_LARGE.
///
/// # Safety
/// `view` must be live, `key` readable for `key_bytes` bytes, `value` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_view_get(
    view: *const PerduraMapView,
    key: *const c_void,
    key_bytes: usize,
    value: *mut PerduraMapValue,
) -> PerduraMapCode {
    let get = |map: &'static PerduraMap| -> Outcome {
        // SAFETY: as the caller vouches for.
        let view = unsafe { live(view, "the view")? };
        // SAFETY: as the caller vouches for.
        let found = view.view.get(unsafe { key_of(key, key_bytes) }?)?;
        // SAFETY: as the caller vouches for.
        unsafe { value_of(map, found, value) }
    };
    // SAFETY: as the caller vouches for.
    unsafe { note(value, PerduraMapValue::NONE) };
    // SAFETY: as the caller vouches for.
    unsafe { with(map_of(view), get) }
}

/// The map of a view; null if the view is.
///
/// # Safety
/// `view` must be null or live.
pub(super) unsafe fn map_of(view: *const PerduraMapView) -> *const PerduraMap {
    // SAFETY: as the caller vouches for.
    unsafe { view.as_ref() }.map_or(std::ptr::null(), |view| view.map as *const PerduraMap)
}

/// Ends a view. Does nothing with null.
///
/// # Safety
/// `view` must be null or live, and not be used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_view_release(view: *mut PerduraMapView) {
    // SAFETY: as the caller vouches for.
    unsafe { release(view) };
}
