//! Finds out what kind of memory lies below a directory, by a trial file.
//!
//! MAP_SYNC has been seen to succeed without DAX in containers, so statx must report the DAX
//! attribute as well; and the granularity is what libpmem2 finds when it maps the file by itself.

use super::allocate::allocate;
use super::ffi::Source;
use super::mapping::can_map_sync;
use crate::error::{Error, ErrorKind, Result};
use crate::medium::{Granularity, is_name};
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::path::Path;

/// Name of the trial file; gone again when the probe returns.
const TRIAL: &str = ".trial";
const TRIAL_BYTES: u64 = 2 << 20;

/// Result of the probe.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) granularity: Granularity,
    pub(super) map_sync: bool,
    pub(super) dax_attribute: bool,
}

impl Found {
    /// Whether the directory really is on DAX persistent memory.
    pub(super) fn is_dax(&self) -> bool {
        self.granularity < Granularity::Page && self.map_sync && self.dax_attribute
    }

    /// Describes the result for a message.
    pub(super) fn describe(&self) -> String {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" };
        format!(
            "granularity {}, MAP_SYNC {}, statx DAX attribute {}",
            self.granularity,
            yes_no(self.map_sync),
            yes_no(self.dax_attribute)
        )
    }
}

/// Tries a file in `directory`: a new one or, when that finds no room (a full pool must still
/// open), one of the pool's. Errors: `Full` when there is neither room nor a file, `Io`.
pub(super) fn probe(directory: &Path) -> Result<Found> {
    match probe_new(directory) {
        Err(error) if error.kind() == ErrorKind::Full => probe_existing(directory).unwrap_or(Err(error)),
        result => result,
    }
}

fn probe_new(directory: &Path) -> Result<Found> {
    let path = directory.join(TRIAL);
    let what = path.display().to_string();
    let _ = std::fs::remove_file(&path);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(|source| Error::from_io(&what, "creating a trial file", TRIAL_BYTES, source))?;
    let found = allocate(&what, &file, TRIAL_BYTES).and_then(|()| probe_file(&what, &file));
    let _ = std::fs::remove_file(&path);
    found
}

/// Probes any region of the pool that has a page; its content is neither read nor changed.
fn probe_existing(directory: &Path) -> Option<Result<Found>> {
    let entries = std::fs::read_dir(directory).ok()?.filter_map(|entry| entry.ok());
    for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(is_name)) {
        let path = entry.path();
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        if file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() >= 4096) {
            return Some(probe_file(&path.display().to_string(), &file));
        }
    }
    None
}

fn probe_file(what: &str, file: &File) -> Result<Found> {
    let failed = |action: &'static str| move |source| Error::from_io(what, action, 0, source);
    let source = Source::new(file.as_fd()).map_err(failed("examining a trial file"))?;
    let granularity = source.granularity().map_err(failed("mapping a trial file"))?;
    let attributes = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
        .map_err(|errno| Error::from_io(what, "statx", 0, errno.into()))?;
    Ok(Found {
        granularity,
        map_sync: can_map_sync(file),
        dax_attribute: attributes.stx_attributes.contains(StatxAttributes::DAX),
    })
}
