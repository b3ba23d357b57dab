//! Turns records in any order into the versions of keys and the entries of an index, without
//! superseded and forgotten ones.
//!
//! The start of a list and the loading of a snapshot share it.

use crate::index::Entry;
use crate::memory::batch::Batch;
use crate::memory::format::{OLDER_AT, Ref, link};
use crate::memory::record::{Records, head16};
use crate::timestamps::Ts;
use perdura_pmem::{Mutant, planted};
use std::cmp::Ordering;

/// Records asked for ahead of their use.
const AHEAD: usize = 16;

/// Longest key that a candidate has all of.
const SHORT_BYTES: usize = 24;

/// A record that may be a version.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    /// The first sixteen bytes of the key, as a number.
    begin: u128,
    /// The next eight.
    next: u64,
    /// Length of the key, or more than [`SHORT_BYTES`].
    length: u8,
    pub(crate) record: Ref,
    pub(crate) ts: Ts,
    /// Place among the candidates. Of two with one key and timestamp the earlier counts.
    order: u32,
    pub(crate) tag: bool,
}

impl Candidate {
    pub(crate) fn new(record: Ref, key: &[u8], ts: Ts, tag: bool, order: usize) -> Candidate {
        let order = u32::try_from(order).unwrap_or(u32::MAX);
        let length = key.len().min(SHORT_BYTES + 1) as u8;
        let next = (head16(key, size_of::<u128>()) >> 64) as u64;
        Candidate { begin: head16(key, 0), next, length, record, ts, order, tag }
    }

    /// The order of two keys. Records lie all over the memory, and most keys are short.
    fn cmp_key(&self, other: &Candidate, records: &Records) -> Ordering {
        let short = (self.begin, self.next).cmp(&(other.begin, other.next));
        short.then_with(|| match self.length.max(other.length) as usize <= SHORT_BYTES {
            // Bytes behind the end of a key count as zeros.
            true => self.length.cmp(&other.length),
            false => records.trusted_key(self.record).cmp(records.trusted_key(other.record)),
        })
    }
}

/// Outcome of the candidates.
#[derive(Default)]
pub(crate) struct Versions {
    /// Entries of the index, ascending.
    pub(crate) entries: Vec<Entry>,
    /// Each version that is kept with the key's next older one, or none; newest first within a key.
    pub(crate) kept: Vec<(Ref, Ref)>,
    /// Versions that another at the same timestamp has replaced.
    pub(crate) replaced: u64,
}

/// The versions that candidates make up. Sorts the candidates. With `replaced`, versions count that
/// another change at their timestamp has replaced; a rollback of that change needs them.
pub(crate) fn versions(records: &Records, candidates: &mut [Candidate], forgotten: Ts, replaced: bool) -> Versions {
    candidates.sort_unstable_by(|a, b| {
        let by_key = a.tag.cmp(&b.tag).then_with(|| a.cmp_key(b, records));
        by_key.then(b.ts.cmp(&a.ts)).then(a.order.cmp(&b.order))
    });
    let mut found = Versions::default();
    let changes = &candidates[..candidates.partition_point(|candidate| !candidate.tag)];
    let mut start = 0;
    while start < changes.len() {
        let first = &changes[start];
        let same = |other: &&Candidate| other.cmp_key(first, records).is_eq();
        let count = 1 + changes[start + 1..].iter().take_while(same).count();
        of_one_key(&changes[start..start + count], forgotten, replaced, &mut found);
        start += count;
    }
    found
}

/// The versions of one key that a read at `forgotten` or later can see. `versions` are newest
/// first.
fn of_one_key(versions: &[Candidate], forgotten: Ts, replaced: bool, found: &mut Versions) {
    let mut kept: Vec<Ref> = Vec::new();
    let mut previous = None;
    // Planted: the version that a read at `forgotten` sees is dropped with those it supersedes.
    let drops_all = planted(Mutant::OpeningDropsNeededVersion);
    for version in versions {
        if version.ts <= forgotten + u64::from(drops_all) {
            // The newest of those not above the mark is the last that counts, unless it is a
            // deletion.
            if version.record.is_deletion() || drops_all {
                break;
            }
            kept.push(version.record);
            break;
        }
        // Planted: of several changes at one timestamp all count.
        let is_replaced =
            previous.replace(version.ts) == Some(version.ts) && !planted(Mutant::SameTimestampChangesAllCount);
        found.replaced += u64::from(is_replaced && replaced);
        if !is_replaced || replaced {
            kept.push(version.record);
        }
    }
    if let Some(newest) = kept.first() {
        found.entries.push((versions[0].begin, *newest));
    }
    let older = kept.iter().skip(1).copied().chain([Ref::NONE]);
    found.kept.extend(kept.iter().copied().zip(older));
}

/// Makes the records of the versions that are kept link to the next older ones.
pub(crate) fn link_older(records: &Records, batch: &mut Batch, found: &Versions) {
    for (number, (record, older)) in found.kept.iter().enumerate() {
        found.kept.get(number + AHEAD).inspect(|(later, _)| records.prefetch(*later));
        let (at, word) = (record.offset() + OLDER_AT, link(older.offset(), records.salt));
        if records.region.load(at) != word {
            records.region.store(at, word);
            batch.add(at, 8);
        }
    }
}
