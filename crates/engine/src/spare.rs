//! The spare: one empty data file of a few segments that a pool keeps, so that TRUNCATE works on a full device.
//!
//! A table's first file must be there before the commit that names the table, and the room of the old table comes only after that commit.
//! Where the device has no room for the new file, the spare becomes it: it is renamed, gets its header, and is synced like any
//! new file. Until the commit nothing names it, so a crash leaves an orphan or the spare, and the old table. After
//! the commit the old files are removed, and a new spare is made in their room.
//!
//! The spare itself holds nothing that counts: it may be missing, or have been begun as another table's file.

use crate::datafile;
use crate::error::{ErrorKind, Result};
use crate::table::TableContext;
use perdura_pmem::Region;
use perdura_pmem::sync::Mutex;

/// Name of its file.
pub const NAME: &str = "spare";

/// Its segments: one each for directory, rows and deletions.
const SEGMENTS: u64 = 3;

/// Bytes of the smallest first file a table can begin with.
pub fn least_bytes(segment_bytes: u64, first_file_bytes: u64) -> u64 {
    datafile::bytes_for_segments(SEGMENTS, segment_bytes).min(first_file_bytes)
}

/// Whether the pool lacks its spare, as far as is known. Held while the spare is made or taken.
#[derive(Default)]
pub struct Missing(Mutex<bool>);

impl TableContext {
    fn spare_bytes(&self) -> u64 {
        least_bytes(self.geometry.segment_bytes, self.first_file_bytes)
    }

    /// Makes the spare of a new pool.
    pub(crate) fn create_spare(&self) -> Result<()> {
        self.medium.create(NAME, self.spare_bytes())?;
        Ok(())
    }

    /// Looks for the spare among the pool's `files`, and makes it if there is none of the right length and there is room.
    pub(crate) fn find_spare(&self, files: &[(String, u64)]) -> Result<()> {
        match files.iter().find(|(name, _)| name == NAME) {
            Some((_, bytes)) if *bytes == self.spare_bytes() => return Ok(()),
            Some(_) => self.medium.remove(NAME)?,
            None => {}
        }
        *self.services.spare_missing.0.lock() = true;
        self.provide_spare()
    }

    /// Makes the spare the file `name`, which is still without a header. `None` if there is no spare.
    pub(crate) fn take_spare(&self, name: &str) -> Result<Option<Region>> {
        let mut missing = self.services.spare_missing.0.lock();
        if *missing {
            return Ok(None);
        }
        self.services.forget_leftover(name);
        let renamed = self.medium.rename(NAME, name);
        *missing = renamed.as_ref().err().is_none_or(|error| error.kind() == perdura_pmem::ErrorKind::NotFound);
        match renamed {
            Ok(()) => {
                let found = Some(self.medium.open(name)?).filter(|region| region.len() == self.spare_bytes());
                if let Some(region) = &found {
                    // Whatever an earlier use left in it, no segment is in use. Fenced with the header.
                    region.zero(0, datafile::bytes_for_segments(SEGMENTS, 0));
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
    pub(crate) fn provide_spare(&self) -> Result<()> {
        let mut missing = self.services.spare_missing.0.lock();
        if *missing {
            match self.create_spare() {
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
