//! The store as it is usual: a write-ahead log in files, the state in DRAM, and the state written
//! out from time to time.
//!
//! It is what the maps are compared with (the thesis, 2.3), and what runs where there is no
//! persistent memory.
//!
//! Two kinds of files, by number: `state.N`, and the logs `log.N`, `log.N+1` and so on that follow
//! it. All that was done between two calls of [`Store::persist`] is one frame of the newest log
//! (frame.rs). The state is written out a part at a time, while it changes: each key as it is when
//! it is written. The log from the beginning of that on, applied over it, makes all of them as
//! they were at its end, for entries say what becomes of a key and not how. A new log begins with
//! it, and is enough with it.

mod checkpoint;
mod config;
mod counted;
mod disk;
mod files;
mod frame;
mod item;
mod late_writer;
mod log_writer;
mod modelled;
mod open;
mod outgoing;
mod pairs;
mod room;
mod sim_disk;
mod tail;
mod upkeep;
mod versions;

use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;
use raft::eraftpb::{ConfState, Entry, SnapshotMetadata};

use super::entries;
use super::error::{Error, Result};
use super::ring::{Base, Ring};
use super::{
    ErrorKind, Footprint, Outgoing, PersistentState, ReadLevel, Room, Share, Shortages, SnapshotFormat, Store,
};
use crate::entry::KeyChange;
use crate::machine::draft::{Each, Part, part_of};
use checkpoint::{Checkpoint, Taking};
pub use config::WalConfig;
use counted::Counted;
pub use disk::{Disk, DiskFile};
pub(crate) use files::Files;
use item::Item;
use late_writer::LateWriter;
use log_writer::{LogWriter, WriterThread, run_here};
use pairs::Pairs;
pub use sim_disk::SimDisk;
use tail::Tail;
use versions::Versions;

/// Calls of [`Store::upkeep`] after which the state is written out again that had no room.
const RESTS: u32 = 64;

/// A store with a write-ahead log.
pub struct WalStore {
    disk: Counted,
    config: WalConfig,
    tail: Tail,
    /// Writer of frames; `None` where the caller writes them itself.
    writer: Option<Box<dyn LogWriter>>,
    persistent_state: PersistentState,
    ring: Ring,
    versions: Versions,
    applied: u64,
    checkpoint: Option<Checkpoint>,
    is_partial: bool,
    receiving: Option<outgoing::Parser>,
    taking: Option<Taking>,
    /// States that were given up, of which a part goes at a time.
    let_go: Vec<Pairs>,
    /// Whether the disk had no room for the last write.
    is_blocked: bool,
    /// Calls that are left until the state is written out again, which had no room.
    rests: u32,
    shortages: Shortages,
    /// The first failure of the medium. What is in the files is not known after it.
    failure: Option<Error>,
}

impl WalStore {
    /// Makes the store of a new replica on an empty disk. `clock_ms` is the clock of the founding
    /// entry, which all founders are given alike.
    pub fn create(
        disk: Arc<dyn Disk>,
        persistent_state: &PersistentState,
        clock_ms: u64,
        config: &WalConfig,
    ) -> Result<Self> {
        open::found(&*disk, persistent_state, clock_ms, config)?;
        Self::open(disk, config)
    }

    /// Opens the store on a disk.
    pub(crate) fn open(disk: Arc<dyn Disk>, config: &WalConfig) -> Result<Self> {
        let disk = Counted::new(disk);
        let open::Found { tail, persistent_state, base, ring, pairs, applied, is_partial } =
            open::open(&disk, config.ring_bytes)?;
        let mut store = WalStore {
            disk,
            config: *config,
            tail,
            writer: None,
            persistent_state,
            ring,
            versions: Versions::read(pairs),
            applied: base.index,
            checkpoint: None,
            is_partial,
            receiving: None,
            taking: None,
            let_go: Vec::new(),
            is_blocked: false,
            rests: 0,
            shortages: Shortages::default(),
            failure: None,
        };
        if is_partial {
            (store.applied, store.versions) = (0, Versions::default());
            store.ring = Ring::new(Base::default(), config.ring_bytes);
            return Ok(store);
        }
        store.apply(applied)?;
        for index in applied + 1..=store.ring.last() {
            let changes = entries::changes_of(store.ring.get(index)?)?;
            store.versions.change(index, changes);
        }
        Ok(store)
    }

    /// Opens the store on a simulated disk, whose frames are written when a seed says so.
    pub(crate) fn open_late(disk: SimDisk, config: &WalConfig, seed: u64) -> Result<Self> {
        let store = Self::open(Arc::new(disk), config)?;
        Ok(Self { writer: Some(Box::new(LateWriter::new(seed))), ..store })
    }

    /// Waits for the frame that is under way.
    fn settle(&mut self) -> Result<()> {
        match &mut self.writer {
            Some(writer) if self.tail.under_way.is_some() => self.tail.end_frame(writer.wait()),
            _ => Ok(()),
        }
    }

    /// Makes all items durable before it returns.
    fn persist_tail(&mut self) -> Result<()> {
        self.settle()?;
        let Some(write) = self.tail.begin_frame(self.config.extent_bytes) else { return Ok(()) };
        let (written, took) = run_here(&write);
        self.writer.iter_mut().for_each(|writer| writer.note(took));
        self.tail.end_frame(written)
    }

    /// Keeps what came of a frame.
    fn watch_frame<T>(&mut self, persisted: Result<T>) -> Result<T> {
        self.is_blocked = persisted.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full);
        self.watch(persisted)
    }

    fn check_usable(&self) -> Result<()> {
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn check_whole(&self) -> Result<()> {
        self.check_usable()?;
        if self.is_partial { Err(Error::partial()) } else { Ok(()) }
    }

    fn note(&mut self, persistent_state: PersistentState) -> Result<()> {
        self.check_usable()?;
        if persistent_state != self.persistent_state {
            Item::PersistentState(Box::new(persistent_state.clone())).put(&mut self.tail.items);
            self.persistent_state = persistent_state;
        }
        Ok(())
    }

    /// Keeps the failure of a medium. That a file has no room is none: what is in it is known, and
    /// the call can be made again.
    fn watch<T>(&mut self, result: Result<T>) -> Result<T> {
        self.shortages.watch(result).inspect_err(|error| {
            if error.kind() != ErrorKind::Full {
                self.failure = Some(error.clone());
            }
        })
    }

    fn apply(&mut self, index: u64) -> Result<()> {
        for index in self.applied + 1..=index {
            let changes = entries::changes_of(self.ring.get(index)?)?;
            self.versions.apply(index, changes);
            self.applied = index;
        }
        Ok(())
    }
}

impl Store for WalStore {
    fn footprint(&self) -> Footprint {
        Footprint { written_bytes: self.disk.written_bytes(), used_bytes: self.disk.used_bytes() }
    }

    fn persistent_state(&self) -> &PersistentState {
        &self.persistent_state
    }

    fn set_vote(&mut self, term: u64, vote: u64) -> Result<()> {
        self.note(PersistentState { term, vote, ..self.persistent_state.clone() })
    }

    fn set_members(&mut self, index: u64, members: &ConfState) -> Result<()> {
        self.note(self.persistent_state.with_members(index, members)?)
    }

    fn has_room(&mut self, changes: &[KeyChange<'_>], share: Share) -> Result<bool> {
        self.check_whole()?;
        self.has(changes, share)
    }

    fn room(&self) -> Room {
        self.room_left()
    }

    fn shortages(&self) -> &Shortages {
        &self.shortages
    }

    fn append(&mut self, entries: &[Entry]) -> Result<()> {
        self.check_whole()?;
        let Some(from) = entries::begin(entries, self.ring.last(), self.applied)? else { return Ok(()) };
        self.end_receiving();
        self.ring.truncate(from);
        self.versions.take_back(from);
        for entry in entries {
            let done = entries::read_shared(entry)?;
            Item::Entry(entry.clone()).put(&mut self.tail.items);
            self.versions.change(entry.index, done.changes);
            self.ring.push(entry.clone(), done.clock_ms);
        }
        Ok(())
    }

    fn persist(&mut self) -> Result<()> {
        self.check_usable()?;
        let persisted = self.persist_tail();
        self.watch_frame(persisted)
    }

    fn write_beside(&mut self, wake: Box<dyn Fn() + Send>) -> Result<()> {
        let failed =
            |error| Error::new(ErrorKind::Medium, format!("beginning the thread that writes the log: {error}"));
        self.writer = Some(Box::new(WriterThread::spawn(wake).map_err(failed)?));
        Ok(())
    }

    fn begin_persist(&mut self) -> Result<bool> {
        self.check_usable()?;
        if self.tail.under_way.is_some() {
            let settled = self.settle();
            self.watch_frame(settled)?;
        }
        let bytes = self.tail.items.len();
        let Some(writer) = self.writer.as_mut().filter(|writer| writer.is_worthwhile(bytes)) else {
            return self.persist().map(|()| true);
        };
        match self.tail.begin_frame(self.config.extent_bytes) {
            Some(write) => writer.begin(write),
            None => return Ok(true),
        }
        Ok(false)
    }

    fn end_persist(&mut self) -> Result<bool> {
        self.check_usable()?;
        let Some(writer) = self.writer.as_mut().filter(|_| self.tail.under_way.is_some()) else { return Ok(true) };
        let Some(written) = writer.poll() else { return Ok(false) };
        let ended = self.tail.end_frame(written);
        self.watch_frame(ended).map(|()| true)
    }

    fn commit(&mut self, index: u64) -> Result<()> {
        self.check_whole()?;
        if index > self.ring.last() {
            return Err(Error::order(format!(
                "{index} cannot be applied: the last entry has index {}",
                self.ring.last()
            )));
        }
        if index > self.applied {
            self.end_receiving();
            Item::Commit(index).put(&mut self.tail.items);
            self.apply(index)?;
        }
        Ok(())
    }

    fn compact(&mut self, index: u64) -> Result<()> {
        self.check_whole()?;
        if index > self.applied {
            return Err(Error::order(format!("{index} cannot be given up: only {} is applied", self.applied)));
        }
        self.ring.give_up(index);
        Ok(())
    }

    fn first(&self) -> u64 {
        self.ring.first()
    }

    fn last(&self) -> u64 {
        self.ring.last()
    }

    fn applied(&self) -> u64 {
        self.applied
    }

    fn term(&self, index: u64) -> Result<u64> {
        self.ring.term(index)
    }

    fn clock_ms(&self, level: ReadLevel) -> u64 {
        self.ring.clock_ms(match level {
            ReadLevel::Newest => self.ring.last(),
            ReadLevel::Applied => self.applied,
        })
    }

    fn entries(&self, from: u64, to: u64, bytes_max: u64) -> Result<Vec<Entry>> {
        self.ring.entries(from, to, bytes_max)
    }

    fn get(&self, level: ReadLevel, place: &[u8]) -> Result<Option<Bytes>> {
        self.check_whole()?;
        Ok(self.versions.get(level, place))
    }

    fn part(&self, level: ReadLevel, place: &[u8], range: Range<usize>) -> Result<Option<Part>> {
        let found = self.get(level, place)?;
        // A shared part would keep the whole value.
        Ok(found.map(|value| (Bytes::copy_from_slice(part_of(&value, range)), value.len())))
    }

    fn scan(&self, level: ReadLevel, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) -> Result<()> {
        self.check_whole()?;
        self.versions.scan(level, prefix, from, each);
        Ok(())
    }

    fn snapshot_format(&self) -> SnapshotFormat {
        SnapshotFormat::Log
    }

    fn content_bytes(&self) -> u64 {
        0
    }

    fn takes(&self, _content_bytes: u64) -> bool {
        true
    }

    fn snapshot(&self, chunk_bytes: usize) -> Result<Box<dyn Outgoing>> {
        self.check_whole()?;
        let (index, term) = (self.applied, self.ring.term(self.applied)?);
        let metadata = self.persistent_state.metadata(index, term)?;
        let base = Base { index, term, clock_ms: self.ring.clock_ms(index) };
        let pairs = self.versions.applied().freeze(self.config.snapshot_garbage_bytes);
        Ok(Box::new(outgoing::OfState::new(base, pairs, metadata, chunk_bytes)))
    }

    fn receive(&mut self, empties: bool) -> Result<()> {
        self.check_usable()?;
        self.end_receiving();
        if !empties && !self.is_partial {
            self.receiving = Some(outgoing::Parser::default());
            return Ok(());
        }
        if !self.is_partial {
            self.reset()?;
        }
        self.give_up_checkpoint();
        (self.is_partial, self.applied) = (true, 0);
        self.let_go_later(Versions::default());
        self.ring = Ring::new(Base::default(), self.config.ring_bytes);
        self.receiving = Some(outgoing::Parser::default());
        Ok(())
    }

    /// No: a state that is given up stays in the files until another one is whole.
    fn gains_by_emptying(&self) -> bool {
        false
    }

    fn push(&mut self, number: u32, chunk: &[u8]) -> Result<()> {
        let Some(parser) = &mut self.receiving else { return Err(Error::refused("none is being received")) };
        let pushed = parser.push(number, chunk).map_err(Error::refused);
        if pushed.is_err() {
            self.end_receiving();
        }
        pushed
    }

    fn finish_some(&mut self, metadata: &SnapshotMetadata) -> Result<bool> {
        self.check_usable()?;
        let taking = match self.taking.take() {
            Some(taking) => Ok(taking),
            None => self.begin_taking(metadata),
        };
        let taken = taking.and_then(|taking| self.take(taking, metadata));
        match taken.as_ref().map_err(Error::kind) {
            Err(ErrorKind::Refused) => return taken,
            Err(ErrorKind::Full) => self.give_up_checkpoint(),
            _ => {}
        }
        self.watch(taken)
    }

    fn is_partial(&self) -> bool {
        self.is_partial
    }

    fn upkeep(&mut self) -> Result<bool> {
        self.check_usable()?;
        let has_more = self.let_some_go();
        let stepped = self.step().map(|has_state| has_state || has_more);
        let stepped = self.watch(stepped);
        if stepped.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full) {
            // The state as it was, and all logs since, are as they were.
            self.give_up_checkpoint();
            self.rests = RESTS;
            return Ok(false);
        }
        stepped
    }
}
