//! Two-phase commit: with the binary log, and of transactions that a coordinator decides.

use super::call::call;
use super::code::{Failure, PerduraCode};
use super::engine::PerduraEngine;
use super::session::{PerduraSession, with};
use std::ffi::c_void;
use std::slice;

/// Prepares the transaction under the name `xid`: from here on it outlives its session and the
/// server, until it is committed or rolled back.
///
/// # Errors
/// LOG_FULL, DEVICE_FULL, READ_ONLY_POOL; the transaction is rolled back.
///
/// # Safety
/// `session` must be live and used by this thread alone, `xid` readable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_prepare(session: *const PerduraSession, xid: *const u8, bytes: usize) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.in_statement = false;
            session.txn.end_statement();
            session.txn.prepare(std::slice::from_raw_parts(xid, bytes))?;
            Ok(PerduraCode::Ok)
        })
    }
}

/// Gives a prepared transaction its place in the order of commits. To be called by the binary log's
/// group leader, in the binary log's order, while the session's own thread waits;
/// [`super::transaction::perdura_commit`] then ends the commit.
///
/// # Safety
/// `session` must be live and no other thread may use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_commit_ordered(session: *const PerduraSession) {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.txn.commit_ordered();
            Ok(PerduraCode::Ok)
        });
    }
}

/// Makes an ordered transaction visible, if all commits before it are durable. If the leader calls
/// it for each transaction of a group, their own threads need not wait for each other.
///
/// # Safety
/// `session` must be live and no other thread may use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_show_ordered(session: *const PerduraSession) {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.txn.show_ordered();
            Ok(PerduraCode::Ok)
        });
    }
}

/// Calls `found` with the name of each prepared transaction that no session holds.
///
/// # Safety
/// `engine` must be open, `found` callable with `context` and as many bytes as it is told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_prepared_list(
    engine: *const PerduraEngine,
    found: unsafe extern "C" fn(context: *mut c_void, xid: *const u8, bytes: usize),
    context: *mut c_void,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call(Some(engine), || {
        for xid in engine.prepared() {
            // SAFETY: as the caller vouches for.
            unsafe { found(context, xid.as_ptr(), xid.len()) };
        }
        Ok(PerduraCode::Ok)
    })
}

/// Commits or rolls back the prepared transaction `xid`, which no session holds: after a restart,
/// or after its connection ended.
///
/// # Errors
/// NOT_FOUND.
///
/// # Safety
/// `engine` must be open, `xid` readable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_prepared_decide(
    engine: *const PerduraEngine,
    xid: *const u8,
    bytes: usize,
    commit: bool,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let (engine, xid) = unsafe { ((*engine).engine(), slice::from_raw_parts(xid, bytes)) };
    call(Some(engine), || {
        let found = if commit { engine.commit_prepared(xid)? } else { engine.rollback_prepared(xid)? };
        if found {
            return Ok(PerduraCode::Ok);
        }
        Err(Failure::new(PerduraCode::NotFound, "no transaction is prepared under this name"))
    })
}
