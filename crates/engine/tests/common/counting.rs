//! An allocator that counts. A test that installs it counts every allocation of its process, so it
//! is alone in its file:
//!
//!     #[global_allocator]
//!     static ALLOCATOR: Counting = Counting;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
pub struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);

/// Bytes that are allocated now.
pub fn live() -> u64 {
    LIVE.load(Ordering::Relaxed)
}

// SAFETY: every call goes to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as the caller vouches for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as the caller vouches for.
        unsafe { System.dealloc(pointer, layout) }
    }
}
