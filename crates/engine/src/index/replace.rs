//! Leaves that take the place of others: splits, and leaves that have become too small. Joins are
//! in `pack.rs`.
//!
//! A leaf that is full is not changed: new ones get its entries, those of transactions under way
//! included, and it retires as a whole. So its bytes stay as they are for redo records that name
//! them, and the new leaves have all their slots. Of two leaves with one low key the later version
//! counts; so the new one on the left makes the old one void with one store, after the one on the
//! right is durable (I3). Entries that no reader can need any more stay behind: they lie in the old
//! leaf as long as the log names them (I8). `docs/indexes.md` has the crash story.

use super::leaf::{LeafBytes, LeafId, Lines, bits};
use super::leaf_form::LeafForm;
use super::leaf_order::{LeafOrder, LockedLeaf};
use super::leaves::Leaves;
use crate::error::Result;
use crate::format::{LEAF_UNIT, LeafKind, entry_key, fold_entry};
use crate::shadow::purge_horizon::PurgeHorizon;
use crate::space::segments::Segments;
use perdura_log::Csn;
use perdura_pmem::{Mutant, Step, publish_when};
use smallvec::SmallVec;
use std::sync::Arc;

/// The leaves that are to take the place of a full one.
pub(super) struct Plan {
    /// Sizes in units of 256 bytes, and low keys, in order.
    pub(super) leaves: SmallVec<[(u32, Vec<u8>); 2]>,
    /// The full leaf stays, and the new one comes behind it.
    pub(super) appends: bool,
    /// The slots of the full one whose entries the new ones get.
    pub(super) kept: u64,
}

impl Plan {
    /// Leaves that get all entries of those before.
    pub(super) fn of(leaves: impl IntoIterator<Item = (u32, Vec<u8>)>) -> Plan {
        Plan { leaves: leaves.into_iter().collect(), appends: false, kept: u64::MAX }
    }

    /// Sizes of the leaves in units of 256 bytes, in order.
    pub(super) fn units(&self) -> impl Iterator<Item = u32> + '_ {
        self.leaves.iter().map(|(units, _)| *units)
    }
}

/// Places for new leaves, taken before anything is locked.
pub(super) struct Spares<'i> {
    places: SmallVec<[LeafId; 2]>,
    leaves: &'i Leaves,
}

impl<'i> Spares<'i> {
    pub(super) fn new(leaves: &'i Leaves) -> Spares<'i> {
        Spares { places: SmallVec::new(), leaves }
    }

    /// Whether there are none.
    pub(super) fn are_none(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the first places are those that the plan needs.
    pub(super) fn have(&self, plan: &Plan) -> bool {
        let sizes = plan.units().map(|units| u64::from(units) * LEAF_UNIT);
        self.places.len() >= plan.leaves.len()
            && sizes.zip(&self.places).all(|(size, leaf)| self.leaves.size(*leaf) == size)
    }

    /// Takes places of so many units each.
    pub(super) fn provide(&mut self, units: impl IntoIterator<Item = u32>, segments: &Segments) -> Result<()> {
        self.put_back();
        for units in units {
            self.places.push(self.leaves.take(segments, units)?);
        }
        Ok(())
    }

    /// Notes that the first places, as many as the plan needs, are in use.
    fn use_for(&mut self, plan: &Plan) {
        self.places.drain(..plan.leaves.len());
    }

    /// Takes the places that the plan needs from those that are free, if there are so many.
    pub(super) fn provide_free(&mut self, plan: &Plan) -> bool {
        self.put_back();
        for (units, _) in &plan.leaves {
            let Some(leaf) = self.leaves.take_listed(*units) else { return false };
            self.places.push(leaf);
        }
        true
    }

    /// The places, which are about to be used.
    pub(super) fn take(&mut self) -> SmallVec<[LeafId; 2]> {
        std::mem::take(&mut self.places)
    }

    fn put_back(&mut self) {
        self.places.drain(..).for_each(|leaf| self.leaves.put(leaf));
    }
}

impl Drop for Spares<'_> {
    /// Gives back what was not used.
    fn drop(&mut self) {
        self.put_back();
    }
}

/// The shortest key above `left` that is not above `right`.
pub(super) fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    right[..(common + 1).min(right.len())].to_vec()
}

/// Where a leaf with these entries, in order, is cut: near its middle, if possible between two
/// keys, at least between different entries. `None` if all are the same.
fn cut(entries: &[(&[u8], u32)]) -> Option<usize> {
    let bytes: usize = entries.iter().map(|(entry, _)| entry.len()).sum();
    let mut left = 0;
    let reaches = |(entry, _): &(&[u8], u32)| {
        left += entry.len();
        left * 2 >= bytes
    };
    let middle = (entries.iter().position(reaches).unwrap_or(0) + 1).clamp(1, entries.len() - 1);
    let parts_keys = |at: &usize| entry_key(entries[*at - 1].0) != entry_key(entries[*at].0);
    let parts = |at: &usize| entries[*at - 1].0 != entries[*at].0;
    let nearest =
        |parts: &dyn Fn(&usize) -> bool| (1..entries.len()).filter(parts).min_by_key(|at| at.abs_diff(middle));
    nearest(&parts_keys).or_else(|| nearest(&parts))
}

/// Context that changes of an index need.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// The table's segments.
    pub segments: &'a Segments,
    /// Tells who sees what.
    pub commits: &'a dyn Commits,
    /// New leaves need not be durable before the next commit, which waits for them.
    pub later: bool,
}

impl Ground<'_> {
    #[track_caller]
    fn publish(&self, steps: &[Step<'_>]) {
        publish_when(self.later, steps);
    }
}

/// The commits of a pool, and the snapshots of them.
pub(crate) trait Commits {
    /// The visible CSN.
    fn visible(&self) -> Csn;

    /// Tells what snapshots, live or to come, tell apart of all that is visible now; of redo it
    /// says nothing. `None` if entries that redo alone may need are handed on with the others.
    fn seen(&self) -> Option<PurgeHorizon>;
}

/// An entry with its slot.
type Placed<'i> = (&'i [u8], u32);

/// The slots of a leaf with entries that anybody but redo may need.
fn kept(ground: Ground<'_>, leaf: &LockedLeaf<'_>) -> Result<u64> {
    let valid = leaf.valid()?;
    if leaf.shadow.deleted_and_stored() == 0 {
        return Ok(u64::MAX);
    }
    let kept = ground.commits.seen().map(|horizon| leaf.shadow.needed(valid, &horizon));
    Ok(kept.unwrap_or(u64::MAX))
}

/// Replaces leaves of an index.
#[derive(Clone, Copy)]
pub(super) struct Replacer<'i> {
    form: &'i LeafForm,
    order: &'i LeafOrder,
}

impl<'i> Replacer<'i> {
    pub(super) fn new(form: &'i LeafForm, order: &'i LeafOrder) -> Replacer<'i> {
        Replacer { form, order }
    }

    fn leaves(&self) -> &'i Leaves {
        self.order.leaves()
    }

    /// Plan of the replacement of a leaf that has no room for `entry`; `None` if it is full of one
    /// entry, and somebody may need each of them.
    pub(super) fn plan(&self, ground: Ground<'_>, leaf: &LockedLeaf<'_>, entry: &[u8]) -> Result<Option<Plan>> {
        let all = leaf.entries()?;
        let kept = kept(ground, leaf)?;
        let entries: Vec<_> = all.iter().copied().filter(|(_, slot)| kept >> slot & 1 != 0).collect();
        let has_dead = entries.len() < all.len();
        // Each replacement frees half of a leaf, or splits it: so it costs no more room than what
        // the log takes for the inserts that lead to it.
        let plan = match has_dead && entries.len() * 2 <= all.len() {
            true => None,
            false => self.plan_parts(leaf, (&all, &entries), entry),
        };
        let plan = plan.or_else(|| has_dead.then(|| self.plan_compact(leaf, &entries, entry)));
        Ok(plan.map(|plan| Plan { kept, ..plan }))
    }

    /// Plan that has one leaf take the `entries` of `leaf` that somebody may need.
    fn plan_compact(&self, leaf: &LockedLeaf<'_>, entries: &[Placed<'_>], entry: &[u8]) -> Plan {
        let low = leaf.bytes.low();
        let units = self.form.units(low.len(), entries, entry.len());
        Plan::of([(units.max((self.leaves().size(leaf.id) / LEAF_UNIT) as u32), low.to_vec())])
    }

    /// Plan that has two leaves, or a larger one, take `entries`, those of `all` in a leaf that
    /// somebody may need; `None` if they are the same.
    fn plan_parts(
        &self,
        leaf: &LockedLeaf<'_>,
        (all, entries): (&[Placed<'_>], &[Placed<'_>]),
        entry: &[u8],
    ) -> Option<Plan> {
        let low = leaf.bytes.low();
        let last = all.last().map(|(entry, _)| *entry);
        if leaf.end.is_last() && last.is_some_and(|last| entry > last) {
            let low = separator(last.unwrap_or_default(), entry);
            let leaves = [(self.form.units(low.len(), &[], entry.len()), low)];
            return Some(Plan { appends: true, ..Plan::of(leaves) });
        }
        let stored: usize = entries.iter().map(|(entry, _)| entry.len() + 3).sum();
        let is_small = (stored + entry.len()) as u64 * 4 < u64::from(64u32) * LEAF_UNIT;
        let units = self.form.units(low.len(), entries, entry.len());
        let can_grow = u64::from(units) * LEAF_UNIT > self.leaves().size(leaf.id);
        let grows = !self.form.is_fixed() && is_small && entries.len() < 16 && can_grow;
        if entries.len() < 2 || grows {
            return Some(Plan::of([(units, low.to_vec())]));
        }
        let at = cut(entries)?;
        let (left, right) = entries.split_at(at);
        let middle = separator(left[at - 1].0, right[0].0);
        let leaves = [
            (self.form.units(low.len(), left, entry.len()), low.to_vec()),
            (self.form.units(middle.len(), right, entry.len()), middle),
        ];
        // Entries of one key may have a low key so long that a leaf of the largest size is too
        // small by a little.
        let fit = self.form.fits(&leaves[0], left) && self.form.fits(&leaves[1], right);
        fit.then(|| Plan::of(leaves))
    }

    /// Makes an empty leaf, durably or later. Others are about to insert there (I3).
    pub(super) fn make(&self, leaf: LeafId, low: &[u8], version: u16, later: bool) {
        let bytes = self.lay_out(leaf, low);
        bytes.write_header(low, version, self.leaves().salt(leaf));
        let mut lines = Lines::default();
        lines.add(&bytes.header());
        bytes.flush(&lines);
        publish_when(later, &[bytes.step(LeafKind::InUse)]);
    }

    fn lay_out(&self, leaf: LeafId, low: &[u8]) -> LeafBytes<'i> {
        self.leaves().lay_out(leaf, self.form.shape(low.len()))
    }

    /// Carries a plan out for the locked leaf that it was made for.
    pub(super) fn replace(
        &self,
        ground: Ground<'_>,
        old: LockedLeaf<'_>,
        plan: &Plan,
        spares: &mut Spares<'_>,
    ) -> Result<()> {
        let _span = perdura_pmem::trace::span("leaf_replaced");
        if plan.appends {
            let leaf = spares.places[0];
            self.make(leaf, &plan.leaves[0].1, 0, ground.later);
            self.order.enter(leaf);
            spares.use_for(plan);
            return Ok(());
        }
        let mut entries = old.entries()?;
        entries.retain(|(_, slot)| plan.kept >> slot & 1 != 0);
        let mut parts: SmallVec<[Part; 2]> = SmallVec::new();
        for (index, (_, low)) in plan.leaves.iter().enumerate() {
            let end = plan
                .leaves
                .get(index + 1)
                .map_or(entries.len(), |(_, next)| entries.partition_point(|(entry, _)| *entry < &next[..]));
            let start = entries.partition_point(|(entry, _)| *entry < &low[..]);
            let version = if index == 0 { old.bytes.version().wrapping_add(1) } else { 0 };
            let moved: Vec<_> = entries[start..end].iter().map(|(entry, slot)| (*entry, 0, *slot)).collect();
            parts.push(self.fill(spares.places[index], low, version, &moved, &[old.valid()?]));
        }
        spares.use_for(plan);
        // The old one durably as well: the new leaf with its low key may itself be joined to
        // another soon, and then makes it void no more.
        self.publish_parts(&parts, [old.bytes], ground);
        self.hand_over(ground, &mut [old], &parts);
        Ok(())
    }

    /// Writes a new leaf with entries, each with the old leaf and slot that it comes from, of which
    /// `valid` count. Everything but its state is flushed.
    pub(super) fn fill(
        &self,
        leaf: LeafId,
        low: &[u8],
        version: u16,
        entries: &[(&[u8], u32, u32)],
        valid: &[u64],
    ) -> Part {
        let bytes = self.lay_out(leaf, low);
        bytes.write_header(low, version, self.leaves().salt(leaf));
        let (mut occupied, mut counting, mut lines) = (0, 0, Lines::default());
        lines.add(&bytes.header());
        let mut moved: SmallVec<[[u8; 64]; 2]> = SmallVec::from_elem([0; 64], valid.len());
        for (entry, of, slot) in entries {
            let place = bytes.room(occupied, entry.len()).expect("a plan has room for what is there");
            bytes.write(place, entry).iter().for_each(|range| lines.add(range));
            occupied |= 1 << place.0;
            // Planted: entries that are inserted or deleted count.
            let counts = valid[*of as usize] >> slot & 1
                | u64::from(perdura_pmem::planted(Mutant::UncountedEntriesCountAfterSplit));
            counting |= counts << place.0;
            moved[*of as usize][*slot as usize] = place.0 as u8 + 1;
        }
        bytes.set_valid(counting);
        bytes.flush(&lines);
        Part { leaf, moved }
    }

    /// Puts new leaves into use, durably or later: the last first, so that the first, which makes
    /// the old leaf void, is the end. Then retires the old ones in their order.
    #[track_caller]
    pub(super) fn publish_parts(
        &self,
        parts: &[Part],
        olds: impl IntoIterator<Item = LeafBytes<'i>>,
        ground: Ground<'_>,
    ) {
        let mut steps: SmallVec<[Step<'i>; 4]> = SmallVec::new();
        for index in (0..parts.len()).rev() {
            // Planted: the old leaf is void before the one on the right is durable.
            let index =
                if perdura_pmem::planted(Mutant::FullLeafVoidBeforeRight) { parts.len() - 1 - index } else { index };
            steps.push(self.leaves().bytes(parts[index].leaf).step(LeafKind::InUse));
        }
        steps.extend(olds.into_iter().map(|old| old.step(LeafKind::Retired)));
        // Planted: a new leaf is in use before its content is durable.
        if perdura_pmem::planted(Mutant::LeafInUseBeforeContent) {
            for step in steps {
                step.region.store(step.offset, step.value);
                step.region.persist(step.offset, 8);
            }
            return;
        }
        ground.publish(&steps);
    }

    /// Gives the new leaves what DRAM knows of the old ones, whose place they take.
    pub(super) fn hand_over(&self, ground: Ground<'_>, olds: &mut [LockedLeaf<'_>], parts: &[Part]) {
        for part in parts {
            let bytes = self.leaves().bytes(part.leaf);
            let mut shadow = self.leaves().leaf(part.leaf).slot.lock();
            for (old, moved) in olds.iter().zip(&part.moved) {
                let renumber = |slots| bits(slots).fold(0, |new, slot| new | moved_bit(moved, slot));
                let sound = |slot| bytes.entry(slot).map_or(0, fold_entry);
                shadow.adopt(&old.shadow, renumber, |slots| bits(slots).fold(0, |folded, slot| folded ^ sound(slot)));
            }
            for (number, change) in shadow.open().enumerate() {
                let is_known = shadow.open().take(number).any(|known| Arc::ptr_eq(&known.writer, &change.writer));
                // Planted: a transaction does not learn where its changes are.
                if !is_known && !perdura_pmem::planted(Mutant::SplitHiddenFromTransaction) {
                    change.writer.inherit(self.leaves().table(), part.leaf);
                }
            }
            if let Some(csn) = shadow.oldest_stored() {
                shadow.queued = true;
                self.leaves().queue().push(csn, part.leaf);
                if bytes.is_sparse() {
                    shadow.asked = true;
                    self.leaves().queue().push_asked(part.leaf);
                }
            }
        }
        parts.iter().rev().for_each(|part| self.order.enter(part.leaf));
        let left = ground.commits.visible();
        for old in olds {
            self.leaves().retire(old.id, left, old.shadow.take());
        }
    }
}

/// A new leaf.
pub(super) struct Part {
    leaf: LeafId,
    /// For each old leaf, the new slot of each of its slots, plus one; 0 if it has none.
    moved: SmallVec<[[u8; 64]; 2]>,
}

fn moved_bit(moved: &[u8; 64], slot: u32) -> u64 {
    match moved[slot as usize] {
        0 => 0,
        new => 1 << (new - 1),
    }
}
