//! An index: its leaves in the order of their low keys.

use super::leaf::{LeafBytes, LeafId};
use super::leaf_shadow::LeafShadow;
use super::leaves::Leaves;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ENTRY_ROW_BYTES, IndexDefinition, LeafShape, data_file_name, units_for_fixed};
use crate::shadow::slot::Locked;
use crate::space::segments::Segments;
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use perdura_tree::{Keys, Place, Tree};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// The low keys of a table's leaves.
pub struct LowKeys {
    leaves: Arc<Leaves>,
}

impl Keys for LowKeys {
    #[inline]
    fn key(&self, reference: u64) -> &[u8] {
        self.leaves.low(reference as LeafId)
    }
}

/// An index of a table.
pub struct Index {
    /// Its number in the table.
    pub(super) number: u16,
    definition: IndexDefinition,
    /// The leaves by their low keys.
    pub(super) tree: Tree<LowKeys>,
    /// Those of them that are not vacant.
    pub(super) populated: Tree<LowKeys>,
    /// Every snapshot from this commit on sees nothing in vacant leaves.
    pub(super) vacated: AtomicU64,
    /// Size of its leaves in units of 256 bytes if all keys have one length.
    pub(super) fixed_units: u32,
    /// Locked while the first leaf is made.
    pub(super) beginning: Mutex<()>,
    /// Damage of the index, if there is any.
    damage: OnceLock<String>,
}

/// Context that changes of an index need.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The table's segments.
    pub segments: &'a Segments,
    /// Tells the visible CSN.
    pub visible: &'a dyn Fn() -> Csn,
}

/// A leaf, locked, that has the entries of a key.
pub(super) struct LockedLeaf<'i> {
    pub id: LeafId,
    pub shadow: Locked<'i, LeafShadow>,
    pub bytes: LeafBytes<'i>,
    pub end: LeafEnd<'i>,
}

/// The way to the leaf of a key, which was gone ahead of its use. It may not hold any more.
pub struct Sought<'i> {
    index: &'i Index,
    place: Place<'i>,
}

/// Where the entries of a leaf end. To look at the next leaf's low key is a miss of the cache, and
/// a search hardly ever has to.
#[derive(Clone, Copy)]
pub(super) struct LeafEnd<'i> {
    keys: &'i LowKeys,
    next: Option<u64>,
    is_clear: bool,
}

impl<'i> LeafEnd<'i> {
    pub fn of(index: &'i Index, place: &Place<'_>) -> LeafEnd<'i> {
        LeafEnd { keys: index.tree.keys(), next: place.next(), is_clear: place.is_clear() }
    }

    /// Whether there is no next leaf.
    pub fn is_last(&self) -> bool {
        self.next.is_none()
    }

    /// The low key of the next leaf, if there is one.
    pub fn high(&self) -> Option<&'i [u8]> {
        self.next.map(|next| self.keys.key(next))
    }

    /// The low key of the next leaf, unless it is known to lie above all that begins with the key
    /// by which the leaf was found.
    #[inline]
    pub fn near(&self) -> Option<&'i [u8]> {
        if self.is_clear { None } else { self.high() }
    }
}

impl LockedLeaf<'_> {
    /// The slots that count.
    pub fn valid(&self) -> Result<u64> {
        self.bytes.valid().ok_or_else(|| damaged(&self.bytes, "the valid word of an index' leaf is damaged"))
    }
}

/// Damage in a leaf.
#[cold]
pub fn damaged(leaf: &LeafBytes<'_>, what: &str) -> Error {
    let (file, at) = leaf.place();
    Error::damaged_index(file, at, what)
}

impl Index {
    /// An index without leaves.
    pub fn new(number: u16, definition: IndexDefinition, leaves: Arc<Leaves>) -> Index {
        let fixed_units = units_for_fixed(usize::from(definition.key_bytes) + ENTRY_ROW_BYTES, leaves.units_max());
        let populated = Tree::new(LowKeys { leaves: leaves.clone() });
        let (tree, vacated) = (Tree::new(LowKeys { leaves }), AtomicU64::new(0));
        let (beginning, damage) = (Mutex::new(()), OnceLock::new());
        Index { number, definition, tree, populated, vacated, fixed_units, beginning, damage }
    }

    /// Its number in the table.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The table's leaves.
    #[inline]
    pub(super) fn leaves(&self) -> &Leaves {
        &self.tree.keys().leaves
    }

    /// Notes that something is wrong with the index, which nobody uses from now on.
    pub fn set_damaged(&self, what: String) {
        let _ = self.damage.set(what);
    }

    /// Fails with Damaged if something is wrong with the index.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.damage.get() {
            None => Ok(()),
            Some(what) => {
                Err(Error::new(ErrorKind::Damaged, what.clone()).in_file(data_file_name(self.leaves().table(), 0)))
            }
        }
    }

    /// Whether its leaves are laid out as `shape` says.
    pub(super) fn has_shape(&self, shape: LeafShape) -> bool {
        shape.index == self.number && shape.entry == self.entry_bytes()
    }

    /// Length of every entry, in bytes; 0 if the lengths differ.
    pub(super) fn entry_bytes(&self) -> u16 {
        match self.definition.key_bytes {
            0 => 0,
            key => key + ENTRY_ROW_BYTES as u16,
        }
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
    pub fn seek(&self, key: &[u8]) -> Sought<'_> {
        Sought { index: self, place: self.around(key) }
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
    pub(super) fn lock(&self, key: &[u8]) -> Option<LockedLeaf<'_>> {
        loop {
            let place = self.around(key);
            if let Some(leaf) = self.lock_at(&place) {
                return Some(leaf);
            }
            if place.floor().is_none() && place.holds() {
                return None;
            }
        }
    }

    /// Locks the leaf of a place, if the place then holds.
    fn lock_at(&self, place: &Place<'_>) -> Option<LockedLeaf<'_>> {
        let id = place.floor()? as LeafId;
        let slot = &self.leaves().leaf(id).slot;
        slot.prefetch_shadow();
        let shadow = slot.lock();
        // Under the lock the leaf keeps its place: whoever replaces it locks it.
        place.holds().then(|| LockedLeaf { id, shadow, bytes: self.leaves().bytes(id), end: LeafEnd::of(self, place) })
    }

    /// As [`Index::lock`] for `key`, or with `for_entry` for an entry that begins with it: `sought`
    /// by the key, if that still holds.
    pub(super) fn lock_sought(&self, sought: &Sought<'_>, for_entry: bool) -> Option<LockedLeaf<'_>> {
        let is_there = std::ptr::eq(sought.index, self) && (!for_entry || sought.place.is_clear());
        if is_there { self.lock_at(&sought.place) } else { None }
    }

    /// Calls `body` for each leaf, in order, with nothing locked. No leaf may come or go meanwhile.
    pub(super) fn each_leaf(&self, mut body: impl FnMut(LeafId)) {
        let mut found = Vec::new();
        let mut from: Vec<u8> = Vec::new();
        let mut inclusive = true;
        loop {
            self.tree.page_from(&from, inclusive, &mut found);
            let Some(last) = found.last() else { return };
            from = self.tree.keys().key(*last).to_vec();
            inclusive = false;
            found.iter().for_each(|leaf| body(*leaf as LeafId));
        }
    }
}
