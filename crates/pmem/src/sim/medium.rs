//! A medium in DRAM.
//!
//! Without a tap it is a fast stand-in for tests. With one, every event is recorded, in one order
//! for all threads. Files keep their number for life; numbers of an image's files are their places
//! in it, new files follow.

use super::hook::{Event, Hook, Wire};
use super::image::{Image, ImageFile};
use super::memory::{Buffer, padded};
use super::syncs::Syncs;
use crate::error::{Error, Result};
use crate::health::Health;
use crate::medium::{Granularity, Medium, MediumInfo, Mode, check_name};
use crate::numa::Modules;
use crate::region::{Backing, Mapping, PLAIN, Region};
use crate::trace::{Access, Site, Tap};
use crate::units::{LINE_BYTES, WORD_BYTES};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of a sector of a page medium.
const SECTOR_BYTES: u64 = 512;

/// A simulated medium: one directory of regions in DRAM.
pub struct SimMedium {
    files: Mutex<Directory>,
    capacity: Option<u64>,
    used: Arc<AtomicU64>,
    failing: Arc<AtomicBool>,
    wire: Option<Wire>,
    /// Those of a page medium.
    syncs: Option<Arc<Syncs>>,
    modules: Option<Modules>,
}

#[derive(Default)]
struct Directory {
    by_name: BTreeMap<String, Arc<SimFile>>,
    next: u32,
}

/// A file, alive while it has a name or a mapping.
struct SimFile {
    number: u32,
    len: u64,
    /// Content until first mapped.
    source: Option<ImageFile>,
    buffer: OnceLock<Buffer>,
    used: Arc<AtomicU64>,
    released: AtomicBool,
}

impl SimFile {
    fn new(number: u32, len: u64, source: Option<ImageFile>, used: &Arc<AtomicU64>) -> Arc<SimFile> {
        used.fetch_add(padded(len) as u64, Ordering::Relaxed);
        Arc::new(SimFile {
            number,
            len,
            source,
            buffer: OnceLock::new(),
            used: used.clone(),
            released: AtomicBool::new(false),
        })
    }

    fn buffer(&self) -> &Buffer {
        self.buffer.get_or_init(|| match &self.source {
            None => Buffer::zeroed(self.len),
            Some(source) => {
                let buffer = Buffer::any(self.len);
                source.fill(&buffer);
                buffer
            }
        })
    }

    fn image(&self, name: &str) -> ImageFile {
        match (self.buffer.get(), &self.source) {
            (None, Some(source)) => ImageFile { name: name.into(), ..source.clone() },
            // SAFETY: SimMedium::image() holds the wire, or its caller has stopped all stores.
            _ => unsafe { ImageFile::copy_of(name.into(), self.len, self.buffer()) },
        }
    }
}

impl SimFile {
    /// Gives back the file's room, once.
    fn release(&self) {
        if !self.released.swap(true, Ordering::Relaxed) {
            self.used.fetch_sub(padded(self.len) as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.release();
    }
}

struct SimBacking {
    name: String,
    failing: Arc<AtomicBool>,
    syncs: Option<Arc<Syncs>>,
    write_granule: u64,
    /// The memory lives as long as the mapping.
    file: Arc<SimFile>,
}

impl Backing for SimBacking {
    fn deep_flush(&self, _offset: u64, _len: u64) -> Result<()> {
        refuse_if(&self.failing, &self.name, "deep flush")?;
        self.syncs.as_ref().map_or(Ok(()), |syncs| syncs.health().check())
    }

    fn sync(&self) -> Result<()> {
        refuse_if(&self.failing, &self.name, "sync")?;
        self.syncs.as_ref().map_or(Ok(()), |syncs| syncs.sync(&self.name, "sync"))
    }

    fn populate(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn release(&self) {
        self.file.release();
        let buffer = self.file.buffer();
        for at in (0..buffer.size()).step_by(WORD_BYTES as usize) {
            // SAFETY: within the buffer, and aligned like it; others load these words atomically.
            unsafe { AtomicU64::from_ptr(buffer.base().add(at).cast()) }.store(0, Ordering::Relaxed);
        }
    }

    fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    fn write_granule(&self) -> u64 {
        self.write_granule
    }
}

impl SimMedium {
    /// An empty medium without limit.
    pub fn new() -> SimMedium {
        SimMedium {
            files: Mutex::default(),
            capacity: None,
            used: Arc::default(),
            failing: Arc::default(),
            wire: None,
            syncs: None,
            modules: None,
        }
    }

    /// An empty medium with room for `bytes` (files take whole 4 KiB pages, until neither named nor
    /// mapped).
    pub fn with_capacity(bytes: u64) -> SimMedium {
        SimMedium { capacity: Some(bytes), ..SimMedium::new() }
    }

    /// A medium with an image's content. The image's bytes are copied when a file is first opened.
    pub fn from_image(image: Image) -> SimMedium {
        let medium = SimMedium::new();
        {
            let mut directory = medium.files.lock();
            for file in image.files {
                let (name, number) = (file.name.to_string(), directory.next);
                directory.next += 1;
                directory.by_name.insert(name, SimFile::new(number, file.len, Some(file), &medium.used));
            }
        }
        medium
    }

    /// A medium with these files; new ones get numbers that none of `known` has.
    pub(super) fn of_files<T>(files: Vec<(u32, ImageFile)>, known: &FxHashMap<u32, T>) -> SimMedium {
        let medium = SimMedium::new();
        {
            let mut directory = medium.files.lock();
            directory.next = known.keys().max().map_or(0, |number| number + 1);
            for (number, file) in files {
                let name = file.name.to_string();
                directory.by_name.insert(name, SimFile::new(number, file.len, Some(file), &medium.used));
            }
        }
        medium
    }

    /// The same medium, with room for `bytes` in all.
    pub fn limited_to(mut self, bytes: u64) -> SimMedium {
        self.capacity = Some(bytes);
        self
    }

    /// The same medium, of these modules.
    pub fn of_modules(mut self, modules: Modules) -> SimMedium {
        self.modules = Some(modules);
        self
    }

    /// The same medium, with every event from now on sent to `tap`. Regions mapped earlier stay
    /// unrecorded.
    pub fn recording(mut self, tap: Arc<dyn Tap>) -> SimMedium {
        self.wire = Some(Wire::new(tap, self.syncs.clone()));
        self
    }

    /// The same medium, as a page medium, before it is recorded: a fence syncs pages, and can fail
    /// ([`SimMedium::fail_sync_after`]); a crash leaves sectors rather than lines.
    pub fn paged(mut self) -> SimMedium {
        assert!(self.wire.is_none(), "a medium is paged before it is recorded");
        self.syncs = Some(Arc::new(Syncs::new()));
        self
    }

    /// Whether it is a page medium.
    pub(super) fn is_paged(&self) -> bool {
        self.syncs.is_some()
    }

    /// Fences and syncs of a page medium that is recorded, or was asked to fail.
    pub fn sync_count(&self) -> u64 {
        self.syncs.as_ref().map_or(0, |syncs| syncs.count())
    }

    /// Lets a sync or, if the medium is recorded, a fence of a page medium fail, after `count` more
    /// that do what they should. From then on the program sees what it stores, and no image does:
    /// nothing reaches the medium any more.
    pub fn fail_sync_after(&self, count: u64) {
        self.syncs.iter().for_each(|syncs| syncs.fail_after(count));
    }

    /// Lets every sync and deep flush fail from now on (or work again), to test what is done about
    /// a failed persist.
    pub fn fail_syncs(&self, fail: bool) {
        self.failing.store(fail, Ordering::Relaxed);
    }

    /// Content of the medium now, caches included: as a process crash, not a power loss, would
    /// leave it. Without a tap the caller sees to it that nobody stores meanwhile.
    pub fn image(&self) -> Image {
        let _event = self.wire.as_ref().map(Wire::hold);
        let directory = self.files.lock();
        Image::of(directory.by_name.iter().map(|(name, file)| file.image(name)).collect())
    }

    /// Each file's number and content, sorted by name. Nobody stores meanwhile.
    pub(super) fn numbered_files(&self) -> Vec<(u32, ImageFile)> {
        self.files.lock().by_name.iter().map(|(name, file)| (file.number, file.image(name))).collect()
    }

    fn begin(&self) -> Option<Event<'_>> {
        self.wire.as_ref().map(Wire::begin)
    }

    fn make(&self, name: &str, len: u64) -> Result<Arc<SimFile>> {
        check_name(name)?;
        self.health().check()?;
        let event = self.begin();
        let mut directory = self.files.lock();
        if directory.by_name.contains_key(name) {
            return Err(Error::exists(name));
        }
        let free = self.free_bytes();
        if free.is_some_and(|free| padded(len) as u64 > free) {
            return Err(Error::full(name, len, free));
        }
        let number = directory.next;
        directory.next += 1;
        let file = SimFile::new(number, len, None, &self.used);
        directory.by_name.insert(name.to_owned(), file.clone());
        record(event, Access::Create { region: number, name, len }, Location::caller());
        Ok(file)
    }

    fn find(&self, name: &str) -> Result<Arc<SimFile>> {
        check_name(name)?;
        self.files.lock().by_name.get(name).cloned().ok_or_else(|| Error::not_found(name))
    }

    /// Maps a file of the log, which on a page medium is written by sectors.
    fn map_log(&self, name: &str, file: Arc<SimFile>) -> Region {
        if !self.is_paged() {
            return self.map(name, file, LINE_BYTES);
        }
        let region = file.number;
        record(self.begin(), Access::Sectors { region }, Location::caller());
        if file.len > 0 {
            // A killed process may have left something.
            record(self.begin(), Access::Reclaim { region, offset: 0, len: file.len }, Location::caller());
        }
        self.map(name, file, SECTOR_BYTES)
    }

    fn map(&self, name: &str, file: Arc<SimFile>, write_granule: u64) -> Region {
        let (base, len) = (file.buffer().base(), file.len);
        let mapping = Mapping {
            name: name.to_owned(),
            functions: PLAIN,
            hook: self.wire.as_ref().map(|wire| Hook { region: file.number, wire: wire.clone() }),
            model: None,
            backing: Box::new(SimBacking {
                name: name.to_owned(),
                failing: self.failing.clone(),
                syncs: self.syncs.clone(),
                write_granule,
                file,
            }),
        };
        // SAFETY: the buffer is page-aligned, at least len bytes and padded to whole pages, and
        // lives in the backing.
        unsafe { Region::new(base, len, mapping) }
    }
}

impl Default for SimMedium {
    fn default() -> Self {
        SimMedium::new()
    }
}

fn record(event: Option<Event<'_>>, access: Access<'_>, site: Site) {
    if let Some(event) = event {
        event.record(access, site);
    }
}

fn refuse_if(failing: &AtomicBool, what: &str, action: &'static str) -> Result<()> {
    if failing.load(Ordering::Relaxed) {
        return Err(Error::io(what, action, std::io::Error::other("told to fail by a test")));
    }
    Ok(())
}

impl Medium for SimMedium {
    fn create(&self, name: &str, len: u64) -> Result<Region> {
        self.make(name, len).map(|file| self.map(name, file, LINE_BYTES))
    }

    fn open(&self, name: &str) -> Result<Region> {
        self.find(name).map(|file| self.map(name, file, LINE_BYTES))
    }

    fn create_log(&self, name: &str, len: u64) -> Result<Region> {
        self.make(name, len).map(|file| self.map_log(name, file))
    }

    fn open_log(&self, name: &str) -> Result<Region> {
        self.find(name).map(|file| self.map_log(name, file))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.health().check()?;
        let event = self.begin();
        self.files.lock().by_name.remove(name).ok_or_else(|| Error::not_found(name))?;
        record(event, Access::Remove { name }, Location::caller());
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        self.health().check()?;
        let event = self.begin();
        let mut directory = self.files.lock();
        let file = directory.by_name.remove(from).ok_or_else(|| Error::not_found(from))?;
        directory.by_name.insert(to.to_owned(), file);
        record(event, Access::Rename { from, to }, Location::caller());
        Ok(())
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        Ok(self.files.lock().by_name.iter().map(|(name, file)| (name.clone(), file.len)).collect())
    }

    fn sync_dir(&self) -> Result<()> {
        let (what, action) = ("the simulated directory", "sync of the directory");
        refuse_if(&self.failing, what, action)?;
        let event = self.begin();
        self.syncs.as_ref().map_or(Ok(()), |syncs| syncs.sync(what, action))?;
        record(event, Access::SyncDir, Location::caller());
        Ok(())
    }

    fn health(&self) -> Health {
        self.syncs.as_ref().map_or(Health::SOUND, |syncs| syncs.health())
    }

    fn info(&self) -> MediumInfo {
        MediumInfo {
            log: None,
            mode: if self.is_paged() { Mode::Page } else { Mode::Emulated },
            granularity: if self.is_paged() { Granularity::Page } else { Granularity::CacheLine },
            directory: None,
            map_sync: false,
            dax_attribute: false,
            numa_node: None,
            persistence_domain: None,
            modules: self.modules.clone(),
            free_bytes: self.free_bytes(),
        }
    }

    fn free_bytes(&self) -> Option<u64> {
        self.capacity.map(|capacity| capacity.saturating_sub(self.used.load(Ordering::Relaxed)))
    }
}
