//! What a pool tells about itself.

use crate::barrier;
use crate::engine::PerduraEngine;
use std::sync::atomic::Ordering;

/// Numbers for status variables. Since the pool was opened, where not said otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PerduraCounters {
    /// Sessions open now.
    pub sessions_open: u64,
    /// Sessions begun.
    pub sessions_begun: u64,
    /// Transactions begun by sessions, those that only read included.
    pub transactions: u64,
    /// Transactions that wrote and were committed.
    pub commits: u64,
    /// Transactions that wrote and were rolled back.
    pub rollbacks: u64,
    /// Fences issued.
    pub fences: u64,
    /// Cache lines flushed.
    pub lines_flushed: u64,
    /// Bytes stored through the cache.
    pub bytes_written: u64,
    /// Bytes stored past the cache.
    pub bytes_written_past_cache: u64,
    /// Bytes pre-fault has to do now.
    pub prefault_queued_bytes: u64,
    /// Bytes pre-fault has done.
    pub prefault_done_bytes: u64,
    /// Requests that pre-fault gave up because of an error.
    pub prefault_failures: u64,
    /// Notices for the error log.
    pub notices: u64,
    /// Row lock waits.
    pub lock_waits: u64,
    /// Row lock waits that timed out.
    pub lock_timeouts: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Rows locked now.
    pub locks_held: u64,
    /// Sessions waiting for a row now.
    pub locks_waited_for: u64,
    /// Log generation switches.
    pub generation_switches: u64,
    /// Every CSN up to it is durable.
    pub durable_csn: u64,
    /// Every CSN up to it is visible.
    pub visible_csn: u64,
    /// Redo would begin after it.
    pub checkpoint_csn: u64,
    /// Snapshots open now.
    pub snapshots: u64,
    /// Versions waiting to be purged now.
    pub purge_lag: u64,
    /// Bytes of data files now.
    pub data_bytes: u64,
    /// Bytes of them in free segments now.
    pub free_bytes: u64,
    /// 1 if the pool has failed stop.
    pub failed: u64,
}

/// Reads the counters.
///
/// # Safety
/// `engine` must be open, `target` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counters(engine: *const PerduraEngine, target: *mut PerduraCounters) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine };
    let read = barrier::call_or(Some(engine.engine()), PerduraCounters::default(), || counters(engine));
    // SAFETY: as the caller vouches for.
    unsafe { target.write(read) };
}

fn counters(engine: &PerduraEngine) -> PerduraCounters {
    let counters = engine.engine().counters();
    let sessions = &engine.sessions;
    PerduraCounters {
        sessions_open: sessions.open.load(Ordering::Relaxed),
        sessions_begun: sessions.begun.load(Ordering::Relaxed),
        transactions: sessions.transactions.load(Ordering::Relaxed),
        commits: counters.commits,
        rollbacks: counters.rollbacks,
        fences: counters.fences,
        lines_flushed: counters.lines_flushed,
        bytes_written: counters.bytes_written,
        bytes_written_past_cache: counters.bytes_written_nt,
        prefault_queued_bytes: counters.prefault_queued_bytes,
        prefault_done_bytes: counters.prefault_done_bytes,
        prefault_failures: counters.prefault_failures,
        notices: counters.notices,
        lock_waits: counters.lock_waits,
        lock_timeouts: counters.lock_timeouts,
        deadlocks: counters.deadlocks,
        locks_held: counters.locks_held,
        locks_waited_for: counters.locks_waited_for,
        generation_switches: counters.generation_switches,
        durable_csn: counters.durable_csn,
        visible_csn: counters.visible_csn,
        checkpoint_csn: counters.checkpoint_csn,
        snapshots: counters.snapshots,
        purge_lag: counters.purge_lag,
        data_bytes: counters.data_bytes,
        free_bytes: counters.free_bytes,
        failed: counters.failed,
    }
}

/// A text for a person, kept until [`perdura_report_release`].
pub struct PerduraReport(String);

/// Makes the report of SHOW ENGINE PERDURA STATUS.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_report(engine: *const PerduraEngine) -> *mut PerduraReport {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    barrier::call_or(Some(engine), std::ptr::null_mut(), || {
        Box::into_raw(Box::new(PerduraReport(engine.status().to_string())))
    })
}

/// What one should know about the medium, as a line for the error log.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_medium_report(engine: *const PerduraEngine) -> *mut PerduraReport {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    barrier::call_or(Some(engine), std::ptr::null_mut(), || {
        Box::into_raw(Box::new(PerduraReport(engine.status().medium.to_string())))
    })
}

/// Sets who is told of what no statement can report, in UTF-8 and not ended: `notice` is called on whatever thread notices, and at
/// once for what was noticed before.
///
/// # Safety
/// `engine` must be open, `notice` callable on any thread with that many bytes, as long as the pool is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_set_notice_handler(
    engine: *const PerduraEngine,
    notice: unsafe extern "C" fn(*const u8, usize),
) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    barrier::call_or(Some(engine), (), || {
        // SAFETY: as the caller vouches for.
        engine.set_notice_handler(move |text| unsafe { notice(text.as_ptr(), text.len()) });
    });
}

/// The report's bytes, in UTF-8, and their number in `bytes`. Null and 0 for no report.
///
/// # Safety
/// `report` must be null or made and not released, `bytes` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_report_text(report: *const PerduraReport, bytes: *mut usize) -> *const u8 {
    // SAFETY: as the caller vouches for.
    unsafe {
        let text = report.as_ref().map_or("", |report| report.0.as_str());
        bytes.write(text.len());
        text.as_ptr()
    }
}

/// Releases a report.
///
/// # Safety
/// `report` must be null or made, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_report_release(report: *mut PerduraReport) {
    if !report.is_null() {
        // SAFETY: as the caller vouches for.
        drop(unsafe { Box::from_raw(report) });
    }
}
