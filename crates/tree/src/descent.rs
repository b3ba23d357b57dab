//! A reader's way down.

use crate::keys::Keys;
use crate::node::{Changed, Seen};
use crate::trunk::Trunk;
use perdura_pmem::Mutant;

/// The part of the entries that lie below `key`, from 0 to 1, if the nodes of each level had
/// equally many.
pub(crate) fn share_below<K: Keys>(trunk: &Trunk<K>, key: &[u8]) -> Result<f64, Changed> {
    let root = trunk.root();
    // SAFETY: nodes live as long as the tree.
    let mut seen = unsafe { &*root }.read();
    if trunk.root() != root {
        return Err(Changed);
    }
    let (mut share, mut width) = (0.0, 1.0);
    while seen.shape.level > 0 {
        let index = seen.count_below(&trunk.keys, key, false)?;
        let child = seen.child(index)?.read();
        seen.check()?;
        width /= (seen.shape.count + 1) as f64;
        share += width * index as f64;
        seen = child;
    }
    let place = seen.count_below(&trunk.keys, key, false)?;
    seen.check()?;
    Ok(share + width * place as f64 / seen.shape.count.max(1) as f64)
}

/// The place of a key: between two entries of a leaf.
pub(crate) struct Descent<'t> {
    leaf: Seen<'t>,
    /// Entries of the leaf before the place.
    place: usize,
    /// The node with the nearest separator before the leaf, which is the leaf's smallest entry.
    previous: Option<Seen<'t>>,
    /// The node with the nearest separator behind the leaf, and its index. It is the smallest entry
    /// of the next leaf.
    next: Option<(Seen<'t>, usize)>,
}

impl<'t> Descent<'t> {
    /// Goes to the place before `key`, or behind it with `behind`.
    #[inline]
    pub(crate) fn to<K: Keys>(trunk: &'t Trunk<K>, key: &[u8], behind: bool) -> Result<Descent<'t>, Changed> {
        let root = trunk.root();
        // Planted: a root that was split meanwhile counts as the whole tree.
        let is_whole = perdura_pmem::planted(Mutant::RootSplitUnnoticed);
        // SAFETY: nodes live as long as the tree.
        let mut seen = unsafe { &*root }.read();
        // A root that was split meanwhile is one half of the tree.
        if trunk.root() != root && !is_whole {
            return Err(Changed);
        }
        let (mut previous, mut next) = (None, None);
        while seen.shape.level > 0 {
            let index = seen.count_below(&trunk.keys, key, behind)?;
            let child = seen.child(index)?;
            child.prefetch();
            // Planted: a child that was split before it was read counts as it was when it was
            // found.
            let is_unsplit = perdura_pmem::planted(Mutant::LeafSplitUnnoticed);
            let child = child.read();
            // The child was this node's when it was found.
            if !is_unsplit {
                seen.check()?;
            }
            // Planted: a separator that moves up later goes unnoticed.
            if index > 0 && !perdura_pmem::planted(Mutant::SeparatorMoveUnnoticed) {
                previous = Some(seen);
            }
            if index < seen.shape.count {
                next = Some((seen, index));
            }
            seen = child;
        }
        let place = seen.count_below(&trunk.keys, key, behind)?;
        Ok(Descent { leaf: seen, place, previous, next })
    }

    /// Fails unless at some moment the leaf had these entries and began at its separator. A
    /// separator moves up when the entry that it names is removed: the nodes between it and the
    /// leaf stay as they are, and the search should have gone left of it. Behind a leaf a separator
    /// may move as it likes: the search stays left of it.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Changed> {
        if let Some(node) = &self.previous {
            node.check()?;
        }
        self.leaf.check()
    }

    /// The entry before the place. The leaf has it, unless the place is before all entries of the
    /// tree: a search that turned right at a separator passes the leaf's smallest entry, which is
    /// the one that the separator names.
    #[inline]
    pub(crate) fn before(&self) -> Result<Option<u64>, Changed> {
        let found = self.place.checked_sub(1).map(|index| self.leaf.reference(index)).transpose()?;
        self.check()?;
        Ok(found)
    }

    /// The entry behind the place: the leaf's, or the separator behind the leaf.
    #[inline]
    pub(crate) fn behind(&self) -> Result<Option<u64>, Changed> {
        let (node, index) = match &self.next {
            _ if self.place < self.leaf.shape.count => (self.leaf, self.place),
            Some((node, index)) => (*node, *index),
            None => return self.check().map(|()| None),
        };
        let found = node.reference(index)?;
        self.check()?;
        Ok(Some(found))
    }

    /// Whether it is certain without a look at the key of the entry behind the place that this is
    /// above all keys that begin with `key`, which is the one of the descent; also if there is no
    /// such entry. It counts if [`Descent::behind`] then succeeds.
    #[inline]
    pub(crate) fn ends_behind(&self, key: &[u8]) -> bool {
        match &self.next {
            _ if self.place < self.leaf.shape.count => self.leaf.is_above(self.place, key),
            Some((node, index)) => node.is_above(*index, key),
            None => true,
        }
    }

    /// Number of entries from this place to the one of `other`, if both are in one leaf; 0 if that
    /// comes before.
    pub(crate) fn entries_to(&self, other: &Descent<'_>) -> Result<Option<usize>, Changed> {
        self.check()?;
        other.check()?;
        Ok(self.leaf.is_same(&other.leaf).then(|| other.place.saturating_sub(self.place)))
    }

    /// The smallest entry of the next leaf, if the place is behind all entries of its own and there
    /// is another.
    pub(crate) fn next_leaf(&self) -> Result<Option<u64>, Changed> {
        if self.place < self.leaf.shape.count { Ok(None) } else { self.behind() }
    }

    /// Adds the leaf's entries behind the place.
    pub(crate) fn page_behind(&self, found: &mut Vec<u64>) -> Result<(), Changed> {
        self.leaf.copy(self.place..self.leaf.shape.count, found);
        self.check()
    }

    /// Adds the entry `first`, which is the one before the place, and the leaf's entries behind it.
    pub(crate) fn page_with(&self, first: u64, found: &mut Vec<u64>) -> Result<(), Changed> {
        if self.before()? != Some(first) {
            return Err(Changed);
        }
        found.push(first);
        self.page_behind(found)
    }

    /// Adds the leaf's entries before the place.
    pub(crate) fn page_before(&self, found: &mut Vec<u64>) -> Result<(), Changed> {
        self.leaf.copy(0..self.place, found);
        self.check()
    }
}
