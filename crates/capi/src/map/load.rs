//! Replacing the whole content of a map by a snapshot of another one, of either kind.

use super::argument::{chunk, owned, target};
use super::barrier::{call, call_on};
use super::code::{Failure, PerduraMapCode};
use super::open::{Hold, PerduraMap, with};
use perdura_map::Loader;
use std::ffi::c_void;

/// Takes the chunks of a snapshot.
pub struct PerduraMapLoader {
    loader: Loader<'static>,
    map: &'static PerduraMap,
    /// Dropped after the loader.
    _hold: Hold,
}

/// Begins to load a snapshot into the map.
///
/// Nothing changes before `perdura_map_load_finish`; until then changes fail with READ_ONLY, and reads see what was
/// there before.
///
/// # Errors
/// READ_ONLY, FULL, DAMAGED, ARGUMENT.
///
/// # Safety
/// `map` must be open, `loader` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_load_begin(
    map: *const PerduraMap,
    loader: *mut *mut PerduraMapLoader,
) -> PerduraMapCode {
    let begin = |map: &'static PerduraMap| {
        let target = target(loader, "the loader")?;
        let made = PerduraMapLoader { loader: map.changeable()?.load_snapshot()?, map, _hold: map.hold() };
        // SAFETY: as the caller vouches for.
        unsafe { target.write(Box::into_raw(Box::new(made))) };
        Ok(PerduraMapCode::Ok)
    };
    // SAFETY: as the caller vouches for; the loader holds the map.
    unsafe { with(map, begin) }
}

/// Takes the next chunk of the snapshot, in order, exactly as it was given out.
///
/// # Errors
/// DAMAGED (wrong bytes or order), FULL, ARGUMENT.
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
    let map = unsafe { loader.as_ref() }.map(|loader| loader.map);
    call_on(map, || {
        // SAFETY: as the caller vouches for.
        let (loader, chunk) = unsafe { (owned(loader, "the loader")?, chunk(data, bytes)?) };
        loader.loader.push(chunk)?;
        Ok(PerduraMapCode::Ok)
    })
}

/// Puts what was loaded in place of the map's content, durably, and releases the loader, whatever the outcome.
///
/// # Errors
/// DAMAGED when chunks are missing, FULL: the content is what it was before. ARGUMENT.
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
    let outcome = call_on(Some(map), || {
        loader.finish()?;
        Ok(PerduraMapCode::Ok)
    });
    drop(hold);
    outcome
}

/// Releases a loader without changing the map. Null is no error.
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
