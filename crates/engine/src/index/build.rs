//! A new index for rows that are there: their entries are sorted, then written leaf by leaf.
//!
//! Entries are sorted in DRAM up to a bound. What is beyond it goes to the medium in sorted *runs*,
//! in leaves that never count, and the runs are merged. No leaf counts before the catalog has the
//! index: a crash leaves places that opening finds free, or retires. `docs/indexes.md` has the
//! crash story.

use super::bulk::LeafWriter;
use super::leaf::LeafId;
use super::table_index::Index;
use crate::error::Result;
use crate::format::{LeafKind, entry_key, entry_row, push_entry};
use crate::space::segments::Segments;
use perdura_pmem::Mutant;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// Most bytes of DRAM for entries that are sorted.
const MEMORY_MAX: usize = 1 << 31;

/// An entry in DRAM.
#[derive(Clone, Copy)]
struct Place {
    /// Its first bytes, highest first.
    head: u64,
    at: u32,
    length: u16,
    /// Other rows may have its key.
    may_repeat: bool,
}

/// Entries in DRAM.
#[derive(Default)]
struct Entries {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl Entries {
    fn entry(&self, place: &Place) -> &[u8] {
        &self.bytes[place.at as usize..][..usize::from(place.length)]
    }

    fn sort(&mut self) {
        let mut places = std::mem::take(&mut self.places);
        places.sort_unstable_by(|one, other| {
            one.head.cmp(&other.head).then_with(|| self.entry(one).cmp(self.entry(other)))
        });
        self.places = places;
    }

    fn memory(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<Place>()
    }
}

/// Sorted entries on the medium.
struct Run {
    leaves: VecDeque<LeafId>,
    /// Entries of the first leaf that were taken.
    taken: u32,
    may_repeat: bool,
}

/// How a build ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Built {
    /// All entries are there.
    Done,
    /// This row has the key of another.
    Duplicate(u64),
}

/// A new index that nobody uses yet.
pub(crate) struct IndexBuild {
    index: Arc<Index>,
    unique: bool,
    /// DRAM for entries that are sorted, in bytes.
    memory: usize,
    entries: Entries,
    runs: Vec<Run>,
    leaves: Vec<LeafId>,
    /// The leaves say that they are in use.
    in_use: bool,
}

impl IndexBuild {
    /// Begins to build `index`, which has no leaf; with `unique` no two rows may have a key. It
    /// sorts about `memory` bytes at a time.
    pub(crate) fn new(index: Arc<Index>, unique: bool, memory: usize) -> IndexBuild {
        let (entries, runs, leaves) = (Entries::default(), Vec::new(), Vec::new());
        // A list that grows may have twice the room that it needs.
        IndexBuild { index, unique, memory: (memory / 2).clamp(1, MEMORY_MAX), entries, runs, leaves, in_use: false }
    }

    /// Adds the entry of a row. Returns whether [`IndexBuild::spill`] is to follow.
    ///
    /// # Errors
    /// Configuration if the key is too long.
    pub(crate) fn add(&mut self, key: &[u8], row: u64, may_repeat: bool) -> Result<bool> {
        self.index.form().check_length(key)?;
        let Entries { bytes, places } = &mut self.entries;
        let at = bytes.len();
        push_entry(bytes, key, row);
        let mut head = [0; 8];
        let count = (bytes.len() - at).min(8);
        head[..count].copy_from_slice(&bytes[at..at + count]);
        let (at, length, head) = (at as u32, (bytes.len() - at) as u16, u64::from_be_bytes(head));
        places.push(Place { head, at, length, may_repeat: may_repeat || !self.unique });
        Ok(self.entries.memory() >= self.memory)
    }

    /// Writes what is in DRAM to the medium, sorted. `pause` is called after each leaf, and may end
    /// it.
    pub(crate) fn spill(&mut self, segments: &Segments, pause: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _span = perdura_pmem::trace::span("index_run");
        self.entries.sort();
        for may_repeat in [false, true] {
            let mut writer = LeafWriter::default();
            let mut write = || {
                for place in self.entries.places.iter().filter(|place| place.may_repeat == may_repeat) {
                    if writer.push(&self.index, segments, self.entries.entry(place))? {
                        pause()?;
                    }
                }
                writer.finish(&self.index, segments)
            };
            let outcome = write();
            let leaves = VecDeque::from(writer.take());
            if !leaves.is_empty() {
                self.runs.push(Run { leaves, taken: 0, may_repeat });
            }
            outcome?;
        }
        self.entries.bytes.clear();
        self.entries.places.clear();
        Ok(())
    }

    /// Writes the leaves. `pause` is called after each, and may end it.
    pub(crate) fn finish(&mut self, segments: &Segments, pause: &mut dyn FnMut() -> Result<()>) -> Result<Built> {
        let _span = perdura_pmem::trace::span("index_build");
        self.entries.sort();
        let mut writer = LeafWriter::default();
        let outcome = self.merge(&mut writer, segments, pause);
        self.leaves = writer.take();
        self.entries = Entries::default();
        outcome
    }

    fn merge(
        &mut self,
        writer: &mut LeafWriter,
        segments: &Segments,
        pause: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Built> {
        let (index, entries) = (&*self.index, &self.entries);
        let mut in_memory = entries.places.iter().map(|place| (entries.entry(place), place.may_repeat));
        let mut heap = BinaryHeap::with_capacity(self.runs.len() + 1);
        for (number, run) in self.runs.iter_mut().enumerate() {
            heap.extend(run.next(index)?.map(|entry| Reverse((entry, number, run.may_repeat))));
        }
        let memory = self.runs.len();
        heap.extend(in_memory.next().map(|(entry, may_repeat)| Reverse((entry, memory, may_repeat))));
        while let Some(Reverse((entry, from, may_repeat))) = heap.pop() {
            if !may_repeat && !writer.last().is_empty() && entry_key(writer.last()) == entry_key(entry) {
                return Ok(Built::Duplicate(entry_row(entry)));
            }
            let wrote = writer.push(index, segments, entry)?;
            // The entry is copied: its run may give the leaf back.
            let next = match self.runs.get_mut(from) {
                Some(run) => run.next(index)?.map(|entry| (entry, run.may_repeat)),
                None => in_memory.next(),
            };
            heap.extend(next.map(|(entry, may_repeat)| Reverse((entry, from, may_repeat))));
            if wrote {
                pause()?;
            }
        }
        writer.finish(index, segments)?;
        Ok(Built::Done)
    }

    /// Makes the leaves say that they are in use. None counts before the catalog has the index, and
    /// the fence of that commit covers what this thread has flushed of them (I3).
    pub(crate) fn put_in_use(&mut self) {
        let leaves = self.index.leaves();
        self.in_use = true;
        let mut entering = self.index.order().entering();
        for leaf in &self.leaves {
            let bytes = leaves.bytes(*leaf);
            // Planted: they say so only in DRAM.
            if !perdura_pmem::planted(Mutant::NewLeavesNotInUse) {
                bytes.set_state(LeafKind::InUse);
            }
            entering.enter(bytes.low(), *leaf);
        }
    }

    /// Gives back the leaves of an index that does not come into use. With `undecided` they stay:
    /// nobody knows whether the catalog has the index.
    pub(crate) fn discard(&mut self, undecided: bool) {
        if undecided {
            return;
        }
        let leaves = self.index.leaves();
        if self.in_use {
            // The next index gets the number.
            self.leaves.iter().for_each(|leaf| leaves.wipe(*leaf));
        }
        let mut unused = std::mem::take(&mut self.leaves);
        unused.extend(self.runs.drain(..).flat_map(|run| run.leaves));
        leaves.put_unused(unused);
    }
}

impl Run {
    /// Takes the next entry. A leaf whose entries are all taken is given back at the call after.
    fn next<'i>(&mut self, index: &'i Index) -> Result<Option<&'i [u8]>> {
        while let Some(first) = self.leaves.front().copied() {
            let bytes = index.leaves().bytes(first);
            if self.taken < bytes.loaded_valid().count_ones() {
                self.taken += 1;
                return bytes.sound_entry(self.taken - 1).map(Some);
            }
            self.leaves.pop_front();
            self.taken = 0;
            index.leaves().put(first);
        }
        Ok(None)
    }
}
