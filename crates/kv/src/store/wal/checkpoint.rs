//! Writing the state out: a new log, then the state a part at a time, then the old files go.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::{Bytes, BytesMut};

use super::super::error::{Error, ErrorKind, Result};
use super::super::ring::Base;
use super::disk::{Disk, DiskFile};
use super::frame::{FRAMES_AT, Seal};
use super::item::{Item, put_pair};

/// Bytes that are written before they are synced.
const SYNC_BYTES: u64 = 4 << 20;

/// The name of a state while it is being written.
pub(super) const UNFINISHED: &str = "state.new";

pub(super) fn state_name(of: u64) -> String {
    format!("state.{of}")
}

/// A state that is being written.
pub(super) struct Checkpoint {
    seal: Seal,
    file: Box<dyn DiskFile>,
    at: u64,
    /// Bytes that are synced.
    synced: u64,
    number: u64,
    /// The last key that was written.
    key: Option<Bytes>,
}

/// A state that was received whole, and is being installed. It is written out a part at a time,
/// while log and state go on as they are. Then one new log and one new name make it current.
pub(super) struct Taking {
    pub(super) checkpoint: Checkpoint,
    pub(super) base: Base,
    pub(super) pairs: BTreeMap<Bytes, Bytes>,
    /// Bytes of DRAM that the pairs take.
    pub(super) bytes: u64,
}

impl Checkpoint {
    /// Begins to write the state that the log of the same number follows.
    pub(super) fn begin(disk: &dyn Disk, of: u64, base: Base) -> Result<Self> {
        let failed = |error| Error::io(UNFINISHED, "making it", error);
        if disk.list().map_err(failed)?.iter().any(|name| name == UNFINISHED) {
            disk.remove(UNFINISHED).map_err(failed)?;
        }
        let file = disk.create(UNFINISHED).map_err(failed)?;
        let seal = Seal { salt: disk.salt().map_err(failed)?, of };
        file.write_at(0, &seal.head()).map_err(failed)?;
        let mut begun = Self { seal, file, at: FRAMES_AT, synced: 0, number: 0, key: None };
        let mut items = BytesMut::new();
        Item::Base(base).put(&mut items);
        begun.write(&items)?;
        Ok(begun)
    }

    /// Bytes that are written.
    pub(super) fn written(&self) -> u64 {
        self.at
    }

    fn write(&mut self, items: &[u8]) -> Result<()> {
        let frame = self.seal.frame(self.number, items);
        self.file.write_at(self.at, &frame).map_err(|error| Error::io(UNFINISHED, "writing", error))?;
        (self.at, self.number) = (self.at + frame.len() as u64, self.number + 1);
        // All at once would take long at the end.
        if self.at >= self.synced + SYNC_BYTES {
            self.file.sync().map_err(|error| Error::io(UNFINISHED, "syncing", error))?;
            self.synced = self.at;
        }
        Ok(())
    }

    /// Writes about this number of bytes of the state. Returns whether that was the end of it.
    pub(super) fn step(&mut self, state: &BTreeMap<Bytes, Bytes>, bytes: usize) -> Result<bool> {
        let from = self.key.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut items = BytesMut::new();
        for (key, value) in state.range::<Bytes, _>((from, Bound::Unbounded)) {
            put_pair(key, value, &mut items);
            if items.len() >= bytes {
                self.key = Some(key.clone());
                break;
            }
        }
        self.write(&items)?;
        Ok(self.key.is_none())
    }

    /// Installs the state. It is that of `applied`, or for some keys earlier. Error: `Full`, after
    /// which it is not installed.
    pub(super) fn end(mut self, disk: &dyn Disk, applied: u64) -> Result<()> {
        let mut items = BytesMut::new();
        Item::End(applied).put(&mut items);
        self.write(&items)?;
        let failed = |error| Error::io(UNFINISHED, "finishing it", error);
        self.file.sync().map_err(failed)?;
        disk.sync().map_err(failed)?;
        disk.rename(UNFINISHED, &state_name(self.seal.of)).map_err(failed)?;
        // It cannot be taken back any more.
        let unsynced = |error| Error::new(ErrorKind::Medium, format!("{UNFINISHED}: finishing it: {error}"));
        disk.sync().map_err(unsynced)?;
        match remove_before(disk, self.seal.of) {
            // They go with the next state.
            Err(error) if error.kind() == ErrorKind::Full => Ok(()),
            removed => removed,
        }
    }
}

/// Removes states and logs before a number.
pub(super) fn remove_before(disk: &dyn Disk, of: u64) -> Result<()> {
    let failed = |error| Error::io("the directory", "removing old files", error);
    for name in disk.list().map_err(failed)? {
        let number = ["state.", "log."].iter().find_map(|kind| name.strip_prefix(kind)?.parse::<u64>().ok());
        if number.is_some_and(|number| number < of) {
            disk.remove(&name).map_err(failed)?;
        }
    }
    disk.sync().map_err(failed)
}
