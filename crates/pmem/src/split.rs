//! A pool on two media: its log on one, its data on the other.
//!
//! Both directories have a file `pair`, by which they know each other. It is written anew whenever
//! the two are opened, the log's first: so a missing half, a foreign one, and an older copy of
//! either are refused.

use crate::checksum::crc32c;
use crate::error::{Error, ErrorKind as Kind, Result};
use crate::file::{FileMedium, end_journal_beside, is_segment};
use crate::health::Health;
use crate::medium::{Medium, MediumInfo, is_name};
use crate::mutant::Mutant;
use crate::planted;
use crate::region::Region;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Name of the file by which two directories know each other.
const PAIR: &str = "pair";
const PAIR_NEW: &str = "pair.new";
const PAIR_BYTES: u64 = 64;
const MAGIC: u64 = u64::from_le_bytes(*b"PRDPAIR1");

/// A medium of which the files of the log are on one medium, and all others on another.
pub struct SplitMedium {
    log: Arc<FileMedium>,
    data: FileMedium,
}

/// The two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Log = 1,
    Data = 2,
}

/// Content of the file `pair`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    id: [u64; 2],
    epoch: u64,
}

impl SplitMedium {
    /// Joins the log's medium and the data's in `directory`, which `open` opens: those that were
    /// opened together last, or two that are empty. Nothing is written before that is known.
    ///
    /// # Errors
    /// `Mismatch` if they are not of one pool, or one is an older copy; `Poisoned`; those of
    /// `open`.
    pub fn join(
        log: Arc<FileMedium>,
        directory: &Path,
        open: impl FnOnce() -> Result<FileMedium>,
    ) -> Result<SplitMedium> {
        let pair = known(log.directory(), directory)?.map_or_else(|| Ok(Pair { id: random()?, epoch: 0 }), Ok)?;
        let data = open()?;
        if !data.is_journal_apart() {
            // The data had a journal beside the log: that was memory then, and is not now.
            end_journal_beside(log.directory(), directory)?;
        }
        // Planted: copies of both look like what goes on.
        let raised = u64::from(!planted(Mutant::EpochNotRaised));
        let next = Pair { epoch: pair.epoch.wrapping_add(raised), ..pair };
        // Planted: the data's first, so that a start that is cut off leaves it ahead of the log's.
        if planted(Mutant::DataPairWrittenFirst) {
            next.write(&data, Half::Data)?;
        }
        next.write(&log, Half::Log)?;
        next.write(&data, Half::Data)?;
        Ok(SplitMedium { log, data })
    }

    /// Joins two directories that were used together last, to be read as
    /// [`FileMedium::open_to_read`] does.
    ///
    /// # Errors
    /// Those of [`SplitMedium::join`]; `NotFound` if they hold no pool.
    pub fn open_to_read(log: &Path, directory: &Path) -> Result<SplitMedium> {
        known(log, directory)?;
        let of_log = FileMedium::open_to_read(log, None)?;
        Ok(SplitMedium { data: FileMedium::open_to_read(directory, Some(log))?, log: Arc::new(of_log) })
    }

    /// Refuses a directory of which the other half lies elsewhere.
    ///
    /// # Errors
    /// `Mismatch`, with the remedy.
    pub fn refuse_half(directory: &Path) -> Result<()> {
        let seen = match half_of(directory)? {
            Some(Half::Data) => "has data whose log is in another directory",
            Some(Half::Log) => "has the log of data that is in another directory",
            None => return Ok(()),
        };
        Err(Error::mismatch(&directory.display().to_string(), seen))
    }

    fn of(&self, name: &str) -> &FileMedium {
        if name.starts_with("log.") || name.starts_with("super") { &self.log } else { &self.data }
    }
}

/// The newer of the pairs in the two directories; `None` if both are empty.
fn known(log: &Path, data: &Path) -> Result<Option<Pair>> {
    let (of_log, of_data) = (Pair::read(log, Half::Log)?, Pair::read(data, Half::Data)?);
    let (log_name, data_name) = (log.display().to_string(), data.display().to_string());
    let refuse = |what: &str, seen: String| Err(Error::mismatch(what, &seen));
    match (of_log, of_data) {
        // Planted: whatever lies there is taken for the pool's.
        (Some(of_log), Some(of_data)) if of_log.id != of_data.id && !planted(Mutant::ForeignHalfTaken) => {
            refuse(&log_name, format!("has the log of another pool than that of {data_name}"))
        }
        (Some(of_log), Some(of_data)) if are_of_one_time(of_log, of_data) => Ok(Some(of_log)),
        (Some(of_log), Some(of_data)) if of_log.epoch < of_data.epoch => {
            refuse(&log_name, format!("is an older copy: {data_name} was in use since"))
        }
        (Some(_), Some(_)) => refuse(&data_name, format!("is an older copy: {log_name} was in use since")),
        (None, Some(_)) if has_files(data)? => {
            refuse(&log_name, format!("has not the log of the pool in {data_name}, which lies in another directory"))
        }
        (_, None) if has_files(data)? => {
            refuse(&data_name, format!("has a pool with its log in the same directory, not in {log_name}"))
        }
        _ if has_files(log)? => refuse(&log_name, format!("has a log already, but {data_name} is empty")),
        // The creation was cut off before anything was in either.
        _ => Ok(None),
    }
}

/// Whether two halves were opened together last. The log's is written first.
fn are_of_one_time(of_log: Pair, of_data: Pair) -> bool {
    // Planted: an older copy is taken for the half that it was.
    [Some(of_data.epoch), of_data.epoch.checked_add(1)].contains(&Some(of_log.epoch)) || planted(Mutant::OlderHalfTaken)
}

/// Which half of a pool a directory is; `None` if it is none.
fn half_of(directory: &Path) -> Result<Option<Half>> {
    for half in [Half::Data, Half::Log] {
        match Pair::read(directory, half) {
            Ok(Some(_)) if has_files(directory)? => return Ok(Some(half)),
            Err(error) if error.kind() != Kind::Mismatch => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

/// Whether there are files of a pool in a directory, which may be missing.
fn has_files(directory: &Path) -> Result<bool> {
    let failed = |source| Error::from_io(&directory.display().to_string(), "listing", 0, source);
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        if is_name(&name) && !name.starts_with(PAIR) && !is_segment(&name) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn random() -> Result<[u64; 2]> {
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    filled.map_err(|errno| Error::io("a random number", "reading", errno.into()))?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Ok([word(0), word(8)])
}

impl Pair {
    /// That in a directory, which is to be the half `half`; `None` if there is none.
    fn read(directory: &Path, half: Half) -> Result<Option<Pair>> {
        let path = directory.join(PAIR);
        let what = path.display().to_string();
        let bytes = match std::fs::read(&path) {
            // No directory, or no pair in it: opening it tells which.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            read => read.map_err(|source| Error::from_io(&what, "reading", 0, source))?,
        };
        let (words, rest) = bytes.as_chunks();
        let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let is_whole = bytes.len() as u64 == PAIR_BYTES && rest.is_empty();
        let is_half = |words: &[u64]| [Half::Log, Half::Data].iter().any(|half| words[4] == *half as u64);
        if !is_whole || words[0] != MAGIC || words[5] != checksum(&words) || !is_half(&words) {
            return Err(Error::damaged_file(&what, 0, "it does not say which two directories are one pool's"));
        }
        if words[4] != half as u64 {
            let (is, not) = match half {
                Half::Log => ("data", "log"),
                Half::Data => ("log", "data"),
            };
            return Err(Error::mismatch(
                &directory.display().to_string(),
                &format!("has the {is} of a pool, not the {not}"),
            ));
        }
        Ok(Some(Pair { id: [words[1], words[2]], epoch: words[3] }))
    }

    /// Writes it durably, in place of the one before.
    fn write(self, medium: &FileMedium, half: Half) -> Result<()> {
        if medium.list()?.iter().any(|(name, _)| name == PAIR_NEW) {
            medium.remove(PAIR_NEW)?;
        }
        let region = medium.create(PAIR_NEW, PAIR_BYTES)?;
        let mut words = [MAGIC, self.id[0], self.id[1], self.epoch, half as u64, 0];
        words[5] = checksum(&words);
        (0..).zip(words).for_each(|(index, word)| region.store(index * 8, word));
        region.persist(0, PAIR_BYTES);
        region.sync()?;
        medium.rename(PAIR_NEW, PAIR)?;
        medium.sync_dir()
    }
}

fn checksum(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words[..5].iter().flat_map(|word| word.to_le_bytes()).collect();
    u64::from(crc32c(&bytes))
}

impl Medium for SplitMedium {
    fn create(&self, name: &str, len: u64) -> Result<Region> {
        self.of(name).create(name, len)
    }

    fn open(&self, name: &str) -> Result<Region> {
        self.of(name).open(name)
    }

    fn create_log(&self, name: &str, len: u64) -> Result<Region> {
        self.of(name).create_log(name, len)
    }

    fn open_log(&self, name: &str) -> Result<Region> {
        self.of(name).open_log(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.of(name).remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.of(from).rename(from, to)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let mut files = self.log.list()?;
        files.extend(self.data.list()?);
        files.retain(|(name, _)| !name.starts_with(PAIR));
        files.sort();
        Ok(files)
    }

    fn sync_dir(&self) -> Result<()> {
        self.log.sync_dir()?;
        self.data.sync_dir()
    }

    fn settles(&self) -> bool {
        self.data.settles()
    }

    fn settle(&self) -> Result<()> {
        self.data.settle()
    }

    fn settle_is_due(&self) -> bool {
        self.data.settle_is_due()
    }

    fn write_ahead(&self) {
        self.data.write_ahead();
    }

    fn health(&self) -> Health {
        self.log.health().and(self.data.health())
    }

    fn info(&self) -> MediumInfo {
        MediumInfo { log: Some(Box::new(self.log.info())), ..self.data.info() }
    }

    fn free_bytes(&self) -> Option<u64> {
        self.data.free_bytes()
    }
}
