//! Holding a pool still while its files are copied.

use super::call::{call, call_or};
use super::code::PerduraCode;
use super::engine::PerduraEngine;
use perdura_engine::HoldNumber;
use std::time::Duration;

/// Asks for a hold of the pool, so that its files can be copied, and sets `hold` to its number,
/// which is not 0. From now on everybody who is about to store to the pool waits. It is held once
/// [`perdura_hold_wait`] has returned OK. Until [`perdura_release`] with the number the hold is
/// there, waiting or not.
///
/// # Errors
/// EXISTS if there is a hold already.
///
/// # Safety
/// `engine` must be open, `hold` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_hold_begin(engine: *const PerduraEngine, hold: *mut u64) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call(Some(engine), || {
        let number = engine.begin_hold()?;
        // SAFETY: as the caller vouches for.
        unsafe { hold.write(number.to_u64()) };
        Ok(PerduraCode::Ok)
    })
}

/// Waits until the statements that wrote when the hold was asked for have ended.
///
/// # Errors
/// LOCK_WAIT_TIMEOUT if some are still running after `timeout_ms` milliseconds: the caller releases
/// the hold, or waits once more. KILLED if the hold was released meanwhile.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_hold_wait(engine: *const PerduraEngine, hold: u64, timeout_ms: u64) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call(Some(engine), || {
        engine.await_hold(HoldNumber::from_u64(hold), Duration::from_millis(timeout_ms))?;
        Ok(PerduraCode::Ok)
    })
}

/// Releases the hold of this number, waiting or not, and no other one: the pool takes changes
/// again. False if it was not there any more.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_release(engine: *const PerduraEngine, hold: u64) -> bool {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call_or(Some(engine), false, || engine.release(HoldNumber::from_u64(hold)))
}

/// Number of the hold that is there, waiting or not, whoever has asked for it; 0 if there is none.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_present_hold(engine: *const PerduraEngine) -> u64 {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call_or(Some(engine), 0, || engine.present_hold().map_or(0, HoldNumber::to_u64))
}
