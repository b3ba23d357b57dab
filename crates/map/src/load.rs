//! Loads a snapshot: builds the new content beside the old, then one persist replaces the old
//! by the new.
//!
//! Records are appended unlinked as they arrive. At the end they are sorted, superseded and
//! forgotten ones are dropped, the rest are linked and counted, and the index is built. The newest
//! are linked last, so that those not yet forgotten begin at the head. All that takes the writer's
//! lock for short steps, and may be done by another thread ([`Loader::prepare`]); only the change
//! of contents is one step, linear in the pages used. Nothing else changes the map meanwhile but
//! its meta blob.
//!
//! The records of a load that is broken off are given up some in each persist.
//!
//! A load that resets first needs room for one content only. It persists an empty map with a mark;
//! until the load is finished, also after a crash or after it was broken off, the map can do
//! nothing but load.

use crate::append::New;
use crate::batch::Batch;
use crate::config::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Ref, link};
use crate::index::{Editing, Index};
use crate::page_counts::Counts;
use crate::pages::{Filling, Urgency};
use crate::pending::{Change, Pending};
use crate::state::{Abandoned, Collector, Core, State, Tagged};
use crate::stream::{self, Header, Parser, Part};
use crate::timestamps::{Timestamps, Ts};
use crate::versions::{Candidate, Versions, link_older, versions};
use perdura_pmem::sync::MutexGuard;
use perdura_pmem::{planted, trace};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of new records that one step under the writer's lock flushes.
const FLUSHED_BYTES: u64 = 256 << 10;
/// Records of a load broken off that one step gives up.
const STEP_RECORDS: usize = 1024;

/// A content that is built.
struct Content<I: Index> {
    header: Header,
    /// Number of the versions.
    versions: u64,
    counts: Counts,
    built: I::Built,
    head: u64,
    pending: Pending,
}

/// A content that is built, and the map whose content it is to be.
struct Prepared<I: Index> {
    core: Arc<Core<I>>,
    /// None once it is in force.
    content: Option<Content<I>>,
}

/// A content that can be put in force, once, by one step under the writer's lock. Dropped, it is given
/// up.
trait Force: Send {
    fn put_in_force(&mut self) -> Result<()>;
}

/// The map that the content is loaded into.
trait Target: Send + Sync {
    fn add(&self, item: &New<'_>, order: usize) -> Result<Candidate>;
    fn prepare(self: Arc<Self>, header: Header, candidates: &mut [Candidate]) -> Result<Box<dyn Force>>;
    fn end(&self, abandoned: Abandoned);
    fn refuse(&self, what: &str) -> Error;
}

/// Takes the chunks of a snapshot in order. A loader dropped before [`Loader::finish`] leaves the
/// map as it was when the loader was made: after a reset, emptied. It owns its share of the map,
/// and may be kept between chunks; once the map is closed it is refused.
pub struct Loader {
    target: Arc<dyn Target>,
    parser: Parser,
    header: Option<Header>,
    candidates: Vec<Candidate>,
    /// The content, once [`Loader::prepare`] has built it, and all records that have come, which
    /// take the place of the candidates.
    prepared: Option<Box<dyn Force>>,
    records: Vec<Ref>,
    number: u32,
    /// Checksum of the last chunk.
    crc: u32,
    failed: bool,
}

impl<I: Index> Core<I> {
    pub(crate) fn load_snapshot(self: &Arc<Self>, resets: bool) -> Result<Loader> {
        // Waits for a collection round to end and keeps the next from starting.
        self.begin_load(self.collector.lock(), resets)
    }

    /// [`Core::load_snapshot`], or none while a collection round runs, which gives way then.
    pub(crate) fn try_load(self: &Arc<Self>, resets: bool) -> Result<Option<Loader>> {
        match self.collector.try_lock() {
            Some(collector) => self.begin_load(collector, resets).map(Some),
            None => {
                self.leave_rounds_out();
                Ok(None)
            }
        }
    }

    fn begin_load(self: &Arc<Self>, mut collector: MutexGuard<'_, Collector>, resets: bool) -> Result<Loader> {
        self.rounds_left_out.store(0, Ordering::Relaxed);
        let mut state = self.state.lock();
        if state.is_loading {
            self.check_content(&state)?;
        }
        self.check_last_numbers(&state)?;
        if state.holds.any() {
            let what = "a snapshot of this map is held; drop it before another is loaded";
            return Err(self.error(ErrorKind::ReadOnly, what.into()));
        }
        // These offsets lose their meaning once other records lie there.
        state.dead_deletions.extend(collector.aged.drain());
        collector.milestones.clear();
        // A reader of the old content when the new is in force finds every node with its checksum.
        self.persist(&mut state);
        if resets {
            self.reset(&mut state)?;
        }
        state.is_loading = true;
        let parser = Parser::default();
        Ok(Loader {
            target: self.clone(),
            parser,
            header: None,
            candidates: Vec::new(),
            prepared: None,
            records: Vec::new(),
            number: 0,
            crc: 0,
            failed: false,
        })
    }
}

impl Loader {
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
        let Loader { target, parser, header, candidates, number, crc, .. } = self;
        let target = &**target;
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
                let item = New { ts, key, value: (!deletion).then_some(value), tag, next: 0, older: 0 };
                candidates.push(target.add(&item, candidates.len()).map_err(Refusal::Error)?);
                Ok(())
            }
            Part::End { items } if items == candidates.len() as u64 => Ok(()),
            Part::End { items } => Err(Refusal::Stream(format!("{} items of {items}", candidates.len()))),
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
        if self.prepared.is_some() {
            return Ok(());
        }
        let header = match self.header.take() {
            Some(header) if self.parser.is_over() && !self.failed => header,
            _ => return Err(self.target.refuse("the stream is not complete")),
        };
        let prepared = self.target.clone().prepare(header, &mut self.candidates);
        self.failed = prepared.is_err();
        self.prepared = Some(prepared?);
        self.records = std::mem::take(&mut self.candidates).into_iter().map(|candidate| candidate.record).collect();
        Ok(())
    }

    /// Replaces the content, durably. Errors: `Damaged` if the stream is incomplete, `Full`.
    pub fn finish(mut self) -> Result<()> {
        self.prepare()?;
        if let Some(prepared) = &mut self.prepared {
            prepared.put_in_force()?;
        }
        self.records.clear();
        Ok(())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // The content that was built from the records goes before them.
        self.prepared = None;
        let candidates = std::mem::take(&mut self.candidates).into_iter().map(|candidate| candidate.record);
        self.target.end(Box::new(std::mem::take(&mut self.records).into_iter().chain(candidates)));
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

impl<I: Index> Target for Core<I> {
    fn add(&self, item: &New<'_>, order: usize) -> Result<Candidate> {
        let mut state = self.state.lock();
        self.check_open()?;
        let mut added = self.append(&mut state.pages, Filling::Records, item, Urgency::Ordinary);
        let mut has_more = true;
        while added.is_err() && has_more {
            has_more = self.make_room(&mut state);
            added = self.append(&mut state.pages, Filling::Records, item, Urgency::Ordinary);
        }
        if state.pages.batch.bytes() >= FLUSHED_BYTES {
            self.persist_part(&mut state);
        }
        Ok(Candidate::new(added?, item.key, item.ts, item.tag, order))
    }

    fn prepare(self: Arc<Self>, header: Header, candidates: &mut [Candidate]) -> Result<Box<dyn Force>> {
        let _span = trace::span("map_load");
        let _finishing = self.finishing.lock();
        self.check_open()?;
        // Nobody reads the new records yet, and changes are refused: most of the work needs no
        // lock.
        let found = versions(&self.records, candidates, header.forgotten, false);
        self.persist_part(&mut self.state.lock());
        let mut batch = Batch::default();
        link_older(&self.records, &mut batch, &found);
        // Of several tags of a timestamp the newest counts, which came first and was sorted so.
        let mut tags: Vec<(Ts, Ref)> = candidates
            .iter()
            .filter(|candidate| candidate.tag && candidate.ts > header.forgotten)
            .map(|candidate| (candidate.ts, candidate.record))
            .collect();
        tags.dedup_by_key(|(ts, _)| *ts);
        let (head, pending) = self.link_up(&mut batch, &found, &tags, header.forgotten)?;
        // The fence of this thread's next persist covers these as well.
        batch.flush(&self.records.region);
        let built = self.index.build(&mut |run| self.step(run), &found.entries)?;
        let mut counts = Counts::new(&self.records.geometry);
        found.kept.iter().for_each(|(record, _)| counts.add(*record));
        tags.iter().for_each(|(_, record)| counts.add(*record));
        I::made(&built).iter().for_each(|link| counts.add(Ref(*link)));
        self.persist_part(&mut self.state.lock());
        let content = Content { header, versions: found.kept.len() as u64, counts, built, head, pending };
        Ok(Box::new(Prepared { core: self.clone(), content: Some(content) }))
    }

    fn end(&self, abandoned: Abandoned) {
        let mut state = self.state.lock();
        state.abandoned.push(abandoned);
        // Nothing else would persist for as long as nothing is changed.
        while !self.config.background && self.give_up_some(&mut state) {
            drop(state);
            state = self.state.lock();
        }
        state.is_loading = false;
        state.is_dirty = true;
        drop(state);
        self.stir();
    }

    fn refuse(&self, what: &str) -> Error {
        let remedy = "ask for a new snapshot; nothing of this one counts";
        self.error(ErrorKind::Damaged, format!("snapshot refused: {what}; {remedy}"))
    }
}

impl<I: Index> Force for Prepared<I> {
    fn put_in_force(&mut self) -> Result<()> {
        let _span = trace::span("map_load_force");
        let _finishing = self.core.finishing.lock();
        self.core.check_open()?;
        if let Some(content) = self.content.take() {
            self.core.put_in_force(&mut self.core.state.lock(), content, false);
        }
        Ok(())
    }
}

impl<I: Index> Drop for Prepared<I> {
    fn drop(&mut self) {
        let _finishing = self.core.finishing.lock();
        // Another may have opened the map since.
        let is_open = self.core.check_open().is_ok();
        if let Some(content) = self.content.take().filter(|_| is_open) {
            self.core.index.give_up(&mut |run| self.core.step(run), &content.built);
        }
    }
}

impl<I: Index> Core<I> {
    /// Error: `ReadOnly` once the handle of the map is gone, which another may have opened since.
    fn check_open(&self) -> Result<()> {
        if self.is_closing.load(Ordering::Relaxed) {
            let what = "the map was closed while a snapshot was loaded; open it and load again";
            return Err(self.error(ErrorKind::ReadOnly, what.into()));
        }
        Ok(())
    }

    /// Empties the map durably, and marks it as one whose content is being loaded.
    fn reset(&self, state: &mut State<I>) -> Result<()> {
        let times = Timestamps::default();
        let header =
            Header { last: times.last, applied: times.applied, forgotten: times.forgotten, tag_ts: 0, tag: Vec::new() };
        let steps =
            &mut |run: &mut dyn FnMut(&mut Editing<'_, I>) -> Result<()>| run(&mut state.editing(Urgency::Ordinary));
        let built = self.index.build(steps, &[])?;
        let counts = Counts::new(&self.records.geometry);
        let content = Content { header, versions: 0, counts, built, head: 0, pending: Pending::default() };
        // Planted: a map that was emptied for a load passes for an empty one.
        self.put_in_force(state, content, !planted(153));
        self.make_room(state);
        Ok(())
    }

    /// Runs something in a step under the writer's lock in which what nothing reaches yet is made, and
    /// persists.
    fn step(&self, run: &mut dyn FnMut(&mut Editing<'_, I>) -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        run(&mut state.editing(Urgency::Ordinary))?;
        self.persist_part(&mut state);
        Ok(())
    }

    /// Gives up some of the records of loads that were broken off. Returns whether there are more.
    pub(crate) fn give_up_some(&self, state: &mut State<I>) -> bool {
        let State { abandoned, pages, is_dirty, .. } = state;
        let Some(records) = abandoned.last_mut() else { return false };
        let mut count = 0;
        records.take(STEP_RECORDS).for_each(|record| {
            count += 1;
            pages.end(record);
        });
        *is_dirty |= count > 0;
        if count < STEP_RECORDS {
            abandoned.pop();
        }
        !abandoned.is_empty()
    }

    /// Persists what nothing reaches yet, so that nobody waits for the last persist to flush
    /// it.
    fn persist_part(&self, state: &mut State<I>) {
        state.is_dirty = true;
        self.persist(state);
    }

    /// Replaces the content and persists, in one step: linear in the pages used. With `is_partial`
    /// the map can only be loaded from then on.
    fn put_in_force(&self, state: &mut State<I>, content: Content<I>, is_partial: bool) {
        let Content { header, versions, counts, built, head, pending } = content;
        state.pages.count_anew(&counts);
        // They are not counted any more.
        state.abandoned.clear();
        self.index.prepare(&mut state.editing(Urgency::Ordinary), &built);
        // Who sees an empty map that stands for none knows it, and who sees it whole sees the
        // content.
        self.is_partial.fetch_or(is_partial, Ordering::Release);
        self.views.replaced(header.forgotten, || {
            let mut edit = state.editing(Urgency::Ordinary);
            self.index.install(&mut edit, built, &self.pins);
        });
        self.is_partial.store(is_partial, Ordering::Release);
        let Header { last, applied, forgotten, tag_ts, tag } = header;
        state.times = Timestamps { last, applied, forgotten, persisted: 0 };
        state.forget_to = forgotten;
        state.forgotten_tag = Tagged { ts: tag_ts, tag };
        state.versions = versions;
        (state.head, state.pending) = (head, pending);
        (state.is_traversed, state.damage, state.is_dirty) = (true, None, true);
        self.records.are_checked.store(true, Ordering::Relaxed);
        state.dead.clear();
        state.cut.clear();
        state.to_sweep.clear();
        state.dead_deletions.clear();
        self.keep_for_rollback(state, 0);
        self.persist(state);
    }

    /// Links the new records in the order of their timestamps, as [`crate::rebuild`] expects; of
    /// the B+-tree only those not forgotten. Returns the head and the pending changes.
    fn link_up(
        &self,
        batch: &mut Batch,
        found: &Versions,
        tags: &[(Ts, Ref)],
        forgotten: Ts,
    ) -> Result<(u64, Pending)> {
        let ts = |record: Ref| self.records.trusted_ts(record);
        let all = found.kept.iter().map(|(record, _)| (ts(*record), true, *record));
        // The tag of a timestamp comes before its changes.
        let all = all.chain(tags.iter().map(|(ts, record)| (*ts, false, *record)));
        let (mut changes, mut settled): (Vec<_>, Vec<_>) = all.partition(|(ts, ..)| *ts > forgotten);
        // Planted: records that may be rolled back are linked in the order of their keys.
        if !planted(143) {
            changes.sort_unstable();
        }
        settled.sort_unstable();
        let mut head = 0;
        let settled = if I::KIND == Kind::List { &settled[..] } else { &[] };
        for (.., record) in settled.iter().chain(&changes) {
            self.records.region.store(record.offset(), link(head, self.records.salt));
            batch.add(record.offset(), 8);
            head = record.offset();
        }
        let mut pending = Pending::default();
        for (.., record) in changes {
            pending.push(Change::read(&self.records, record.offset())?);
        }
        Ok((head, pending))
    }
}

#[cfg(test)]
mod tests {
    use crate::state::ROUNDS_LEFT_OUT;
    use crate::structure::Structure;
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

    /// Hazard: who begins a load waits for a collection round, which takes seconds where millions
    /// of objects are to be moved; or a load that does not come after all keeps the collector away
    /// for good.
    #[test]
    fn a_round_gives_way_to_a_load() {
        gives_way::<ListIndex>(&Layout::list(4 << 20));
        gives_way::<TreeIndex>(&Layout::btree(16 << 20));
    }
}
