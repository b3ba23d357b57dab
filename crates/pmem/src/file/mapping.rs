//! A file mapped at a 2 MiB boundary.

use super::ffi::{Map, Source};
use crate::error::{Error, Result};
use crate::medium::Granularity;
use crate::region::{Backing, Functions, PLAIN};
use parking_lot::Mutex;
use rustix::fs::fdatasync;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

/// Alignment of mappings: that of large pages.
pub(super) const ALIGN: usize = 2 << 20;
/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// A mapped file. Unmaps when dropped.
///
/// The address range is reserved first (len + 2 MiB, no access), the file is mapped over its
/// aligned part, and the rest is released. The descriptor is closed afterwards: a pool may have
/// thousands of files, and msync on the mapping does what fsync does for size and blocks, and what
/// libpmem2's deep flush does for a file.
///
/// libpmem2 chooses the functions once for each granularity, not for each file: it allocates a
/// thread key for every mapping it is told of (seen with 1.12), and aborts when the 1024 keys of
/// the process are used up.
pub(super) struct FileMapping {
    name: String,
    address: *mut c_void,
    len: usize,
    functions: Functions,
    /// The blocks were given back. Locked while pages are populated, which would take blocks again.
    released: Mutex<bool>,
    /// Opened when the file is first written to.
    written: OnceLock<File>,
}

// SAFETY: the mapping is process-wide; access through it is ordered by the region's users.
unsafe impl Send for FileMapping {}
// SAFETY: as for Send.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Maps `len` bytes of `file`, with MAP_SYNC if `synchronous`, to be flushed as `granularity`
    /// needs.
    pub(super) fn new(
        what: &str,
        file: &File,
        len: u64,
        synchronous: bool,
        granularity: Granularity,
    ) -> Result<FileMapping> {
        let failed = |source: io::Error| Error::from_io(what, "mapping", len, source);
        let len = usize::try_from(len).map_err(|_| failed(Errno::FBIG.into()))?;
        let sharing = if synchronous { Sharing::Synchronous } else { Sharing::Shared };
        let address = map_aligned(file, len, sharing).map_err(|errno| failed(errno.into()))?;
        let (name, released, written) = (what.to_owned(), Mutex::new(false), OnceLock::new());
        let mut mapping = FileMapping { name, address, len, functions: PLAIN, released, written };
        mapping.functions = mapping.choose(file, granularity).map_err(failed)?;
        Ok(mapping)
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.address.cast()
    }

    pub(super) fn functions(&self) -> Functions {
        self.functions
    }

    /// The functions libpmem2 chooses for a granularity; found with the first mapping of it.
    fn choose(&self, file: &File, granularity: Granularity) -> io::Result<Functions> {
        static CHOSEN: [OnceLock<Functions>; 3] = [const { OnceLock::new() }; 3];
        let chosen = &CHOSEN[granularity as usize];
        if let Some(functions) = chosen.get() {
            return Ok(*functions);
        }
        let source = Source::new(file.as_fd())?;
        // SAFETY: the range is mapped from this file, and the Map is dropped before it is unmapped.
        let map = unsafe { Map::from_existing(&source, self.address, self.len, granularity) }?;
        Ok(*chosen.get_or_init(|| map.functions()))
    }

    /// The file, to be written to.
    fn written(&self) -> Result<&File> {
        if let Some(file) = self.written.get() {
            return Ok(file);
        }
        let opened = File::options().write(true).open(&self.name);
        let file =
            opened.map_err(|source| Error::from_io(&self.name, "opening for writing", self.len as u64, source))?;
        Ok(self.written.get_or_init(|| file))
    }

    fn at(&self, offset: u64) -> *mut c_void {
        self.address.wrapping_byte_add(offset as usize)
    }
}

impl Backing for FileMapping {
    fn deep_flush(&self, offset: u64, len: u64) -> Result<()> {
        let begin = offset as usize / PAGE * PAGE;
        let end = (offset + len) as usize;
        // SAFETY: the range is within this mapping (the region checked it).
        let flushed = unsafe { msync(self.at(begin as u64), end - begin, MsyncFlags::SYNC) };
        flushed.map_err(|errno| Error::from_io(&self.name, "deep flush", 0, errno.into()))
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: the range is this mapping.
        let synced = unsafe { msync(self.address, self.len, MsyncFlags::SYNC) };
        synced.map_err(|errno| Error::from_io(&self.name, "sync", 0, errno.into()))
    }

    fn populate(&self, offset: u64, len: u64) -> Result<()> {
        let begin = offset as usize / PAGE * PAGE;
        let end = (offset + len) as usize;
        if begin == end {
            return Ok(());
        }
        let released = self.released.lock();
        if *released {
            return Ok(());
        }
        // SAFETY: the range is within this mapping (the region checked it), and populating changes
        // no content.
        match unsafe { madvise(self.at(begin as u64), end - begin, Advice::LinuxPopulateWrite) } {
            Ok(()) => Ok(()),
            Err(Errno::INVAL) => Err(Error::unsupported(&self.name, "MADV_POPULATE_WRITE refused")),
            Err(errno @ (Errno::FAULT | Errno::HWPOISON)) => {
                let source = io::Error::from(errno);
                let seen = format!("populating {len} bytes failed: {source}");
                Err(Error::poisoned(&self.name, offset, &seen).caused_by(source))
            }
            Err(errno) => Err(Error::from_io(&self.name, "populating", len, errno.into())),
        }
    }

    fn release(&self) {
        *self.released.lock() = true;
        // SAFETY: the range is this mapping, which stays. Words that others load meanwhile are what
        // they were, or zero. A file system that cannot punch holes keeps the blocks until the file
        // is unmapped.
        let _ = unsafe { madvise(self.address, self.len.next_multiple_of(PAGE), Advice::LinuxRemove) };
    }

    fn write_file(&self, offset: u64, source: &[u8]) -> Result<bool> {
        let written = self.written()?.write_all_at(source, offset);
        written.map_err(|error| Error::from_io(&self.name, "writing", source.len() as u64, error))?;
        Ok(true)
    }

    fn sync_file(&self) -> Result<bool> {
        let synced = fdatasync(self.written()?);
        synced.map_err(|errno| Error::from_io(&self.name, "sync", 0, errno.into()))?;
        Ok(true)
    }

    fn rename(&mut self, name: &str) {
        self.name = Path::new(&self.name).with_file_name(name).display().to_string();
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and the region that used it is gone.
        let _ = unsafe { munmap(self.address, self.len.next_multiple_of(PAGE)) };
    }
}

/// Owners of what is stored into a mapping.
#[derive(Clone, Copy)]
pub(super) enum Sharing {
    Shared,
    /// With MAP_SYNC.
    Synchronous,
    /// The process' own: they never reach the file.
    Private,
}

/// Maps `len` bytes of `file` at a multiple of [`ALIGN`].
pub(super) fn map_aligned(file: &File, len: usize, sharing: Sharing) -> rustix::io::Result<*mut c_void> {
    let mapped = len.next_multiple_of(PAGE);
    let reserved = mapped + ALIGN;
    // SAFETY: a new private range without access.
    let start = unsafe {
        mmap_anonymous(ptr::null_mut(), reserved, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
    }?;
    let lead = start.cast::<u8>().align_offset(ALIGN);
    let address = start.wrapping_byte_add(lead);
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let sharing = match sharing {
        Sharing::Shared => MapFlags::SHARED,
        Sharing::Synchronous => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
        Sharing::Private => MapFlags::PRIVATE | MapFlags::NORESERVE,
    };
    // SAFETY: replaces only a part of the range just reserved.
    let result = unsafe { mmap(address, len, protection, sharing | MapFlags::FIXED, file, 0) };
    // SAFETY: gives back what is left of the reservation on either side (all of it on failure).
    unsafe {
        if result.is_err() {
            let _ = munmap(start, reserved);
        } else {
            if lead > 0 {
                let _ = munmap(start, lead);
            }
            let tail = reserved - lead - mapped;
            if tail > 0 {
                let _ = munmap(address.wrapping_byte_add(mapped), tail);
            }
        }
    }
    result
}

/// Whether `file` (of at least one page) can be mapped with MAP_SYNC.
pub(super) fn can_map_sync(file: &File) -> bool {
    match map_aligned(file, PAGE, Sharing::Synchronous) {
        Ok(address) => {
            // SAFETY: just mapped, used by nobody.
            let _ = unsafe { munmap(address, PAGE) };
            true
        }
        Err(_) => false,
    }
}
