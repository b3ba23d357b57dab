//! The store over an ordered map in persistent memory: the log and the state are one.
//!
//! An entry is a batch at its index; its term, kind and clock are the batch's tag. `rollback` takes
//! conflicting entries back, `apply` commits, `forget` compacts, and the persistent state is the
//! map's `meta`. So a persist covers all of them, or none:
//!
//! - it comes between calls, so the persistent state that was set before an entry is durable with
//!   it or before;
//! - members are noted before the entry that made them is applied, so what is applied has its
//!   members noted.
//!
//! The map's timestamps are the log's indexes. The entries above `forgotten` are in the map and in
//! the ring; after a start the ring is read from the map.

mod content_build;
mod open;
mod outgoing;
mod room;

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use perdura_map::{Config, Demand, Kind, Layout, Loader, OrderedMap};
use perdura_pmem::Medium;
use raft::eraftpb::{ConfState, Entry, SnapshotMetadata};

use super::entries;
use super::error::{Error, ErrorKind, Result};
use super::ring::{Base, Ring};
use super::{Footprint, Outgoing, PersistentState, ReadLevel, Room, Share, Shortages, SnapshotFormat, Store};
use crate::entry::KeyChange;
use crate::machine::draft::{Each, Part, begin, part_of};
use content_build::ContentBuild;

/// How a store over a map is run.
#[derive(Clone, Copy, Debug)]
pub struct MapConfig {
    /// DRAM for the last entries, in bytes. Entries that are not given up are beyond it.
    pub ring_bytes: u64,
    /// Garbage that a snapshot may hold before it ends by itself, in bytes.
    pub snapshot_garbage_bytes: u64,
    /// Whether a thread of the map collects garbage. Without it [`Store::upkeep`] does.
    pub background: bool,
    /// Seed of a new map's salt, so that a run can be replayed.
    pub seed: Option<u64>,
}

impl Default for MapConfig {
    fn default() -> Self {
        Self { ring_bytes: 64 << 20, snapshot_garbage_bytes: 256 << 20, background: true, seed: None }
    }
}

impl MapConfig {
    /// The map persists when the store says so, and when it needs room.
    fn of_map(&self) -> Config {
        let interval = Duration::from_millis(10);
        let Self { background, seed, .. } = *self;
        // Nobody waits for the map's own thread in a change.
        Config { changes_max: u32::MAX, interval, background, collects_in_changes: false, seed }
    }
}

/// A load that is going on.
struct Receiving {
    loader: Loader,
    /// Number of the next chunk.
    next: u32,
}

/// A store over a list or a B+-tree.
pub struct MapStore {
    map: Box<dyn OrderedMap>,
    config: MapConfig,
    persistent_state: PersistentState,
    ring: Ring,
    applied: u64,
    is_partial: bool,
    receiving: Option<Receiving>,
    /// A load that has come whole.
    build: Option<ContentBuild>,
    room: room::Room,
    shortages: Shortages,
}

impl MapStore {
    /// Makes the store of a new replica in a new file of a medium. `clock_ms` is the clock of the
    /// founding entry, which all founders are given alike. A failure in the midst leaves a file
    /// that [`MapStore::open`] tells from a store.
    pub fn create(
        medium: &Arc<dyn Medium>,
        name: &str,
        (kind, layout): (Kind, &Layout),
        persistent_state: &PersistentState,
        clock_ms: u64,
        config: &MapConfig,
    ) -> Result<Self> {
        let map = perdura_map::create(medium, name, kind, layout, &config.of_map())?;
        open::found(&*map, persistent_state, clock_ms)?;
        drop(map);
        Self::open(medium, name, config)
    }

    /// Opens the store in a file, over whichever structure it has.
    pub fn open(medium: &Arc<dyn Medium>, name: &str, config: &MapConfig) -> Result<Self> {
        let map = perdura_map::open(medium, name, &config.of_map())?;
        let open::Found { persistent_state, ring, applied, is_partial } = open::open(&*map, name, config.ring_bytes)?;
        Ok(Self {
            map,
            config: *config,
            persistent_state,
            ring,
            applied,
            is_partial,
            receiving: None,
            build: None,
            room: room::Room::default(),
            shortages: Shortages::default(),
        })
    }

    /// The map, to look at.
    pub fn map(&self) -> &dyn OrderedMap {
        &*self.map
    }

    fn check_whole(&self) -> Result<()> {
        if self.is_partial { Err(Error::partial()) } else { Ok(()) }
    }

    fn note(&mut self, persistent_state: PersistentState) -> Result<()> {
        if persistent_state != self.persistent_state {
            self.map.set_meta(&persistent_state.to_bytes())?;
            self.persistent_state = persistent_state;
        }
        Ok(())
    }

    /// Takes chunks into a load from now on, which has emptied the map if it `resets`.
    fn begin_load(&mut self, begun: perdura_map::Result<Loader>, resets: bool) -> Result<()> {
        let loader = self.shortages.watch(begun.map_err(Error::from))?;
        self.receiving = Some(Receiving { loader, next: 0 });
        if resets {
            (self.is_partial, self.applied) = (true, 0);
            self.ring = Ring::new(Base::default(), self.config.ring_bytes);
        }
        Ok(())
    }

    /// Ends the wait for chunks. Error: `Full` while a content that has come whole is being built:
    /// the map cannot be changed until that is over.
    fn end_load(&mut self) -> Result<()> {
        self.receiving = None;
        if self.finishes() {
            return Err(Error::new(ErrorKind::Full, "a snapshot that is given up has not ended yet"));
        }
        self.give_up_build();
        Ok(())
    }

    /// Gives up a load that has come whole. Waits until its content is built.
    fn give_up_build(&mut self) {
        self.build.take().into_iter().for_each(|build| drop(build.wait()));
    }

    /// Waits until the content of a load is built, and installs it.
    fn end(&mut self, build: ContentBuild, metadata: &SnapshotMetadata) -> Result<bool> {
        let prepared = build.wait().map_err(open::refused);
        let loader = self.shortages.watch(prepared)?;
        self.force(loader, metadata)
    }

    /// Installs a content that is built.
    fn force(&mut self, loader: Loader, metadata: &SnapshotMetadata) -> Result<bool> {
        // Before the content, and so durable with it: nobody may have the content and old members.
        let persistent_state = self.persistent_state.received(metadata)?;
        let before = self.persistent_state.clone();
        self.note(persistent_state)?;
        if let Err(error) = loader.finish() {
            self.note(before)?;
            return self.shortages.watch(Err(open::refused(error)));
        }
        match open::received(&*self.map, metadata, self.config.ring_bytes) {
            Ok(ring) => {
                (self.ring, self.applied, self.is_partial) = (ring, metadata.index, false);
                Ok(true)
            }
            Err(error) => {
                self.receive(true)?;
                self.receiving = None;
                Err(error)
            }
        }
    }

    fn append_one(&mut self, entry: &Entry) -> Result<()> {
        let done = entries::read(entry)?;
        let tag = entries::tag(entry.term, self.ring.clock_ms(self.ring.last()), &done).to_bytes();
        let is_full = |made: &perdura_map::Result<()>| {
            made.as_ref().is_err_and(|error| error.kind() == perdura_map::ErrorKind::Full)
        };
        let mut made = self.map.batch(entry.index, &tag, &done.changes);
        // The map's own thread makes room, if it has one: nobody waits for it here.
        if is_full(&made) && !self.map.ask_collection(Demand::default()) {
            self.map.collect()?;
            made = self.map.batch(entry.index, &tag, &done.changes);
        }
        made?;
        self.ring.push(entry.clone(), done.clock_ms);
        Ok(())
    }

    fn timestamp(&self, level: ReadLevel) -> u64 {
        match level {
            ReadLevel::Newest => self.ring.last(),
            ReadLevel::Applied => self.applied,
        }
    }
}

impl Store for MapStore {
    fn footprint(&self) -> Footprint {
        let written = perdura_pmem::counters();
        Footprint { written_bytes: written.flushed_bytes() + written.nt_bytes, used_bytes: self.map.space().used }
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
        self.room.has(&*self.map, changes, share)
    }

    fn room(&self) -> Room {
        room::of(&*self.map, &self.room)
    }

    fn makes_room(&self) -> bool {
        self.room.waits
    }

    fn collects(&self) -> bool {
        self.map.is_asked()
    }

    fn shortages(&self) -> &Shortages {
        &self.shortages
    }

    fn append(&mut self, entries: &[Entry]) -> Result<()> {
        self.check_whole()?;
        let last = self.ring.last();
        let Some(from) = entries::begin(entries, last, self.applied)? else { return Ok(()) };
        self.end_load()?;
        if from <= last {
            self.map.rollback(from)?;
            self.ring.truncate(from);
        }
        let appended = entries.iter().try_for_each(|entry| self.append_one(entry));
        self.shortages.watch(appended)
    }

    fn persist(&mut self) -> Result<()> {
        Ok(self.map.persist()?)
    }

    fn commit(&mut self, index: u64) -> Result<()> {
        self.check_whole()?;
        if index > self.applied {
            self.receiving = None;
            // Replicas commit nothing while they install a snapshot: else it would take as long as
            // building the content does.
            self.give_up_build();
            self.map.apply(index)?;
            self.applied = index;
        }
        Ok(())
    }

    fn compact(&mut self, index: u64) -> Result<()> {
        self.check_whole()?;
        if self.receiving.is_some() || self.build.is_some() {
            // All of it is about to go.
            return Ok(());
        }
        self.map.forget(index)?;
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
        self.ring.clock_ms(self.timestamp(level))
    }

    fn entries(&self, from: u64, to: u64, bytes_max: u64) -> Result<Vec<Entry>> {
        self.ring.entries(from, to, bytes_max)
    }

    fn get(&self, level: ReadLevel, place: &[u8]) -> Result<Option<Bytes>> {
        let found = self.map.get(place, self.timestamp(level))?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn part(&self, level: ReadLevel, place: &[u8], range: Range<usize>) -> Result<Option<Part>> {
        let found = self.map.get(place, self.timestamp(level))?;
        Ok(found.map(|value| (Bytes::copy_from_slice(part_of(&value, range)), value.len())))
    }

    fn scan(&self, level: ReadLevel, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) -> Result<()> {
        let mut scan = self.map.scan((begin(prefix, from), Bound::Unbounded), self.timestamp(level))?;
        while let Some(entry) = scan.advance()? {
            if !entry.key.starts_with(prefix) || !each(entry.key, entry.value) {
                break;
            }
        }
        Ok(())
    }

    fn snapshot_format(&self) -> SnapshotFormat {
        SnapshotFormat::Map
    }

    fn content_bytes(&self) -> u64 {
        self.map.usage().live
    }

    fn takes(&self, content_bytes: u64) -> bool {
        // The rest is what the map itself keeps, roughly.
        content_bytes <= self.map.usage().total / 8 * 7
    }

    fn snapshot(&self, chunk_bytes: usize) -> Result<Box<dyn Outgoing>> {
        self.check_whole()?;
        let (index, term) = (self.applied, self.ring.term(self.applied)?);
        let metadata = self.persistent_state.metadata(index, term)?;
        let snapshot = self.map.snapshot_within(self.config.snapshot_garbage_bytes)?;
        Ok(Box::new(outgoing::OfMap::new(snapshot, metadata, chunk_bytes)))
    }

    fn receive(&mut self, empties: bool) -> Result<()> {
        self.end_load()?;
        let resets = empties || self.is_partial;
        let begun = if resets { self.map.reset_and_load() } else { self.map.load_snapshot() };
        self.begin_load(begun, resets)
    }

    fn try_receive(&mut self, empties: bool) -> Result<bool> {
        self.end_load()?;
        let resets = empties || self.is_partial;
        match self.map.try_load(resets).transpose() {
            None => Ok(false),
            Some(begun) => self.begin_load(begun, resets).map(|()| true),
        }
    }

    fn gains_by_emptying(&self) -> bool {
        true
    }

    fn push(&mut self, number: u32, chunk: &[u8]) -> Result<()> {
        let Some(receiving) = &mut self.receiving else { return Err(Error::refused("none is being received")) };
        let pushed = if number == receiving.next {
            receiving.loader.push(chunk).map_err(open::refused)
        } else {
            Err(Error::refused(format!("chunk {number} came where {} should", receiving.next)))
        };
        receiving.next += 1;
        if pushed.is_err() {
            self.receiving = None;
        }
        self.shortages.watch(pushed)
    }

    fn finish_some(&mut self, metadata: &SnapshotMetadata) -> Result<bool> {
        if let Some(Receiving { mut loader, .. }) = self.receiving.take() {
            if !self.config.background {
                let prepared = loader.prepare().map_err(open::refused);
                self.shortages.watch(prepared)?;
                return self.force(loader, metadata);
            }
            self.build = Some(ContentBuild::begin(loader)?);
        }
        match self.build.take() {
            None => Err(Error::refused("none is being received")),
            Some(build) if !build.is_over() => {
                self.build = Some(build);
                Ok(false)
            }
            Some(build) => self.end(build, metadata),
        }
    }

    fn finish(&mut self, metadata: &SnapshotMetadata) -> Result<()> {
        if !self.finish_some(metadata)?
            && let Some(build) = self.build.take()
        {
            self.end(build, metadata)?;
        }
        Ok(())
    }

    fn finishes(&self) -> bool {
        self.build.as_ref().is_some_and(|build| !build.is_over())
    }

    fn is_partial(&self) -> bool {
        self.is_partial
    }

    fn upkeep(&mut self) -> Result<bool> {
        if self.config.background || self.is_partial || self.receiving.is_some() {
            return Ok(false);
        }
        Ok(self.map.collect()? > 0)
    }
}
