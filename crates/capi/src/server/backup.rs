//! Holding a pool still while its files are copied.

use super::call::{call, call_or};
use super::code::PerduraCode;
use super::engine::PerduraEngine;
use std::time::Duration;

/// Holds the pool still, so that its files can be copied: until [`perdura_release`], everybody who is about to store to the
/// pool waits.
///
/// # Errors
/// EXISTS if the pool is held already, LOCK_WAIT_TIMEOUT if statements that write are still running after `timeout_ms`
/// milliseconds, KILLED if [`perdura_release`] came meanwhile. The pool is then not held by this call.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_hold(engine: *const PerduraEngine, timeout_ms: u64) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call(Some(engine), || {
        engine.hold(Duration::from_millis(timeout_ms))?;
        Ok(PerduraCode::Ok)
    })
}

/// Lets a held pool go on. False if it was not held.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_release(engine: *const PerduraEngine) -> bool {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call_or(Some(engine), false, || engine.release())
}
