//! A mapped file that syncs of its pages make durable.
//!
//! A flush notes the range in its thread; the fence syncs what the thread has noted, one call a
//! file. Threads that fence the same file at once share a sync. A sync that fails ends the medium.

use super::bus::{Watched, freeze, watch};
use super::mapping::{PAGE, map_aligned};
use crate::error::{Error, Result};
use crate::health::{Failure, Health};
use crate::region::{Backing, Functions};
use parking_lot::{Condvar, Mutex, RwLock};
use rustix::io::Errno;
use rustix::mm::{Advice, MsyncFlags, madvise, msync, munmap};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// How the files of a page medium are flushed, drained and copied to.
pub(super) const PAGED: Functions = Functions { flush, drain, memcpy, memset };

/// The syncs of a medium: of its files and of its directory.
pub(super) struct Syncs {
    failure: Arc<Failure>,
    count: AtomicU64,
    /// Number of the sync that fails, for tests.
    fails_at: AtomicU64,
}

impl Syncs {
    /// None yet, of the medium that `medium` names.
    pub(super) fn new(medium: String) -> Syncs {
        let failure = Arc::new(Failure::none(medium));
        Syncs { failure, count: AtomicU64::new(0), fails_at: AtomicU64::new(u64::MAX) }
    }

    pub(super) fn health(&self) -> Health {
        Health::of(self.failure.clone())
    }

    /// Syncs made.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Lets a sync fail, after `count` more that do what they are to.
    pub(super) fn fail_after(&self, count: u64) {
        self.fails_at.store(self.count() + count + 1, Ordering::SeqCst);
    }

    /// Makes one sync by `call`. If it fails the medium has failed for good, and when this returns
    /// nothing that is stored later reaches a file.
    pub(super) fn sync(&self, what: &str, action: &str, call: impl FnOnce() -> rustix::io::Result<()>) -> Result<()> {
        if self.failure.is_noted() {
            return Err(self.failure.error());
        }
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let synced = if number == self.fails_at.load(Ordering::SeqCst) { Err(Errno::IO) } else { call() };
        synced.map_err(|errno| {
            let first = self.failure.note(what, action, errno.into());
            freeze(&self.failure);
            first
        })
    }
}

/// Rounds in which threads sync a file together.
struct Rounds {
    is_running: bool,
    /// Number of the round that begins next, and of the last one that has ended.
    next: u64,
    ended: u64,
    /// Addresses that the next round syncs.
    range: Range<usize>,
}

/// A mapped file of a page medium; unmapped when dropped.
///
/// A thread that has noted a range keeps the mapping until its fence, or its end. The descriptor
/// stays open: it names the file when a page cannot be read, and maps it privately when the medium
/// has failed.
pub(super) struct PagedFile {
    name: Mutex<String>,
    address: *mut c_void,
    len: usize,
    syncs: Arc<Syncs>,
    rounds: Mutex<Rounds>,
    round_ended: Condvar,
    /// Taken when dropped.
    watched: Option<Watched>,
    _file: File,
}

// SAFETY: the mapping is process-wide; access through it is ordered by the region's users.
unsafe impl Send for PagedFile {}
// SAFETY: as for Send.
unsafe impl Sync for PagedFile {}

/// The mapped files by address.
static FILES: RwLock<BTreeMap<usize, Weak<PagedFile>>> = RwLock::new(BTreeMap::new());

impl PagedFile {
    /// Maps `len` bytes of `file`, which `what` names.
    pub(super) fn new(what: &str, file: File, len: u64, syncs: &Arc<Syncs>) -> Result<Arc<PagedFile>> {
        let failed = |source: io::Error| Error::from_io(what, "mapping", len, source);
        let len = usize::try_from(len).map_err(|_| failed(Errno::FBIG.into()))?;
        let address = map_aligned(&file, len, false).map_err(|errno| failed(errno.into()))?;
        let watched = Some(watch(address, len.next_multiple_of(PAGE), &file, &syncs.failure));
        let paged = Arc::new(PagedFile {
            name: Mutex::new(what.to_owned()),
            address,
            len,
            syncs: syncs.clone(),
            rounds: Mutex::new(Rounds { is_running: false, next: 1, ended: 0, range: 0..0 }),
            round_ended: Condvar::new(),
            watched,
            _file: file,
        });
        FILES.write().insert(paged.begin(), Arc::downgrade(&paged));
        Ok(paged)
    }

    /// The file that is mapped at `address`.
    fn at(address: usize) -> Option<Arc<PagedFile>> {
        let files = FILES.read();
        let file = files.range(..=address).next_back().and_then(|(_, file)| file.upgrade());
        // Not under the lock: dropping a file takes it.
        drop(files);
        file.filter(|file| file.has(address))
    }

    pub(super) fn address(&self) -> *mut c_void {
        self.address
    }

    fn begin(&self) -> usize {
        self.address.addr()
    }

    fn has(&self, address: usize) -> bool {
        (self.begin()..self.begin() + self.len).contains(&address)
    }

    /// Syncs a range of addresses: on return it is durable, or the medium has failed.
    ///
    /// A sync that was under way before does not count, since it may have passed the range by; all
    /// who wait for its end share the next one. There is never more than one at a time: the kernel
    /// tells of a page that it could not write once, so a second sync could succeed, and be
    /// believed, before the first has noted the failure.
    fn sync(&self, range: Range<usize>) {
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
        let name = self.name.lock().clone();
        // The medium keeps a failure, and the caller asks it.
        let _ = self.syncs.sync(&name, "sync", call);
    }
}

impl Drop for PagedFile {
    fn drop(&mut self) {
        FILES.write().remove(&self.begin());
        if self.syncs.failure.is_noted() {
            // The descriptor names the file, if it is the one that failed.
            self.syncs.failure.error();
        }
        self.watched = None;
        // SAFETY: mapped by us, and the region that used it is gone.
        let _ = unsafe { munmap(self.address, self.len.next_multiple_of(PAGE)) };
    }
}

/// Makes `range` cover `other` too.
fn extend(range: &mut Range<usize>, other: &Range<usize>) {
    *range =
        if range.start == range.end { other.clone() } else { range.start.min(other.start)..range.end.max(other.end) };
}

/// Ranges that the threads have flushed and not fenced: one a file, the least that covers them. So
/// a thread notes no more ranges than there are files mapped.
struct Noted(Vec<(Arc<PagedFile>, Range<usize>)>);

thread_local! {
    static NOTED: RefCell<Noted> = const { RefCell::new(Noted(Vec::new())) };
}

impl Noted {
    fn add(&mut self, range: Range<usize>) {
        if let Some((_, noted)) = self.0.iter_mut().find(|(file, _)| file.has(range.start)) {
            extend(noted, &range);
        } else if let Some(file) = PagedFile::at(range.start) {
            self.0.push((file, range));
        }
    }
}

fn note(address: *const c_void, len: usize) {
    if len == 0 {
        return;
    }
    let range = address.addr()..address.addr() + len;
    if NOTED.try_with(|noted| noted.borrow_mut().add(range.clone())).is_err() {
        // The thread is ending and notes nothing any more.
        PagedFile::at(range.start).inspect(|file| file.sync(range));
    }
}

unsafe extern "C" fn flush(address: *const c_void, len: usize) {
    note(address, len);
}

unsafe extern "C" fn drain() {
    let noted = NOTED.try_with(|noted| std::mem::take(&mut noted.borrow_mut().0)).unwrap_or_default();
    for (file, range) in noted {
        file.sync(range);
    }
}

unsafe extern "C" fn memcpy(target: *mut c_void, source: *const c_void, len: usize, _flags: c_uint) -> *mut c_void {
    // SAFETY: valid, disjoint ranges by the caller's promise (Region::write_nt).
    unsafe { target.cast::<u8>().copy_from_nonoverlapping(source.cast::<u8>(), len) };
    note(target, len);
    target
}

unsafe extern "C" fn memset(target: *mut c_void, value: c_int, len: usize, _flags: c_uint) -> *mut c_void {
    // SAFETY: a valid range by the caller's promise (Region::zero).
    unsafe { target.cast::<u8>().write_bytes(value as u8, len) };
    note(target, len);
    target
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
        // For reading: a page mapped for writing is dirty, and a sync would write it.
        // SAFETY: the range is within the mapping (the region checked it).
        let populated = unsafe { madvise(at, end - begin, Advice::LinuxPopulateRead) };
        let name = || self.0.name.lock().clone();
        populated.map_err(|errno| match errno {
            Errno::INVAL => Error::unsupported(&name(), "MADV_POPULATE_READ refused"),
            Errno::FAULT | Errno::HWPOISON => Error::unreadable(&name(), offset).caused_by(io::Error::from(errno)),
            _ => Error::from_io(&name(), "populating", len, errno.into()),
        })
    }

    fn release(&self) {
        // SAFETY: the range is this mapping, which stays. Words that others load meanwhile are what
        // they were, or zero. A file system that cannot punch holes keeps the blocks until the file
        // is unmapped.
        let _ = unsafe { madvise(self.0.address, self.0.len.next_multiple_of(PAGE), Advice::LinuxRemove) };
    }

    fn rename(&mut self, name: &str) {
        let mut path = self.0.name.lock();
        *path = Path::new(&*path).with_file_name(name).display().to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(count: usize) -> (Arc<Syncs>, Vec<Arc<PagedFile>>) {
        let syncs = Arc::new(Syncs::new("a test".to_owned()));
        let file = |_| {
            let file = tempfile::tempfile().expect("a temporary file");
            file.set_len(1 << 20).expect("there is room");
            PagedFile::new("a file", file, 1 << 20, &syncs).expect("it is mapped")
        };
        let files = (0..count).map(file).collect();
        (syncs, files)
    }

    /// Hazard: a load flushes millions of pages before its fence.
    #[test]
    fn a_thread_notes_one_range_a_file_however_much_it_flushes() {
        let (syncs, files) = files(3);
        for step in 0..10_000 {
            let offset = step * 4243 % (1 << 20);
            note(files[step % 3].address().wrapping_byte_add(offset), 8);
        }
        assert_eq!(NOTED.with_borrow(|noted| noted.0.len()), 3);
        // SAFETY: draining has no precondition.
        unsafe { drain() };
        assert_eq!((NOTED.with_borrow(|noted| noted.0.len()), syncs.count()), (0, 3));
    }

    /// Hazard: a thread that never fences keeps files mapped, whose blocks nobody gets back.
    #[test]
    fn a_thread_that_ends_lets_go_of_what_it_has_noted() {
        let (syncs, mut files) = files(1);
        let file = files.pop().expect("one");
        let noted = file.clone();
        std::thread::spawn(move || note(noted.address(), 8)).join().expect("it does not panic");
        let (address, left) = (file.begin(), Arc::downgrade(&file));
        drop(file);
        assert!(left.upgrade().is_none() && PagedFile::at(address).is_none());
        assert_eq!(syncs.count(), 0);
    }
}
