//! Results for C: what is made and released later, what is copied, and what a caller may not ask
//! for.

use super::argument::target;
use super::call::call;
use super::code::{Outcome, PerduraMapCode};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Makes something and hands it out, unless there is no place for it. [`release`] releases it.
///
/// # Safety
/// `place` must be null or writable.
pub(super) unsafe fn hand_out<T>(place: *mut *mut T, what: &str, make: impl FnOnce() -> Outcome<T>) -> Outcome {
    let place = target(place, what)?;
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: as the caller vouches for.
    unsafe { place.write(made) };
    Ok(PerduraMapCode::Ok)
}

/// Releases what was handed out. Does nothing with null.
///
/// # Safety
/// `made` must be null or from [`hand_out`], and not be used any more.
pub(super) unsafe fn release<T>(made: *mut T) {
    if !made.is_null() {
        call(|| {
            // SAFETY: as the caller vouches for.
            drop(unsafe { Box::from_raw(made) });
            Ok(PerduraMapCode::Ok)
        });
    }
}

/// Writes what the caller may not have asked for.
///
/// # Safety
/// `place` must be null or writable.
pub(super) unsafe fn note<T>(place: *mut T, found: T) {
    if let Some(place) = NonNull::new(place) {
        // SAFETY: as the caller vouches for.
        unsafe { place.write(found) };
    }
}

/// Copies bytes to a buffer, cut to its length, and writes their whole length.
///
/// # Safety
/// `buffer` must be null or writable for `buffer_bytes` bytes, `length` writable.
pub(super) unsafe fn copy(found: &[u8], buffer: *mut c_void, buffer_bytes: usize, length: NonNull<usize>) -> Outcome {
    let room = if buffer.is_null() { 0 } else { buffer_bytes };
    // SAFETY: as the caller vouches for.
    unsafe {
        if room > 0 {
            buffer.cast::<u8>().copy_from(found.as_ptr(), found.len().min(room));
        }
        length.write(found.len());
    }
    Ok(PerduraMapCode::Ok)
}
