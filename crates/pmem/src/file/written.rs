//! A file of the log on a disk: written, not mapped.
//!
//! Its content lies in memory. A flush notes the sectors in its thread; the fence writes them from
//! there, past the page cache and durably (O_DIRECT, O_DSYNC). Threads that fence at once share
//! the next write, and one is under way at a time. A write that fails ends the medium.

use super::mapping::{ALIGN, PAGE};
use super::sectors::{Ranges, sector_of};
use super::syncs::Syncs;
use crate::error::{Error, Result};
use crate::region::{Backing, Functions, PLAIN};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use rustix::fs::{Advice as FileAdvice, FallocateFlags, fadvise, fallocate, fdatasync, fsync};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// How the files of the log are flushed, drained and copied to.
pub(super) const WRITTEN: Functions = Functions { flush, flush_settled: flush, drain, memcpy, memset, publish: None };

/// Most ranges and bytes of a file that a thread notes; more are written ahead of its fence.
const NOTED_RANGES_MAX: usize = 64;
const NOTED_BYTES_MAX: u64 = 1 << 20;
/// Bytes that are read at once, and most that one call writes.
const READ_BYTES: usize = 1 << 20;
const WRITE_BYTES_MAX: usize = 1 << 30;

/// Told of each write: the file and the bytes.
type Handler = Box<dyn Fn(&str, Range<u64>) + Send + Sync>;

/// The handler that is told of the writes of a medium, for tests.
#[derive(Default)]
pub(super) struct Writes(OnceLock<Handler>);

impl Writes {
    /// Tells `handler` from now on of each write that is about to begin; of several the first
    /// counts.
    pub(super) fn tell(&self, handler: Handler) {
        let _ = self.0.set(handler);
    }

    fn begins(&self, name: &str, range: &Range<u64>) {
        if let Some(handler) = self.0.get() {
            handler(name, range.clone());
        }
    }
}

/// Rounds in which threads write a file together.
struct Rounds {
    is_running: bool,
    /// Number of the round that begins next, and of the last one that has ended.
    next: u64,
    ended: u64,
    /// Sectors that the next round writes.
    ranges: Ranges,
}

/// A file of the log.
///
/// Invariants: a round writes no sector but those that its threads have noted; rounds of a file
/// follow one another. What was noted before the content was last forgotten is not written.
pub(super) struct WrittenFile {
    name: Mutex<String>,
    address: *mut c_void,
    len: u64,
    sector: u64,
    /// Writes past the page cache, if the file system has such writes; and through it.
    direct: Option<File>,
    cached: File,
    /// Writes to the page cache only, from its first use on: then all else goes through that, too.
    buffered: OnceLock<File>,
    /// Most that one call writes.
    write_bytes_max: usize,
    syncs: Arc<Syncs>,
    writes: Arc<Writes>,
    rounds: Mutex<Rounds>,
    round_ended: Condvar,
    /// How often its content was forgotten. Changes while `rounds` is locked.
    forgotten: AtomicU64,
}

// SAFETY: the memory is process-wide; access through it is ordered by the region's users.
unsafe impl Send for WrittenFile {}
// SAFETY: as for Send.
unsafe impl Sync for WrittenFile {}

/// The files by address.
static FILES: RwLock<BTreeMap<usize, Weak<WrittenFile>>> = RwLock::new(BTreeMap::new());

impl WrittenFile {
    /// A file that was just made, `len` bytes of zeros; makes them durable. `what` is its path.
    pub(super) fn create(
        what: &str,
        file: &File,
        len: u64,
        syncs: &Arc<Syncs>,
        writes: &Arc<Writes>,
    ) -> Result<Arc<WrittenFile>> {
        syncs.sync(what, "sync", || fsync(file))?;
        WrittenFile::new(what, len, syncs, writes)
    }

    /// A file that exists. Makes durable what a process that was killed may have left in a cache,
    /// then reads all of it.
    pub(super) fn open(
        what: &str,
        file: &File,
        len: u64,
        syncs: &Arc<Syncs>,
        writes: &Arc<Writes>,
    ) -> Result<Arc<WrittenFile>> {
        syncs.sync(what, "sync", || fdatasync(file))?;
        let written = WrittenFile::new(what, len, syncs, writes)?;
        written.read(file).map_err(|source| Error::from_io(what, "reading", len, source))?;
        // The page cache is not read again.
        let _ = fadvise(file, 0, None, FileAdvice::DontNeed);
        Ok(written)
    }

    fn new(what: &str, len: u64, syncs: &Arc<Syncs>, writes: &Arc<Writes>) -> Result<Arc<WrittenFile>> {
        let failed = |source| Error::from_io(what, "opening for writing", len, source);
        let open = |flags| OpenOptions::new().read(true).write(true).custom_flags(libc::O_DSYNC | flags).open(what);
        let cached = open(0).map_err(failed)?;
        let direct = match open(libc::O_DIRECT) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => None,
            direct => Some(direct.map_err(failed)?),
        };
        let sector = sector_of(&cached);
        let (syncs, writes) = (syncs.clone(), writes.clone());
        WrittenFile::of(what, len, sector, (direct, cached), WRITE_BYTES_MAX, syncs, writes).map_err(failed)
    }

    fn of(
        what: &str,
        len: u64,
        sector: u64,
        (direct, cached): (Option<File>, File),
        write_bytes_max: usize,
        syncs: Arc<Syncs>,
        writes: Arc<Writes>,
    ) -> io::Result<Arc<WrittenFile>> {
        let address = memory(usize::try_from(len).map_err(|_| Errno::FBIG)?)?;
        let written = Arc::new(WrittenFile {
            name: Mutex::new(what.to_owned()),
            address,
            len,
            sector,
            direct,
            cached,
            buffered: OnceLock::new(),
            write_bytes_max,
            syncs,
            writes,
            rounds: Mutex::new(Rounds { is_running: false, next: 1, ended: 0, ranges: Ranges::default() }),
            round_ended: Condvar::new(),
            forgotten: AtomicU64::new(0),
        });
        FILES.write().insert(written.begin(), Arc::downgrade(&written));
        Ok(written)
    }

    /// The file whose memory is at `address`.
    fn at(address: usize) -> Option<Arc<WrittenFile>> {
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
        (self.begin()..self.begin() + self.len as usize).contains(&address)
    }

    /// The sectors that a range of addresses touches.
    fn sectors(&self, address: usize, len: usize) -> Range<u64> {
        let begin = (address - self.begin()) as u64;
        let end = (begin + len as u64).next_multiple_of(self.sector).min(self.len);
        begin - begin % self.sector..end
    }

    fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::SeqCst)
    }

    fn read(&self, file: &File) -> io::Result<()> {
        let mut at = 0;
        while at < self.len as usize {
            let (target, most) = (self.address.wrapping_byte_add(at), READ_BYTES.min(self.len as usize - at));
            // SAFETY: the range is in this memory, which nobody else has yet.
            match unsafe { libc::pread(file.as_raw_fd(), target, most, at as libc::off_t) } {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                -1 => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
                count => at += count as usize,
            }
        }
        Ok(())
    }

    /// Writes what a thread has noted since the content was forgotten for the time `forgotten`: on
    /// return it is durable, or the medium has failed.
    ///
    /// A round that is under way does not count, since it may have read the sectors before.
    fn sync(&self, noted: &Ranges, forgotten: u64) {
        let mut rounds = self.rounds.lock();
        if self.forgotten() != forgotten {
            return;
        }
        noted.iter().for_each(|range| rounds.ranges.add(range.clone()));
        let own = rounds.next;
        while rounds.ended < own {
            if rounds.is_running {
                self.round_ended.wait(&mut rounds);
                continue;
            }
            let ranges = std::mem::take(&mut rounds.ranges);
            rounds.is_running = true;
            rounds.next += 1;
            MutexGuard::unlocked(&mut rounds, || self.write_all(&ranges));
            rounds.is_running = false;
            rounds.ended += 1;
            self.round_ended.notify_all();
        }
    }

    fn write_all(&self, ranges: &Ranges) {
        let name = self.name.lock().clone();
        for range in ranges.iter() {
            self.writes.begins(&name, range);
            // The medium keeps a failure, and the caller asks it.
            if self.syncs.sync(&name, "write", || self.write(range)).is_err() {
                return;
            }
        }
    }

    /// Writes a range of whole sectors, though the file's last one may not be whole. A write that
    /// does less than it was told is gone on with.
    fn write(&self, range: &Range<u64>) -> rustix::io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let left = (range.end - at) as usize;
            let whole = left - left % self.sector as usize;
            let written = match &self.direct {
                Some(direct) if whole > 0 && self.buffered.get().is_none() => {
                    match self.write_once(direct, at, whole) {
                        // Not here, or not at such a place.
                        Err(Errno::INVAL) => self.write_once(&self.cached, at, left),
                        written => written,
                    }
                }
                _ => self.write_once(&self.cached, at, left),
            };
            match written {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => at += count as u64,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn write_once(&self, file: &File, at: u64, len: usize) -> rustix::io::Result<usize> {
        let source = self.address.wrapping_byte_add(at as usize);
        // SAFETY: the range is in this memory. Others may store to what lies in none of the records
        // that the caller waits for; the kernel copies or reads bytes, whatever they are.
        let count = unsafe { libc::pwrite(file.as_raw_fd(), source, len.min(self.write_bytes_max), at as libc::off_t) };
        usize::try_from(count).map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }

    /// Writes bytes to the page cache, from the memory, where they are stored first.
    fn write_buffered(&self, offset: u64, source: &[u8]) -> Result<()> {
        let name = self.name.lock().clone();
        if self.buffered.get().is_none() {
            let opened = OpenOptions::new().write(true).open(&name);
            let opened = opened.map_err(|error| Error::from_io(&name, "opening for writing", self.len, error))?;
            let _ = self.buffered.set(opened);
        }
        let target = self.address.wrapping_byte_add(offset as usize).cast::<u8>();
        // SAFETY: within this memory, as the region has checked; nobody else uses what is written.
        unsafe { target.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
        let file = self.buffered.get().expect("just opened");
        let (mut at, end) = (offset, offset + source.len() as u64);
        self.writes.begins(&name, &(offset..end));
        self.syncs.sync(&name, "write", || {
            while at < end {
                match self.write_once(file, at, (end - at) as usize) {
                    Ok(0) => return Err(Errno::IO),
                    Ok(count) => at += count as u64,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Ok(())
        })
    }

    /// Syncs what was written so.
    fn sync_buffered(&self) -> Result<()> {
        let name = self.name.lock().clone();
        self.syncs.sync(&name, "sync", || fdatasync(&self.cached))
    }

    /// Forgets what the file holds and what is noted of it. Its memory is given back.
    fn forget(&self) {
        let mut rounds = self.rounds.lock();
        rounds.ranges.clear();
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the range is this memory, whose bytes nobody needs any more.
        let _ = unsafe { madvise(self.address, mapped(self.len), Advice::LinuxDontNeed) };
    }
}

impl Drop for WrittenFile {
    fn drop(&mut self) {
        FILES.write().remove(&self.begin());
        // SAFETY: mapped by us, and the region that used it is gone.
        let _ = unsafe { munmap(self.address, mapped(self.len)) };
    }
}

fn mapped(len: u64) -> usize {
    (len as usize).next_multiple_of(PAGE)
}

/// Memory of `len` bytes, zero, at a multiple of [`ALIGN`].
fn memory(len: usize) -> rustix::io::Result<*mut c_void> {
    let mapped = len.next_multiple_of(PAGE);
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new private range, of which what lies on either side of the result is given back.
    unsafe {
        let start = mmap_anonymous(ptr::null_mut(), mapped + ALIGN, access, flags)?;
        let lead = start.cast::<u8>().align_offset(ALIGN);
        let address = start.wrapping_byte_add(lead);
        if lead > 0 {
            let _ = munmap(start, lead);
        }
        let _ = munmap(address.wrapping_byte_add(mapped), ALIGN - lead);
        Ok(address)
    }
}

/// Sectors of a file that a thread has flushed and not fenced.
struct Note {
    file: Arc<WrittenFile>,
    forgotten: u64,
    ranges: Ranges,
}

impl Note {
    fn sync(&self) {
        self.file.sync(&self.ranges, self.forgotten);
    }
}

/// One a file. So a thread notes no more than there are files of the log.
struct Noted(Vec<Note>);

thread_local! {
    static NOTED: RefCell<Noted> = const { RefCell::new(Noted(Vec::new())) };
}

impl Noted {
    /// Notes a range. Returns what must be written at once, as it is too much to keep.
    fn add(&mut self, address: usize, len: usize) -> Option<Note> {
        let known = self.0.iter().position(|note| note.file.has(address));
        let index = match known {
            Some(index) => index,
            None => {
                let file = WrittenFile::at(address)?;
                self.0.push(Note { forgotten: file.forgotten(), ranges: Ranges::default(), file });
                self.0.len() - 1
            }
        };
        let note = &mut self.0[index];
        let forgotten = note.file.forgotten();
        if note.forgotten != forgotten {
            note.ranges.clear();
            note.forgotten = forgotten;
        }
        note.ranges.add(note.file.sectors(address, len));
        let is_much = note.ranges.count() > NOTED_RANGES_MAX || note.ranges.bytes() > NOTED_BYTES_MAX;
        is_much.then(|| self.0.swap_remove(index))
    }
}

fn note(address: *const c_void, len: usize) {
    if len == 0 {
        return;
    }
    let (address, mut ahead) = (address.addr(), None);
    if NOTED.try_with(|noted| ahead = noted.borrow_mut().add(address, len)).is_err() {
        // The thread is ending and notes nothing any more.
        ahead = Noted(Vec::new()).last_words(address, len);
    }
    ahead.inspect(Note::sync);
}

impl Noted {
    /// The note of a range alone.
    fn last_words(mut self, address: usize, len: usize) -> Option<Note> {
        self.add(address, len).or_else(|| self.0.pop())
    }
}

unsafe extern "C" fn flush(address: *const c_void, len: usize) {
    note(address, len);
}

unsafe extern "C" fn drain() {
    let noted = NOTED.try_with(|noted| std::mem::take(&mut noted.borrow_mut().0)).unwrap_or_default();
    noted.iter().for_each(Note::sync);
}

unsafe extern "C" fn memcpy(target: *mut c_void, source: *const c_void, len: usize, flags: c_uint) -> *mut c_void {
    // SAFETY: valid, disjoint ranges by the caller's promise (Region::write_nt).
    unsafe { (PLAIN.memcpy)(target, source, len, flags) };
    note(target, len);
    target
}

unsafe extern "C" fn memset(target: *mut c_void, value: c_int, len: usize, flags: c_uint) -> *mut c_void {
    // SAFETY: a valid range by the caller's promise (Region::zero).
    unsafe { (PLAIN.memset)(target, value, len, flags) };
    note(target, len);
    target
}

/// Backing of a region over a [`WrittenFile`].
pub(super) struct WrittenBacking(pub(super) Arc<WrittenFile>);

impl Backing for WrittenBacking {
    fn deep_flush(&self, _offset: u64, _len: u64) -> Result<()> {
        // The fence before has written it.
        self.0.syncs.health().check()
    }

    fn sync(&self) -> Result<()> {
        let name = self.0.name.lock().clone();
        self.0.syncs.sync(&name, "sync", || fsync(&self.0.cached))
    }

    fn populate(&self, _offset: u64, _len: u64) -> Result<()> {
        // Pages of DRAM are taken when they are used, so that files at rest have none.
        Ok(())
    }

    fn release(&self) {
        self.0.forget();
        // A file system that cannot punch holes keeps the blocks until the file is closed.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.0.cached, flags, 0, self.0.len);
    }

    fn rename(&mut self, name: &str) {
        let mut path = self.0.name.lock();
        *path = Path::new(&*path).with_file_name(name).display().to_string();
    }

    fn write_granule(&self) -> u64 {
        self.0.sector
    }

    fn forget(&self) {
        self.0.forget();
    }

    fn write_file(&self, offset: u64, source: &[u8]) -> Result<bool> {
        self.0.write_buffered(offset, source)?;
        Ok(true)
    }

    fn sync_file(&self) -> Result<bool> {
        self.0.sync_buffered()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
