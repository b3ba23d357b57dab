//! A content that is loaded, until it is installed.
//!
//! Records are sorted, superseded and forgotten ones are dropped, the rest are linked and counted,
//! and the index is built. The newest are linked last, so that those not yet forgotten begin at the
//! head.

use crate::error::Result;
use crate::index::versions::{Candidate, Versions, link_older, versions};
use crate::index::{Editing, Index};
use crate::memory::batch::Batch;
use crate::memory::format::{Ref, link};
use crate::memory::page_counts::Counts;
use crate::memory::pages::Urgency;
use crate::memory::record::Records;
use crate::state::State;
use crate::state::ended::Ended;
use crate::state::history::{History, Tagged};
use crate::state::pending::{Change, Pending};
use crate::state::shared::Shared;
use crate::timestamps::{Timestamps, Ts};
use crate::transfer::stream::Header;
use perdura_pmem::sync::PriorityMutex;
use perdura_pmem::{Mutant, planted};

/// A content that is built.
pub(super) struct Content<I: Index> {
    header: Header,
    /// Number of the versions.
    versions: u64,
    counts: Counts,
    built: I::Built,
    head: u64,
    pending: Pending,
}

impl<I: Index> Content<I> {
    /// A content without a key.
    pub(super) fn empty(shared: &Shared<I>, state: &mut State<I>) -> Result<Content<I>> {
        let header = Header { last: 0, applied: 0, forgotten: 0, tag_ts: 0, tag: Vec::new() };
        let steps =
            &mut |run: &mut dyn FnMut(&mut Editing<'_, I>) -> Result<()>| run(&mut state.editing(Urgency::Ordinary));
        let built = shared.index.build(steps, &[])?;
        let counts = Counts::new(&shared.records.geometry);
        Ok(Content { header, versions: 0, counts, built, head: 0, pending: Pending::default() })
    }

    /// Builds the content of records that nobody reads yet. Changes are refused meanwhile: most of
    /// the work needs no lock. Error: `Full`.
    pub(super) fn build(
        shared: &Shared<I>,
        state: &PriorityMutex<State<I>>,
        header: Header,
        candidates: &mut [Candidate],
    ) -> Result<Content<I>> {
        let records = &shared.records;
        let found = versions(records, candidates, header.forgotten, false);
        state.lock().persist_part(shared);
        let mut batch = Batch::default();
        link_older(records, &mut batch, &found);
        // Of several tags of a timestamp the newest counts, which came first and was sorted so.
        let mut tags: Vec<(Ts, Ref)> = candidates
            .iter()
            .filter(|candidate| candidate.tag && candidate.ts > header.forgotten)
            .map(|candidate| (candidate.ts, candidate.record))
            .collect();
        tags.dedup_by_key(|(ts, _)| *ts);
        let (head, pending) = link_up(records, I::LINKS_ALL, &mut batch, &found, &tags, header.forgotten)?;
        // The fence of this thread's next persist covers these as well.
        batch.flush(&records.region);
        let built = shared.index.build(&mut |run| step(shared, state, run), &found.entries)?;
        let mut counts = Counts::new(&records.geometry);
        found.kept.iter().for_each(|(record, _)| counts.add(*record));
        tags.iter().for_each(|(_, record)| counts.add(*record));
        I::made(&built).iter().for_each(|link| counts.add(Ref(*link)));
        state.lock().persist_part(shared);
        Ok(Content { header, versions: found.kept.len() as u64, counts, built, head, pending })
    }

    /// Discards a content that is not to be installed.
    pub(super) fn give_up(self, shared: &Shared<I>, state: &PriorityMutex<State<I>>) {
        shared.index.give_up(&mut |run| step(shared, state, run), &self.built);
    }

    /// Replaces the content of a map and persists, in one step: linear in the pages used. With
    /// `is_partial` the map can only be loaded from then on.
    pub(super) fn put_in_force(self, shared: &Shared<I>, state: &mut State<I>, is_partial: bool) {
        let Content { header, versions, counts, built, head, pending } = self;
        // While the old content counts, for readers that are still on their way through it.
        shared.index.prepare(&mut state.editing(Urgency::Ordinary), &built);
        state.pages.count_anew(&counts);
        // They are not counted any more.
        state.ended = Ended::default();
        shared.replace(header.forgotten, is_partial, || {
            let mut edit = state.editing(Urgency::Ordinary);
            shared.index.install(&mut edit, built, &shared.pins);
        });
        let Header { last, applied, forgotten, tag_ts, tag } = header;
        let times = Timestamps { last, applied, forgotten, persisted: 0 };
        state.history = History::new(times, Tagged { ts: tag_ts, tag }, (head, pending), versions);
        state.known.set_exact();
        shared.records.all_checked();
        state.keep_for_rollback(shared, 0);
        state.persist_part(shared);
    }
}

/// Runs a change of an index that nothing reaches yet in one step under the writer's lock, and
/// persists.
fn step<I: Index>(
    shared: &Shared<I>,
    state: &PriorityMutex<State<I>>,
    run: &mut dyn FnMut(&mut Editing<'_, I>) -> Result<()>,
) -> Result<()> {
    let mut state = state.lock();
    run(&mut state.editing(Urgency::Ordinary))?;
    state.persist_part(shared);
    Ok(())
}

/// Links the new records in the order of their timestamps, as [`crate::index::rebuild`] expects:
/// all, or only those not forgotten. Returns the head and the pending changes.
fn link_up(
    records: &Records,
    links_all: bool,
    batch: &mut Batch,
    found: &Versions,
    tags: &[(Ts, Ref)],
    forgotten: Ts,
) -> Result<(u64, Pending)> {
    let ts = |record: Ref| records.trusted_ts(record);
    let all = found.kept.iter().map(|(record, _)| (ts(*record), true, *record));
    // The tag of a timestamp comes before its changes.
    let all = all.chain(tags.iter().map(|(ts, record)| (*ts, false, *record)));
    let (mut changes, mut settled): (Vec<_>, Vec<_>) = all.partition(|(ts, ..)| *ts > forgotten);
    // Planted: records that may be rolled back are linked in the order of their keys.
    if !planted(Mutant::LoadLinksByKey) {
        changes.sort_unstable();
    }
    settled.sort_unstable();
    let mut head = 0;
    let settled = if links_all { &settled[..] } else { &[] };
    for (.., record) in settled.iter().chain(&changes) {
        records.region.store(record.offset(), link(head, records.salt));
        batch.add(record.offset(), 8);
        head = record.offset();
    }
    let mut pending = Pending::default();
    for (.., record) in changes {
        pending.push(Change::read(records, record.offset())?);
    }
    Ok((head, pending))
}
