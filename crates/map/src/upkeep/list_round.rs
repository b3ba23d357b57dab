//! Collection rounds of the list: unlink dead records and move live ones out of sparse pages, by
//! storing links.
//!
//! A round walks those parts of the chain that have records in the chosen pages, from the nearest
//! milestone on ([`crate::state::milestones`]), or from the newest forgotten record, which stays
//! linked. The writer only touches newer records, so it is not disturbed. The round works in
//! ranges. For each it decides what happens to the records; copies those to be moved, links the
//! copies and persists them; then stores, flushes and fences the links that lead to them; then
//! releases what is unlinked. The old and the new value of each link lead to a whole chain (I2),
//! (I3).
//!
//! A deletion hides older versions of its key as long as they are linked. It is unlinked only if it
//! was known to be dead before a previous whole round began: everything it hides was dead too, and
//! that round has unlinked it durably. So a round is whole, and walks all of the chain, when there
//! are many dead deletions for it, or room is short.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Index;
use crate::index::list::ListIndex;
use crate::memory::format::{Ref, link};
use crate::memory::record::Records;
use crate::state::milestones::merge;
use crate::state::shared::Shared;
use crate::timestamps::Ts;
use crate::upkeep::round::{Round, STEP_PAGES, is_tight};
use crate::upkeep::structure::Structure;
use perdura_pmem::{Mutant, planted, trace};
use rustc_hash::FxHashSet;

/// Records in a range.
const RANGE: usize = 64;
/// Versions for each dead deletion beyond which a round need not be whole: so few deletions keep
/// few pages in use.
const VERSIONS_PER_DELETION: u64 = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Keep,
    Move,
    Drop,
}

/// Outcome of copying a range.
#[derive(Default)]
struct Copied {
    /// Records that stay, each with the one that is to follow it.
    relinks: Vec<(u64, u64)>,
    /// Records that nothing leads to once the links are stored.
    released: Vec<Ref>,
    /// The first record or copy of the range, or what follows the range.
    first: u64,
    /// The last record that stays or is moved, and where it is then.
    last: Option<(Ref, u64)>,
    has_moved: bool,
    failure: Option<Error>,
}

#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
impl Structure for ListIndex {
    fn empty_pages(round: &mut Round<'_, ListIndex>, victims: &FxHashSet<usize>) -> Result<()> {
        let (head, fresh) = {
            let mut state = round.state.lock_behind();
            state.history.read(&round.shared.records)?;
            let deletions = (state.ended.dead_deletions() + round.memory.aged.len()) as u64;
            let is_whole = deletions * VERSIONS_PER_DELETION > state.history.versions()
                || deletions > 0 && is_tight(&state.space());
            let head = state.history.settled_head(&round.shared.records)?;
            (head, is_whole.then(|| state.ended.take_dead_deletions()))
        };
        #[cfg(test)]
        {
            round.memory.walked = 0;
        }
        let spans = if fresh.is_some() { vec![(Ts::MAX, 0)] } else { round.spans(victims) };
        let mut walked = Ok(head != 0);
        for span in spans {
            if let Ok(true) = walked {
                walked = round.walk_span(head, span, victims);
            }
        }
        let fresh = fresh.into_iter().flatten();
        if let Ok(true) = walked {
            round.memory.aged.extend(fresh);
        } else {
            round.state.lock_behind().ended.add_dead_deletions(fresh);
        }
        walked.map(|_| ())
    }

    fn check_index(shared: &Shared<ListIndex>, _: u64, each: &mut dyn FnMut(Ref) -> Result<()>) -> Result<u64> {
        let _pin = shared.pins.pin();
        let mut walk = shared.index.walk(None, &[])?;
        while let Some(record) = walk.next()? {
            each(record)?;
        }
        Ok(0)
    }
}

impl Round<'_, ListIndex> {
    /// The timestamps of the records in the chosen pages, from the highest on.
    fn spans(&self, victims: &FxHashSet<usize>) -> Vec<(Ts, Ts)> {
        let victims: Vec<usize> = victims.iter().copied().collect();
        let mut spans = Vec::with_capacity(victims.len());
        for step in victims.chunks(STEP_PAGES) {
            let state = self.state.lock_behind();
            spans.extend(step.iter().map(|page| state.pages.span(*page)));
        }
        merge(spans)
    }

    /// Works on the records of a span of timestamps, which goes from high to low. Returns whether
    /// it came to its end.
    fn walk_span(&mut self, head: u64, (high, low): (Ts, Ts), victims: &FxHashSet<usize>) -> Result<bool> {
        let (mut before, mut at) = (self.memory.milestones.before(high).unwrap_or(head), Ts::MAX);
        while before != 0 && at >= low {
            if self.gives_way(&self.state.lock_behind()) {
                return Ok(false);
            }
            (before, at) = self.collect_range(before, victims)?;
        }
        Ok(true)
    }

    /// Works on the range after the record at `before`, which stays. Returns the last record that
    /// stays, or 0 at the end of the chain, and the lowest timestamp of the range.
    fn collect_range(&mut self, before: u64, victims: &FxHashSet<usize>) -> Result<(u64, Ts)> {
        let shared = self.shared;
        let (range, after) = self.decide(before, victims)?;
        let (Some((first, ..)), Some((oldest, ..))) = (range.first(), range.last()) else { return Ok((0, 0)) };
        #[cfg(test)]
        {
            self.memory.walked += range.len();
        }
        let (newest_ts, oldest_ts) = (shared.records.trusted_ts(*first), shared.records.trusted_ts(*oldest));
        let Copied { mut relinks, mut released, first: next, last, has_moved, failure } = self.copy(&range, after);
        relinks.push((before, next));
        // Planted: links name copies that are not persisted.
        if has_moved && !planted(Mutant::LinkToUnpersistedCopy) {
            self.state.lock_behind().persist(shared);
        }
        // Planted: unlinked records are released before the links are durable.
        planted(Mutant::UnlinkedReleasedBeforeLinks).then(|| self.unlinked(std::mem::take(&mut released)));
        self.relink(&relinks);
        let is_here = |offset: u64| range.iter().any(|(record, _)| record.offset() == offset);
        self.memory.milestones.take_up(oldest_ts.min(newest_ts)..=newest_ts, is_here);
        if let Some((record, place)) = last {
            self.memory.milestones.set(shared.records.trusted_ts(record), place);
        }
        self.unlinked(released);
        match failure {
            // A record that found no room stays. The unlinked dead records make room for the next
            // round.
            Some(error) if error.kind() != ErrorKind::Full => Err(error),
            _ if after == 0 => Ok((0, oldest_ts)),
            _ => Ok((last.map_or(before, |(_, place)| place), oldest_ts)),
        }
    }

    /// Copies those records of a range that are to be moved, the last first; `after` follows it.
    fn copy(&self, range: &[(Ref, Outcome)], after: u64) -> Copied {
        let mut copied = Copied { first: after, ..Copied::default() };
        for (record, outcome) in range.iter().rev() {
            let copy = match outcome {
                // A record that cannot be copied stays. The copies already made are linked all the
                // same.
                Outcome::Move if copied.failure.is_none() => {
                    let copy = self.state.lock_behind().copy_record(self.shared, *record, copied.first);
                    copy.unwrap_or_else(|error| {
                        copied.failure = Some(error);
                        None
                    })
                }
                _ => None,
            };
            let place = match (outcome, copy) {
                (Outcome::Drop, _) => {
                    copied.released.push(*record);
                    continue;
                }
                (_, Some(copy)) => {
                    copied.released.push(*record);
                    copied.has_moved = true;
                    copy.offset()
                }
                (_, None) => {
                    copied.relinks.push((record.offset(), copied.first));
                    record.offset()
                }
            };
            copied.last.get_or_insert((*record, place));
            copied.first = place;
        }
        copied
    }

    /// The records of the range after `before` with their outcomes, and the record that follows it.
    fn decide(&self, before: u64, victims: &FxHashSet<usize>) -> Result<(Vec<(Ref, Outcome)>, u64)> {
        let Shared { records, .. } = self.shared;
        let mut range = Vec::with_capacity(RANGE);
        let mut offset = records.next(before)?;
        while offset != 0 && range.len() < RANGE {
            let (record, found) = records.at(offset)?;
            let is_live = records.live.is_set(offset);
            let in_victim = || {
                let last = records.geometry.page_of(offset + record.len() - 1);
                (records.geometry.page_of(offset)..=last).any(|page| victims.contains(&page))
            };
            let outcome = match is_live {
                true if in_victim() => Outcome::Move,
                true => Outcome::Keep,
                // Planted: a deletion is unlinked with what it hides.
                false
                    if found.header.deletion
                        && !self.memory.aged.contains(&offset)
                        && !planted(Mutant::DeletionUnlinkedWithVersions) =>
                {
                    Outcome::Keep
                }
                false => Outcome::Drop,
            };
            range.push((record, outcome));
            offset = records.next(offset)?;
        }
        Ok((range, offset))
    }

    /// Stores, flushes and fences the links that change.
    fn relink(&self, relinks: &[(u64, u64)]) {
        let _span = trace::span("map_relink");
        let Records { region, salt, .. } = &self.shared.records;
        let mut changed = false;
        for (offset, next) in relinks {
            let word = link(*next, *salt);
            if region.load(*offset) != word {
                region.store(*offset, word);
                region.flush(*offset, 8);
                changed = true;
            }
        }
        if changed {
            region.fence();
        }
    }

    /// Releases records that the durable chain no longer leads to.
    fn unlinked(&mut self, released: Vec<Ref>) {
        if released.is_empty() {
            return;
        }
        let mut state = self.state.lock_behind();
        for record in released {
            self.memory.aged.remove(&record.offset());
            state.pages.released(record);
        }
        state.set_dirty();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Layout, List, OrderedMap};
    use perdura_pmem::{Medium, SimMedium};
    use std::sync::Arc;

    /// Hazard: the collector of a large map walks all of it again and again for the few keys that
    /// change.
    #[test]
    fn records_that_nothing_happens_to_are_not_walked() {
        const COLD: usize = 8000;
        const HOT: usize = 6000;
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let config = Config { background: false, ..Config::default() };
        let map = List::create(&medium, "m", &Layout::list(4 << 20), &config).expect("room");
        for number in 0..COLD {
            map.put(&number.to_be_bytes(), b"cold").expect("room");
        }
        map.collect().expect("a sound map");
        for round in 0..6 {
            for number in 0..HOT {
                map.put(&[b'h', number as u8 % 50], b"hot").expect("room");
            }
            assert!(map.collect().expect("a sound map") > 128 << 10, "round {round} frees what it should");
            let walked = map.core.collector.lock().walked;
            assert!((1000..COLD / 2 + HOT).contains(&walked), "round {round} has looked at {walked} records");
            map.check().expect("a sound map");
        }
    }
}
