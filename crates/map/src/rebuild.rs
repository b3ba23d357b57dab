//! Start of a list: rebuilds the index by walking the chain from the head.
//!
//! Every record on the way is checked. The walk ends at the end of the chain or at damage: a link back to an earlier
//! record shows as a timestamp that rises, or as more records than the pages can hold.

use crate::entries::{Candidate, entries};
use crate::error::Result;
use crate::format::{Ref, RootRecord};
use crate::pages::Pages;
use crate::pending::{Change, Pending};
use crate::record::Records;
use crate::timestamps::Ts;
use crate::tree::Entry;
use perdura_pmem::planted;
use rustc_hash::FxHashSet;

/// What the chain holds.
pub(crate) struct Rebuilt {
    /// Entries of the index, ascending.
    pub(crate) entries: Vec<Entry>,
    pub(crate) pending: Pending,
    /// Pending records that a later change at the same key and timestamp replaced.
    pub(crate) orphans: FxHashSet<Ref>,
    /// Dead deletions that are still linked, by offset.
    pub(crate) dead_deletions: Vec<u64>,
}

/// Walks the chain that a root record names, and counts its records in `pages`. Error: `Damaged`.
pub(crate) fn rebuild(records: &Records, pages: &mut Pages, root: &RootRecord) -> Result<Rebuilt> {
    let mut candidates = walk(records, root)?;
    if let Some(lost) = candidates.iter().find(|found| pages.is_in_free_page(found.record)) {
        return Err(records.damaged(lost.record.offset(), "a record lies in a page that is marked free"));
    }
    let pending_count = root.pending as usize;
    let mut changes: Vec<Change> = candidates[..pending_count]
        .iter()
        .map(|found| Change { ts: found.ts, record: found.record, has_older: true, deletion: found.deletion })
        .collect();
    let settled: Vec<(Ref, bool)> =
        candidates[pending_count..].iter().map(|found| (found.record, found.deletion)).collect();
    let entries = entries(records, &mut candidates, root.forgotten);
    drop(candidates);
    entries.iter().for_each(|(_, record)| _ = pages.born(*record));
    let mut orphans = FxHashSet::default();
    for change in &changes {
        if pages.born(change.record) {
            orphans.insert(change.record);
        }
    }
    let mut dead_deletions = Vec::new();
    for (record, deletion) in settled {
        if !pages.live.is_set(record.offset()) {
            pages.hold(record);
            if deletion {
                dead_deletions.push(record.offset());
            }
        }
    }
    pages.all_known();
    let mut pending = Pending::default();
    changes.reverse();
    changes.into_iter().for_each(|change| pending.push(change));
    Ok(Rebuilt { entries, pending, orphans, dead_deletions })
}

/// The records of the chain, newest first.
fn walk(records: &Records, root: &RootRecord) -> Result<Vec<Candidate>> {
    let most = records.geometry.records_max();
    let mut candidates: Vec<Candidate> = Vec::with_capacity(root.versions.min(most) as usize);
    let mut offset = root.head;
    let mut newest = Ts::MAX;
    while offset != 0 {
        let (record, found) = records.at(offset)?;
        let ts = found.header.ts;
        if ts > newest || candidates.len() as u64 >= most {
            return Err(records.damaged(offset, "the chain of records runs in a circle"));
        }
        newest = ts;
        candidates.push(Candidate::new(record, found.key, ts, found.header.deletion, candidates.len()));
        offset = records.next(offset)?;
    }
    // Links are stored in place. A process that died between a store and its flush has left one that this walk has
    // followed.
    // Planted: such a link is taken for durable.
    if !planted(147) {
        records.region.reclaim_all(candidates.iter().map(|found| (found.record.offset(), 8)));
    }
    let pending = candidates.partition_point(|found| found.ts > root.forgotten);
    if pending as u64 != root.pending {
        return Err(records.damaged(root.head, "the chain of records is not as long as the root record says"));
    }
    Ok(candidates)
}
