//! Loading: a snapshot of another map, of either kind, replaces the content of this one.

use super::argument::{chunk, owned, target};
use super::call::{call, call_on};
use super::code::{Failure, PerduraMapCode};
use super::open::{Hold, PerduraMap, with};
use perdura_map::Loader;
use std::ffi::c_void;

/// Takes the chunks of a snapshot that replaces the content of a map.
pub struct PerduraMapLoader {
    loader: Loader<'static>,
    map: &'static PerduraMap,
    /// Dropped after the loader.
    _hold: Hold,
}

/// Begins to load a snapshot into the map. Until [`perdura_map_load_finish`] reads see the old content, and changes fail with
/// READ_ONLY.
///
/// # Errors
/// READ_ONLY, FULL.
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

/// [`perdura_map_load_begin`] that empties the map first, and so needs no room for both contents. From then on until a load
/// finishes, also after a crash, reads and changes fail with PARTIAL.
///
/// # Errors
/// READ_ONLY.
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
        let target = target(loader, "the loader")?;
        let changeable = map.changeable()?;
        let begun = if resets { changeable.reset_and_load()? } else { changeable.load_snapshot()? };
        let made = PerduraMapLoader { loader: begun, map, _hold: map.hold() };
        // SAFETY: as the caller vouches for.
        unsafe { target.write(Box::into_raw(Box::new(made))) };
        Ok(PerduraMapCode::Ok)
    };
    // SAFETY: as the caller vouches for; the loader holds the map.
    unsafe { with(map, begin) }
}

/// Takes the next chunk of the snapshot, as [`super::snapshot::perdura_map_snapshot_next`] gave it out and in the same order.
///
/// # Errors
/// DAMAGED if bytes or order are wrong, FULL.
///
/// # Safety
/// `loader` must be live and used by this thread alone, `data` readable for `bytes` bytes; each may be null.
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

/// Replaces the map's content by what was loaded, durably. Releases the loader, whatever the outcome.
///
/// # Errors
/// DAMAGED if chunks are missing, FULL. The map then keeps its content.
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

/// Releases a loader. The map stays as it was when the loader was made.
///
/// # Safety
/// `loader` must be null or live, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_load_abandon(loader: *mut PerduraMapLoader) {
    if !loader.is_null() {
        call(|| {
            // SAFETY: as the caller vouches for.
            drop(unsafe { Box::from_raw(loader) });
            Ok(PerduraMapCode::Ok)
        });
    }
}
