//! The blocks of a file: allocated when it is created, so that no later store meets a full device.

use crate::error::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::io;
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
            // Some file systems cannot; writing zeros allocates as well.
            Err(Errno::OPNOTSUPP) => return write_zeros(file, len).map_err(failed),
            Err(errno) => return Err(failed(errno.into())),
        }
    }
}

/// As [`allocate`], with zeros written to every block: a later store finds a block that needs no
/// more than to be written, on file systems that write in place.
pub(super) fn fill(what: &str, file: &File, len: u64) -> Result<()> {
    allocate(what, file, len)?;
    write_zeros(file, len).map_err(|source| Error::from_io(what, "writing zeros", len, source))
}

fn write_zeros(file: &File, len: u64) -> io::Result<()> {
    let zeros = vec![0u8; 1 << 20];
    let mut offset = 0;
    while offset < len {
        let count = (len - offset).min(zeros.len() as u64);
        file.write_all_at(&zeros[..count as usize], offset)?;
        offset += count;
    }
    Ok(())
}
