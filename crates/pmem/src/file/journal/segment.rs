//! A segment of a journal: a file of one size, written by whole blocks past the page cache, each
//! write durable when it returns.

use super::blocks::Blocks;
use super::format::{BLOCK, HEADER_BLOCKS, Header, SEGMENT_BYTES};
use crate::error::{Error, Result};
use crate::file::allocate::fill;
use crate::file::syncs::Syncs;
use crate::medium::Medium;
use crate::region::Region;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Beginnings of the names of segments: of a directory's own journal, and of that of the data of
/// which it has the log.
const OWN: &str = "journal.";
const OF_DATA: &str = "data_journal.";

/// Number of the segment with a file of this name, if it begins with `prefix`.
fn number_behind(prefix: &str, name: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix).filter(|digits| digits.len() == 8)?;
    u32::from_str_radix(digits, 16).ok()
}

/// Whether a file of this name is a segment.
pub(super) fn is_segment(name: &str) -> bool {
    [OWN, OF_DATA].iter().any(|prefix| number_behind(prefix, name).is_some())
}

/// Where a journal lies. Its segments' names say whether it is about the files beside it: else a
/// start with another medium there would take it for that.
#[derive(Clone)]
pub(in crate::file) struct Home {
    directory: PathBuf,
    prefix: &'static str,
    /// Persistent memory, or memory that is taken for it; otherwise a disk.
    memory: Option<Arc<dyn Medium>>,
}

impl Home {
    /// The directory of the files themselves.
    pub(in crate::file) fn own(directory: &Path) -> Home {
        Home { directory: directory.to_owned(), prefix: OWN, memory: None }
    }

    /// The directory of a log, in `memory` or on a disk; the files are elsewhere.
    pub(in crate::file) fn of_log(directory: &Path, memory: Option<Arc<dyn Medium>>) -> Home {
        Home { directory: directory.to_owned(), prefix: OF_DATA, memory }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Number of the segment with a file of this name.
    pub(super) fn segment_number(&self, name: &str) -> Option<u32> {
        number_behind(self.prefix, name)
    }

    /// Name of the file of a segment.
    pub(super) fn segment_name(&self, number: u32) -> String {
        format!("{}{number:08x}", self.prefix)
    }

    /// Makes the file of a segment in which nothing counts, durably.
    ///
    /// Errors: `Full`, `Io`; then no file is left.
    pub(super) fn create(&self, number: u32) -> Result<Segment> {
        let (directory, name) = (self.directory(), self.segment_name(number));
        let path = directory.join(&name);
        let what = path.display().to_string();
        let failed = |source| Error::from_io(&what, "creating", SEGMENT_BYTES as u64, source);
        let made = match &self.memory {
            Some(medium) => medium.create(&name, SEGMENT_BYTES as u64).and_then(|region| region.sync()),
            None => {
                let file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&path).map_err(failed)?;
                fill(&what, &file, SEGMENT_BYTES as u64).and_then(|()| file.sync_all().map_err(failed))
            }
        };
        let synced = made.and_then(|()| File::open(directory).and_then(|all| all.sync_all()).map_err(failed));
        synced.and_then(|()| self.open(number)).inspect_err(|_| {
            // A file that cannot be removed either holds nothing that counts.
            let _ = std::fs::remove_file(&path);
        })
    }

    /// Opens a segment to be written.
    pub(super) fn open(&self, number: u32) -> Result<Segment> {
        let name = self.segment_name(number);
        let path = self.directory().join(&name);
        let storage = match &self.memory {
            Some(medium) => Storage::Memory(medium.open(&name)?),
            None => Storage::Disk(open_direct(&path)?),
        };
        Ok(Segment { path, number, storage, salt: 0, end: SEGMENT_BYTES })
    }
}

fn open_direct(path: &Path) -> Result<File> {
    let open = |flags| OpenOptions::new().write(true).custom_flags(flags).open(path);
    // Not all file systems can write past the cache.
    let file = open(libc::O_DSYNC | libc::O_DIRECT).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => open(libc::O_DSYNC),
        _ => Err(error),
    });
    file.map_err(|source| Error::from_io(&path.display().to_string(), "opening", 0, source))
}

/// How a segment is written.
enum Storage {
    Disk(File),
    Memory(Region),
}

/// A segment, and how far it is written.
pub(super) struct Segment {
    path: PathBuf,
    number: u32,
    storage: Storage,
    salt: u64,
    end: usize,
}

impl Segment {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn salt(&self) -> u64 {
        self.salt
    }

    /// Offset of the next group.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= SEGMENT_BYTES - self.end
    }

    /// Begins a use of the segment, whose groups count from now on.
    pub(super) fn arm(&mut self, header: Header, syncs: &Syncs) -> Result<()> {
        let mut block = Blocks::default();
        block.push(&[0; BLOCK]);
        header.encode(block.bytes());
        self.write_headers(block.padded(), syncs)?;
        (self.salt, self.end) = (header.salt, HEADER_BLOCKS * BLOCK);
        Ok(())
    }

    /// Ends the use: nothing in the segment counts any more.
    pub(super) fn void(&mut self, syncs: &Syncs) -> Result<()> {
        let mut block = Blocks::default();
        block.push(&[0; BLOCK]);
        self.write_headers(block.padded(), syncs)
    }

    fn write_headers(&self, block: &[u8], syncs: &Syncs) -> Result<()> {
        (0..HEADER_BLOCKS).try_for_each(|copy| self.write_at(copy * BLOCK, block, syncs))
    }

    /// Appends blocks, for which there is room.
    pub(super) fn append(&mut self, blocks: &[u8], syncs: &Syncs) -> Result<()> {
        self.write_at(self.end, blocks, syncs)?;
        self.end += blocks.len();
        Ok(())
    }

    fn write_at(&self, offset: usize, blocks: &[u8], syncs: &Syncs) -> Result<()> {
        syncs.sync(&self.name(), "write", || match &self.storage {
            Storage::Disk(file) => file
                .write_all_at(blocks, offset as u64)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            Storage::Memory(region) => {
                region.write_nt(offset as u64, blocks);
                region.fence();
                Ok(())
            }
        })
    }

    /// Removes the file, in which nothing counts.
    pub(super) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}
