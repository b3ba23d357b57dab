//! DRAM below simulated regions: zeroed, 4 KiB-aligned, padded to whole pages, and recycled.
//!
//! Crash images are opened by the hundred thousand; touching fresh pages would cost more than
//! copying an image, so freed buffers are kept (up to a limit) and handed out again by size.

use super::page::PAGE_BYTES;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Bytes of freed buffers that are kept.
const KEPT_BYTES_MAX: usize = 256 << 20;

#[derive(Default)]
struct Kept {
    by_size: FxHashMap<usize, Vec<Raw>>,
    bytes: usize,
}

struct Raw(*mut u8);

// SAFETY: a Raw is the only pointer to its allocation.
unsafe impl Send for Raw {}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// A buffer of whole pages.
pub(crate) struct Buffer {
    base: *mut u8,
    size: usize,
}

// SAFETY: the buffer owns its memory; access through the pointer is the users' to order.
unsafe impl Send for Buffer {}
// SAFETY: as for Send.
unsafe impl Sync for Buffer {}

/// Bytes a buffer for `len` bytes has: at least one page.
pub(crate) fn padded(len: u64) -> usize {
    (len as usize).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES)
}

impl Buffer {
    /// A zeroed buffer for `len` bytes.
    pub(crate) fn zeroed(len: u64) -> Buffer {
        let size = padded(len);
        match take(size) {
            Some(Raw(base)) => {
                // SAFETY: a kept buffer of this size has `size` bytes and no other user.
                unsafe { base.write_bytes(0, size) };
                Buffer { base, size }
            }
            None => Buffer::fresh(size),
        }
    }

    /// A buffer for `len` bytes with any (initialised) content.
    pub(crate) fn any(len: u64) -> Buffer {
        let size = padded(len);
        take(size).map_or_else(|| Buffer::fresh(size), |Raw(base)| Buffer { base, size })
    }

    fn fresh(size: usize) -> Buffer {
        let layout = layout(size);
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Buffer { base, size }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut guard = KEPT.lock();
        let kept = guard.get_or_insert_default();
        if kept.bytes + self.size <= KEPT_BYTES_MAX {
            kept.bytes += self.size;
            kept.by_size.entry(self.size).or_default().push(Raw(self.base));
            return;
        }
        drop(guard);
        // SAFETY: allocated with this layout, and nobody else has the pointer.
        unsafe { dealloc(self.base, layout(self.size)) };
    }
}

fn take(size: usize) -> Option<Raw> {
    let mut guard = KEPT.lock();
    let kept = guard.as_mut()?;
    let raw = kept.by_size.get_mut(&size)?.pop()?;
    kept.bytes -= size;
    Some(raw)
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, PAGE_BYTES).expect("a region's size fits the address space")
}
