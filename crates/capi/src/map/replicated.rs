//! Data that a replicated log keeps in a map besides keys: batches with a tag, and a blob of its
//! own.

use super::argument::{limited, live, target, value};
use super::change::PerduraMapBytes;
use super::code::{Outcome, PerduraMapCode};
use super::open::{PerduraMap, with};
use super::result::{copy, note};
use perdura_map::{KEY_BYTES_MAX, KeyChange, META_BYTES_MAX, TAG_BYTES_MAX};
use std::ffi::c_void;

/// One change of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraMapChange {
    /// The key.
    pub key: PerduraMapBytes,
    /// Whether the key is deleted. Deleting a key without a value changes nothing.
    pub deletes: bool,
    /// The new value. Ignored if the key is deleted.
    pub value: PerduraMapBytes,
}

/// Makes several changes at timestamp `ts` and gives it a tag: all of that or, also after a crash,
/// nothing. Without changes it raises the newest timestamp to `ts`. The tag is durable and rolled
/// back with its timestamp, and listed by [`super::progress::perdura_map_mutations`].
///
/// # Errors
/// As for [`super::change::perdura_map_set`]; TOO_LARGE also for a tag of more than 1,024 bytes.
///
/// # Safety
/// `map` must be open, `tag` readable for `tag_bytes` bytes, `changes` for `count` changes, and
/// what they point to too; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_batch(
    map: *const PerduraMap,
    ts: u64,
    tag: *const c_void,
    tag_bytes: usize,
    changes: *const PerduraMapChange,
    count: usize,
) -> PerduraMapCode {
    let make = |map: &'static PerduraMap| -> Outcome {
        // SAFETY: as the caller vouches for.
        let tag = unsafe { limited(tag, tag_bytes, TAG_BYTES_MAX, "tag")? };
        let mut made = Vec::new();
        for index in 0..count {
            // SAFETY: as the caller vouches for.
            unsafe {
                let change = live(changes, "the batch")?;
                let change = if index == 0 { change } else { &*changes.add(index) };
                let key = limited(change.key.data, change.key.bytes, KEY_BYTES_MAX, "key")?;
                let value = if change.deletes { None } else { Some(value(change.value.data, change.value.bytes)?) };
                made.push(KeyChange { key, value });
            }
        }
        map.changeable()?.batch(ts, tag, &made)?;
        Ok(PerduraMapCode::Ok)
    };
    // SAFETY: as the caller vouches for.
    unsafe { with(map, make) }
}

/// Copies the newest tag that is forgotten to `buffer`, cut to `buffer_bytes` bytes. `tag_bytes`
/// gets its whole length, `ts` its timestamp, which may be null. ABSENT if no tag was forgotten.
///
/// # Safety
/// `map` must be open, `ts` and `tag_bytes` writable, `buffer` writable for `buffer_bytes` bytes;
/// each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_forgotten_tag(
    map: *const PerduraMap,
    ts: *mut u64,
    buffer: *mut c_void,
    buffer_bytes: usize,
    tag_bytes: *mut usize,
) -> PerduraMapCode {
    let read = |map: &'static PerduraMap| -> Outcome {
        let Some((at, tag)) = map.map().forgotten_tag() else { return Ok(PerduraMapCode::Absent) };
        // SAFETY: as the caller vouches for.
        unsafe {
            note(ts, at);
            copy(&tag, buffer, buffer_bytes, target(tag_bytes, "the length")?)
        }
    };
    // SAFETY: as the caller vouches for.
    unsafe { with(map, read) }
}

/// Replaces the map's meta blob, at most 1,024 bytes of the program's own. It is durable with the
/// next persist; rollbacks and loads leave it as it is.
///
/// # Errors
/// TOO_LARGE.
///
/// # Safety
/// `map` must be open, `meta` readable for `meta_bytes` bytes; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_set_meta(
    map: *const PerduraMap,
    meta: *const c_void,
    meta_bytes: usize,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(map, |map| {
            map.changeable()?.set_meta(limited(meta, meta_bytes, META_BYTES_MAX, "meta blob")?)?;
            Ok(PerduraMapCode::Ok)
        })
    }
}

/// Copies the map's meta blob to `buffer`, cut to `buffer_bytes` bytes. `meta_bytes` gets its whole
/// length.
///
/// # Safety
/// `map` must be open, `buffer` writable for `buffer_bytes` bytes, `meta_bytes` writable; each may
/// be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_meta(
    map: *const PerduraMap,
    buffer: *mut c_void,
    buffer_bytes: usize,
    meta_bytes: *mut usize,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { with(map, |map| copy(&map.map().meta(), buffer, buffer_bytes, target(meta_bytes, "the length")?)) }
}
