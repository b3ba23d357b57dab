//! A file that is read, with what a journal has for it: mapped privately, so that nothing of that
//! reaches it.

use super::mapping::{PAGE, Sharing, map_aligned};
use crate::error::{Error, Result};
use crate::region::Backing;
use rustix::io::Errno;
use rustix::mm::munmap;
use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;

/// A private mapping of a file; unmapped when dropped.
pub(super) struct ViewedFile {
    address: *mut c_void,
    len: usize,
}

// SAFETY: the mapping is process-wide; access through it is ordered by the region's users.
unsafe impl Send for ViewedFile {}
// SAFETY: as for Send.
unsafe impl Sync for ViewedFile {}

impl ViewedFile {
    /// Maps `len` bytes of `file`, and puts the `parts` over them, `None` for zeros.
    pub(super) fn new<'a>(
        what: &str,
        file: &File,
        len: u64,
        parts: impl Iterator<Item = (Range<u64>, Option<&'a [u8]>)>,
    ) -> Result<ViewedFile> {
        let failed = |errno: Errno| Error::from_io(what, "mapping", len, errno.into());
        let len = usize::try_from(len).map_err(|_| failed(Errno::FBIG))?;
        let viewed = ViewedFile { address: map_aligned(file, len, Sharing::Private).map_err(failed)?, len };
        for (range, bytes) in parts.filter(|(range, _)| range.end <= viewed.len as u64) {
            let (at, count) = (viewed.base().wrapping_add(range.start as usize), (range.end - range.start) as usize);
            // SAFETY: the range is within the mapping, which nobody else has yet.
            let target = unsafe { std::slice::from_raw_parts_mut(at, count) };
            match bytes {
                Some(bytes) => target.copy_from_slice(bytes),
                None => target.fill(0),
            }
        }
        Ok(viewed)
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.address.cast()
    }
}

impl Drop for ViewedFile {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and the region that used it is gone.
        let _ = unsafe { munmap(self.address, self.len.next_multiple_of(PAGE)) };
    }
}

/// Nothing is durable, nor has to be.
impl Backing for ViewedFile {
    fn deep_flush(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn populate(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn release(&self) {}

    fn rename(&mut self, _name: &str) {}
}
