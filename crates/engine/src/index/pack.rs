//! Packing: the entries of adjacent leaves that are partly empty go into fewer leaves, and leaves
//! move to the front of the chain.
//!
//! It happens in purge, to leaves that have lost entries: a table whose keys change would otherwise
//! keep its leaves little more than half full. The new leaves have free slots left for what comes,
//! so that those are not split at once. All of the old leaves are locked and settled. The new ones
//! are in use, durably, before any of the old ones retires; `docs/indexes.md` has the crash story.

use super::leaf::{LeafId, SPARSE};
use super::leaf_form::LeafForm;
use super::leaf_order::{LeafOrder, LockedLeaf};
use super::leaves::Leaves;
use super::replace::{Ground, Part, Plan, Replacer, Spares, separator};
use super::table_index::Index;
use crate::error::Result;
use crate::format::{LEAF_UNIT, entry_key};
use perdura_pmem::Mutant;
use smallvec::SmallVec;

/// Most leaves that are packed together.
const LEAVES_MAX: usize = 5;
/// A leaf with more than three of so many slots in use is not looked at.
const LOOKED_AT: u32 = 4;

/// Outcome of packing leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packed {
    /// Fewer leaves have the entries.
    Done,
    /// Transactions have changes there, or there is no place for the new leaves: to be tried again.
    Later,
    /// There is nothing to pack.
    Stays,
}

/// Adjacent leaves.
type Run = SmallVec<[LeafId; LEAVES_MAX]>;

/// An entry with the old leaf and the slot that it comes from.
type From<'i> = (&'i [u8], u32, u32);

/// Packs leaves of an index. One thread at a time packs those of a table.
pub(super) struct Packer<'i> {
    form: &'i LeafForm,
    order: &'i LeafOrder,
    ground: Ground<'i>,
}

impl<'i> Packer<'i> {
    pub(super) fn new(index: &'i Index, ground: Ground<'i>) -> Packer<'i> {
        Packer { form: index.form(), order: index.order(), ground }
    }

    fn leaves(&self) -> &'i Leaves {
        self.order.leaves()
    }

    /// Has leaf `leaf` and some of those beside it replaced by fewer, if all are settled and these
    /// have room for what counts.
    pub(super) fn pack(&self, leaf: LeafId) -> Result<Packed> {
        let mut spares = Spares::new(self.leaves());
        let mut packed = Ok(Packed::Stays);
        for run in self.runs_of(leaf) {
            let is_sparse = |leaf: &LeafId| self.leaves().known_bytes(*leaf).is_some_and(|bytes| bytes.is_sparse());
            let grows = run.iter().any(is_sparse) || self.leaves().may_grow(self.form.fixed_units());
            // Most often there is no place, and nothing needs be locked to find that out.
            if !grows && !self.leaves().has_free(self.form.fixed_units(), run.len() - 1) {
                return Ok(Packed::Later);
            }
            packed = self.pack_run(&run, &mut spares, grows);
            if !matches!(packed, Ok(Packed::Stays)) {
                break;
            }
        }
        packed
    }

    /// Has leaf `leaf` replaced by one at a place before it, if there is such a place and the leaf
    /// is settled.
    pub(super) fn move_ahead(&self, leaf: LeafId) -> Result<Packed> {
        let mut spares = Spares::new(self.leaves());
        self.pack_run(&[leaf], &mut spares, false)
    }

    /// Adjacent leaves that fewer may have room for: from `leaf` on, or if it is sparse, it and one
    /// beside it. None if the leaf retired long ago, and its place is another's by now.
    fn runs_of(&self, leaf: LeafId) -> SmallVec<[Run; 2]> {
        let mut runs = SmallVec::new();
        let Some(bytes) = self.leaves().known_bytes(leaf) else { return runs };
        let mut found = Vec::new();
        self.order.tree().page_from(bytes.low(), true, &mut found);
        if found.first().map(|first| *first as LeafId) != Some(leaf) {
            return runs;
        }
        let run: Run = found.iter().take(LEAVES_MAX).map(|leaf| *leaf as LeafId).collect();
        if bytes.is_sparse() {
            runs.extend(self.order.tree().lower(bytes.low()).map(|before| Run::from_slice(&[before as LeafId, leaf])));
            runs.extend((run.len() > 1).then(|| Run::from_slice(&run[..2])));
        } else if self.form.is_fixed() {
            runs.extend(self.packed_count(&run).map(|count| Run::from_slice(&run[..count])));
        }
        runs
    }

    /// How many of the leaves of `run`, whose entries have one length, are to be replaced by one
    /// less: as few as possible.
    fn packed_count(&self, run: &[LeafId]) -> Option<usize> {
        let (mut entries, mut room) = (0, 0);
        for (before, leaf) in run.iter().enumerate() {
            entries += self.leaves().known_bytes(*leaf)?.valid()?.count_ones();
            if before > 0 && entries <= room {
                return Some(before + 1);
            }
            room += self.form.slots_filled();
        }
        None
    }

    /// Replaces the leaves of a run. With `grows`, a segment may be taken into use for the new
    /// ones.
    fn pack_run(&self, run: &[LeafId], spares: &mut Spares<'_>, grows: bool) -> Result<Packed> {
        loop {
            let Some(olds) = self.lock_run(run)? else { return Ok(Packed::Stays) };
            // Entries that older snapshots see go along, but are moved for nothing but to have less
            // leaves.
            let is_ready = |old: &LockedLeaf<'_>| old.shadow.is_settled() || run.len() > 1 && old.shadow.is_stored();
            if !olds.iter().all(is_ready) {
                return Ok(Packed::Later);
            }
            let mut entries: Vec<From<'_>> = Vec::new();
            for (number, old) in olds.iter().enumerate() {
                entries.extend(old.entries()?.into_iter().map(|(entry, slot)| (entry, number as u32, slot)));
            }
            let Some((plan, cuts)) = self.plan_packed(&olds, &entries) else { return Ok(Packed::Stays) };
            if spares.have(&plan) {
                let places = spares.take();
                if run.len() == 1 && !self.leaves().is_before(places[0], run[0]) {
                    places.into_iter().for_each(|place| self.leaves().put(place));
                    return Ok(Packed::Stays);
                }
                return self.replace_run(olds, (&plan, &cuts, &entries), &places).map(|()| Packed::Done);
            }
            drop(olds);
            let provided = match grows {
                true => spares.provide(plan.units(), self.ground.segments).is_ok(),
                false => spares.provide_free(&plan),
            };
            if !provided {
                return Ok(Packed::Later);
            }
        }
    }

    /// Locks adjacent leaves, from left to right; `None` if they are not adjacent any more.
    fn lock_run(&self, run: &[LeafId]) -> Result<Option<SmallVec<[LockedLeaf<'i>; LEAVES_MAX]>>> {
        let mut olds: SmallVec<[LockedLeaf<'i>; LEAVES_MAX]> = SmallVec::new();
        for leaf in run {
            let low = match olds.last() {
                Some(before) => before.end.high(),
                None => self.leaves().known_bytes(*leaf).map(|bytes| bytes.low()),
            };
            let Some(low) = low.map(<[u8]>::to_vec) else { return Ok(None) };
            match self.order.lock(&low)? {
                Some(locked) if locked.id == *leaf && locked.bytes.low() == &low[..] => olds.push(locked),
                _ => return Ok(None),
            }
        }
        Ok(Some(olds))
    }

    /// The leaves that are to have the entries of `olds`, one less, or one as large as the only
    /// one; and where the entries are cut. `None` if there is no room.
    fn plan_packed(&self, olds: &[LockedLeaf<'_>], entries: &[From<'_>]) -> Option<(Plan, Vec<usize>)> {
        let low = olds[0].bytes.low().to_vec();
        if let [old] = olds {
            let units = (self.leaves().size(old.id) / LEAF_UNIT) as u32;
            return Some((Plan::of([(units, low)]), Vec::new()));
        }
        let parts = olds.len() - 1;
        if !self.form.is_fixed() {
            let plain: Vec<_> = entries.iter().map(|(entry, _, slot)| (*entry, *slot)).collect();
            let units = self.form.joined_units(low.len(), &plain)?;
            return Some((Plan::of([(units, low)]), Vec::new()));
        }
        if entries.len() as u32 > self.form.slots_filled() * parts as u32 {
            return None;
        }
        // Both ends of a leaf may be moved to part two keys, as far as there are slots.
        let range = (self.form.slots_least() - self.form.slots_filled()) as usize / 2;
        let cuts: Vec<usize> = (1..parts).map(|part| cut_near(entries, entries.len() * part / parts, range)).collect();
        // Bytes that a crash left beyond the end of a leaf looked like entries when the run was
        // chosen.
        let parts_all =
            cuts.iter().all(|at| (1..entries.len()).contains(at)) && cuts.is_sorted_by(|one, next| one < next);
        if !parts_all {
            return None;
        }
        let mut plan = Plan::of([(self.form.fixed_units(), low)]);
        for at in &cuts {
            let (left, right) = (entries[at - 1].0, entries[*at].0);
            if left >= right {
                return None;
            }
            plan.leaves.push((self.form.fixed_units(), separator(left, right)));
        }
        Some((plan, cuts))
    }

    /// Writes the planned leaves at `places`, puts them into use, and retires `olds`, all of it
    /// durably.
    fn replace_run(
        &self,
        mut olds: SmallVec<[LockedLeaf<'_>; LEAVES_MAX]>,
        (plan, cuts, entries): (&Plan, &[usize], &[From<'_>]),
        places: &[LeafId],
    ) -> Result<()> {
        let _span = perdura_pmem::trace::span("leaves_packed");
        let replacer = Replacer::new(self.form, self.order);
        let valid = olds.iter().map(LockedLeaf::valid).collect::<Result<SmallVec<[u64; LEAVES_MAX]>>>()?;
        let mut parts: SmallVec<[Part; LEAVES_MAX]> = SmallVec::new();
        for (index, (_, low)) in plan.leaves.iter().enumerate() {
            let start = if index == 0 { 0 } else { cuts[index - 1] };
            let end = cuts.get(index).copied().unwrap_or(entries.len());
            // Of two leaves with one low key the later version counts.
            let same = olds.iter().find(|old| old.bytes.low() == &low[..]);
            let version = same.map_or(0, |old| old.bytes.version().wrapping_add(1));
            parts.push(replacer.fill(places[index], low, version, &entries[start..end], &valid));
        }
        // With the others retired, what they had counts in the new leaves. From left to right, each
        // durably: an old leaf whose right neighbour has retired before it would have the range of
        // that one, and not its entries. Planted: it stays in use.
        let keeps = perdura_pmem::planted(Mutant::JoinKeepsRightLeaf);
        let retired = olds.iter().enumerate().filter(|(index, _)| *index == 0 || !keeps);
        replacer.publish_parts(&parts, retired.map(|(_, old)| old.bytes), self.ground);
        // A walk that comes between is to meet the lock rather than pass by.
        self.order.populate(&mut olds[0]);
        for old in &olds[1..] {
            self.order.remove(old.bytes.low());
        }
        replacer.hand_over(self.ground, &mut olds, &parts);
        // It goes on: what is still sparse is packed with the next ones.
        let sparse = places.iter().filter(|place| olds.len() > 1 && self.leaves().bytes(**place).is_sparse());
        sparse.for_each(|place| self.leaves().queue().put_sparse(*place));
        Ok(())
    }
}

/// Where `entries` are cut near `at`: between two keys if there is such a place no farther than
/// `range`.
fn cut_near(entries: &[From<'_>], at: usize, range: usize) -> usize {
    let parts_keys = |at: &usize| entry_key(entries[*at - 1].0) != entry_key(entries[*at].0);
    let near = at.saturating_sub(range).max(1)..(at + range + 1).min(entries.len());
    near.filter(parts_keys).min_by_key(|cut| cut.abs_diff(at)).unwrap_or(at)
}

impl Leaves {
    /// Whether leaf `leaf` is to be looked at with those beside it: it is sparse, or it `has_lost`
    /// entries and has some room.
    pub(super) fn may_be_packed(&self, leaf: LeafId, has_lost: bool) -> bool {
        let Some((valid, slots)) = self.known_bytes(leaf).and_then(|bytes| Some((bytes.valid()?, bytes.slots())))
        else {
            return false;
        };
        let used = valid.count_ones();
        used * SPARSE <= slots || has_lost && used * LOOKED_AT <= slots * (LOOKED_AT - 1)
    }
}
