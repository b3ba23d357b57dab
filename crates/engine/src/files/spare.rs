//! The spare: one empty data file of a few segments that a pool keeps, so that TRUNCATE works on a full device.
//!
//! A table's first file must be there before the commit that names the table, and the room of the old table comes only after that commit.
//! Where the device has no room for the new file, the spare becomes it: it is renamed, gets its header, and is synced like any
//! new file. Until the commit nothing names it, so a crash leaves an orphan or the spare, and the old table. After
//! the commit the old files are removed, and a new spare is made in their room.
//!
//! The spare itself holds nothing that counts: it may be missing, or have been begun as another table's file.

use crate::error::{ErrorKind, Result};
use crate::format::bytes_for_segments;
use crate::service::Services;
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Medium, Region};

/// Name of its file.
pub const NAME: &str = "spare";

/// Its segments: one each for directory, rows and deletions.
const SEGMENTS: u64 = 3;

/// A pool's spare file.
pub struct Spare {
    bytes: u64,
    /// Whether the pool lacks it, as far as is known. Held while the spare is made or taken.
    missing: Mutex<bool>,
}

impl Spare {
    /// The spare of a pool of this geometry, taken to be there.
    pub fn new(segment_bytes: u64, first_file_bytes: u64) -> Spare {
        let bytes = bytes_for_segments(SEGMENTS, segment_bytes).min(first_file_bytes);
        Spare { bytes, missing: Mutex::new(false) }
    }

    /// Its length: that of the smallest first file a table can begin with.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes the spare of a new pool.
    pub fn create(&self, medium: &dyn Medium) -> Result<()> {
        medium.create(NAME, self.bytes)?;
        Ok(())
    }

    /// Looks for the spare among the pool's `files`, and makes it if there is none of the right length and there is room.
    pub fn find(&self, medium: &dyn Medium, files: &[(String, u64)]) -> Result<()> {
        match files.iter().find(|(name, _)| name == NAME) {
            Some((_, bytes)) if *bytes == self.bytes => return Ok(()),
            Some(_) => medium.remove(NAME)?,
            None => {}
        }
        *self.missing.lock() = true;
        self.provide(medium)
    }

    /// Makes the spare the file `name`, which is still without a header. `None` if there is no spare.
    pub fn take(&self, medium: &dyn Medium, services: &Services, name: &str) -> Result<Option<Region>> {
        let mut missing = self.missing.lock();
        if *missing {
            return Ok(None);
        }
        services.forget_leftover(name);
        let renamed = medium.rename(NAME, name);
        *missing = renamed.as_ref().err().is_none_or(|error| error.kind() == perdura_pmem::ErrorKind::NotFound);
        match renamed {
            Ok(()) => {
                let found = Some(medium.open(name)?).filter(|region| region.len() == self.bytes);
                if let Some(region) = &found {
                    // Whatever an earlier use left in it, no segment is in use. Fenced with the header.
                    region.zero(0, bytes_for_segments(SEGMENTS, 0));
                }
                Ok(found)
            }
            Err(error) if error.kind() == perdura_pmem::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the spare again if it is gone and there is room.
    ///
    /// # Errors
    /// Medium. A full device is no error: the background thread tries again.
    pub fn provide(&self, medium: &dyn Medium) -> Result<()> {
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
