//! The log that is written to: the newest file, and the frame that is being gathered.

use bytes::BytesMut;

use super::super::error::{Error, ErrorKind, Result};
use super::disk::{Disk, DiskFile};
use super::frame::{FRAMES_AT, Seal};
use super::item::Item;

pub(super) fn log_name(of: u64) -> String {
    format!("log.{of}")
}

/// The log that is written to.
pub(super) struct Tail {
    pub(super) file: Box<dyn DiskFile>,
    pub(super) name: String,
    pub(super) seal: Seal,
    /// Where the next frame begins.
    pub(super) at: u64,
    /// Its number.
    pub(super) number: u64,
    /// Length up to which zeros, or frames, are written.
    pub(super) written: u64,
    /// Items of the next frame.
    pub(super) items: BytesMut,
}

impl Tail {
    /// Bytes that the log has beyond its frames: frames take them before the disk is asked for
    /// more.
    pub(super) fn spare_bytes(&self) -> u64 {
        self.written - self.at
    }

    /// Writes the items as a frame and syncs it. Does nothing if there are none. Error: `Full`,
    /// after which the call can be made again: the frame is written anew then, at the same place.
    pub(super) fn persist(&mut self, extent_bytes: u64) -> Result<()> {
        if self.items.is_empty() {
            return Ok(());
        }
        let frame = self.seal.frame(self.number, &self.items);
        let end = self.at + frame.len() as u64;
        let failed = |error| Error::io(&self.name, "writing", error);
        if end > self.written {
            // Zeros first, so that the syncs of later frames need not make the file longer.
            let zeros = vec![0; (end - self.written + extent_bytes) as usize];
            match self.file.write_at(self.written, &zeros).map_err(failed) {
                // There may be room for the frame all the same.
                Err(error) if error.kind() == ErrorKind::Full => {}
                written => {
                    written?;
                    self.written += zeros.len() as u64;
                }
            }
        }
        self.file.write_at(self.at, &frame).map_err(failed)?;
        self.file.sync().map_err(failed)?;
        (self.at, self.number) = (end, self.number + 1);
        self.items.clear();
        Ok(())
    }

    /// Makes a log whose first frame has what is to be known at its beginning.
    pub(super) fn begin(disk: &dyn Disk, of: u64, first: &[Item], extent_bytes: u64) -> Result<Self> {
        let name = log_name(of);
        let file = disk.create(&name).map_err(|error| Error::io(&name, "making it", error))?;
        let failed = |error| Error::io(&name, "making it", error);
        let seal = Seal { salt: disk.salt().map_err(failed)?, of };
        file.write_at(0, &seal.head()).map_err(failed)?;
        let (at, written) = (FRAMES_AT, FRAMES_AT);
        let mut begun = Self { file, name, seal, at, number: 0, written, items: BytesMut::new() };
        first.iter().for_each(|item| item.put(&mut begun.items));
        begun.persist(extent_bytes)?;
        disk.sync().map_err(|error| Error::io(&begun.name, "making it", error))?;
        Ok(begun)
    }
}
