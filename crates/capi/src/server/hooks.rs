//! Callbacks into the plugin while a transaction waits for a row lock.

use std::ffi::c_void;

/// How a session tells the server of its waits, and asks about them. Each function may be null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PerduraWaitHooks {
    /// Called before the session's thread waits, so that a thread pool can run another.
    pub begin: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Called after the wait.
    pub end: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Called before a wait for each session that holds the row or is ahead in its queue, with the
    /// contexts of the waiter and of that session, whose transaction cannot end meanwhile. Returns
    /// whether the server will kill that session: then the wait for it is no deadlock. May call
    /// nothing of this library: the call comes under internal locks.
    pub conflict: Option<unsafe extern "C" fn(waiter: *mut c_void, holder: *mut c_void) -> bool>,
    /// Copies the statement that the session executes to `target`, cut to `bytes` bytes, and
    /// returns how many it copied. Called from any thread, under internal locks as above.
    pub statement: Option<unsafe extern "C" fn(context: *mut c_void, target: *mut u8, bytes: usize) -> usize>,
    /// Passed to every function.
    pub context: *mut c_void,
}
