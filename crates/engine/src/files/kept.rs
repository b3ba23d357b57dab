//! Kept files: data files that no table has any more, still mapped and faulted in, for the next
//! files of tables.

use crate::format::parse_data_file_name;
use perdura_pmem::sync::Mutex;
use perdura_pmem::{ErrorKind, Health, Medium, MediumInfo, Region, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most files that are kept: each is a mapping.
pub(crate) const FILES_MAX: usize = 64;

/// Beginning of the names of kept files.
const PREFIX: &str = "kept.";

/// Whether a file of this name is a kept one: eight or more hexadecimal digits follow.
fn is_kept(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.strip_prefix(PREFIX).is_some_and(|number| number.len() >= 8 && number.bytes().all(is_digit))
}

/// Removes the files that an earlier run kept, and returns the others. The start does so before it
/// creates anything: on a full device it may need their room. What a crash brings back, the next
/// start removes.
pub(crate) fn remove_kept(medium: &dyn Medium, files: &[(String, u64)]) -> Result<Vec<(String, u64)>> {
    let (kept, others): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|(name, _)| is_kept(name));
    kept.iter().try_for_each(|(name, _)| medium.remove(name))?;
    Ok(others)
}

/// The medium of a running pool, with the files that it keeps.
///
/// A file that would be removed, since the catalog has durably forgotten its table or has never
/// known it (I8), may be kept: it gets a name that no table and no backup looks for. The next file
/// of its size is then not made: the kept one is wiped, and gets its name. Nothing on the medium
/// says what is kept, so a start removes kept files, like those of tables that no row names.
///
/// Whoever still maps a kept file (a cursor of another session, pre-fault) goes on to read what the
/// table left; it is not used while anybody does. The files are few, [`FILES_MAX`], and their bytes
/// bounded; the oldest go for newer ones. On a full device, and where the process may have no more
/// mappings, they go first: whatever the pool is to create or open is tried again without them.
///
/// Lock order: the list of kept files is a leaf.
pub(crate) struct KeepingMedium {
    inner: Arc<dyn Medium>,
    bytes_max: AtomicU64,
    kept: Mutex<Kept>,
}

/// The kept files, oldest first.
#[derive(Default)]
struct Kept {
    files: VecDeque<KeptFile>,
    bytes: u64,
    /// Files off the list that could not be removed.
    left: Vec<String>,
    /// Number of the next name.
    number: u64,
}

struct KeptFile {
    name: String,
    region: Region,
}

impl Kept {
    fn push(&mut self, name: String, region: Region) {
        self.bytes += region.len();
        self.files.push_back(KeptFile { name, region });
    }

    fn remove(&mut self, index: usize) -> Option<KeptFile> {
        let file = self.files.remove(index)?;
        self.bytes -= file.region.len();
        Some(file)
    }

    /// Takes the oldest files off the list, until so many bytes and files are left. Returns their
    /// names.
    fn shrink(&mut self, bytes: u64, files: usize) -> Vec<String> {
        let mut gone = Vec::new();
        while self.bytes > bytes || self.files.len() > files {
            let Some(oldest) = self.remove(0) else { break };
            gone.push(oldest.name);
        }
        gone
    }

    fn next_name(&mut self) -> String {
        self.number += 1;
        format!("{PREFIX}{:08x}", self.number)
    }
}

impl KeepingMedium {
    /// The medium `inner` of a pool that keeps up to `bytes_max`.
    pub(crate) fn new(inner: Arc<dyn Medium>, bytes_max: u64) -> Arc<KeepingMedium> {
        Arc::new(KeepingMedium { inner, bytes_max: AtomicU64::new(bytes_max), kept: Mutex::default() })
    }

    /// Sets how many bytes of files are kept. [`KeepingMedium::surplus`] then has those beyond it.
    pub(crate) fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Number of kept files, and their bytes.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let kept = self.kept.lock();
        (kept.files.len(), kept.bytes)
    }

    /// Keeps files of a table that the catalog has durably forgotten, or has never known: the first
    /// ones that fit, in the place of older ones. Returns the names of the files that the caller
    /// has to remove now. It makes nothing durable.
    pub(crate) fn keep(&self, files: Vec<Region>) -> Vec<String> {
        let mut kept = self.kept.lock();
        let (mut left, mut chosen, mut rest) = (self.bytes_max.load(Ordering::Relaxed), Vec::new(), Vec::new());
        for region in files {
            debug_assert!(parse_data_file_name(region.name()).is_some(), "{} is no data file", region.name());
            if region.len() <= left && chosen.len() < FILES_MAX {
                left -= region.len();
                chosen.push(region);
            } else {
                rest.push(region.name().to_owned());
            }
        }
        rest.extend(kept.shrink(left, FILES_MAX - chosen.len()));
        for region in chosen {
            let name = kept.next_name();
            match self.inner.rename(region.name(), &name) {
                Ok(()) => kept.push(name, region),
                Err(_) => rest.push(region.name().to_owned()),
            }
        }
        rest
    }

    /// Takes a kept file of `bytes` that nobody else maps, and gives it `name`, not yet durably.
    /// Its content is that of the table that had it.
    pub(crate) fn take(&self, bytes: u64, name: &str) -> Option<Region> {
        let file = {
            let mut kept = self.kept.lock();
            let mut files = kept.files.iter_mut();
            let index = files.rposition(|file| file.region.len() == bytes && file.region.rename(name))?;
            kept.remove(index)?
        };
        match self.inner.rename(&file.name, name) {
            Ok(()) => Some(file.region),
            // A new file is made instead; if nothing can be made there, that fails with the reason.
            Err(_) => {
                self.remove_now(file.name);
                None
            }
        }
    }

    /// Removes a file that is off the list. If that fails, [`KeepingMedium::surplus`] has it.
    fn remove_now(&self, name: String) {
        if self.inner.remove(&name).is_err() {
            self.kept.lock().left.push(name);
        }
    }

    /// Takes the files off the list that are more than the pool is to keep, for the caller to
    /// remove. Returns their names, and those of files that could not be removed.
    pub(crate) fn surplus(&self) -> Vec<String> {
        let mut kept = self.kept.lock();
        let mut surplus = kept.shrink(self.bytes_max.load(Ordering::Relaxed), FILES_MAX);
        surplus.append(&mut kept.left);
        surplus
    }

    /// Removes the oldest kept file. Returns whether there was one.
    fn give_up_oldest(&self) -> bool {
        let Some(oldest) = self.kept.lock().remove(0) else { return false };
        self.remove_now(oldest.name);
        true
    }

    /// Tries again without one kept file after another, as long as there is no room on the device,
    /// or for another mapping.
    fn with_room(&self, map: impl Fn() -> Result<Region>) -> Result<Region> {
        loop {
            match map() {
                Err(error)
                    if matches!(error.kind(), ErrorKind::Full | ErrorKind::Exhausted) && self.give_up_oldest() => {}
                mapped => return mapped,
            }
        }
    }
}

impl Medium for KeepingMedium {
    fn create(&self, name: &str, len: u64) -> Result<Region> {
        self.with_room(|| self.inner.create(name, len))
    }

    fn open(&self, name: &str) -> Result<Region> {
        self.with_room(|| self.inner.open(name))
    }

    fn create_log(&self, name: &str, len: u64) -> Result<Region> {
        self.with_room(|| self.inner.create_log(name, len))
    }

    fn open_log(&self, name: &str) -> Result<Region> {
        self.with_room(|| self.inner.open_log(name))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> Result<()> {
        self.inner.sync_dir()
    }

    fn settles(&self) -> bool {
        self.inner.settles()
    }

    fn settle(&self) -> Result<()> {
        self.inner.settle()
    }

    fn settle_is_due(&self) -> bool {
        self.inner.settle_is_due()
    }

    fn write_ahead(&self) {
        self.inner.write_ahead();
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn info(&self) -> MediumInfo {
        self.inner.info()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.free_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::data_file_name;
    use perdura_pmem::SimMedium;

    /// Hazard: the log cannot grow on a device on which files lie that nobody needs.
    #[test]
    fn whatever_is_created_takes_the_room_of_kept_files() {
        let medium = KeepingMedium::new(Arc::new(SimMedium::with_capacity(256 << 10)), 1 << 20);
        let files = (0..4).map(|sequence| medium.create(&data_file_name(7, sequence), 64 << 10)).collect::<Result<_>>();
        assert!(medium.keep(files.expect("there is room")).is_empty());
        assert_eq!((medium.counts(), medium.free_bytes()), ((4, 256 << 10), Some(0)));
        let lane = medium.create("log.002.00", 100 << 10).expect("two kept files go");
        assert_eq!((medium.counts(), lane.len()), ((2, 128 << 10), 100 << 10));
        let error = medium.create("log.002.01", 200 << 10).expect_err("the lane takes the room");
        assert_eq!((error.kind(), medium.counts()), (ErrorKind::Full, (0, 0)));
        assert_eq!(medium.list().expect("it lists"), [("log.002.00".to_owned(), 100 << 10)]);
    }

    /// Hazard: a start removes files that are not the pool's, or leaves those that it kept.
    #[test]
    fn a_start_removes_what_was_kept_and_nothing_else() {
        let medium = SimMedium::new();
        for name in ["kept.0000000a", "kept.old", "kept.00000001.sql", "kept.123"] {
            medium.create(name, 4096).expect("there is room");
        }
        let others = remove_kept(&medium, &medium.list().expect("it lists")).expect("it removes");
        let names: Vec<_> = others.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["kept.00000001.sql", "kept.123", "kept.old"]);
        assert_eq!(medium.list().expect("it lists"), others);
    }

    /// A file goes to the next table once nobody else maps it, and only in one of its size.
    #[test]
    fn a_kept_file_is_given_once_to_one_who_has_it_alone() {
        let medium = KeepingMedium::new(Arc::new(SimMedium::new()), 1 << 20);
        let (name, new) = (data_file_name(7, 0), data_file_name(8, 0));
        let region = medium.create(&name, 64 << 10).expect("there is room");
        assert!(medium.keep(vec![region.clone()]).is_empty());
        assert!(medium.take(64 << 10, &new).is_none(), "the table still maps it");
        assert_eq!((region.name(), medium.counts().0), (&*name, 1));
        drop(region);
        assert!(medium.take(128 << 10, &new).is_none());
        let taken = medium.take(64 << 10, &new).expect("it is kept");
        assert_eq!((taken.name(), medium.counts()), (&*new, (0, 0)));
        assert_eq!(medium.list().expect("it lists"), [(new.clone(), 64 << 10)]);
        assert!(medium.take(64 << 10, &new).is_none());
    }
}
