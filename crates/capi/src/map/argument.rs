//! Checks of arguments from C. A pointer is trusted to be null or right; nothing else is trusted.

use super::code::{Failure, Outcome, PerduraMapCode};
use perdura_map::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::slice;

fn wrong(what: &str, why: &str) -> Failure {
    Failure::new(PerduraMapCode::Argument, format!("{what} {why}"))
}

/// Object that `pointer` points to.
///
/// # Safety
/// `pointer` must be null or point to a live `T`.
#[inline]
pub(super) unsafe fn live<'a, T>(pointer: *const T, what: &str) -> Outcome<&'a T> {
    // SAFETY: as the caller vouches for.
    unsafe { pointer.as_ref() }.ok_or_else(|| wrong(what, "is null"))
}

/// Object that `pointer` points to, for one user alone.
///
/// # Safety
/// `pointer` must be null or point to a live `T` that nobody else uses meanwhile.
#[inline]
pub(super) unsafe fn owned<'a, T>(pointer: *mut T, what: &str) -> Outcome<&'a mut T> {
    // SAFETY: as the caller vouches for.
    unsafe { pointer.as_mut() }.ok_or_else(|| wrong(what, "is null"))
}

/// Where a result goes.
#[inline]
pub(super) fn target<T>(pointer: *mut T, what: &str) -> Outcome<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| wrong(what, "has no place to go: its pointer is null"))
}

/// Bytes of a limited length.
///
/// # Safety
/// `data` must be null or readable for `bytes` bytes, if those are at most `bytes_max`.
#[inline]
pub(super) unsafe fn limited<'a>(data: *const c_void, bytes: usize, bytes_max: usize, what: &str) -> Outcome<&'a [u8]> {
    if bytes > bytes_max {
        return Err(Failure::new(
            PerduraMapCode::TooLarge,
            format!("a {what} of {bytes} bytes: at most {bytes_max} are possible"),
        ));
    }
    if bytes == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(wrong(what, "is null, but not of 0 bytes"));
    }
    // SAFETY: as the caller vouches for; the length was checked.
    Ok(unsafe { slice::from_raw_parts(data.cast(), bytes) })
}

/// A key.
///
/// # Safety
/// `data` must be null or readable for `bytes` bytes.
#[inline]
pub(super) unsafe fn key<'a>(data: *const c_void, bytes: usize) -> Outcome<&'a [u8]> {
    // SAFETY: as the caller vouches for.
    unsafe { limited(data, bytes, KEY_BYTES_MAX, "key") }
}

/// A value.
///
/// # Safety
/// `data` must be null or readable for `bytes` bytes.
#[inline]
pub(super) unsafe fn value<'a>(data: *const c_void, bytes: usize) -> Outcome<&'a [u8]> {
    // SAFETY: as the caller vouches for.
    unsafe { limited(data, bytes, VALUE_BYTES_MAX, "value") }
}

/// A chunk of a snapshot.
///
/// # Safety
/// `data` must be null or readable for `bytes` bytes.
pub(super) unsafe fn chunk<'a>(data: *const c_void, bytes: usize) -> Outcome<&'a [u8]> {
    // SAFETY: as the caller vouches for.
    unsafe { limited(data, bytes, isize::MAX as usize, "chunk") }
}

/// A text.
///
/// # Safety
/// `text` must be null or a C string.
pub(super) unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<&'a CStr> {
    if text.is_null() {
        return Err(wrong(what, "is null"));
    }
    // SAFETY: as the caller vouches for.
    Ok(unsafe { CStr::from_ptr(text) })
}
