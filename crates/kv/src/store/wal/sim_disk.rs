//! A simulated directory: after a power failure each sector that was written since the file's last
//! sync is there or not, and so is each name.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use perdura_pmem::sim::Random;

use super::disk::{Disk, DiskFile};

/// Bytes that are written as one.
const SECTOR_BYTES: usize = 512;

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors written since the last sync.
    open: BTreeSet<usize>,
}

type Shared = Arc<Mutex<Content>>;

#[derive(Default)]
struct Names {
    now: BTreeMap<String, Shared>,
    durable: BTreeMap<String, Shared>,
}

/// A simulated directory.
#[derive(Clone, Default)]
pub struct SimDisk {
    names: Arc<Mutex<Names>>,
    stop: Arc<Mutex<Stop>>,
    /// Most bytes of all files. 0: as many as they want.
    bytes_max: Arc<AtomicU64>,
}

/// The power fails after some more writes: what the disk had then is kept, and the disk goes on.
#[derive(Default)]
struct Stop {
    /// Writes until then.
    after: Option<u64>,
    disk: Option<SimDisk>,
}

/// A simulated file.
struct SimFile {
    content: Shared,
    disk: SimDisk,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl SimDisk {
    /// Bounds the length of all files together from now on; 0 is no bound. Their present bytes
    /// stay.
    pub fn limit(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    fn used_bytes(&self) -> u64 {
        lock(&self.names).now.values().map(|file| lock(file).now.len() as u64).sum()
    }

    /// The power fails after this number of further writes, syncs and changes of names.
    pub(crate) fn stop_after(&self, writes: u64) {
        *lock(&self.stop) = Stop { after: Some(writes), disk: None };
    }

    /// Disk as it was when the power failed, if it has; it does not fail any more.
    pub(crate) fn stopped(&self) -> Option<SimDisk> {
        std::mem::take(&mut *lock(&self.stop)).disk
    }

    /// Something is about to change.
    fn count(&self) {
        let mut stop = lock(&self.stop);
        match stop.after {
            Some(0) if stop.disk.is_none() => stop.disk = Some(self.copy()),
            Some(left) => stop.after = Some(left.saturating_sub(1)),
            None => {}
        }
    }

    /// The disk as it is, for itself.
    fn copy(&self) -> SimDisk {
        let names = lock(&self.names);
        let mut copies: Vec<(&Shared, Shared)> = Vec::new();
        for file in names.now.values().chain(names.durable.values()) {
            if copies.iter().all(|(of, _)| !Arc::ptr_eq(of, file)) {
                copies.push((file, Arc::new(Mutex::new(lock(file).clone()))));
            }
        }
        let of = |file: &Shared| {
            let found = copies.iter().find(|(of, _)| Arc::ptr_eq(of, file));
            found.map_or_else(|| file.clone(), |(_, copy)| copy.clone())
        };
        let all = |names: &BTreeMap<String, Shared>| {
            names.iter().map(|(name, file)| (name.clone(), of(file))).collect::<BTreeMap<_, _>>()
        };
        let names = Names { now: all(&names.now), durable: all(&names.durable) };
        SimDisk { names: Arc::new(Mutex::new(names)), stop: Arc::default(), bytes_max: self.bytes_max.clone() }
    }

    /// A disk with what this one may have after a power failure. This one stays as it is.
    pub(crate) fn after_power_failure(&self, random: &mut Random) -> SimDisk {
        let names = lock(&self.names);
        let mut survivors = names.durable.clone();
        let all: BTreeSet<&String> = names.now.keys().chain(names.durable.keys()).collect();
        // A rename is two changes of names here; each may be there alone only if the other is not
        // needed to find the file, so both go one way.
        if !all.iter().all(|name| same(names.now.get(*name), names.durable.get(*name))) && random.one_in(2) {
            survivors = names.now.clone();
        }
        let mut copies: Vec<(Shared, Shared)> = Vec::new();
        for file in survivors.values_mut() {
            let copy = match copies.iter().find(|(of, _)| Arc::ptr_eq(of, file)) {
                Some((_, copy)) => copy.clone(),
                None => {
                    let copy: Shared = Arc::new(Mutex::new(lock(file).survivor(random)));
                    copies.push((file.clone(), copy.clone()));
                    copy
                }
            };
            *file = copy;
        }
        let names = Names { now: survivors.clone(), durable: survivors };
        SimDisk { names: Arc::new(Mutex::new(names)), stop: Arc::default(), bytes_max: self.bytes_max.clone() }
    }

    /// The bytes of a file, to look at.
    pub fn bytes_of(&self, name: &str) -> Option<Vec<u8>> {
        lock(&self.names).now.get(name).map(|file| lock(file).now.clone())
    }

    /// Replaces the bytes of a file, durably: damage.
    pub fn put_bytes(&self, name: &str, bytes: Vec<u8>) {
        let content = Content { now: bytes.clone(), durable: bytes, open: BTreeSet::new() };
        let file = Arc::new(Mutex::new(content));
        let mut names = lock(&self.names);
        names.now.insert(name.to_owned(), file.clone());
        names.durable.insert(name.to_owned(), file);
    }

    /// Takes a file away, durably.
    pub fn take_away(&self, name: &str) {
        let mut names = lock(&self.names);
        names.now.remove(name);
        names.durable.remove(name);
    }

    fn file(&self, name: &str) -> io::Result<Shared> {
        lock(&self.names).now.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn same(left: Option<&Shared>, right: Option<&Shared>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        (None, None) => true,
        _ => false,
    }
}

impl Content {
    fn survivor(&self, random: &mut Random) -> Content {
        let mut bytes = self.durable.clone();
        // The length is there up to some sector.
        if self.now.len() > bytes.len() {
            let grown = random.below((self.now.len() - bytes.len()) as u64 + 1) as usize;
            bytes.resize(bytes.len() + grown, 0);
        } else if random.one_in(2) {
            bytes.truncate(self.now.len());
        }
        let percent = [0, 20, 50, 80, 100][random.below(5) as usize];
        for sector in &self.open {
            let begin = sector * SECTOR_BYTES;
            let end = (begin + SECTOR_BYTES).min(bytes.len()).min(self.now.len());
            if begin < end && random.percent(percent) {
                bytes[begin..end].copy_from_slice(&self.now[begin..end]);
            }
        }
        Content { now: bytes.clone(), durable: bytes, open: BTreeSet::new() }
    }
}

impl Disk for SimDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.count();
        let mut names = lock(&self.names);
        if names.now.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Shared::default();
        names.now.insert(name.to_owned(), content.clone());
        Ok(Box::new(SimFile { content, disk: self.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SimFile { content: self.file(name)?, disk: self.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.count();
        let mut names = lock(&self.names);
        let file = names.now.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.now.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.count();
        lock(&self.names).now.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.names).now.keys().cloned().collect())
    }

    fn sync(&self) -> io::Result<()> {
        self.count();
        let mut names = lock(&self.names);
        names.durable = names.now.clone();
        Ok(())
    }

    /// Another for as many names as there are: a seed must decide it.
    fn salt(&self) -> io::Result<u64> {
        Ok(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(lock(&self.names).now.len() as u64 + 1))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(match self.bytes_max.load(Ordering::Relaxed) {
            0 => u64::MAX,
            most => most.saturating_sub(self.used_bytes()),
        })
    }
}

impl DiskFile for SimFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(lock(&self.content).now.len() as u64)
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let content = lock(&self.content);
        let found = content.now.get(at as usize..at as usize + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.count();
        let longest = self.bytes()?.max(at).saturating_add(self.disk.free_bytes()?);
        // As a file system does: what there is room for is written, and the rest is refused.
        let fits = longest.saturating_sub(at).min(bytes.len() as u64) as usize;
        let (bytes, is_whole) = (&bytes[..fits], fits == bytes.len());
        let (mut content, begin, end) = (lock(&self.content), at as usize, at as usize + bytes.len());
        if content.now.len() < end {
            content.now.resize(end, 0);
        }
        content.now[begin..end].copy_from_slice(bytes);
        content.open.extend(begin / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
        is_whole.then_some(()).ok_or_else(|| io::ErrorKind::StorageFull.into())
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.disk.count();
        lock(&self.content).now.truncate(len as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.count();
        let mut content = lock(&self.content);
        content.durable = content.now.clone();
        content.open.clear();
        Ok(())
    }
}
