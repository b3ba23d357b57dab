//! Start of a list: finds the versions of all keys by walking the chain from the head.
//!
//! Every record on the way is checked. The walk ends at the end of the chain or at damage: a link
//! back to an earlier record shows as a timestamp that rises, or as more records than the pages can
//! hold. Links to older versions are put right: a crash may have left one that leads to a copy
//! which the chain does not reach.

use crate::error::Result;
use crate::index::Entry;
use crate::index::versions::{Candidate, link_older, versions};
use crate::memory::format::{OLDER_AT, Ref};
use crate::memory::pages::Pages;
use crate::memory::record::Records;
use crate::memory::root::RootRecord;
use crate::timestamps::Ts;
use perdura_pmem::{Mutant, planted};

/// Content of the chain.
pub(crate) struct Rebuilt {
    /// Entries of the index, ascending.
    pub(crate) entries: Vec<Entry>,
    /// Count of the versions.
    pub(crate) versions: u64,
    /// Dead deletions that are still linked, by offset.
    pub(crate) dead_deletions: Vec<u64>,
}

/// Walks the chain that a root record names, and counts its records in `pages`. Error: `Damaged`.
pub(crate) fn rebuild(records: &Records, pages: &mut Pages, root: &RootRecord) -> Result<Rebuilt> {
    let mut candidates = walk(records, root)?;
    if let Some(lost) = candidates.iter().find(|found| pages.is_in_free_page(found.record)) {
        return Err(records.damaged(lost.record.offset(), "a record lies in a page that is marked free"));
    }
    candidates.iter().for_each(|found| pages.note_span(found.record, found.ts));
    let pending_count = root.pending as usize;
    let changes: Vec<Ref> = candidates[..pending_count].iter().map(|found| found.record).collect();
    let settled: Vec<Ref> = candidates[pending_count..].iter().map(|found| found.record).collect();
    let found = versions(records, &mut candidates, root.forgotten, true);
    drop(candidates);
    link_older(records, &mut pages.batch, &found);
    found.kept.iter().for_each(|(record, _)| _ = pages.born(*record));
    changes.iter().for_each(|record| _ = pages.born(*record));
    let mut dead_deletions = Vec::new();
    for record in settled {
        if !pages.live.is_set(record.offset()) {
            pages.hold(record);
            if record.is_deletion() {
                dead_deletions.push(record.offset());
            }
        }
    }
    pages.all_known();
    let count = found.kept.len() as u64 - found.replaced;
    Ok(Rebuilt { entries: found.entries, versions: count, dead_deletions })
}

/// The records of the chain, newest first.
fn walk(records: &Records, root: &RootRecord) -> Result<Vec<Candidate>> {
    let most = records.geometry.records_max();
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut offset = root.head;
    let mut newest = Ts::MAX;
    while offset != 0 {
        let (record, found) = records.at(offset)?;
        let ts = found.header.ts;
        if ts > newest || candidates.len() as u64 >= most {
            return Err(records.damaged(offset, "the chain of records runs in a circle"));
        }
        newest = ts;
        candidates.push(Candidate::new(record, found.key, ts, found.header.tag, candidates.len()));
        offset = records.next(offset)?;
    }
    // Links are stored in place. A process that died between a store and its flush has left one
    // that this walk has followed. Planted: such a link is taken for durable.
    if !planted(Mutant::KilledLinkCountsAsDurable) {
        records.region.reclaim_all(candidates.iter().map(|found| (found.record.offset(), OLDER_AT + 8)));
    }
    let pending = candidates.partition_point(|found| found.ts > root.forgotten);
    if pending as u64 != root.pending {
        return Err(records.damaged(root.head, "the chain of records is not as long as the root record says"));
    }
    Ok(candidates)
}
