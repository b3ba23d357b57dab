//! Loads a snapshot: builds the new content beside the old, then one persist replaces the old by
//! the new.
//!
//! Records are appended unlinked as they arrive; at the end a [`Content`] is built of them. All
//! that takes the writer's lock for short steps, and may be done by another thread
//! ([`Loader::prepare`]); only the change of contents is one step, linear in the pages used.
//! Nothing else changes the map meanwhile but its meta blob.
//!
//! The records of a load that is broken off are given up some in each persist.
//!
//! A load that resets first needs room for one content only. It persists an empty map with a mark;
//! until the load is finished, also after a crash or after it was broken off, the map can do
//! nothing but load.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Index;
use crate::index::versions::Candidate;
use crate::memory::append::New;
use crate::memory::format::Ref;
use crate::memory::pages::{Filling, Urgency};
use crate::state::collector::Memory;
use crate::state::core::Core;
use crate::transfer::content::Content;
use crate::transfer::stream::{self, Header, Parser, Part};
use perdura_pmem::sync::MutexGuard;
use perdura_pmem::{Mutant, planted, trace};
use std::sync::Arc;

/// Bytes of new records that one step under the writer's lock flushes.
const FLUSHED_BYTES: u64 = 256 << 10;

/// A load into a map of either structure. Dropped, it discards what is not installed.
trait Target: Send {
    /// Adds the next item of the stream.
    fn add(&mut self, item: &New<'_>) -> Result<()>;
    /// Count of the items.
    fn items(&self) -> usize;
    fn prepare(&mut self, header: Header) -> Result<()>;
    fn put_in_force(&mut self) -> Result<()>;
    fn refuse(&self, what: &str) -> Error;
}

/// Takes the chunks of a snapshot in order. A loader dropped before [`Loader::finish`] leaves the
/// map as it was when the loader was made: after a reset, emptied. It owns its share of the map,
/// and may be kept between chunks; once the map is closed it is refused.
pub struct Loader {
    target: Box<dyn Target>,
    parser: Parser,
    header: Option<Header>,
    is_prepared: bool,
    number: u32,
    /// Checksum of the last chunk.
    crc: u32,
    failed: bool,
}

impl Loader {
    /// Begins a load once a collection round has ended, and keeps the next from starting.
    pub(crate) fn begin<I: Index>(core: &Arc<Core<I>>, resets: bool) -> Result<Loader> {
        Load::begin(core, core.collector.lock(), resets).map(Loader::new)
    }

    /// [`Loader::begin`], or none while a collection round runs, which gives way then.
    pub(crate) fn try_begin<I: Index>(core: &Arc<Core<I>>, resets: bool) -> Result<Option<Loader>> {
        match core.collector.try_lock() {
            Some(memory) => Load::begin(core, memory, resets).map(|load| Some(Loader::new(load))),
            None => {
                core.collector.leave_rounds_out();
                Ok(None)
            }
        }
    }

    fn new<I: Index>(load: Load<I>) -> Loader {
        let parser = Parser::default();
        Loader { target: Box::new(load), parser, header: None, is_prepared: false, number: 0, crc: 0, failed: false }
    }

    /// Takes the next chunk. Errors: `Damaged` (wrong bytes or wrong order) and `Full`, after which
    /// only dropping is left.
    pub fn push(&mut self, chunk: &[u8]) -> Result<()> {
        if self.failed {
            return Err(self.target.refuse("an earlier chunk was refused"));
        }
        let found = self.take(chunk);
        self.failed = found.is_err();
        self.number += 1;
        found
    }

    fn take(&mut self, chunk: &[u8]) -> Result<()> {
        let Loader { target, parser, header, number, crc, .. } = self;
        let (piece, found) = stream::unframe(chunk, *number, *crc).map_err(|what| target.refuse(&what))?;
        *crc = found;
        let fed = parser.feed(piece, |part| match part {
            Part::Header(found) => {
                *header = Some(found);
                Ok(())
            }
            Part::Item { ts, key, value, deletion, tag } => {
                let last = header.as_ref().map_or(0, |header| header.last);
                if ts > last {
                    return Err(Refusal::Stream(format!("an item at {ts}, after the last change at {last}")));
                }
                let item = New { ts, key, value: (!deletion).then_some(value), tag, borne: None, next: 0, older: 0 };
                target.add(&item).map_err(Refusal::Error)
            }
            Part::End { items } if items == target.items() as u64 => Ok(()),
            Part::End { items } => Err(Refusal::Stream(format!("{} items of {items}", target.items()))),
        });
        fed.map_err(|refusal| match refusal {
            Refusal::Stream(what) => target.refuse(&what),
            Refusal::Error(error) => error,
        })
    }

    /// Builds the content, which takes most of the time of [`Loader::finish`], and shows nothing of
    /// it to anybody. Another thread than the one that pushes and finishes may do it. Errors: as of
    /// [`Loader::finish`], after which only dropping is left.
    pub fn prepare(&mut self) -> Result<()> {
        if self.is_prepared {
            return Ok(());
        }
        let header = match self.header.take() {
            Some(header) if self.parser.is_over() && !self.failed => header,
            _ => return Err(self.target.refuse("the stream is not complete")),
        };
        let prepared = self.target.prepare(header);
        (self.is_prepared, self.failed) = (prepared.is_ok(), prepared.is_err());
        prepared
    }

    /// Replaces the content, durably. Errors: `Damaged` if the stream is incomplete, `Full`.
    pub fn finish(mut self) -> Result<()> {
        self.prepare()?;
        self.target.put_in_force()
    }
}

enum Refusal {
    Stream(String),
    Error(Error),
}

impl From<String> for Refusal {
    fn from(what: String) -> Refusal {
        Refusal::Stream(what)
    }
}

/// A load under way.
struct Load<I: Index> {
    core: Arc<Core<I>>,
    candidates: Vec<Candidate>,
    /// Once the content is built: all records that have come, in the place of the candidates.
    records: Vec<Ref>,
    /// Built, and not yet installed.
    content: Option<Content<I>>,
}

impl<I: Index> Load<I> {
    fn begin(core: &Arc<Core<I>>, mut memory: MutexGuard<'_, Memory>, resets: bool) -> Result<Load<I>> {
        core.collector.resume_rounds();
        let shared = &core.shared;
        let mut state = core.state.lock();
        if state.holds.is_loading() {
            state.check_content(shared)?;
        }
        state.check_last_numbers(shared)?;
        if state.holds.any() {
            let what = "a snapshot of this map is held; drop it before another is loaded";
            return Err(shared.records.error(ErrorKind::ReadOnly, what.into()));
        }
        // These offsets lose their meaning once other records lie there.
        state.ended.add_dead_deletions(memory.aged.drain());
        memory.milestones.clear();
        // A reader of the old content finds every node with its checksum after the new one is
        // installed.
        state.persist(shared);
        if resets {
            // Planted: a map that was emptied for a load passes for an empty one.
            Content::empty(shared, &mut state)?.put_in_force(
                shared,
                &mut state,
                !planted(Mutant::EmptiedMapPassesForEmpty),
            );
            state.make_room(shared);
        }
        state.holds.set_loading(true);
        Ok(Load { core: core.clone(), candidates: Vec::new(), records: Vec::new(), content: None })
    }

    /// Ends the load. The records that have come are abandoned, unless their content is installed.
    fn end(&mut self) {
        let core = &self.core;
        let candidates = std::mem::take(&mut self.candidates).into_iter().map(|candidate| candidate.record);
        let records = std::mem::take(&mut self.records).into_iter().chain(candidates);
        let mut state = core.state.lock();
        state.ended.abandon(Box::new(records));
        // Nothing else would persist for as long as nothing is changed.
        while !core.shared.config.background && state.give_up_some() {
            drop(state);
            state = core.state.lock();
        }
        state.holds.set_loading(false);
        state.set_dirty();
        drop(state);
        core.shared.wake.stir();
    }
}

impl<I: Index> Target for Load<I> {
    fn add(&mut self, item: &New<'_>) -> Result<()> {
        let shared = &self.core.shared;
        let mut state = self.core.state.lock();
        self.core.closing.check_open(&shared.records)?;
        let mut added = shared.records.append(&mut state.pages, Filling::Records, item, Urgency::Ordinary);
        let mut has_more = true;
        while added.is_err() && has_more {
            has_more = state.make_room(shared);
            added = shared.records.append(&mut state.pages, Filling::Records, item, Urgency::Ordinary);
        }
        if state.pages.batch.bytes() >= FLUSHED_BYTES {
            state.persist_part(shared);
        }
        self.candidates.push(Candidate::new(added?, item.key, item.ts, item.tag, self.candidates.len()));
        Ok(())
    }

    fn items(&self) -> usize {
        self.candidates.len()
    }

    fn prepare(&mut self, header: Header) -> Result<()> {
        let _span = trace::span("map_load");
        let Core { shared, state, closing, .. } = &*self.core;
        let _finishing = closing.finishing();
        closing.check_open(&shared.records)?;
        self.content = Some(Content::build(shared, state, header, &mut self.candidates)?);
        self.records = std::mem::take(&mut self.candidates).into_iter().map(|candidate| candidate.record).collect();
        Ok(())
    }

    fn put_in_force(&mut self) -> Result<()> {
        let _span = trace::span("map_load_force");
        let Core { shared, state, closing, .. } = &*self.core;
        let _finishing = closing.finishing();
        closing.check_open(&shared.records)?;
        if let Some(content) = self.content.take() {
            content.put_in_force(shared, &mut state.lock(), false);
            self.records.clear();
        }
        Ok(())
    }

    fn refuse(&self, what: &str) -> Error {
        let what = format!("snapshot refused: {what}; ask for a new snapshot; nothing of this one counts");
        self.core.shared.records.error(ErrorKind::Damaged, what)
    }
}

impl<I: Index> Drop for Load<I> {
    fn drop(&mut self) {
        // The content that was built of the records goes before them.
        if let Some(content) = self.content.take() {
            let Core { shared, state, closing, .. } = &*self.core;
            let _finishing = closing.finishing();
            // Another may have opened the map since.
            if !closing.has_begun() {
                content.give_up(shared, state);
            }
        }
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use crate::state::collector::ROUNDS_LEFT_OUT;
    use crate::upkeep::structure::Structure;
    use crate::{Config, Layout, ListIndex, Map, OrderedMap, TreeIndex};
    use perdura_pmem::{Medium, SimMedium};
    use std::sync::Arc;

    fn full_of_garbage<I: Structure>(layout: &Layout) -> Map<I> {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let config = Config { background: false, ..Config::default() };
        let map = Map::<I>::create(&medium, "m", layout, &config).expect("room");
        for number in 0..6000_u32 {
            map.put(&(number % 1500).to_be_bytes(), &[7; 100]).expect("room");
        }
        map
    }

    fn gives_way<I: Structure>(layout: &Layout) {
        let map = full_of_garbage::<I>(layout);
        let round = map.core.collector.lock();
        assert!(map.try_load(false).expect("a map").is_none(), "a round runs");
        drop(round);
        assert_eq!(map.collect().expect("a map"), 0, "a load comes first");
        drop(map.try_load(false).expect("a map").expect("no round runs"));
        assert!(map.collect().expect("a map") > 0, "it has begun, and rounds are run again");

        let map = full_of_garbage::<I>(layout);
        let round = map.core.collector.lock();
        assert!(map.try_load(true).expect("a map").is_none(), "a round runs");
        drop(round);
        for _ in 0..ROUNDS_LEFT_OUT {
            assert_eq!(map.collect().expect("a map"), 0);
        }
        assert!(map.collect().expect("a map") > 0, "the load is given up for one that never comes");
        assert_eq!(map.check().expect("a sound map"), 1500);
    }

    /// Hazard: the begin of a load waits for a collection round, which takes seconds where millions
    /// of objects are to be moved; or a load that does not come after all keeps the collector away
    /// for good.
    #[test]
    fn a_round_gives_way_to_a_load() {
        gives_way::<ListIndex>(&Layout::list(4 << 20));
        gives_way::<TreeIndex>(&Layout::btree(16 << 20));
    }
}
