//! C calls on prepared transactions that no session holds: after a restart, or after their connection ended.

use crate::barrier;
use crate::code::{Failure, PerduraCode};
use crate::engine::PerduraEngine;
use std::ffi::c_void;
use std::slice;

/// Calls `found` with the name of each prepared transaction.
///
/// # Safety
/// `engine` must be open, `found` callable with `context` and as many bytes as it is told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_prepared_list(
    engine: *const PerduraEngine,
    found: unsafe extern "C" fn(*mut c_void, *const u8, usize),
    context: *mut c_void,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    barrier::call(Some(engine), || {
        for xid in engine.prepared() {
            // SAFETY: as the caller vouches for.
            unsafe { found(context, xid.as_ptr(), xid.len()) };
        }
        Ok(PerduraCode::Ok)
    })
}

/// Commits or rolls back a prepared transaction by name, or NotFound.
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
    barrier::call(Some(engine), || {
        let found = if commit { engine.commit_prepared(xid)? } else { engine.rollback_prepared(xid)? };
        if found {
            return Ok(PerduraCode::Ok);
        }
        Err(Failure::new(PerduraCode::NotFound, "no transaction is prepared under this name"))
    })
}
