//! A mapped file that syncs of its pages make durable.
//!
//! A flush notes the range in its thread; the fence syncs what the thread has noted, one call a
//! file, or has it written to the medium's journal. Threads that fence the same file at once share
//! a sync. A sync that fails ends the medium.

use super::bus::{Watched, freeze, watch};
use super::journal::{FENCE_BYTES, Journal};
use super::mapping::{PAGE, map_aligned};
use crate::error::{Error, Result};
use crate::health::{Failure, Health};
use crate::region::{Backing, Functions};
use crate::units::{LINE_BYTES, WORD_BYTES};
use parking_lot::{Condvar, Mutex, RwLock};
use rustc_hash::FxHashSet;
use rustix::io::Errno;
use rustix::mm::{Advice, MsyncFlags, madvise, msync, munmap};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// How the files of a page medium are flushed, drained and copied to.
pub(super) const PAGED: Functions = Functions { flush, flush_settled: flush, drain, memcpy, memset, publish: None };

/// The same with a journal, whose checkpoints sync all that is stored.
pub(super) const JOURNALED: Functions = Functions { flush_settled: flush_nothing, publish: Some(publish), ..PAGED };

/// The syncs of a medium: of its files and of its directory.
pub(super) struct Syncs {
    failure: Arc<Failure>,
    count: AtomicU64,
    /// Number of the sync that fails, for tests.
    fails_at: AtomicU64,
    /// Files that were unmapped since they were last synced, of a medium with a journal.
    closed: Mutex<FxHashSet<PathBuf>>,
}

impl Syncs {
    /// None yet, of the medium that `medium` names.
    pub(super) fn new(medium: String) -> Syncs {
        let failure = Arc::new(Failure::none(medium));
        let (count, fails_at) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Syncs { failure, count, fails_at, closed: Mutex::default() }
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

    /// Syncs the file at `path`, if there is one, by a descriptor of its own.
    pub(super) fn sync_file(&self, path: &Path) -> Result<()> {
        let what = path.display().to_string();
        match File::open(path) {
            Ok(file) => self.sync(&what, "sync", || rustix::fs::fdatasync(&file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::from_io(&what, "opening", 0, error)),
        }
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
    identity: Mutex<Identity>,
    address: *mut c_void,
    len: usize,
    syncs: Arc<Syncs>,
    journal: Option<Arc<Journal>>,
    rounds: Mutex<Rounds>,
    round_ended: Condvar,
    /// Taken when dropped.
    watched: Option<Watched>,
    _file: File,
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
        journal: Option<&Arc<Journal>>,
    ) -> Result<Arc<PagedFile>> {
        let what = &*path.display().to_string();
        let failed = |source: io::Error| Error::from_io(what, "mapping", len, source);
        let len = usize::try_from(len).map_err(|_| failed(Errno::FBIG.into()))?;
        let address = map_aligned(&file, len, false).map_err(|errno| failed(errno.into()))?;
        let watched = Some(watch(address, len.next_multiple_of(PAGE), &file, &syncs.failure));
        let paged = Arc::new(PagedFile {
            identity: Mutex::new(Identity::of(path.to_owned())),
            address,
            len,
            syncs: syncs.clone(),
            journal: journal.cloned(),
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
        // Those mapped first: a file that is unmapped meanwhile is among one or the other.
        let mapped = PagedFile::of_medium(syncs);
        let closed = std::mem::take(&mut *syncs.closed.lock());
        mapped.iter().for_each(|file| file.sync(file.begin()..file.begin() + file.len));
        closed.iter().try_for_each(|path| syncs.sync_file(path))?;
        syncs.health().check()
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
        // The medium keeps a failure, and the caller asks it.
        let _ = self.syncs.sync(&self.what(), "sync", call);
    }
}

impl Drop for PagedFile {
    fn drop(&mut self) {
        if self.journal.is_some() {
            // Before it is no longer among those mapped.
            self.syncs.closed.lock().insert(self.identity.lock().path.clone());
        }
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

/// Ranges of a file at most, until the one that covers them is all that is noted.
const RANGES_MAX: usize = 256;

/// Part of a file that a thread has flushed and not fenced.
struct NotedFile {
    file: Arc<PagedFile>,
    /// The least range that covers all.
    cover: Range<usize>,
    /// Whole lines, for the journal; none if they are many.
    lines: SmallVec<[Range<usize>; 4]>,
    bytes: usize,
}

impl NotedFile {
    fn new(file: Arc<PagedFile>, range: Range<usize>) -> NotedFile {
        let mut noted = NotedFile { file, cover: range.clone(), lines: SmallVec::new(), bytes: 0 };
        noted.add_lines(range);
        noted
    }

    fn add(&mut self, range: Range<usize>) {
        extend(&mut self.cover, &range);
        if !self.is_large() {
            self.add_lines(range);
        }
    }

    fn add_lines(&mut self, range: Range<usize>) {
        let line = LINE_BYTES as usize;
        let end = (self.file.begin() + self.file.len).min(range.end.next_multiple_of(line));
        let range = range.start / line * line..end;
        match self.lines.last_mut() {
            Some(last) if last.start <= range.start && range.end <= last.end => return,
            // What is written is mostly flushed in its order.
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.lines.push(range.clone()),
        }
        self.bytes += range.len();
        if self.is_large() {
            self.lines = SmallVec::new();
            self.bytes = usize::MAX;
        }
    }

    /// Whether a sync costs less than to write it to the journal.
    fn is_large(&self) -> bool {
        self.bytes > FENCE_BYTES || self.lines.len() > RANGES_MAX
    }
}

/// What a thread has flushed and not fenced, by file: no more than [`RANGES_MAX`] ranges of each.
struct Noted(Vec<NotedFile>);

thread_local! {
    static NOTED: RefCell<Noted> = const { RefCell::new(Noted(Vec::new())) };
}

impl Noted {
    fn add(&mut self, range: Range<usize>) {
        if let Some(noted) = self.0.iter_mut().find(|noted| noted.file.has(range.start)) {
            noted.add(range);
        } else if let Some(file) = PagedFile::at(range.start) {
            self.0.push(NotedFile::new(file, range));
        }
    }

    /// Makes all of it durable, or the media have failed.
    fn fence(self) {
        self.fence_with(&[]);
    }

    /// The same, with words that are to be stored in files of one medium with a journal.
    fn fence_with(self, words: &[JournalWord]) {
        let mut journals: SmallVec<[(Arc<Journal>, Vec<JournalPart>); 1]> = SmallVec::new();
        let mut bytes = 0_usize;
        for noted in self.0 {
            let Some(journal) = noted.file.journal.clone() else {
                noted.file.sync(noted.cover);
                continue;
            };
            let with_this = bytes.saturating_add(noted.bytes);
            if with_this > FENCE_BYTES {
                let below = journal.now();
                noted.file.sync(noted.cover.clone());
                journal.void(&noted.file, &noted.cover, below);
                continue;
            }
            bytes = with_this;
            let part = (noted.file, noted.lines);
            match journals.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &journal)) {
                Some((_, parts)) => parts.push(part),
                None => journals.push((journal, vec![part])),
            }
        }
        if let Some(journal) = words.first().and_then(|(file, ..)| file.journal.clone()) {
            let own = journals.iter().position(|(known, _)| Arc::ptr_eq(known, &journal));
            let parts = own.map_or_else(Vec::new, |own| journals.remove(own).1);
            journal.append(&parts, words);
        }
        journals.iter().for_each(|(journal, parts)| journal.append(parts, &[]));
    }
}

/// A word for the journal: its file, address and value.
pub(super) type JournalWord = (Arc<PagedFile>, usize, u64);

unsafe fn publish(words: &[(usize, u64)]) {
    let noted = NOTED.try_with(|noted| std::mem::take(&mut noted.borrow_mut().0)).unwrap_or_default();
    let named = words.iter().filter_map(|(address, value)| Some((PagedFile::at(*address)?, *address, *value)));
    let named: SmallVec<[JournalWord; 8]> = named.collect();
    Noted(noted).fence_with(&named);
    // Durable, or nothing that is stored from now on reaches a file.
    for (file, address, value) in named {
        // SAFETY: an aligned word of the mapping, which lives.
        unsafe { AtomicU64::from_ptr(file.address.with_addr(address).cast()) }.store(value, Ordering::Release);
    }
}

/// Lines of a file, for the journal.
pub(super) type JournalPart = (Arc<PagedFile>, SmallVec<[Range<usize>; 4]>);

fn note(address: *const c_void, len: usize) {
    if len == 0 {
        return;
    }
    let range = address.addr()..address.addr() + len;
    if NOTED.try_with(|noted| noted.borrow_mut().add(range.clone())).is_err() {
        // The thread is ending and notes nothing any more.
        PagedFile::at(range.start)
            .into_iter()
            .for_each(|file| Noted(vec![NotedFile::new(file, range.clone())]).fence());
    }
}

unsafe extern "C" fn flush(address: *const c_void, len: usize) {
    note(address, len);
}

unsafe extern "C" fn flush_nothing(_address: *const c_void, _len: usize) {}

unsafe extern "C" fn drain() {
    let noted = NOTED.try_with(|noted| std::mem::take(&mut noted.borrow_mut().0)).unwrap_or_default();
    if !noted.is_empty() {
        Noted(noted).fence();
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
        let name = || self.0.what();
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
        let mut identity = self.0.identity.lock();
        *identity = Identity::of(identity.path.with_file_name(name));
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
            PagedFile::new(Path::new("a file"), file, 1 << 20, &syncs, None).expect("it is mapped")
        };
        let files = (0..count).map(file).collect();
        (syncs, files)
    }

    /// Hazard: a load flushes millions of pages before its fence.
    #[test]
    fn a_thread_notes_few_ranges_a_file_however_much_it_flushes() {
        let (syncs, files) = files(3);
        for step in 0..10_000 {
            let offset = step * 4243 % (1 << 20);
            note(files[step % 3].address().wrapping_byte_add(offset), 8);
            NOTED.with_borrow(|noted| {
                assert!(noted.0.len() <= 3 && noted.0.iter().all(|noted| noted.lines.len() <= RANGES_MAX));
            });
        }
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
