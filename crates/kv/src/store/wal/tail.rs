//! The log that is written to: the newest file, and the frame that is being gathered.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::super::error::{Error, Result};
use super::disk::{Disk, DiskFile};
use super::frame::{FRAMES_AT, Seal};
use super::item::Item;
use super::log_writer::{FrameWrite, Written};

pub(super) fn log_name(of: u64) -> String {
    format!("log.{of}")
}

/// The log that is written to.
pub(super) struct Tail {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) name: String,
    pub(super) seal: Seal,
    /// Where the next frame begins.
    pub(super) at: u64,
    /// Its number.
    pub(super) number: u64,
    /// Length up to which zeros were written. Frames may lie beyond it.
    pub(super) written: u64,
    /// Items of the next frame.
    pub(super) items: BytesMut,
    /// The frame that is being written.
    pub(super) under_way: Option<UnderWay>,
}

/// A frame that is being written.
pub(super) struct UnderWay {
    items: Bytes,
    /// Where it ends, and the zeros behind it.
    end: u64,
    zeros_end: u64,
}

impl Tail {
    /// Bytes that the log has beyond its frames: frames take them before the disk is asked for
    /// more.
    pub(super) fn spare_bytes(&self) -> u64 {
        let at = self.under_way.as_ref().map_or(self.at, |under_way| under_way.end);
        self.written.saturating_sub(at)
    }

    /// Bytes of items that are not durable.
    pub(super) fn unwritten_bytes(&self) -> u64 {
        let under_way = self.under_way.as_ref().map_or(0, |under_way| under_way.items.len());
        (self.items.len() + under_way) as u64
    }

    /// Makes a frame of the items, which is under way then. `None` if there are none. The one
    /// before has ended.
    pub(super) fn begin_frame(&mut self, extent_bytes: u64) -> Option<FrameWrite> {
        if self.items.is_empty() {
            return None;
        }
        debug_assert!(self.under_way.is_none(), "two frames at once");
        let items = self.items.split().freeze();
        let end = self.at + Seal::frame_bytes(items.len());
        let zeros = if end > self.written { end..end + extent_bytes } else { 0..0 };
        let zeros_end = self.written.max(zeros.end);
        self.under_way = Some(UnderWay { items: items.clone(), end, zeros_end });
        let (file, name) = (Arc::clone(&self.file), self.name.clone());
        Some(FrameWrite { file, name, at: self.at, seal: self.seal, number: self.number, items, zeros })
    }

    /// The frame that was under way is written. Error: `Full`, after which its items are the next
    /// frame's: that is written at the same place.
    pub(super) fn end_frame(&mut self, written: Written) -> Result<()> {
        let Some(UnderWay { items, end, zeros_end }) = self.under_way.take() else { return Ok(()) };
        match written {
            Ok(has_zeros) => {
                (self.at, self.number) = (end, self.number + 1);
                if has_zeros {
                    self.written = zeros_end;
                }
                Ok(())
            }
            Err(error) => {
                let mut all = BytesMut::from(items);
                all.unsplit(std::mem::take(&mut self.items));
                self.items = all;
                Err(error)
            }
        }
    }

    /// Writes the items as a frame and syncs it. Does nothing if there are none. Error: `Full`,
    /// after which the call can be made again.
    pub(super) fn persist(&mut self, extent_bytes: u64) -> Result<()> {
        match self.begin_frame(extent_bytes) {
            Some(write) => self.end_frame(write.run()),
            None => Ok(()),
        }
    }

    /// Makes a log whose first frame has what is to be known at its beginning.
    pub(super) fn begin(disk: &dyn Disk, of: u64, first: &[Item], extent_bytes: u64) -> Result<Self> {
        let name = log_name(of);
        let file = disk.create(&name).map_err(|error| Error::io(&name, "making it", error))?;
        let failed = |error| Error::io(&name, "making it", error);
        let seal = Seal { salt: disk.salt().map_err(failed)?, of };
        file.write_at(0, &seal.head()).map_err(failed)?;
        let (at, written) = (FRAMES_AT, FRAMES_AT);
        let (file, items) = (Arc::from(file), BytesMut::new());
        let mut begun = Self { file, name, seal, at, number: 0, written, items, under_way: None };
        first.iter().for_each(|item| item.put(&mut begun.items));
        begun.persist(extent_bytes)?;
        disk.sync().map_err(|error| Error::io(&begun.name, "making it", error))?;
        Ok(begun)
    }
}
