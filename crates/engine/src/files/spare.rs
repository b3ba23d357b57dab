//! The spare: one empty data file of the smallest size, which a pool keeps so that TRUNCATE works
//! on a full device.

use crate::error::{ErrorKind, Result};
use crate::format::{FILE_BYTES_MIN, segments_at};
use crate::service::Services;
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Medium, Region};

/// File name of the spare.
pub(crate) const NAME: &str = "spare";

/// The spare file of a pool, assumed to exist until it is looked for.
///
/// A table's first file must exist before the commit that names the table (I3), but the room of the
/// old table becomes free only after that commit. Where the device has no room for a new file, the
/// spare takes its place: it is renamed, gets its header, and is synced like any new file. Until
/// the commit nothing names it, so a crash leaves the old table, and the spare or an orphan. After
/// the commit the old files are removed, and a new spare is created in their room.
///
/// The spare holds nothing that counts. It may be missing, or hold what an unfinished use left in
/// it.
#[derive(Default)]
pub(crate) struct Spare {
    /// Whether the spare is missing, as far as is known. Locked while it is created or taken.
    missing: Mutex<bool>,
}

impl Spare {
    /// Creates the file, of zeroes.
    pub(crate) fn create(&self, medium: &dyn Medium) -> Result<()> {
        medium.create(NAME, FILE_BYTES_MIN)?;
        Ok(())
    }

    /// Looks for the spare among the pool's `files`. Replaces one of another size, and creates a
    /// missing one if there is room.
    pub(crate) fn find(&self, medium: &dyn Medium, files: &[(String, u64)]) -> Result<()> {
        match files.iter().find(|(name, _)| name == NAME) {
            Some((_, bytes)) if *bytes == FILE_BYTES_MIN => return Ok(()),
            Some(_) => medium.remove(NAME)?,
            None => {}
        }
        *self.missing.lock() = true;
        self.provide(medium)
    }

    /// Renames the spare to `name` and zeroes its header, link word and descriptors. `None` if
    /// there is no spare.
    pub(crate) fn take(&self, medium: &dyn Medium, services: &Services, name: &str) -> Result<Option<Region>> {
        let mut missing = self.missing.lock();
        if *missing {
            return Ok(None);
        }
        services.forget_leftover(name);
        let renamed = medium.rename(NAME, name);
        *missing = renamed.as_ref().err().is_none_or(|error| error.kind() == perdura_pmem::ErrorKind::NotFound);
        match renamed {
            Ok(()) => {
                let found = Some(medium.open(name)?).filter(|region| region.len() == FILE_BYTES_MIN);
                if let Some(region) = &found {
                    // An earlier use may have left descriptors. The fence of the new header covers
                    // the zeroes.
                    region.zero(0, segments_at(0));
                }
                Ok(found)
            }
            Err(error) if error.kind() == perdura_pmem::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the spare if it is missing and there is room.
    ///
    /// # Errors
    /// Medium. A full device is not an error: the background thread tries again.
    pub(crate) fn provide(&self, medium: &dyn Medium) -> Result<()> {
        let mut missing = self.missing.lock();
        if *missing {
            match self.create(medium) {
                Err(error) if error.kind() == ErrorKind::DeviceFull => {}
                made => {
                    made?;
                    *missing = false;
                }
            }
        }
        Ok(())
    }
}
