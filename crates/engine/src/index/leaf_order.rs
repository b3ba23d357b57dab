//! The leaves of an index in the order of their low keys: a search finds one, and locks it.

use super::entry_order::sorted;
use super::leaf::{LeafBytes, LeafId, bits};
use super::leaf_shadow::{LeafShadow, View};
use super::leaves::Leaves;
use super::populated::{LowKeys, Populated};
use crate::error::Result;
use crate::shadow::slot::Locked;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use perdura_tree::{Keys, Place, Tree, Writer};
use std::sync::Arc;

/// The leaves of an index.
pub(super) struct LeafOrder {
    /// The leaves by their low keys.
    tree: Tree<LowKeys>,
    populated: Populated,
}

/// A leaf, locked, that has the entries of a key.
pub(super) struct LockedLeaf<'i> {
    pub id: LeafId,
    pub shadow: Locked<'i, LeafShadow>,
    pub bytes: LeafBytes<'i>,
    pub end: LeafEnd<'i>,
}

/// The way to the leaf of a key, which was gone ahead of its use. It may not hold any more.
pub(crate) struct Sought<'i> {
    order: &'i LeafOrder,
    place: Place<'i>,
}

impl Sought<'_> {
    /// A row whose key is likely to be near, of the same leaf; `None` in the first leaf and the
    /// last: rows that come in the order of an index are better put where the session writes. It
    /// may be any number, since nobody keeps the entry from going. The caller holds a snapshot.
    pub(crate) fn neighbour(&self) -> Option<u64> {
        let leaf = self.place.floor().filter(|_| self.place.next().is_some())?;
        let bytes = self.order.leaves().bytes(leaf as LeafId);
        if bytes.low().is_empty() {
            return None;
        }
        bytes.unheld_row(bits(bytes.valid()?).next()?)
    }
}

/// End of the entries of a leaf. To look at the next leaf's low key is a miss of the cache, and a
/// search hardly ever has to.
#[derive(Clone, Copy)]
pub(super) struct LeafEnd<'i> {
    keys: &'i LowKeys,
    next: Option<u64>,
    is_clear: bool,
}

impl<'i> LeafEnd<'i> {
    /// Whether there is no next leaf.
    pub(super) fn is_last(&self) -> bool {
        self.next.is_none()
    }

    /// The low key of the next leaf, if there is one.
    pub(super) fn high(&self) -> Option<&'i [u8]> {
        self.next.map(|next| self.keys.key(next))
    }

    /// The low key of the next leaf, unless it is known to lie above all that begins with the key
    /// by which the leaf was found.
    #[inline]
    pub(super) fn near(&self) -> Option<&'i [u8]> {
        if self.is_clear { None } else { self.high() }
    }
}

impl<'i> LockedLeaf<'i> {
    /// The slots that count.
    pub(super) fn valid(&self) -> Result<u64> {
        self.bytes.sound_valid()
    }

    /// The entries that anybody may need, in order.
    pub(super) fn entries(&self) -> Result<Vec<(&'i [u8], u32)>> {
        let occupied = self.shadow.occupied(self.valid()?);
        let mut entries = sorted(&self.bytes, occupied)?;
        let high = self.end.high();
        // Entries that a leaf was left with beyond its end are those of the next.
        // Planted: they are taken along.
        entries.retain(|(entry, _)| {
            high.is_none_or(|high| *entry < high) || perdura_pmem::planted(Mutant::LeafEndTakenAlong)
        });
        Ok(entries)
    }
}

/// Enters leaves in an index.
pub(super) struct Entering<'i> {
    leaves: &'i Leaves,
    populated: Writer<'i, LowKeys>,
    all: Writer<'i, LowKeys>,
}

impl Entering<'_> {
    /// Enters a leaf, in the place of another with that low key.
    pub(super) fn enter(&mut self, low: &[u8], leaf: LeafId) {
        let reference = self.leaves.reference(leaf);
        self.populated.insert(low, reference);
        self.all.insert(low, reference);
    }
}

impl LeafOrder {
    /// No leaves so far.
    pub(super) fn new(leaves: Arc<Leaves>) -> LeafOrder {
        LeafOrder { populated: Populated::new(leaves.clone()), tree: Tree::new(LowKeys::new(leaves)) }
    }

    /// The table's leaves.
    #[inline]
    pub(super) fn leaves(&self) -> &Leaves {
        self.tree.keys().leaves()
    }

    /// All leaves, by their low keys.
    #[inline]
    pub(super) fn tree(&self) -> &Tree<LowKeys> {
        &self.tree
    }

    /// The leaves that are not vacant.
    #[inline]
    pub(super) fn populated(&self) -> &Populated {
        &self.populated
    }

    /// The low key of a leaf that a tree has.
    #[inline]
    pub(super) fn low(&self, reference: u64) -> &[u8] {
        self.tree.keys().key(reference)
    }

    /// The place of `key`. It asks for the leaf there.
    #[inline]
    fn around(&self, key: &[u8]) -> Place<'_> {
        let place = self.tree.around(key);
        if let Some(leaf) = place.floor() {
            self.leaves().prefetch_at(leaf);
        }
        place
    }

    /// Goes ahead to the leaf of `key`, which is to be changed soon, and asks for it. The caller
    /// holds a snapshot.
    #[inline]
    pub(super) fn seek(&self, key: &[u8]) -> Sought<'_> {
        Sought { order: self, place: self.around(key) }
    }

    /// The end of the leaf at a place.
    pub(super) fn end_of(&self, place: &Place<'_>) -> LeafEnd<'_> {
        LeafEnd { keys: self.tree.keys(), next: place.next(), is_clear: place.is_clear() }
    }

    /// Calls `body` with the place of `key` and the leaf that has it, until that holds; `None` if
    /// there is no leaf.
    pub(super) fn at_place<'i, T>(
        &'i self,
        key: &[u8],
        mut body: impl FnMut(LeafId, &Place<'i>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            let place = self.around(key);
            self.leaves().check_medium()?;
            let Some(leaf) = place.floor() else {
                if place.holds() {
                    return Ok(None);
                }
                continue;
            };
            if let Some(found) = body(leaf as LeafId, &place)? {
                return Ok(Some(found));
            }
            perdura_pmem::sync::yield_now();
        }
    }

    /// Locks the leaf that has the entries at `key`; `None` if there is no leaf.
    ///
    /// # Errors
    /// Medium.
    pub(super) fn lock(&self, key: &[u8]) -> Result<Option<LockedLeaf<'_>>> {
        loop {
            let place = self.around(key);
            if let Some(leaf) = self.lock_at(&place)? {
                return Ok(Some(leaf));
            }
            if place.floor().is_none() && place.holds() {
                return Ok(None);
            }
        }
    }

    /// Locks the leaf of a place, if the place then holds.
    fn lock_at(&self, place: &Place<'_>) -> Result<Option<LockedLeaf<'_>>> {
        // Low keys that are zeros now lead anywhere, to a leaf that the caller has locked as well.
        self.leaves().check_medium()?;
        let Some(id) = place.floor() else { return Ok(None) };
        let id = id as LeafId;
        let slot = &self.leaves().leaf(id).slot;
        slot.prefetch_shadow();
        let shadow = slot.lock();
        // Under the lock the leaf keeps its place: whoever replaces it locks it.
        Ok(place.holds().then(|| LockedLeaf { id, shadow, bytes: self.leaves().bytes(id), end: self.end_of(place) }))
    }

    /// As [`LeafOrder::lock`] for `key`, or with `for_entry` for an entry that begins with it:
    /// `sought` by the key, if that still holds.
    pub(super) fn lock_sought(&self, sought: &Sought<'_>, for_entry: bool) -> Result<Option<LockedLeaf<'_>>> {
        let is_there = std::ptr::eq(sought.order, self) && (!for_entry || sought.place.is_clear());
        if is_there { self.lock_at(&sought.place) } else { Ok(None) }
    }

    /// Calls `body` for each leaf, in order, with nothing locked, until the medium fails. No leaf
    /// may come or go meanwhile.
    pub(super) fn each_leaf(&self, mut body: impl FnMut(LeafId)) {
        let mut found = Vec::new();
        let mut from: Vec<u8> = Vec::new();
        let mut inclusive = true;
        loop {
            self.tree.page_from(&from, inclusive, &mut found);
            let Some(last) = found.last() else { return };
            from = self.low(*last).to_vec();
            if self.leaves().check_medium().is_err() {
                return;
            }
            inclusive = false;
            found.iter().for_each(|leaf| body(*leaf as LeafId));
        }
    }

    /// Enters leaves, one thread at a time.
    pub(super) fn entering(&self) -> Entering<'_> {
        Entering { leaves: self.leaves(), populated: self.populated.writer(), all: self.tree.writer() }
    }

    /// Enters a leaf.
    pub(super) fn enter(&self, leaf: LeafId) {
        let low = self.leaves().bytes(leaf).low();
        self.entering().enter(low, leaf);
    }

    /// Removes the leaf at `low`, whose entries another has.
    pub(super) fn remove(&self, low: &[u8]) {
        self.tree.writer().remove(low);
        self.populated.writer().remove(low);
    }

    /// Has walks pass a leaf by whose changes up to `newest` are all stored and covered, and where
    /// nothing counts. The caller has it locked.
    pub(super) fn vacate(&self, leaf: LeafId, newest: Csn) {
        let low = self.leaves().bytes(leaf).low();
        // It may have retired.
        if !self.leaves().leaf(leaf).is_vacant() && self.tree.get(low) == Some(self.leaves().reference(leaf)) {
            self.populated.vacate(low, leaf, newest);
        }
    }

    /// Has walks look at a leaf again, which is about to get an entry.
    #[inline]
    pub(super) fn populate(&self, leaf: &mut LockedLeaf<'_>) {
        if self.leaves().leaf(leaf.id).is_vacant() {
            self.populated.populate(leaf.bytes.low(), leaf.id);
            // The entry may be taken back.
            leaf.shadow.asked = true;
            self.leaves().queue().push_asked(leaf.id);
        }
    }

    /// The last leaf below `key` that `view` does not pass by, with its low key.
    pub(super) fn populated_below(&self, key: &[u8], view: &View<'_>) -> Option<(u64, &[u8])> {
        let before = self.populated.among(view, |populated| populated.lower(key));
        before.unwrap_or_else(|| self.tree.lower(key)).map(|before| (before, self.low(before)))
    }
}
