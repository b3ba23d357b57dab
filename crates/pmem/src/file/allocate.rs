//! The blocks of a file: allocated when it is created, so that no later store meets a full device.

use super::mapping::PAGE;
use crate::error::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Gives `file` its length and blocks; `what` names it in an error.
pub(super) fn allocate(what: &str, file: &File, len: u64) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    let failed = |source| Error::from_io(what, "allocating", len, source);
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, len) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            // Some file systems cannot; writing zeros allocates as well. What is written at once
            // the kernel may cache as one folio, all of which a store in a mapping makes dirty.
            Err(Errno::OPNOTSUPP) => return write_zeros(file, 0..len, PAGE).map_err(failed),
            Err(errno) => return Err(failed(errno.into())),
        }
    }
}

/// As [`allocate`], with zeros written to every block: a later write finds a block that needs no
/// more than to be written, on file systems that write in place. For files that are not mapped.
pub(super) fn fill(what: &str, file: &File, len: u64) -> Result<()> {
    allocate(what, file, len)?;
    write_zeros(file, 0..len, 1 << 20).map_err(|source| Error::from_io(what, "writing zeros", len, source))
}

/// Writes zeros to a range, `at_once` bytes at a time: no more than a page to a file that is
/// mapped.
pub(super) fn write_zeros(file: &File, range: Range<u64>, at_once: usize) -> io::Result<()> {
    let zeros = vec![0u8; at_once];
    let mut offset = range.start;
    while offset < range.end {
        let count = (range.end - offset).min(zeros.len() as u64);
        file.write_all_at(&zeros[..count as usize], offset)?;
        offset += count;
    }
    Ok(())
}
