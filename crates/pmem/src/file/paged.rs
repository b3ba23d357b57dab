//! A mapped file that syncs of its pages make durable.
//!
//! A flush notes the range in its thread (`noted`); the fence syncs it, one call a file, or has it
//! written to the medium's journal. Threads that fence the same file at once share a sync.

use super::bus::{Watched, watch};
use super::mapping::{PAGE, Sharing, map_aligned};
use super::syncs::Syncs;
use crate::error::{Error, Result};
use crate::mutant::Mutant;
use crate::planted;
use crate::region::Backing;
use crate::units::WORD_BYTES;
use parking_lot::{Condvar, Mutex, RwLock};
use rustix::io::Errno;
use rustix::mm::{Advice, MsyncFlags, madvise, msync, munmap};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Rounds in which threads sync a file together.
struct Rounds {
    is_running: bool,
    /// Number of the round that begins next, and of the last one that has ended.
    next: u64,
    ended: u64,
    /// Addresses that the next round syncs.
    range: Range<usize>,
}

/// Bytes that one fence may have written to a log of fences, rather than have its files synced.
pub(super) const FENCE_BYTES: usize = 128 << 10;

/// A log by which fences of many files are one write: the medium's journal.
pub(super) trait FenceLog: Send + Sync {
    /// Makes the content of ranges of files durable, as it is now, and words as they are going to
    /// be, which it stores then: on return all are, or the medium has failed. Each range begins
    /// with a word. No two threads store the same word.
    fn append(&self, parts: &[FencedPart], words: &[WordToStore]);

    /// Adds the same to the group that is written next, and returns. The words are stored then.
    fn append_later(&self, parts: &[FencedPart], words: &[WordToStore]);

    /// Waits until all that was appended so is durable, or the medium has failed.
    fn wait_later(&self);

    /// Number of the next group: what was in the files before the call is in none from that on.
    fn now(&self) -> u64;

    /// Notes, durably, that a range of a file was synced: pieces of it in groups below `below`,
    /// which was the present one when the sync began, no longer count.
    fn void(&self, file: &PagedFile, range: &Range<usize>, below: u64);
}

/// Lines of a file that were flushed.
pub(super) type FencedPart = (Arc<PagedFile>, SmallVec<[Range<usize>; 4]>);

/// A word that is going to be stored: its file, address and value.
pub(super) type WordToStore = (Arc<PagedFile>, usize, u64);

/// A mapped file of a page medium; unmapped when dropped.
///
/// A thread that has noted a range keeps the mapping until its fence, or its end. The descriptor
/// stays open: it names the file when a page cannot be read, and maps it privately when the medium
/// has failed.
pub(super) struct PagedFile {
    identity: Mutex<Identity>,
    address: *mut c_void,
    len: usize,
    syncs: Arc<Syncs>,
    log: Option<Arc<dyn FenceLog>>,
    rounds: Mutex<Rounds>,
    round_ended: Condvar,
    /// Taken when dropped.
    watched: Option<Watched>,
    file: File,
}

/// Path of a mapped file, and a number of its own: the file has another when it is renamed.
struct Identity {
    number: u32,
    path: PathBuf,
}

impl Identity {
    fn of(path: PathBuf) -> Identity {
        static LAST: AtomicU32 = AtomicU32::new(0);
        Identity { number: LAST.fetch_add(1, Ordering::Relaxed) + 1, path }
    }
}

// SAFETY: the mapping is process-wide; access through it is ordered by the region's users.
unsafe impl Send for PagedFile {}
// SAFETY: as for Send.
unsafe impl Sync for PagedFile {}

/// The mapped files by address.
static FILES: RwLock<BTreeMap<usize, Weak<PagedFile>>> = RwLock::new(BTreeMap::new());

impl PagedFile {
    /// Maps `len` bytes of `file`, which is at `path`; with a journal, that makes fences durable.
    pub(super) fn new(
        path: &Path,
        file: File,
        len: u64,
        syncs: &Arc<Syncs>,
        log: Option<Arc<dyn FenceLog>>,
    ) -> Result<Arc<PagedFile>> {
        let what = &*path.display().to_string();
        let failed = |source: io::Error| Error::from_io(what, "mapping", len, source);
        let len = usize::try_from(len).map_err(|_| failed(Errno::FBIG.into()))?;
        let address = map_aligned(&file, len, Sharing::Shared).map_err(|errno| failed(errno.into()))?;
        // Rows and leaves are found one by one: what lies around them is mostly not wanted, and
        // those who read a range ask for it. A hint, which may be refused.
        // SAFETY: the mapping was just made, and nobody else knows of it.
        let _ = unsafe { madvise(address, len.next_multiple_of(PAGE), Advice::Random) };
        let watched = Some(watch(address, len.next_multiple_of(PAGE), &file, syncs.failure()));
        let paged = Arc::new(PagedFile {
            identity: Mutex::new(Identity::of(path.to_owned())),
            address,
            len,
            syncs: syncs.clone(),
            log,
            rounds: Mutex::new(Rounds { is_running: false, next: 1, ended: 0, range: 0..0 }),
            round_ended: Condvar::new(),
            watched,
            file,
        });
        FILES.write().insert(paged.begin(), Arc::downgrade(&paged));
        Ok(paged)
    }

    /// The file that is mapped at `address`.
    pub(super) fn at(address: usize) -> Option<Arc<PagedFile>> {
        let files = FILES.read();
        let file = files.range(..=address).next_back().and_then(|(_, file)| file.upgrade());
        // Not under the lock: dropping a file takes it.
        drop(files);
        file.filter(|file| file.has(address))
    }

    /// The mapped files of a medium.
    fn of_medium(syncs: &Arc<Syncs>) -> Vec<Arc<PagedFile>> {
        let files = FILES.read();
        let all: Vec<_> = files.values().filter_map(Weak::upgrade).collect();
        // Not under the lock: dropping a file takes it.
        drop(files);
        all.into_iter().filter(|file| Arc::ptr_eq(&file.syncs, syncs)).collect()
    }

    /// Syncs all files of a medium with a journal: those mapped, and those that were.
    pub(super) fn sync_all(syncs: &Arc<Syncs>) -> Result<()> {
        // Those mapped are listed first: a file that is unmapped meanwhile is among one or the
        // other.
        let mapped = PagedFile::of_medium(syncs);
        syncs.sync_closed()?;
        mapped.iter().for_each(|file| file.sync(file.begin()..file.end()));
        syncs.health().check()
    }

    /// Begins to write the mapped files of a medium back. What that could not write is reported by
    /// the next sync, whose call this is not.
    pub(super) fn begin_write_back(syncs: &Arc<Syncs>) {
        for file in PagedFile::of_medium(syncs) {
            // SAFETY: the call takes a descriptor, which is open as long as the file is mapped.
            let _ = unsafe { libc::sync_file_range(file.file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
        }
    }

    /// Gives what is mapped from the file at `from` the path `to`.
    pub(super) fn renamed(syncs: &Arc<Syncs>, from: &Path, to: &Path) {
        for file in PagedFile::of_medium(syncs) {
            let mut identity = file.identity.lock();
            if identity.path == from {
                *identity = Identity::of(to.to_owned());
            }
        }
    }

    /// Number of the file, and the name that it has in its directory.
    pub(super) fn identity(&self) -> (u32, String) {
        let identity = self.identity.lock();
        let name = identity.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (identity.number, name)
    }

    fn what(&self) -> String {
        self.identity.lock().path.display().to_string()
    }

    /// Offset in the file of an address in the mapping.
    pub(super) fn offset_of(&self, address: usize) -> u64 {
        (address - self.begin()) as u64
    }

    /// Offset and content of a range of addresses that begins with a word. Words that others store
    /// meanwhile are old or new.
    pub(super) fn content(&self, range: &Range<usize>) -> (u64, Vec<u8>) {
        let offset = self.offset_of(range.start);
        let mut bytes = Vec::with_capacity(range.len().next_multiple_of(WORD_BYTES as usize));
        for at in range.clone().step_by(WORD_BYTES as usize) {
            // SAFETY: an aligned word of the mapping, whose pages are whole; words that are shared
            // are only accessed by atomics.
            let word = unsafe { AtomicU64::from_ptr(self.address.with_addr(at).cast()) };
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes.truncate(range.len());
        (offset, bytes)
    }

    /// Stores a word of the mapping; its readers see all that was stored before.
    pub(super) fn store(&self, address: usize, value: u64) {
        // SAFETY: an aligned word of the mapping, which lives.
        unsafe { AtomicU64::from_ptr(self.address.with_addr(address).cast()) }.store(value, Ordering::Release);
    }

    pub(super) fn address(&self) -> *mut c_void {
        self.address
    }

    pub(super) fn begin(&self) -> usize {
        self.address.addr()
    }

    pub(super) fn end(&self) -> usize {
        self.begin() + self.len
    }

    /// That which makes its fences durable, if it is not the file's own sync.
    pub(super) fn fence_log(&self) -> Option<&Arc<dyn FenceLog>> {
        self.log.as_ref()
    }

    pub(super) fn has(&self, address: usize) -> bool {
        (self.begin()..self.begin() + self.len).contains(&address)
    }

    /// Syncs a range of addresses: on return it is durable, or the medium has failed.
    ///
    /// A sync that was under way before does not count, since it may have passed the range by; all
    /// who wait for its end share the next one. There is never more than one at a time: the kernel
    /// tells of a page that it could not write once, so a second sync could succeed, and be
    /// believed, before the first has noted the failure.
    pub(super) fn sync(&self, range: Range<usize>) {
        let mut rounds = self.rounds.lock();
        let own = rounds.next;
        extend(&mut rounds.range, &range);
        while rounds.ended < own {
            if rounds.is_running {
                self.round_ended.wait(&mut rounds);
                continue;
            }
            let range = std::mem::replace(&mut rounds.range, 0..0);
            rounds.is_running = true;
            rounds.next += 1;
            parking_lot::MutexGuard::unlocked(&mut rounds, || self.sync_now(range));
            rounds.is_running = false;
            rounds.ended += 1;
            self.round_ended.notify_all();
        }
    }

    fn sync_now(&self, range: Range<usize>) {
        let begin = range.start - range.start % PAGE;
        let at = self.address.with_addr(begin);
        // SAFETY: the range is within this mapping.
        let call = || unsafe { msync(at, range.end - begin, MsyncFlags::SYNC) };
        // The medium keeps a failure, and the caller asks it.
        let _ = self.syncs.sync(&self.what(), "sync", call);
    }
}

impl Drop for PagedFile {
    fn drop(&mut self) {
        // Planted: a checkpoint passes by files that are closed.
        if self.log.is_some() && !planted(Mutant::ClosedFileUnsynced) {
            // Before it is no longer among those mapped.
            self.syncs.note_closed(self.identity.lock().path.clone());
        }
        FILES.write().remove(&self.begin());
        if self.syncs.failure().is_noted() {
            // The descriptor names the file, if it is the one that failed.
            self.syncs.failure().error();
        }
        self.watched = None;
        // SAFETY: mapped by us, and the region that used it is gone.
        let _ = unsafe { munmap(self.address, self.len.next_multiple_of(PAGE)) };
    }
}

/// Makes `range` cover `other` too.
pub(super) fn extend(range: &mut Range<usize>, other: &Range<usize>) {
    *range =
        if range.start == range.end { other.clone() } else { range.start.min(other.start)..range.end.max(other.end) };
}

/// Backing of a region over a [`PagedFile`].
pub(super) struct PagedBacking(pub(super) Arc<PagedFile>);

impl Backing for PagedBacking {
    fn deep_flush(&self, _offset: u64, _len: u64) -> Result<()> {
        // The fence before has synced it.
        self.0.syncs.health().check()
    }

    fn sync(&self) -> Result<()> {
        self.0.sync(self.0.begin()..self.0.begin() + self.0.len);
        self.0.syncs.health().check()
    }

    fn populate(&self, offset: u64, len: u64) -> Result<()> {
        let begin = offset as usize / PAGE * PAGE;
        let end = (offset + len) as usize;
        if begin == end {
            return Ok(());
        }
        let at = self.0.address.wrapping_byte_add(begin);
        // In large pieces rather than page by page.
        self.will_need(offset, len);
        // For reading: a page mapped for writing is dirty, and a sync would write it.
        // SAFETY: the range is within the mapping (the region checked it).
        let populated = unsafe { madvise(at, end - begin, Advice::LinuxPopulateRead) };
        let name = || self.0.what();
        populated.map_err(|errno| match errno {
            Errno::INVAL => Error::unsupported(&name(), "MADV_POPULATE_READ refused"),
            Errno::FAULT | Errno::HWPOISON => Error::unreadable(&name(), offset).caused_by(io::Error::from(errno)),
            _ => Error::from_io(&name(), "populating", len, errno.into()),
        })
    }

    fn will_need(&self, offset: u64, len: u64) {
        let begin = offset as usize / PAGE * PAGE;
        let at = self.0.address.wrapping_byte_add(begin);
        // SAFETY: the range is within the mapping (the region checked it).
        let _ = unsafe { madvise(at, (offset + len) as usize - begin, Advice::WillNeed) };
    }

    fn release(&self) {
        // SAFETY: the range is this mapping, which stays. Words that others load meanwhile are what
        // they were, or zero. A file system that cannot punch holes keeps the blocks until the file
        // is unmapped.
        let _ = unsafe { madvise(self.0.address, self.0.len.next_multiple_of(PAGE), Advice::LinuxRemove) };
    }

    fn rename(&mut self, name: &str) {
        let mut identity = self.0.identity.lock();
        *identity = Identity::of(identity.path.with_file_name(name));
    }
}
