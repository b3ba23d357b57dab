//! Snapshots: the whole map as of one moment, as a stream of chunks.

use super::argument::{live, owned, target};
use super::call::{call, call_on};
use super::code::{Failure, PerduraMapCode};
use super::open::{Hold, PerduraMap, with};
use super::progress::PerduraMapTimestamps;
use super::result::{hand_out, release};
use perdura_map::{Chunks, Position, Snapshot};
use std::ffi::c_void;

/// Least value of `chunk_bytes_max`.
pub const PERDURA_MAP_CHUNK_BYTES_MIN: usize = 64;

/// A map as of one moment. While it is held, no garbage is collected; all else goes on.
pub struct PerduraMapSnapshot {
    chunks: Chunks,
    chunk_bytes_max: usize,
    /// Where [`perdura_map_snapshot_rewind`] goes back to.
    mark: Position,
    chunk: Vec<u8>,
    ended: bool,
    snapshot: Snapshot,
    map: &'static PerduraMap,
    _hold: Hold,
}

/// Persists the map and takes a snapshot of it, to be read in chunks of at most `chunk_bytes_max`
/// bytes. Release it with [`perdura_map_snapshot_release`].
///
/// # Errors
/// ARGUMENT if `chunk_bytes_max` is below PERDURA_MAP_CHUNK_BYTES_MIN, READ_ONLY.
///
/// # Safety
/// `map` must be open, `snapshot` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_snapshot(
    map: *const PerduraMap,
    chunk_bytes_max: usize,
    snapshot: *mut *mut PerduraMapSnapshot,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    unsafe { perdura_map_snapshot_within(map, chunk_bytes_max, u64::MAX, snapshot) }
}

/// [`perdura_map_snapshot`] with a limit: once the map has `garbage_bytes_max` bytes of garbage
/// more than at its start, the snapshot ends, garbage is collected again, and
/// [`perdura_map_snapshot_next`] fails with EXPIRED.
///
/// # Errors
/// As for [`perdura_map_snapshot`].
///
/// # Safety
/// `map` must be open, `snapshot` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_snapshot_within(
    map: *const PerduraMap,
    chunk_bytes_max: usize,
    garbage_bytes_max: u64,
    snapshot: *mut *mut PerduraMapSnapshot,
) -> PerduraMapCode {
    let take = |map: &'static PerduraMap| {
        if chunk_bytes_max < PERDURA_MAP_CHUNK_BYTES_MIN {
            let message = format!("chunks of {chunk_bytes_max} bytes: use {PERDURA_MAP_CHUNK_BYTES_MIN} or more");
            return Err(Failure::new(PerduraMapCode::Argument, message));
        }
        let snapshot = map.changeable()?.snapshot_within(garbage_bytes_max)?;
        let chunks = snapshot.chunks(chunk_bytes_max);
        let (mark, chunk, _hold) = (chunks.position(), Vec::new(), map.hold());
        Ok(PerduraMapSnapshot { chunks, chunk_bytes_max, mark, chunk, ended: false, snapshot, map, _hold })
    };
    // SAFETY: as the caller vouches for; the snapshot holds the map.
    unsafe { with(map, |map| hand_out(snapshot, "the snapshot", || take(map))) }
}

/// Gets the map's timestamps as of the snapshot.
///
/// # Safety
/// `snapshot` must be live, `timestamps` writable; each may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_snapshot_timestamps(
    snapshot: *const PerduraMapSnapshot,
    timestamps: *mut PerduraMapTimestamps,
) -> PerduraMapCode {
    call(|| {
        // SAFETY: as the caller vouches for.
        unsafe {
            let stands = live(snapshot, "the snapshot")?.snapshot.timestamps();
            target(timestamps, "the timestamps")?.write(stands.into());
        }
        Ok(PerduraMapCode::Ok)
    })
}

/// Gets the next chunk, valid until the next call on the snapshot. END after the last, and after a
/// failure.
///
/// # Safety
/// `snapshot` must be live and used by this thread alone, `data` and `bytes` writable; each may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_snapshot_next(
    snapshot: *mut PerduraMapSnapshot,
    data: *mut *const c_void,
    bytes: *mut usize,
) -> PerduraMapCode {
    // SAFETY: as the caller vouches for.
    let map = unsafe { snapshot.as_ref() }.map(|snapshot| snapshot.map.fail_stop());
    call_on(map, || {
        // SAFETY: as the caller vouches for.
        let snapshot = unsafe { owned(snapshot, "the snapshot") }?;
        let (data, bytes) = (target(data, "the chunk")?, target(bytes, "the chunk's length")?);
        // After any error on the way the stream is over.
        if std::mem::replace(&mut snapshot.ended, true) {
            return Ok(PerduraMapCode::End);
        }
        let Some(chunk) = snapshot.chunks.next() else { return Ok(PerduraMapCode::End) };
        snapshot.chunk = chunk?;
        snapshot.ended = false;
        // SAFETY: as the caller vouches for.
        unsafe {
            data.write(snapshot.chunk.as_ptr().cast());
            bytes.write(snapshot.chunk.len());
        }
        Ok(PerduraMapCode::Ok)
    })
}

/// Marks where the stream stands, after the chunk read last: [`perdura_map_snapshot_rewind`] goes
/// back there, for a receiver that has lost what came later. Until the first call the mark is at
/// the beginning.
///
/// # Safety
/// `snapshot` must be live and used by this thread alone, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_snapshot_mark(snapshot: *mut PerduraMapSnapshot) -> PerduraMapCode {
    call(|| {
        // SAFETY: as the caller vouches for.
        let snapshot = unsafe { owned(snapshot, "the snapshot") }?;
        snapshot.mark = snapshot.chunks.position();
        Ok(PerduraMapCode::Ok)
    })
}

/// Goes back to the mark, also after the end or a failure: the chunks from there on are the same
/// once more.
///
/// # Safety
/// `snapshot` must be live and used by this thread alone, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_snapshot_rewind(snapshot: *mut PerduraMapSnapshot) -> PerduraMapCode {
    call(|| {
        // SAFETY: as the caller vouches for.
        let snapshot = unsafe { owned(snapshot, "the snapshot") }?;
        snapshot.chunks = snapshot.snapshot.resume(&snapshot.mark, snapshot.chunk_bytes_max);
        snapshot.ended = false;
        Ok(PerduraMapCode::Ok)
    })
}

/// Releases a snapshot.
///
/// # Safety
/// `snapshot` must be null or live, and neither it nor its chunk may be used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_snapshot_release(snapshot: *mut PerduraMapSnapshot) {
    // SAFETY: as the caller vouches for.
    unsafe { release(snapshot) };
}
