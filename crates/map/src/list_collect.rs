//! Collection rounds of the list: unlink dead records and move live ones out of sparse pages, by storing links.
//!
//! A round walks the chain from the newest forgotten record, which stays linked. The writer only touches newer records,
//! so it is not disturbed. The round works in stretches. For each it decides what happens to the records; copies those
//! to be moved, links the copies and confirms them; then stores, flushes and fences the links that lead to them; then
//! releases what is unlinked. The old and the new value of each link lead to a whole chain (I2, I3).
//!
//! A deletion hides older versions of its key as long as they are linked. It is unlinked only if it was known to be
//! dead before a previous whole round began: everything it hides was dead too, and that round has unlinked it durably.

use crate::error::{ErrorKind, Result};
use crate::format::{Ref, link};
use crate::index::Index;
use crate::list_index::{ListIndex, ListWriter};
use crate::state::{Collector, Core};
use crate::structure::Structure;
use perdura_pmem::{planted, trace};
use rustc_hash::FxHashSet;

/// Records in a stretch.
const STRETCH: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Move,
    Drop,
}

#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
impl Structure for ListIndex {
    fn empty_pages(core: &Core<ListIndex>, collector: &mut Collector, victims: &FxHashSet<usize>) -> Result<()> {
        core.collect_list(collector, victims)
    }

    fn count_reachable(_: &Core<ListIndex>, _: u64, _: u64, _: u64) -> Result<()> {
        // The start has counted everything.
        Ok(())
    }

    fn check_index(core: &Core<ListIndex>, _: u64, each: &mut dyn FnMut(Ref) -> Result<()>) -> Result<u64> {
        let _pin = core.pins.pin();
        let mut walk = core.index.walk(&core.records, None, &[])?;
        while let Some(record) = walk.next()? {
            each(record)?;
        }
        Ok(0)
    }

    fn waiting_bytes(_: &Core<ListIndex>, _: &ListWriter) -> u64 {
        0
    }
}

impl Core<ListIndex> {
    /// Runs one round. A snapshot ends it early.
    fn collect_list(&self, collector: &mut Collector, victims: &FxHashSet<usize>) -> Result<()> {
        let (mut before, fresh) = {
            let mut state = self.state.lock();
            self.read_pending(&mut state)?;
            (self.settled_head(&state)?, std::mem::take(&mut state.dead_deletions))
        };
        let mut is_whole = before != 0;
        while before != 0 {
            if self.state.lock().is_held() {
                is_whole = false;
                break;
            }
            match self.collect_stretch(before, collector, victims) {
                Ok(last) => before = last,
                Err(error) => {
                    self.state.lock().dead_deletions.extend(fresh);
                    return Err(error);
                }
            }
        }
        if is_whole {
            collector.aged.extend(fresh);
        } else {
            self.state.lock().dead_deletions.extend(fresh);
        }
        Ok(())
    }

    /// Works on the stretch after the record at `before`, which stays. Returns the last record that stays, or 0 at the
    /// end of the chain.
    fn collect_stretch(&self, before: u64, collector: &mut Collector, victims: &FxHashSet<usize>) -> Result<u64> {
        let (stretch, after) = self.decide(before, collector, victims)?;
        let mut relinks: Vec<(u64, u64)> = Vec::new();
        let mut released = Vec::new();
        let mut next = after;
        let mut last = 0;
        let (mut moved, mut failure) = (0, None);
        for (record, fate) in stretch.iter().rev() {
            let copy = match fate {
                // A record that cannot be copied stays. The copies already made are linked all the same.
                Fate::Move if failure.is_none() => {
                    self.copy_record(&mut self.state.lock(), *record, next).unwrap_or_else(|error| {
                        failure = Some(error);
                        None
                    })
                }
                _ => None,
            };
            let place = match (fate, copy) {
                (Fate::Drop, _) => {
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
                last = place;
            }
            next = place;
        }
        relinks.push((before, next));
        // Planted: links name copies that are not confirmed.
        if moved > 0 && !planted(122) {
            self.confirm(&mut self.state.lock());
        }
        // Planted: unlinked records are released before the links are durable.
        planted(123).then(|| self.unlinked(std::mem::take(&mut released), collector));
        self.relink(&relinks);
        self.unlinked(released, collector);
        match failure {
            // A record that found no room stays. The unlinked dead records make room for the next round.
            Some(error) if error.kind() != ErrorKind::Full => Err(error),
            _ if after == 0 => Ok(0),
            _ => Ok(if last == 0 { before } else { last }),
        }
    }

    /// The records of the stretch after `before` with their fates, and the record that follows it.
    fn decide(
        &self,
        before: u64,
        collector: &Collector,
        victims: &FxHashSet<usize>,
    ) -> Result<(Vec<(Ref, Fate)>, u64)> {
        let mut stretch = Vec::with_capacity(STRETCH);
        let mut offset = self.records.next(before)?;
        while offset != 0 && stretch.len() < STRETCH {
            let (record, found) = self.records.linked(offset)?;
            let is_live = self.records.live.is_set(offset);
            let in_victim = || {
                let last = self.records.geometry.page_of(offset + record.len() - 1);
                (self.records.geometry.page_of(offset)..=last).any(|page| victims.contains(&page))
            };
            let fate = match is_live {
                true if in_victim() => Fate::Move,
                true => Fate::Keep,
                // Planted: a deletion is unlinked with what it hides.
                false if found.deletion && !collector.aged.contains(&offset) && !planted(124) => Fate::Keep,
                false => Fate::Drop,
            };
            stretch.push((record, fate));
            offset = self.records.next(offset)?;
        }
        Ok((stretch, offset))
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
        let mut state = self.state.lock();
        for record in released {
            collector.aged.remove(&record.offset());
            state.pages.released(record);
        }
        state.is_dirty = true;
    }
}
