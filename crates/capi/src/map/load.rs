//! Loading: a snapshot of another map, of either kind, replaces the content of this one.

use super::argument::{chunk, owned};
use super::call::{call, call_on};
use super::code::{Failure, PerduraMapCode};
use super::open::{Hold, PerduraMap, with};
use super::result::{hand_out, release};
use perdura_map::Loader;
use std::ffi::c_void;

/// Takes the chunks of a snapshot that replaces the content of a map.
pub struct PerduraMapLoader {
    loader: Loader,
    map: &'static PerduraMap,
    /// Dropped after the loader.
    _hold: Hold,
}

/// Begins to load a snapshot into the map. Until [`perdura_map_load_finish`] reads see the old
/// content, and changes fail with READ_ONLY.
///
/// # Errors
/// READ_ONLY if a snapshot is held or another load has begun, or the numbers of persists are
/// used up.
///
/// # Safety
/// `map` must be open, `loader` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_load_begin(
    map: *const PerduraMap,
    loader: *mut *mut PerduraMapLoader,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { begin_load(map, loader, false) }
}

/// [`perdura_map_load_begin`] that empties the map first, and so needs no room for both contents.
/// From then on until a load finishes, also after a crash, reads and changes fail with PARTIAL.
///
/// # Errors
/// As [`perdura_map_load_begin`].
///
/// # Safety
/// `map` must be open, `loader` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_load_reset(
    map: *const PerduraMap,
    loader: *mut *mut PerduraMapLoader,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { begin_load(map, loader, true) }
}

/// # Safety
/// `map` must be null or open, `loader` null or writable.
unsafe fn begin_load(map: *const PerduraMap, loader: *mut *mut PerduraMapLoader, resets: bool) -> PerduraMapCode {
    let begin = |map: &'static PerduraMap| {
        let changeable = map.changeable()?;
        let begun = if resets { changeable.reset_and_load()? } else { changeable.load_snapshot()? };
        Ok(PerduraMapLoader { loader: begun, map, _hold: map.hold() })
    };
    // SAFETY: as the caller vouches for; the loader holds the map.
    unsafe { with(map, |map| hand_out(loader, "the loader", || begin(map))) }
}

/// Takes the next chunk of the snapshot, as [`super::snapshot::perdura_map_snapshot_next`] gave it
/// out and in the same order.
///
/// # Errors
/// DAMAGED if bytes or order are wrong, FULL.
///
/// # Safety
/// `loader` must be live and used by this thread alone, `data` readable for `bytes` bytes; each may
/// be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_load_push(
    loader: *mut PerduraMapLoader,
    data: *const c_void,
    bytes: usize,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    let map = unsafe { loader.as_ref() }.map(|loader| loader.map.fail_stop());
    call_on(map, || {
        // SAFETY: as the caller vouches for.
        let (loader, chunk) = unsafe { (owned(loader, "the loader")?, chunk(data, bytes)?) };
        loader.loader.push(chunk)?;
        Ok(PerduraMapCode::Ok)
    })
}

/// Replaces the map's content by what was loaded, durably. Releases the loader, whatever the
/// outcome.
///
/// # Errors
/// DAMAGED if chunks are missing, FULL. The map then is as it was when the loader was made:
/// emptied, if that was by [`perdura_map_load_reset`].
///
/// # Safety
/// `loader` must be null or live, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_load_finish(loader: *mut PerduraMapLoader) -> PerduraMapCode {
    if loader.is_null() {
        return call(|| Err(Failure::new(PerduraMapCode::Argument, "the loader is null")));
    }
    // SAFETY: as the caller vouches for.
    let PerduraMapLoader { loader, map, _hold: hold } = *unsafe { Box::from_raw(loader) };
    let outcome = call_on(Some(map.fail_stop()), || {
        loader.finish()?;
        Ok(PerduraMapCode::Ok)
    });
    drop(hold);
    outcome
}

/// Releases a loader. The map stays as it was when the loader was made: after
/// [`perdura_map_load_reset`] emptied, and every read and change fails with PARTIAL until another
/// load is finished.
///
/// # Safety
/// `loader` must be null or live, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_load_abandon(loader: *mut PerduraMapLoader) {
    // SAFETY: as the caller vouches for.
    unsafe { release(loader) };
}
