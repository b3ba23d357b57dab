//! Turns records in any order into the sorted entries of an index, without superseded and forgotten ones.
//!
//! The start of a list and the loading of a snapshot share it.

use crate::format::Ref;
use crate::record::{Records, head_at};
use crate::timestamps::Ts;
use crate::tree::Entry;
use perdura_pmem::planted;

/// A record that may become an entry.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    begin: u128,
    pub(crate) record: Ref,
    pub(crate) ts: Ts,
    /// Place among the candidates. Of two with one key and timestamp the earlier counts.
    order: u32,
    pub(crate) deletion: bool,
}

impl Candidate {
    pub(crate) fn new(record: Ref, key: &[u8], ts: Ts, deletion: bool, order: usize) -> Candidate {
        Candidate { begin: begin_of(key), record, ts, order: u32::try_from(order).unwrap_or(u32::MAX), deletion }
    }
}

/// The entries of the index, ascending by key, then timestamp. Sorts the candidates.
pub(crate) fn entries(records: &Records, candidates: &mut [Candidate], forgotten: Ts) -> Vec<Entry> {
    let key = |candidate: &Candidate| -> &[u8] { records.trusted_key(candidate.record) };
    candidates.sort_unstable_by(|a, b| {
        a.begin.cmp(&b.begin).then_with(|| key(a).cmp(key(b))).then(a.ts.cmp(&b.ts)).then(a.order.cmp(&b.order))
    });
    let mut entries = Vec::with_capacity(candidates.len());
    let mut start = 0;
    while start < candidates.len() {
        let first = &candidates[start];
        let same = |other: &&Candidate| other.begin == first.begin && key(other) == key(first);
        let versions = 1 + candidates[start + 1..].iter().take_while(same).count();
        visible(&candidates[start..start + versions], forgotten, |found| entries.push((found.begin, found.record)));
        start += versions;
    }
    entries
}

/// Calls `each` with the versions that a read at `forgotten` or later can see. `versions` are all of one key,
/// ascending.
fn visible(versions: &[Candidate], forgotten: Ts, mut each: impl FnMut(&Candidate)) {
    // Planted: the version that a read at `forgotten` sees is dropped with those it supersedes.
    let old = versions.partition_point(|version| version.ts <= forgotten + u64::from(planted(142)));
    let mut previous = None;
    if let Some(newest) = versions[..old].last() {
        // Of versions with one timestamp the first counts.
        let first =
            versions[..old].iter().find(|version| version.ts == newest.ts).expect("the newest has its timestamp");
        if !first.deletion {
            each(first);
        }
    }
    for version in &versions[old..] {
        // Planted: of several changes at one timestamp all count.
        if previous.replace(version.ts) != Some(version.ts) || planted(141) {
            each(version);
        }
    }
}

/// The first sixteen bytes of a key as a number of the same order.
fn begin_of(key: &[u8]) -> u128 {
    u128::from(head_at(key, 0)) << 64 | u128::from(head_at(key, 8))
}
