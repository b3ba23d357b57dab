//! Loads a snapshot: builds the new content beside the old, then one confirmation replaces the old by the new.
//!
//! Records are appended unlinked as they arrive. At the end they are sorted, superseded and forgotten ones are dropped,
//! the rest are linked, and the index is built. The newest are linked last, so that those not yet forgotten begin at
//! the head.

use crate::config::Kind;
use crate::entries::{Candidate, entries};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Ref, link};
use crate::index::{Index, Store};
use crate::pages::{Filling, Urgency};
use crate::pending::{Change, Pending};
use crate::state::{Core, State};
use crate::stream::{self, Header, Parser, Part};
use crate::timestamps::{Timestamps, Ts};
use crate::tree::{self, Entry};
use perdura_pmem::{planted, trace};
use rustc_hash::FxHashSet;

/// The map that the content is loaded into.
trait Target: Sync {
    fn add(&self, ts: Ts, key: &[u8], value: Option<&[u8]>, order: usize) -> Result<Candidate>;
    fn replace(&self, header: &Header, candidates: &mut [Candidate]) -> Result<()>;
    fn end(&self, abandoned: &[Candidate]);
    fn refuse(&self, what: &str) -> Error;
}

/// Takes the chunks of a snapshot in order. A loader dropped before [`Loader::finish`] leaves the map as it was.
pub struct Loader<'m> {
    target: &'m dyn Target,
    parser: Parser,
    header: Option<Header>,
    candidates: Vec<Candidate>,
    number: u32,
    /// Checksum of the last chunk.
    crc: u32,
    failed: bool,
}

impl<I: Index> Core<I> {
    pub(crate) fn load_snapshot(&self) -> Result<Loader<'_>> {
        // Waits for a collection round to end and keeps the next from starting.
        let mut collector = self.collector.lock();
        let mut state = self.state.lock();
        self.check_writable(&state)?;
        if state.snapshots > 0 {
            let what = "a snapshot of this map is held; drop it before another is loaded";
            return Err(self.error(ErrorKind::ReadOnly, what.into()));
        }
        // These offsets lose their meaning once other records lie there.
        state.dead_deletions.extend(collector.aged.drain());
        state.is_loading = true;
        let parser = Parser::default();
        Ok(Loader { target: self, parser, header: None, candidates: Vec::new(), number: 0, crc: 0, failed: false })
    }
}

impl Loader<'_> {
    /// Takes the next chunk. Errors: `Damaged` (wrong bytes or wrong order) and `Full`, after which only dropping is
    /// left.
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
        let (piece, found) = stream::unframe(chunk, *number, *crc).map_err(|what| target.refuse(&what))?;
        *crc = found;
        let fed = parser.feed(piece, |part| match part {
            Part::Header(found) => {
                *header = Some(found);
                Ok(())
            }
            Part::Item { ts, key, value, deletion } => {
                let last = header.as_ref().map_or(0, |header| header.last);
                if ts > last {
                    return Err(Refusal::Stream(format!("an item at {ts}, after the last change at {last}")));
                }
                let value = (!deletion).then_some(value);
                candidates.push(target.add(ts, key, value, candidates.len()).map_err(Refusal::Error)?);
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

    /// Replaces the content, durably. Errors: `Damaged` if the stream is incomplete, `Full`.
    pub fn finish(mut self) -> Result<()> {
        let header = match self.header {
            Some(header) if self.parser.is_over() && !self.failed => header,
            _ => return Err(self.target.refuse("the stream is not complete")),
        };
        self.target.replace(&header, &mut self.candidates)?;
        self.candidates.clear();
        Ok(())
    }
}

impl Drop for Loader<'_> {
    fn drop(&mut self) {
        self.target.end(&self.candidates);
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
    fn add(&self, ts: Ts, key: &[u8], value: Option<&[u8]>, order: usize) -> Result<Candidate> {
        let mut state = self.state.lock();
        let mut added = self.append(&mut state.pages, Filling::Records, (ts, key, value), 0, Urgency::Ordinary);
        if added.is_err() {
            self.make_room(&mut state);
            added = self.append(&mut state.pages, Filling::Records, (ts, key, value), 0, Urgency::Ordinary);
        }
        Ok(Candidate::new(added?, key, ts, value.is_none(), order))
    }

    fn replace(&self, header: &Header, candidates: &mut [Candidate]) -> Result<()> {
        let _span = trace::span("map_load");
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let found = entries(&self.records, candidates, header.forgotten);
        let (root, made) = {
            let built =
                self.edit(state, Urgency::Ordinary, |nodes, _, edit| tree::build(nodes, &self.records, &found, edit))?;
            (built.0, built.1.made)
        };
        let chain = self.link_up(state, &found, header);
        let old_root = state.root;
        state.store.clear(&mut state.pages, &self.reader, old_root);
        state.pages.count_anew();
        found.iter().for_each(|(_, record)| _ = state.pages.born(*record));
        if I::KIND == Kind::BTree {
            made.iter().for_each(|link| _ = state.pages.born(Ref(*link)));
        }
        // A mark that rises is stored before the root that needs it, one that falls after. Readers load it before and
        // after.
        self.publish_forgotten(header.forgotten.max(state.times.forgotten));
        self.publish(state, root);
        self.publish_forgotten(header.forgotten);
        let (last, applied, forgotten) = (header.last, header.applied, header.forgotten);
        state.times = Timestamps { last, applied, forgotten, confirmed: state.times.confirmed };
        state.versions = found.len() as u64;
        (state.head, state.pending) = chain;
        (state.orphans, state.is_traversed, state.is_dirty) = (FxHashSet::default(), true, true);
        state.dead.clear();
        state.cut.clear();
        state.dead_deletions.clear();
        self.confirm(state);
        Ok(())
    }

    fn end(&self, abandoned: &[Candidate]) {
        let mut state = self.state.lock();
        abandoned.iter().for_each(|candidate| state.pages.cut(candidate.record));
        state.is_loading = false;
        state.is_dirty = true;
        drop(state);
        self.stir();
    }

    fn refuse(&self, what: &str) -> Error {
        let remedy = "ask for a new snapshot; the map is as it was";
        self.error(ErrorKind::Damaged, format!("snapshot refused: {what}; {remedy}"))
    }
}

impl<I: Index> Core<I> {
    /// Links the new records in the order of their timestamps, as [`crate::rebuild`] expects; of the B+-tree only those
    /// not forgotten. Returns the head and the pending changes.
    fn link_up(&self, state: &mut State<I>, found: &[Entry], header: &Header) -> (u64, Pending) {
        let ts = |record: Ref| self.records.trusted_ts(record);
        let (mut changes, mut settled): (Vec<_>, Vec<_>) =
            found.iter().map(|(_, record)| (ts(*record), *record)).partition(|(ts, _)| *ts > header.forgotten);
        // Planted: records that may be rolled back are linked in the order of their keys.
        if !planted(143) {
            changes.sort_unstable();
        }
        settled.sort_unstable();
        let mut head = 0;
        let settled = if I::KIND == Kind::List { &settled[..] } else { &[] };
        for (_, record) in settled.iter().chain(&changes) {
            self.records.region.store(record.offset(), link(head, self.records.salt));
            state.pages.batch.add(record.offset(), 8);
            head = record.offset();
        }
        let mut pending = Pending::default();
        for (ts, record) in changes {
            let deletion = self.records.is_deletion(record);
            pending.push(Change { ts, record, has_older: true, deletion });
        }
        (head, pending)
    }
}
