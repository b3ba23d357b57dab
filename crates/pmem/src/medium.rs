//! A medium: one directory of regions, and what is known about the memory below it.
//!
//! Two implementations pass one conformance suite: [`crate::FileMedium`] (files mapped through
//! libpmem2) and [`crate::SimMedium`] (DRAM, recordable). Names are flat, `[a-z0-9._]+`, and do not
//! begin with a dot.

use crate::error::{Error, Result};
use crate::health::Health;
use crate::model::Model;
use crate::numa::Modules;
use crate::region::Region;
use std::fmt;
use std::path::PathBuf;

/// How bytes reach the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Loads and stores act on persistent memory.
    Dax,
    /// Ordinary memory or page cache treated as if it were persistent: survives a process crash,
    /// not a power loss.
    Emulated,
    /// As emulated, and it takes the time of the medium that the model names.
    Modelled(Model),
    /// A block device behind a page cache: a sync of pages makes bytes durable, and may fail.
    Page,
}

impl Mode {
    /// Whether data survive a process crash only, with a model or without.
    pub fn is_emulated(self) -> bool {
        matches!(self, Mode::Emulated | Mode::Modelled(_))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Dax => "dax",
            Mode::Emulated => "emulated",
            Mode::Modelled(model) => return write!(f, "emulated, modelled {model}"),
            Mode::Page => "page",
        })
    }
}

/// Unit in which stores become durable (as libpmem2 has it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Granularity {
    /// Stores are durable once visible; the caches are within the persistence domain.
    Byte,
    /// A cache line must be flushed.
    CacheLine,
    /// A page must be synced.
    Page,
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Granularity::Byte => "byte",
            Granularity::CacheLine => "cache line",
            Granularity::Page => "page",
        })
    }
}

/// Properties of a medium, found when it was opened.
#[derive(Clone, Debug)]
pub struct MediumInfo {
    /// How bytes reach the medium.
    pub mode: Mode,
    /// Granularity in use (that of emulated memory is pretended).
    pub granularity: Granularity,
    /// The directory; `None` for a simulated medium.
    pub directory: Option<PathBuf>,
    /// Whether a `MAP_SYNC` mapping succeeded.
    pub map_sync: bool,
    /// Whether statx reports files of the directory as DAX.
    pub dax_attribute: bool,
    /// NUMA node of the device, where the platform tells.
    pub numa_node: Option<u32>,
    /// Persistence domain of the device (`memory_controller`, `cpu_cache`), where the platform
    /// tells.
    pub persistence_domain: Option<String>,
    /// The modules of the device, where the platform tells.
    pub modules: Option<Modules>,
    /// Bytes free for new files.
    pub free_bytes: Option<u64>,
    /// The medium of the log, where that is another.
    pub log: Option<Box<MediumInfo>>,
}

impl fmt::Display for MediumInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mode {}, granularity {}", self.mode, self.granularity)?;
        if let Some(directory) = &self.directory {
            write!(f, ", directory {}", directory.display())?;
        }
        if let Some(node) = self.numa_node {
            write!(f, ", NUMA node {node}")?;
        }
        if let Some(domain) = &self.persistence_domain {
            write!(f, ", persistence domain {domain}")?;
        }
        if let Some(modules) = &self.modules {
            write!(f, ", modules {}, unsafe shutdowns {}", modules.ids, modules.unsafe_shutdowns)?;
        }
        if let Some(free) = self.free_bytes {
            write!(f, ", {} MiB free", free >> 20)?;
        }
        if self.mode.is_emulated() {
            f.write_str(" (data survive a process crash, not a power loss)")?;
        }
        if let Some(log) = &self.log {
            write!(f, "; log: {log}")?;
        }
        Ok(())
    }
}

/// A directory of regions (one pool).
///
/// A file operation survives a crash only once it is synced: [`Region::sync`] makes a file's size
/// and blocks durable, [`Medium::sync_dir`] its name. A medium that stands on another passes on
/// [`Medium::create_log`] and [`Medium::open_log`] as it does the others.
pub trait Medium: Send + Sync + 'static {
    /// Creates, allocates, zeroes and maps a file of `len` bytes; the address is a multiple of 2
    /// MiB on real media.
    ///
    /// Not durable until [`Region::sync`] and [`Medium::sync_dir`]. Errors: `Exists`, `Full` (no
    /// file is left behind), `Io`.
    fn create(&self, name: &str, len: u64) -> Result<Region>;

    /// Maps a whole file, which may be empty. Errors: `NotFound`, `Poisoned`, `Io`.
    fn open(&self, name: &str) -> Result<Region>;

    /// As [`Medium::create`], for a file of the log: a sequence of records, each durable with a
    /// fence, that are read at a start only. On a disk it is written rather than mapped: its
    /// content lies in DRAM, what is stored and neither flushed nor written past the cache reaches
    /// no file, and other mappings of the file do not see it. The file itself is durable at once.
    fn create_log(&self, name: &str, len: u64) -> Result<Region> {
        self.create(name, len)
    }

    /// As [`Medium::open`], for a file of the log. What a process that was killed has left there is
    /// durable on return.
    fn open_log(&self, name: &str) -> Result<Region> {
        self.open(name)
    }

    /// Removes a file; durable after [`Medium::sync_dir`]. Mappings of it stay valid. Error:
    /// `NotFound`.
    fn remove(&self, name: &str) -> Result<()>;

    /// Renames a file, replacing `to` if it exists; durable after [`Medium::sync_dir`]. Error:
    /// `NotFound`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Names and lengths (bytes) of all files, sorted by name.
    fn list(&self) -> Result<Vec<(String, u64)>>;

    /// Makes creations, removals and renames durable.
    fn sync_dir(&self) -> Result<()>;

    /// Whether [`Medium::settle`] has something to do: a checkpoint of the pool then syncs files,
    /// and takes long.
    fn settles(&self) -> bool {
        false
    }

    /// Makes all that was stored before the call durable in the files themselves, flushed or not.
    /// Persistent memory does nothing here, for a fence was enough. A page medium with a journal
    /// needs it when [`Medium::settle_is_due`], or a fence waits for it.
    ///
    /// Error: `Io` (the medium has failed).
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Whether [`Medium::settle`] should be called soon.
    fn settle_is_due(&self) -> bool {
        false
    }

    /// Bounds what [`Medium::settle`] has to do: a page medium begins to write back what is dirty,
    /// if that is much. Nothing is durable by it, and nobody waits for its end. To be called now
    /// and then.
    fn write_ahead(&self) {}

    /// Whether the medium has failed. Kept by those who announce that something is durable, and
    /// asked after each of their fences.
    fn health(&self) -> Health;

    /// Properties of the medium, free bytes as of now.
    fn info(&self) -> MediumInfo;

    /// Bytes free for new files, where known.
    fn free_bytes(&self) -> Option<u64>;
}

/// Refuses names that are not `[a-z0-9._]+` or begin with a dot.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if is_name(name) {
        return Ok(());
    }
    Err(Error::unsupported(name, "a file name other than [a-z0-9._]+ not beginning with a dot"))
}

/// Whether `name` can be a region's.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'_')
}
