//! A medium of files in a directory.
//!
//! Invariants: while the medium lives its lock file is locked, so no other server (nor another
//! medium of this one) uses the directory; a failed creation leaves no file behind.

use super::allocate::{allocate, fill};
use super::fence::{JOURNALED, LOGGED, MAPPED};
use super::ffi::{BadBlock, Source};
use super::journal::{Home, Journal, Overlay, end_journal, is_segment};
use super::mapping::FileMapping;
use super::paged::{FenceLog, PagedBacking, PagedFile};
use super::probe::{Found, probe};
use super::syncs::Syncs;
use super::viewed::ViewedFile;
use super::write_back::WriteBack;
use super::written::{Writes, WrittenBacking, WrittenFile};
use crate::error::{Error, Result};
use crate::health::Health;
use crate::medium::{Granularity, Medium, MediumInfo, Mode, check_name, is_name};
use crate::model::{Device as ModelDevice, Model};
use crate::mutant::Mutant;
use crate::numa::{Device, node_of_each_cpu};
use crate::planted;
use crate::region::{Backing, Mapping, PLAIN, Region};
use rustix::fs::{Advice, FlockOperation, fadvise, flock, fsync, statvfs};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Name of the lock file.
const LOCK: &str = ".lock";
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// How a directory is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Accept a directory without DAX: data then survive a process crash, not a power loss.
    pub emulate: bool,
    /// Create the directory if it does not exist (its parent must).
    pub create_dir: bool,
}

/// A directory of files mapped through libpmem2.
pub struct FileMedium {
    directory: PathBuf,
    handle: File,
    mode: Mode,
    granularity: Granularity,
    found: Found,
    device: Device,
    model: Option<Arc<ModelDevice>>,
    /// Those of a page medium.
    syncs: Option<Arc<Syncs>>,
    /// Of a page medium that has one.
    journal: Option<Arc<Journal>>,
    /// Of the same: no other is dirty for long.
    write_back: WriteBack,
    /// The journal lies in the directory of the log.
    is_journal_apart: bool,
    /// Of a medium that is only read: what its files show beyond what they have.
    overlay: Option<Overlay>,
    writes: Arc<Writes>,
    // Held, not read: the lock goes with the descriptor.
    _lock: File,
}

impl FileMedium {
    /// Opens and locks `directory`, and finds out what lies below it. A journal that a page medium
    /// has left there is replayed.
    ///
    /// Errors: `NotFound`, `InUse`, `NotDax` (unless `emulate`), `Full`, `Io` (not a directory, not
    /// writable).
    pub fn open(directory: &Path, options: Options) -> Result<FileMedium> {
        let medium =
            FileMedium::locked(directory, options.create_dir, |what, found| match (found.is_dax(), options.emulate) {
                (true, _) => Ok((Mode::Dax, found.granularity)),
                (false, true) => Ok((Mode::Emulated, Granularity::CacheLine)),
                (false, false) => Err(Error::not_dax(what, &found.describe())),
            })?;
        end_journal(directory)?;
        Ok(medium)
    }

    /// Opens `directory`, created with `create_dir` if it does not exist, as a page medium: on any
    /// disk, a fence syncs the pages that its thread has flushed, and data survive a power loss.
    ///
    /// A fence returns nothing; whether it did what it should is asked of [`Medium::health`]. After
    /// the first sync that fails, or page that cannot be read, the medium is out of reach: nothing
    /// that is stored reaches a file, and files are neither made, renamed nor removed. On DAX it is
    /// a medium like that of [`FileMedium::open`].
    ///
    /// Errors: those of [`FileMedium::open`]; `NotDax` is one in DRAM.
    pub fn open_paged(directory: &Path, create_dir: bool) -> Result<FileMedium> {
        let medium = FileMedium::paged(directory, create_dir)?;
        end_journal(directory)?;
        Ok(medium)
    }

    fn paged(directory: &Path, create_dir: bool) -> Result<FileMedium> {
        let mut medium = FileMedium::locked(directory, create_dir, |what, found| match found.is_dax() {
            true => Ok((Mode::Dax, found.granularity)),
            false if is_in_dram(directory) => {
                Err(Error::not_dax(what, "a file system in DRAM, which nothing makes durable"))
            }
            false => Ok((Mode::Page, Granularity::Page)),
        })?;
        if medium.mode == Mode::Page {
            medium.forget_cached()?;
            medium.syncs = Some(Arc::new(Syncs::new(directory.display().to_string())));
        }
        Ok(medium)
    }

    /// Opens `directory` as [`FileMedium::open_paged`] does, with a journal: a fence is one
    /// sequential write of what its thread has flushed, and no file is synced for it, unless it is
    /// much. Files are synced by [`Medium::settle`].
    ///
    /// A journal that an earlier process has left is replayed first. It takes up to `bytes` of the
    /// directory, 32 MiB at least: a fence that finds it full syncs all files.
    ///
    /// Errors: those of [`FileMedium::open_paged`], `Poisoned` (the journal is damaged),
    /// `Unsupported` (it is of a newer build).
    pub fn open_journaled(directory: &Path, create_dir: bool, bytes: u64) -> Result<FileMedium> {
        let mut medium = FileMedium::paged(directory, create_dir)?;
        match &medium.syncs {
            Some(syncs) => {
                medium.journal = Some(Arc::new(Journal::open(Home::own(directory), directory, bytes, syncs)?))
            }
            None => end_journal(directory)?,
        }
        Ok(medium)
    }

    /// Opens `directory` as [`FileMedium::open_journaled`] does, with the journal on `home`, if
    /// that is in memory; the two belong together from then on.
    ///
    /// Errors: those of [`FileMedium::open_journaled`].
    pub fn open_journaled_on(
        home: &Arc<FileMedium>,
        directory: &Path,
        create_dir: bool,
        bytes: u64,
    ) -> Result<FileMedium> {
        if home.syncs.is_some() {
            return FileMedium::open_journaled(directory, create_dir, bytes);
        }
        let mut medium = FileMedium::paged(directory, create_dir)?;
        // A journal from before the log had a directory of its own.
        end_journal(directory)?;
        if let Some(syncs) = &medium.syncs {
            let place = Home::of_log(&home.directory, Some(home.clone()));
            medium.journal = Some(Arc::new(Journal::open(place, directory, bytes, syncs)?));
            medium.is_journal_apart = true;
        }
        Ok(medium)
    }

    /// Opens `directory` to be read as its next opening would find it, and changes nothing there:
    /// what a journal in it has for the files shows in memory alone, and so does that of its data
    /// in the directory `log`, if that is another. Files are neither made, renamed nor removed, and
    /// what is stored reaches none.
    ///
    /// Errors: `NotFound`, `InUse`, `Poisoned` (a journal is damaged), `Unsupported` (it is of a
    /// newer build), `Io`.
    pub fn open_to_read(directory: &Path, log: Option<&Path>) -> Result<FileMedium> {
        let medium = FileMedium::locked(directory, false, |_, found| match found.is_dax() {
            true => Ok((Mode::Dax, found.granularity)),
            false => Ok((Mode::Emulated, Granularity::CacheLine)),
        })?;
        let mut overlay = Overlay::default();
        overlay.add(&Home::own(directory), directory)?;
        if let Some(log) = log {
            overlay.add(&Home::of_log(log, None), directory)?;
        }
        Ok(FileMedium { overlay: Some(overlay), ..medium })
    }

    /// Locks the directory; `choose` tells how it is used, by its name and what was found below it.
    fn locked(
        directory: &Path,
        create_dir: bool,
        choose: impl FnOnce(&str, &Found) -> Result<(Mode, Granularity)>,
    ) -> Result<FileMedium> {
        let what = directory.display().to_string();
        if create_dir {
            make_directory(directory)?;
        }
        let handle = File::open(directory).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::no_directory(&what).caused_by(source),
            _ => Error::from_io(&what, "opening", 0, source),
        })?;
        let metadata = handle.metadata().map_err(|source| Error::from_io(&what, "stat", 0, source))?;
        if !metadata.is_dir() {
            return Err(Error::io(&what, "opening", Errno::NOTDIR.into()));
        }
        let lock = lock(directory)?;
        let found = probe(directory)?;
        let (mode, granularity) = choose(&what, &found)?;
        let device = Device::of(&metadata);
        let directory = directory.to_owned();
        let (model, syncs, journal, overlay) = (None, None, None, None);
        let (write_back, writes) = (WriteBack::new(), Arc::default());
        Ok(FileMedium {
            directory,
            handle,
            mode,
            granularity,
            found,
            device,
            model,
            syncs,
            journal,
            write_back,
            is_journal_apart: false,
            overlay,
            writes,
            _lock: lock,
        })
    }

    /// Drops what the kernel caches of the files, unless it has still to be written: a page that
    /// could not be written counts as clean, and shows what the device does not have.
    fn forget_cached(&self) -> Result<()> {
        for (name, _) in self.list()? {
            let (path, what) = self.path(&name);
            let failed = |source| Error::from_io(&what, "reading anew", 0, source);
            let file = File::open(path).map_err(failed)?;
            fadvise(&file, 0, None, Advice::DontNeed).map_err(|errno| failed(errno.into()))?;
        }
        Ok(())
    }

    /// Syncs of files and of the directory that a page medium has made.
    pub fn sync_count(&self) -> u64 {
        self.syncs.as_ref().map_or(0, |syncs| syncs.count())
    }

    /// Lets a sync of a page medium fail, after `count` more that do what they should: to test what
    /// is done about it.
    pub fn fail_sync_after(&self, count: u64) {
        self.syncs.iter().for_each(|syncs| syncs.fail_after(count));
    }

    /// Sets the bytes that may become dirty before [`Medium::write_ahead`] begins to write them:
    /// for tests. It is a share of the memory otherwise.
    pub fn set_dirty_bytes_max(&self, bytes: u64) {
        self.write_back.set_dirty_max(bytes);
    }

    /// Lets `handler` know of each write of a file of the log of a page medium that is about to
    /// begin, by its path and bytes: for tests. Of several handlers the first counts.
    pub fn on_log_write(&self, handler: impl Fn(&str, Range<u64>) + Send + Sync + 'static) {
        self.writes.tell(Box::new(handler));
    }

    /// The same with the time that another medium takes, of all files opened from now on. The files
    /// are none other than without it: a pool may be opened with one model, another, or none.
    ///
    /// Errors: `Unsupported` (the directory is on persistent memory, which takes its own time).
    pub fn with_model(self, model: Option<Model>) -> Result<FileMedium> {
        let Some(model) = model else { return Ok(self) };
        let mode = modelled(&self.directory, self.mode, model)?;
        Ok(FileMedium { mode, model: Some(Arc::new(ModelDevice::new(model, node_of_each_cpu()))), ..self })
    }

    /// Whether a file of this name is one of the medium's users.
    fn is_file(&self, name: &str) -> bool {
        is_name(name) && !is_segment(name)
    }

    /// Whether the journal lies in the directory of the log.
    pub(crate) fn is_journal_apart(&self) -> bool {
        self.is_journal_apart
    }

    /// Refuses to change a medium that is only read.
    fn check_writable(&self, what: &str) -> Result<()> {
        match self.overlay {
            Some(_) => Err(Error::unsupported(what, "a change in a directory that was opened to be read")),
            None => Ok(()),
        }
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, name: &str) -> (PathBuf, String) {
        let path = self.directory.join(name);
        let what = path.display().to_string();
        (path, what)
    }

    fn map(&self, name: &str, what: &str, file: File, len: u64) -> Result<Region> {
        if len == 0 {
            let mapping = Mapping {
                name: name.to_owned(),
                // Its fence is one of the medium.
                functions: if self.syncs.is_some() { MAPPED } else { PLAIN },
                hook: None,
                model: None,
                backing: Box::new(EmptyFile {
                    what: what.to_owned(),
                    path: self.directory.join(name),
                    syncs: self.syncs.clone(),
                }),
            };
            // SAFETY: no byte of an empty region is ever accessed; the address is aligned.
            return Ok(unsafe { Region::new(NonNull::<Line>::dangling().as_ptr().cast(), 0, mapping) });
        }
        let (base, functions, backing): (_, _, Box<dyn Backing>) = match &self.syncs {
            Some(syncs) => {
                let log = self.journal.clone().map(|journal| journal as Arc<dyn FenceLog>);
                // A mapping that is closed may have words to be stored: who opens the file reads
                // them.
                log.iter().for_each(|log| log.wait_later());
                let paged = PagedFile::new(&self.directory.join(name), file, len, syncs, log)?;
                let functions = if self.journal.is_some() { JOURNALED } else { MAPPED };
                (paged.address().cast(), functions, Box::new(PagedBacking(paged)))
            }
            None if self.overlay.is_some() => {
                let parts = self.overlay.iter().flat_map(|overlay| overlay.parts(name));
                let viewed = ViewedFile::new(what, &file, len, parts)?;
                (viewed.base(), PLAIN, Box::new(viewed))
            }
            None => {
                let backing = FileMapping::new(what, &file, len, self.mode == Mode::Dax, self.granularity)?;
                (backing.base(), backing.functions(), Box::new(backing))
            }
        };
        let mapping = Mapping { name: name.to_owned(), functions, hook: None, model: self.model.clone(), backing };
        // SAFETY: the mapping is 2 MiB-aligned, len bytes long and unmapped when the backing is
        // dropped.
        Ok(unsafe { Region::new(base, len, mapping) })
    }

    /// As [`FileMedium::map`], for a file of the log: one that was `made` just now, or one whose
    /// content counts.
    fn map_log(&self, name: &str, what: &str, file: File, len: u64, made: bool) -> Result<Region> {
        let Some(syncs) = self.syncs.as_ref().filter(|_| len > 0) else { return self.map(name, what, file, len) };
        let written = match made {
            true => WrittenFile::create(what, &file, len, syncs, &self.writes)?,
            false => WrittenFile::open(what, &file, len, syncs, &self.writes)?,
        };
        let base = written.address().cast();
        let (name, backing) = (name.to_owned(), Box::new(WrittenBacking(written)));
        let mapping = Mapping { name, functions: LOGGED, hook: None, model: None, backing };
        // SAFETY: the memory is 2 MiB-aligned, len bytes long and unmapped when the backing is
        // dropped.
        Ok(unsafe { Region::new(base, len, mapping) })
    }

    /// Makes a file of `len` bytes of zeros, which get their blocks by `allocate` and which `map`
    /// maps.
    fn make(
        &self,
        name: &str,
        len: u64,
        allocate: impl FnOnce(&str, &File, u64) -> Result<()>,
        map: impl FnOnce(&str, File) -> Result<Region>,
    ) -> Result<Region> {
        check_name(name)?;
        self.health().check()?;
        let (path, what) = self.path(name);
        self.check_writable(&what)?;
        if let Some(journal) = &self.journal {
            journal.forget(name);
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).open(&path);
        let file = file.map_err(|source| Error::from_io(&what, "creating", len, source))?;
        let allocated = match self.free_bytes() {
            // To try would take what is left from everybody else on the device until it fails.
            Some(free) if free < len => Err(Error::from_io(&what, "allocating", len, Errno::NOSPC.into())),
            _ => allocate(&what, &file, len),
        };
        let created = allocated.and_then(|()| map(&what, file));
        created.map_err(|error| {
            let _ = std::fs::remove_file(&path);
            error.with_free(len, self.free_bytes())
        })
    }

    /// Opens a file, of the length that `map` is given.
    fn find(&self, name: &str, map: impl FnOnce(&str, File, u64) -> Result<Region>) -> Result<Region> {
        check_name(name)?;
        let (path, what) = self.path(name);
        let file = OpenOptions::new().read(true).write(self.overlay.is_none()).open(&path);
        let file = file.map_err(|source| Error::from_io(&what, "opening", 0, source))?;
        let metadata = file.metadata().map_err(|source| Error::from_io(&what, "stat", 0, source))?;
        self.check_bad_blocks(&what, &file)?;
        map(&what, file, metadata.len())
    }

    /// Refuses a file whose memory the platform knows to be damaged: reading it would kill the
    /// process.
    fn check_bad_blocks(&self, what: &str, file: &File) -> Result<()> {
        if self.mode != Mode::Dax {
            return Ok(());
        }
        let blocks = Source::new(file.as_fd()).and_then(|source| source.bad_blocks());
        // Without permission to ask, the file is taken to be sound, as any other program takes it.
        match blocks.unwrap_or_default().first() {
            None => Ok(()),
            Some(BadBlock { offset, len }) => {
                Err(Error::poisoned(what, *offset as u64, &format!("bad block of {len} bytes")))
            }
        }
    }
}

impl Medium for FileMedium {
    fn create(&self, name: &str, len: u64) -> Result<Region> {
        self.make(name, len, allocate, |what, file| self.map(name, what, file, len))
    }

    fn open(&self, name: &str) -> Result<Region> {
        self.find(name, |what, file, len| self.map(name, what, file, len))
    }

    fn create_log(&self, name: &str, len: u64) -> Result<Region> {
        let allocate = if self.syncs.is_some() { fill } else { allocate };
        self.make(name, len, allocate, |what, file| self.map_log(name, what, file, len, true))
    }

    fn open_log(&self, name: &str) -> Result<Region> {
        self.find(name, |what, file, len| self.map_log(name, what, file, len, false))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.health().check()?;
        let (path, what) = self.path(name);
        self.check_writable(&what)?;
        std::fs::remove_file(path).map_err(|source| Error::from_io(&what, "removing", 0, source))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.health().check()?;
        let ((path, what), (target, _)) = (self.path(from), self.path(to));
        self.check_writable(&what)?;
        if let (Some(journal), Some(syncs)) = (&self.journal, &self.syncs) {
            // Pieces of the journal are under the old name, and a file of the new one is replaced.
            // The syncs have the words that are in pieces alone so far.
            journal.wait_later();
            for (name, path) in [(from, &path), (to, &target)] {
                // Planted: the journal forgets what it alone has.
                if !planted(Mutant::RenamedUnsynced) {
                    syncs.sync_file(path)?;
                }
                journal.forget(name);
            }
            self.health().check()?;
        }
        std::fs::rename(&path, &target).map_err(|source| Error::from_io(&what, "renaming", 0, source))?;
        if let Some(syncs) = &self.syncs {
            PagedFile::renamed(syncs, &path, &target);
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let failed = |source: io::Error| Error::from_io(&self.directory.display().to_string(), "listing", 0, source);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(name) = entry.file_name().to_str().filter(|name| self.is_file(name)).map(str::to_owned) else {
                continue;
            };
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            if metadata.is_file() {
                files.push((name, metadata.len()));
            }
        }
        files.sort();
        Ok(files)
    }

    fn sync_dir(&self) -> Result<()> {
        let (what, action) = (|| self.directory.display().to_string(), "sync of the directory");
        match &self.syncs {
            Some(syncs) => syncs.sync(&what(), action, || fsync(&self.handle)),
            None => fsync(&self.handle).map_err(|errno| Error::from_io(&what(), action, 0, errno.into())),
        }
    }

    fn settles(&self) -> bool {
        self.journal.is_some()
    }

    fn settle(&self) -> Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.settle())
    }

    fn settle_is_due(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_due())
    }

    fn write_ahead(&self) {
        if let (Some(syncs), Some(_)) = (&self.syncs, &self.journal) {
            self.write_back.begin_if_due(syncs);
        }
    }

    fn health(&self) -> Health {
        self.syncs.as_ref().map_or(Health::SOUND, |syncs| syncs.health())
    }

    fn info(&self) -> MediumInfo {
        MediumInfo {
            log: None,
            mode: self.mode,
            granularity: self.granularity,
            directory: Some(self.directory.clone()),
            map_sync: self.found.map_sync,
            dax_attribute: self.found.dax_attribute,
            numa_node: self.device.numa_node,
            persistence_domain: self.device.persistence_domain.clone(),
            modules: self.device.modules.clone(),
            free_bytes: self.free_bytes(),
        }
    }

    fn free_bytes(&self) -> Option<u64> {
        // A tmpfs without a limit has no blocks to count.
        let stat = statvfs(&self.directory).ok().filter(|stat| stat.f_blocks > 0)?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only its alignment counts")] [u8; 64]);

/// Backing of a region over an empty file.
struct EmptyFile {
    what: String,
    path: PathBuf,
    /// Those of a page medium.
    syncs: Option<Arc<Syncs>>,
}

impl Backing for EmptyFile {
    fn deep_flush(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let file = File::open(&self.path).map_err(|source| Error::from_io(&self.what, "sync", 0, source))?;
        match &self.syncs {
            Some(syncs) => syncs.sync(&self.what, "sync", || fsync(&file)),
            None => fsync(&file).map_err(|errno| Error::from_io(&self.what, "sync", 0, errno.into())),
        }
    }

    fn populate(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn release(&self) {}

    fn rename(&mut self, name: &str) {
        self.path.set_file_name(name);
        self.what = self.path.display().to_string();
    }
}

/// Whether a directory is on a file system that a loss of power empties.
fn is_in_dram(directory: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    rustix::fs::statfs(directory).is_ok_and(|found| matches!(found.f_type, TMPFS | RAMFS))
}

/// Mode of a directory with a model.
fn modelled(directory: &Path, mode: Mode, model: Model) -> Result<Mode> {
    if mode.is_emulated() {
        return Ok(Mode::Modelled(model));
    }
    Err(Error::not_emulated(&directory.display().to_string(), &mode, &model))
}

/// Creates the directory if it does not exist, and makes its name durable.
fn make_directory(directory: &Path) -> Result<()> {
    let failed = |action| move |source| Error::from_io(&directory.display().to_string(), action, 0, source);
    match std::fs::create_dir(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(failed("creating the directory")(error)),
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("sync of the parent directory"))
}

/// Locks the directory for this medium.
fn lock(directory: &Path) -> Result<File> {
    let path = directory.join(LOCK);
    let failed = |source| Error::from_io(&path.display().to_string(), "locking", 0, source);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o640).open(&path);
    let file = file.map_err(failed)?;
    for attempt in 1.. {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            // Between fork and exec a child process shares the descriptor, and so holds a lock that
            // was just released.
            Err(Errno::WOULDBLOCK) if attempt < LOCK_ATTEMPTS => std::thread::sleep(LOCK_PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(Error::in_use(&directory.display().to_string())),
            Err(errno) => return Err(failed(errno.into())),
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::model::Preset;

    /// A figure of persistent memory with a model's time added would be neither's.
    #[test]
    fn a_model_of_real_persistent_memory_is_refused() {
        let model = Model::new(Preset::Optane);
        let directory = Path::new("/mnt/pmem/pool");
        for mode in [Mode::Dax, Mode::Page] {
            let error = modelled(directory, mode, model).expect_err("refused");
            assert_eq!((error.kind(), error.file()), (ErrorKind::Unsupported, Some("/mnt/pmem/pool")));
            assert!(error.to_string().contains(&format!("of mode {mode}")) && error.to_string().contains("optane"));
        }
        assert_eq!(modelled(directory, Mode::Emulated, model).expect("emulated"), Mode::Modelled(model));
    }
}
