//! Collection rounds of the list: unlink dead records and move live ones out of sparse pages, by
//! storing links.
//!
//! A round walks those parts of the chain that have records in the chosen pages, from the nearest
//! milestone on ([`crate::milestones`]), or from the newest forgotten record, which stays linked.
//! The writer only touches newer records, so it is not disturbed. The round works in ranges. For
//! each it decides what happens to the records; copies those to be moved, links the copies and
//! persists them; then stores, flushes and fences the links that lead to them; then releases what
//! is unlinked. The old and the new value of each link lead to a whole chain (I2, I3).
//!
//! A deletion hides older versions of its key as long as they are linked. It is unlinked only if it
//! was known to be dead before a previous whole round began: everything it hides was dead too, and
//! that round has unlinked it durably. So a round is whole, and walks all of the chain, when there
//! are many dead deletions for it, or room is short.

use crate::collector::{STEP_PAGES, is_tight, space_of};
use crate::error::{ErrorKind, Result};
use crate::format::{Ref, link};
use crate::index::Index;
use crate::list_index::ListIndex;
use crate::milestones::merge;
use crate::state::{Collector, Core};
use crate::structure::Structure;
use crate::timestamps::Ts;
use perdura_pmem::{planted, trace};
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

#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
impl Structure for ListIndex {
    fn empty_pages(core: &Core<ListIndex>, collector: &mut Collector, victims: &FxHashSet<usize>) -> Result<()> {
        core.collect_list(collector, victims)
    }

    fn check_index(core: &Core<ListIndex>, _: u64, each: &mut dyn FnMut(Ref) -> Result<()>) -> Result<u64> {
        let _pin = core.pins.pin();
        let mut walk = core.index.walk(None, &[])?;
        while let Some(record) = walk.next()? {
            each(record)?;
        }
        Ok(0)
    }
}

impl Core<ListIndex> {
    /// Runs one round. A snapshot ends it early.
    fn collect_list(&self, collector: &mut Collector, victims: &FxHashSet<usize>) -> Result<()> {
        let (head, fresh) = {
            let mut state = self.state.lock_behind();
            self.read_pending(&mut state)?;
            let deletions = (state.dead_deletions.len() + collector.aged.len()) as u64;
            let is_whole =
                deletions * VERSIONS_PER_DELETION > state.versions || deletions > 0 && is_tight(&space_of(&state));
            (self.settled_head(&state)?, is_whole.then(|| std::mem::take(&mut state.dead_deletions)))
        };
        #[cfg(test)]
        {
            collector.walked = 0;
        }
        let ranges = if fresh.is_some() { vec![(Ts::MAX, 0)] } else { self.ranges(victims) };
        let mut walked = Ok(head != 0);
        for range in ranges {
            if let Ok(true) = walked {
                walked = self.walk_range(head, range, collector, victims);
            }
        }
        if let Ok(true) = walked {
            collector.aged.extend(fresh.into_iter().flatten());
        } else {
            self.state.lock_behind().dead_deletions.extend(fresh.into_iter().flatten());
        }
        walked.map(|_| ())
    }

    /// The timestamps of the records in the chosen pages, from the highest on.
    fn ranges(&self, victims: &FxHashSet<usize>) -> Vec<(Ts, Ts)> {
        let victims: Vec<usize> = victims.iter().copied().collect();
        let mut ranges = Vec::with_capacity(victims.len());
        for step in victims.chunks(STEP_PAGES) {
            let state = self.state.lock_behind();
            ranges.extend(step.iter().map(|page| state.pages.span(*page)));
        }
        merge(ranges)
    }

    /// Works on the records of a range of timestamps, which goes from high to low. Returns whether
    /// it came to its end.
    fn walk_range(
        &self,
        head: u64,
        (high, low): (Ts, Ts),
        collector: &mut Collector,
        victims: &FxHashSet<usize>,
    ) -> Result<bool> {
        let (mut before, mut at) = (collector.milestones.before(high).unwrap_or(head), Ts::MAX);
        while before != 0 && at >= low {
            if self.gives_way(&self.state.lock_behind()) {
                return Ok(false);
            }
            (before, at) = self.collect_range(before, collector, victims)?;
        }
        Ok(true)
    }

    /// Works on the range after the record at `before`, which stays. Returns the last record that
    /// stays, or 0 at the end of the chain, and the lowest timestamp of the range.
    fn collect_range(&self, before: u64, collector: &mut Collector, victims: &FxHashSet<usize>) -> Result<(u64, Ts)> {
        let (range, after) = self.decide(before, collector, victims)?;
        let (Some((first, ..)), Some((oldest, ..))) = (range.first(), range.last()) else { return Ok((0, 0)) };
        #[cfg(test)]
        {
            collector.walked += range.len();
        }
        let (newest_ts, oldest_ts) = (self.records.trusted_ts(*first), self.records.trusted_ts(*oldest));
        let mut relinks: Vec<(u64, u64)> = Vec::new();
        let mut released = Vec::new();
        let mut next = after;
        let (mut last, mut last_ts) = (0, 0);
        let (mut moved, mut failure) = (0, None);
        for (record, outcome) in range.iter().rev() {
            let copy = match outcome {
                // A record that cannot be copied stays. The copies already made are linked all the
                // same.
                Outcome::Move if failure.is_none() => {
                    self.copy_record(&mut self.state.lock_behind(), *record, next).unwrap_or_else(|error| {
                        failure = Some(error);
                        None
                    })
                }
                _ => None,
            };
            let place = match (outcome, copy) {
                (Outcome::Drop, _) => {
                    released.push(*record);
                    continue;
                }
                (_, Some(copy)) => {
                    released.push(*record);
                    moved += 1;
                    copy.offset()
                }
                (_, None) => {
                    relinks.push((record.offset(), next));
                    record.offset()
                }
            };
            if last == 0 {
                (last, last_ts) = (place, self.records.trusted_ts(*record));
            }
            next = place;
        }
        relinks.push((before, next));
        // Planted: links name copies that are not persisted.
        if moved > 0 && !planted(122) {
            self.persist(&mut self.state.lock_behind());
        }
        // Planted: unlinked records are released before the links are durable.
        planted(123).then(|| self.unlinked(std::mem::take(&mut released), collector));
        self.relink(&relinks);
        let is_here = |offset: u64| range.iter().any(|(record, _)| record.offset() == offset);
        collector.milestones.take_up(oldest_ts.min(newest_ts)..=newest_ts, is_here);
        if last != 0 {
            collector.milestones.set(last_ts, last);
        }
        self.unlinked(released, collector);
        match failure {
            // A record that found no room stays. The unlinked dead records make room for the next
            // round.
            Some(error) if error.kind() != ErrorKind::Full => Err(error),
            _ if after == 0 => Ok((0, oldest_ts)),
            _ => Ok((if last == 0 { before } else { last }, oldest_ts)),
        }
    }

    /// The records of the range after `before` with their outcomes, and the record that follows it.
    fn decide(
        &self,
        before: u64,
        collector: &Collector,
        victims: &FxHashSet<usize>,
    ) -> Result<(Vec<(Ref, Outcome)>, u64)> {
        let mut range = Vec::with_capacity(RANGE);
        let mut offset = self.records.next(before)?;
        while offset != 0 && range.len() < RANGE {
            let (record, found) = self.records.at(offset)?;
            let is_live = self.records.live.is_set(offset);
            let in_victim = || {
                let last = self.records.geometry.page_of(offset + record.len() - 1);
                (self.records.geometry.page_of(offset)..=last).any(|page| victims.contains(&page))
            };
            let outcome = match is_live {
                true if in_victim() => Outcome::Move,
                true => Outcome::Keep,
                // Planted: a deletion is unlinked with what it hides.
                false if found.header.deletion && !collector.aged.contains(&offset) && !planted(124) => Outcome::Keep,
                false => Outcome::Drop,
            };
            range.push((record, outcome));
            offset = self.records.next(offset)?;
        }
        Ok((range, offset))
    }

    /// Stores, flushes and fences the links that change.
    fn relink(&self, relinks: &[(u64, u64)]) {
        let _span = trace::span("map_relink");
        let region = &self.records.region;
        let mut changed = false;
        for (offset, next) in relinks {
            let word = link(*next, self.records.salt);
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
    fn unlinked(&self, released: Vec<Ref>, collector: &mut Collector) {
        if released.is_empty() {
            return;
        }
        let mut state = self.state.lock_behind();
        for record in released {
            collector.aged.remove(&record.offset());
            state.pages.released(record);
        }
        state.is_dirty = true;
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
