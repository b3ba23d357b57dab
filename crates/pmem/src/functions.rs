//! How a mapping is flushed, drained and copied to: chosen once, when it is mapped.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{Ordering, fence};

/// How this mapping is flushed, drained and copied to (libpmem2's types).
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    pub(crate) flush: unsafe extern "C" fn(*const c_void, usize),
    /// Flush of what is to be durable by the next [`crate::Medium::settle`], no earlier.
    pub(crate) flush_settled: unsafe extern "C" fn(*const c_void, usize),
    pub(crate) drain: unsafe extern "C" fn(),
    pub(crate) memcpy: unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_uint) -> *mut c_void,
    pub(crate) memset: unsafe extern "C" fn(*mut c_void, c_int, usize, c_uint) -> *mut c_void,
    /// How words are stored in order, if that is one write.
    pub(crate) publish: Option<&'static Publish>,
}

/// Stores of words, given by their addresses, after all that the thread has flushed, as one durable
/// write. The addresses are of words of mappings of one medium, which stay.
pub(crate) struct Publish {
    /// Returns when all are durable and stored.
    pub(crate) now: unsafe fn(&[(usize, u64)]),
    /// Returns at once.
    pub(crate) later: unsafe fn(&[(usize, u64)]),
    /// Waits until all that was stored later on the medium of the address is durable.
    pub(crate) wait: unsafe fn(usize),
}

/// For memory that needs no flushing: DRAM.
pub(crate) const PLAIN: Functions = Functions { flush, flush_settled: flush, drain, memcpy, memset, publish: None };

unsafe extern "C" fn flush(_address: *const c_void, _len: usize) {}

unsafe extern "C" fn drain() {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn memcpy(target: *mut c_void, source: *const c_void, len: usize, _flags: c_uint) -> *mut c_void {
    // SAFETY: valid, disjoint ranges by the caller's promise (Region::write_nt).
    unsafe { target.cast::<u8>().copy_from_nonoverlapping(source.cast::<u8>(), len) };
    target
}

unsafe extern "C" fn memset(target: *mut c_void, value: c_int, len: usize, _flags: c_uint) -> *mut c_void {
    // SAFETY: a valid range by the caller's promise (Region::zero).
    unsafe { target.cast::<u8>().write_bytes(value as u8, len) };
    target
}
