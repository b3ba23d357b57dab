//! The list's index as a tree of nodes in DRAM: how readers descend, and how the writer splits and
//! joins.
//!
//! A node that has no room for an entry is split, and its parent gets one more; a node that has
//! become sparse is joined with a neighbour, and its parent has one less. Leaves and inner nodes
//! differ in where the heads of their entries come from: the keys of records, or separators.
//!
//! A writer locks every node that a change concerns and unlocks them from the root down. So a
//! reader that sees a child as it is after the change cannot have seen its parent as it was before.
//! The root is an inner node, also above a single leaf.
//!
//! Nodes lie in chunks that live as long as the tree. Separators that have left their node wait
//! until no pin is as old.

use crate::error::Result;
use crate::index::dram_node::{FEW, Inner, Meta, Node, Separator, WIDTH};
use crate::index::{Entry, evenly};
use crate::memory::atomic::{AtomicPtr, Ordering};
use crate::memory::format::Ref;
use crate::memory::pin::Pins;
use crate::memory::record::{Newest, PREFIX_GAIN, Records, common_bytes, head16};
use crate::memory::retired::Retired;
use crate::timestamps::Ts;
use smallvec::SmallVec;
use std::ptr::null_mut;

/// Nodes of a chunk.
const CHUNK_NODES: usize = if cfg!(loom) { 2 } else { 64 };
/// Separators freed in one step under the writer's lock.
const FREED_MAX: usize = 64;
/// Inner nodes, or chunks of leaves, of a replaced tree that are freed in one step.
const APART_MAX: usize = 64;
/// Forgotten deletions of a leaf for which it is swept.
const SWEPT_AT: u8 = FEW as u8;

/// State that readers share: the address of the root.
pub(crate) struct Root {
    node: AtomicPtr<Inner>,
}

/// An inner node, and the index of the child taken there.
type Step = (*const Inner, usize);

/// Place of a key's entry, whether there is one or not.
pub struct Place {
    leaf: *const Node,
    index: usize,
    exact: bool,
    /// The inner nodes from the root to the leaf.
    path: SmallVec<[Step; 8]>,
}

impl Root {
    /// Descends to the leaf whose keys include `key`, once: none if the writer was in the way.
    /// Returns the leaf with its version. `bound` receives the least key after those of the leaf.
    /// The caller has pinned.
    #[inline]
    pub(crate) fn descend<'t>(
        &'t self,
        key: &[u8],
        mut bound: Option<&mut Option<&'t [u8]>>,
    ) -> Option<(&'t Node, u64)> {
        let root = self.node.load(Ordering::Acquire);
        // SAFETY: addresses of nodes come from the tree, whose nodes live as long as it does.
        let mut inner = unsafe { &*root };
        let mut version = inner.node.version()?;
        if self.node.load(Ordering::Acquire) != root {
            return None;
        }
        loop {
            let index = inner.child_of(key);
            let (meta, child) = (inner.node.meta(), inner.node.word(index));
            if let Some(bound) = &mut bound
                && index + 1 < meta.count
            {
                **bound = inner.separator(index + 1);
            }
            if !inner.node.is_still(version) {
                return None;
            }
            if meta.level == 1 {
                // SAFETY: as above. A child of an inner node of level 1 is a leaf.
                let leaf = unsafe { &*(child as *const Node) };
                let found = leaf.version()?;
                return inner.node.is_still(version).then_some((leaf, found));
            }
            // SAFETY: as above. A child of a higher node is an inner node.
            let below = unsafe { &*(child as *const Inner) };
            let found = below.node.version()?;
            if !inner.node.is_still(version) {
                return None;
            }
            (inner, version) = (below, found);
        }
    }
}

/// A tree with its memory, and what waits to be freed. Owned by the writer's lock.
pub struct Tree {
    root: Box<Root>,
    leaves: Vec<Box<[Node]>>,
    inners: Vec<Box<[Inner]>>,
    /// Nodes that are not in use: leaves, and inner nodes. They are locked, unless they are new.
    free: [Vec<*const Node>; 2],
    /// Separators that have left their node.
    left: Retired<*mut Separator>,
    /// Inner nodes whose separators are not freed, once the tree is being taken apart.
    apart: Option<Vec<*const Inner>>,
}

// SAFETY: the addresses are those of nodes and separators that the struct owns.
unsafe impl Send for Tree {}

/// An entry on its way into a node: a record of a leaf, or a child of an inner node with the lower
/// bound of its keys.
#[derive(Clone, Copy)]
struct Item {
    head: u128,
    word: u64,
    /// Null in a leaf, and for the first child.
    separator: *mut Separator,
}

type Items = SmallVec<[Item; 36]>;

impl Item {
    fn child(separator: *mut Separator, child: *const Node) -> Item {
        Item { head: separator_of(separator).map_or(0, |bound| head16(bound, 0)), word: child as u64, separator }
    }

    /// The item with a head that leaves out `skip` bytes, for a node of `level`.
    fn skipping(self, records: &Records, level: u8, skip: u16) -> Item {
        let key = if level == 0 { Some(records.trusted_key(Ref(self.word))) } else { separator_of(self.separator) };
        Item { head: key.map_or(0, |key| head16(key, usize::from(skip))), ..self }
    }
}

/// The bytes of a separator that is not freed during the change under way.
fn separator_of<'m>(separator: *mut Separator) -> Option<&'m [u8]> {
    // SAFETY: null, or from Box::into_raw; see above.
    unsafe { separator.as_ref() }.map(|separator| &separator[..])
}

/// A new separator of the records before and after it.
fn separate(records: &Records, before: Ref, after: Ref) -> *mut Separator {
    let (before, after) = (records.trusted_key(before), records.trusted_key(after));
    Box::into_raw(Box::new(after[..=common_bytes(before, after)].to_vec()))
}

/// The nodes that a change has locked, the topmost last.
type Locked = SmallVec<[*const Node; 8]>;

fn lock(locked: &mut Locked, node: &Node) {
    node.lock();
    locked.push(node);
}

/// Unlocks from the root down, and a node that was locked twice once.
fn unlock(locked: Locked) {
    let mut done = Locked::new();
    for node in locked.into_iter().rev() {
        if !done.contains(&node) {
            // SAFETY: nodes live as long as the memory, which is borrowed during the change.
            unsafe { &*node }.unlock();
            done.push(node);
        }
    }
}

impl Tree {
    /// A tree of entries in ascending order.
    pub(crate) fn build(records: &Records, entries: &[Entry]) -> Tree {
        let mut tree = Tree {
            root: Box::new(Root { node: AtomicPtr::new(null_mut()) }),
            leaves: Vec::new(),
            inners: Vec::new(),
            free: Default::default(),
            left: Retired::default(),
            apart: None,
        };
        let groups: Vec<&[Entry]> = evenly(entries, WIDTH).collect();
        let between = |pair: &[&[Entry]]| separate(records, pair[0][pair[0].len() - 1].1, pair[1][0].1);
        let bounds: Vec<*mut Separator> = groups.windows(2).map(between).collect();
        let bound = |number: usize| bounds.get(number).copied().unwrap_or(null_mut());
        let mut row = Vec::with_capacity(groups.len());
        for (number, group) in groups.iter().enumerate() {
            let later = groups.get(number + 1).into_iter().copied().flatten();
            later.for_each(|(_, record)| records.prefetch(*record));
            let (lower, upper) = (number.checked_sub(1).map_or(null_mut(), bound), bound(number));
            let items = group.iter().map(|(head, record)| Item { head: *head, word: record.0, separator: null_mut() });
            let leaf = tree.new_node(0);
            let skip = grown_skip(0, separator_of(lower), separator_of(upper));
            Tree::fill(records, leaf, skip, 0, &items.collect::<Items>());
            Tree::node(leaf).unlock();
            row.push(Item::child(lower, leaf));
        }
        for level in 1.. {
            let mut above = Vec::new();
            for group in evenly(&row, WIDTH) {
                let inner = tree.new_node(level);
                Tree::fill(records, inner, 0, 0, group);
                Tree::node(inner).unlock();
                above.push(Item::child(group[0].separator, inner));
            }
            row = above;
            if row.len() == 1 {
                break;
            }
        }
        tree.root.node.store(row[0].word as *mut Inner, Ordering::Release);
        tree
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    fn node<'m>(node: *const Node) -> &'m Node {
        // SAFETY: addresses of nodes come from this tree, which outlives the change under way.
        unsafe { &*node }
    }

    fn inner<'m>(inner: *const Inner) -> &'m Inner {
        // SAFETY: as in node().
        unsafe { &*inner }
    }

    /// A node, locked and empty.
    fn new_node(&mut self, level: u8) -> *const Node {
        let free = &mut self.free[usize::from(level > 0)];
        if free.is_empty() && level == 0 {
            let chunk: Box<[Node]> = (0..CHUNK_NODES).map(|_| Node::new()).collect();
            free.extend(chunk.iter().map(std::ptr::from_ref));
            self.leaves.push(chunk);
        } else if free.is_empty() {
            let chunk: Box<[Inner]> = (0..CHUNK_NODES).map(|_| Inner::new()).collect();
            free.extend(chunk.iter().map(|inner| std::ptr::from_ref(inner).cast::<Node>()));
            self.inners.push(chunk);
        }
        let node = free.pop().expect("a chunk has nodes");
        Tree::node(node).lock();
        Tree::node(node).set_meta(Meta { level, ..Meta::default() });
        node
    }

    /// The entries of a node, with heads that leave out `skip` bytes.
    fn items(records: &Records, node: *const Node, skip: u16) -> Items {
        let (found, meta) = (Tree::node(node), Tree::node(node).meta());
        let item = |index| Item { head: found.head(index), word: found.word(index), separator: null_mut() };
        let mut items: Items = (0..meta.count).map(item).collect();
        if meta.level > 0 {
            let separators = Tree::inner(node.cast());
            items.iter_mut().enumerate().for_each(|(at, item)| item.separator = separators.separator_pointer(at));
        }
        if skip != meta.skip {
            items.iter_mut().for_each(|item| *item = item.skipping(records, meta.level, skip));
        }
        items
    }

    /// Gives a locked node a skip, and entries whose heads leave out `from` bytes.
    fn fill(records: &Records, node: *const Node, skip: u16, from: u16, items: &[Item]) {
        let (filled, level) = (Tree::node(node), Tree::node(node).meta().level);
        for (index, item) in items.iter().enumerate() {
            let item = if skip == from { *item } else { item.skipping(records, level, skip) };
            filled.set(index, item.head, item.word);
        }
        let mut deletions = 0;
        if level == 0 {
            deletions = items.iter().filter(|item| Ref(item.word).is_deletion()).count() as u8;
        } else {
            // The bound of the first child is that of the node.
            let separators = [null_mut()].into_iter().chain(items.iter().skip(1).map(|item| item.separator));
            separators.enumerate().for_each(|(at, bound)| Tree::inner(node.cast()).set_separator(at, bound));
        }
        filled.set_meta(Meta { count: items.len(), level, skip, deletions, sweep_at: deletions + SWEPT_AT });
    }

    /// Puts an entry, whose head leaves out what the node's do, into a locked node that has room.
    #[inline]
    fn insert(node: *const Node, at: usize, item: Item) {
        let (changed, meta) = (Tree::node(node), Tree::node(node).meta());
        let mut deletions = meta.deletions;
        changed.shift(at..meta.count, at + 1);
        changed.set(at, item.head, item.word);
        if meta.level == 0 {
            deletions += u8::from(Ref(item.word).is_deletion());
        } else {
            Tree::inner(node.cast()).shift_separators(at..meta.count, at + 1);
            Tree::inner(node.cast()).set_separator(at, item.separator);
        }
        changed.set_meta(Meta { count: meta.count + 1, deletions, ..meta });
    }

    /// Takes an entry out of a locked node.
    #[inline]
    fn remove(node: *const Node, at: usize) {
        let (changed, meta) = (Tree::node(node), Tree::node(node).meta());
        let mut deletions = meta.deletions;
        if meta.level == 0 {
            deletions -= u8::from(changed.record(at).is_deletion());
        } else {
            Tree::inner(node.cast()).shift_separators(at + 1..meta.count, at);
        }
        changed.shift(at + 1..meta.count, at);
        changed.set_meta(Meta { count: meta.count - 1, deletions, ..meta });
    }

    /// The place of a key, and its newest record. Error: `Damaged`.
    #[inline]
    pub(crate) fn locate<'r>(&self, records: &'r Records, key: &[u8]) -> Result<(Place, Newest<'r>)> {
        let mut path = SmallVec::new();
        let mut inner = Tree::inner(self.root.node.load(Ordering::Relaxed));
        loop {
            let index = inner.child_of(key);
            path.push((std::ptr::from_ref(inner), index));
            let child = inner.node.word(index);
            if inner.node.meta().level == 1 {
                let leaf = child as *const Node;
                let (index, found) = Tree::node(leaf).find(records, key)?;
                return Ok((Place { leaf, index, exact: found.is_some(), path }, found));
            }
            inner = Tree::inner(child as *const Inner);
        }
    }

    /// The bounds of the keys below the last node of a path, at the child taken there.
    fn bounds<'m>(path: &[Step]) -> (Option<&'m [u8]>, Option<&'m [u8]>) {
        let lower = path.iter().rev().find_map(|(inner, index)| Tree::inner(*inner).separator(*index));
        let upper = path.iter().rev().find_map(|(inner, index)| {
            let inner = Tree::inner(*inner);
            (index + 1 < inner.node.meta().count).then(|| inner.separator(index + 1)).flatten()
        });
        (lower, upper)
    }

    /// Makes the entry at a place name `record`. Sweeps the leaf if it is full, or if enough in it
    /// may have been deleted.
    pub(crate) fn put(
        &mut self,
        records: &Records,
        place: &Place,
        key: &[u8],
        record: Ref,
        (forgotten, dead): (Ts, &mut Vec<Ref>),
    ) -> Result<()> {
        let leaf = Tree::node(place.leaf);
        let meta = leaf.meta();
        if place.exact {
            let was_deletion = leaf.record(place.index).is_deletion();
            let deletions = meta.deletions + u8::from(record.is_deletion()) - u8::from(was_deletion);
            leaf.set_meta(Meta { deletions, ..meta });
            leaf.set_word(place.index, record.0);
            if deletions >= meta.sweep_at && record.is_deletion() {
                self.sweep(records, place, forgotten, dead);
            }
            return Ok(());
        }
        let mut index = place.index;
        if meta.count == WIDTH && meta.deletions > 0 && Tree::sweep_leaf(records, leaf, forgotten, dead) {
            (index, _) = leaf.find(records, key)?;
        }
        let meta = leaf.meta();
        let item = Item { head: head16(key, usize::from(meta.skip)), word: record.0, separator: null_mut() };
        if meta.count < WIDTH {
            leaf.lock();
            Tree::insert(place.leaf, index, item);
            leaf.unlock();
        } else {
            let mut locked = Locked::new();
            self.add(records, &place.path, place.leaf, index, item, &mut locked);
            unlock(locked);
        }
        Ok(())
    }

    /// Adds an entry, whose head leaves out what the node's do, to the node at the end of a path.
    /// Splits it if it is full: entries that arrive in order leave full nodes behind.
    fn add(&mut self, records: &Records, path: &[Step], node: *const Node, at: usize, item: Item, locked: &mut Locked) {
        let Meta { count, level, skip, .. } = Tree::node(node).meta();
        lock(locked, Tree::node(node));
        if count < WIDTH {
            return Tree::insert(node, at, item);
        }
        let mut items = Tree::items(records, node, skip);
        items.insert(at, item);
        let (left, right) = items.split_at(split_point(at, items.len()));
        let separator = match (level, left) {
            (0, [.., last]) => separate(records, Ref(last.word), Ref(right[0].word)),
            _ => right[0].separator,
        };
        let (lower, upper) = Tree::bounds(path);
        let bound = separator_of(separator);
        let neighbour = self.new_node(level);
        lock(locked, Tree::node(neighbour));
        Tree::fill(records, neighbour, grown_skip(skip, bound, upper), skip, right);
        let child = Item::child(separator, neighbour);
        match path.split_last() {
            Some(((parent, index), above)) => {
                let parent: *const Node = parent.cast();
                let child = child.skipping(records, level + 1, Tree::node(parent).meta().skip);
                self.add(records, above, parent, index + 1, child, locked);
            }
            None => {
                let root = self.new_node(level + 1);
                lock(locked, Tree::node(root));
                Tree::fill(records, root, 0, 0, &[Item::child(null_mut(), node), child]);
                self.root.node.store(root.cast::<Inner>().cast_mut(), Ordering::Release);
            }
        }
        Tree::fill(records, node, grown_skip(skip, lower, bound), skip, left);
    }

    /// Removes the entry at a place.
    pub(crate) fn take_out(&mut self, records: &Records, place: &Place) {
        let leaf = Tree::node(place.leaf);
        leaf.lock();
        Tree::remove(place.leaf, place.index);
        leaf.unlock();
        self.join(records, &place.path, place.leaf);
    }

    /// Sweeps the leaf of a place, and joins it with a neighbour if it has become sparse.
    pub(crate) fn sweep(&mut self, records: &Records, place: &Place, forgotten: Ts, dead: &mut Vec<Ref>) {
        let leaf = Tree::node(place.leaf);
        if Tree::sweep_leaf(records, leaf, forgotten, dead) {
            self.join(records, &place.path, place.leaf);
        }
    }

    /// Removes the entries of deletions up to `forgotten` from a leaf. Returns whether there were
    /// any.
    fn sweep_leaf(records: &Records, leaf: &Node, forgotten: Ts, dead: &mut Vec<Ref>) -> bool {
        let meta = leaf.meta();
        let is_over = |index: &usize| {
            let record = leaf.record(*index);
            record.is_deletion() && records.trusted_ts(record) <= forgotten
        };
        let over: SmallVec<[usize; WIDTH]> = (0..meta.count).filter(is_over).collect();
        let deletions = meta.deletions - over.len() as u8;
        let sweep_at = deletions + SWEPT_AT;
        if over.is_empty() {
            leaf.set_meta(Meta { sweep_at, ..meta });
            return false;
        }
        leaf.lock();
        let mut kept = over[0];
        for index in over[0]..meta.count {
            if over.contains(&index) {
                dead.push(leaf.record(index));
            } else {
                leaf.set(kept, leaf.head(index), leaf.word(index));
                kept += 1;
            }
        }
        leaf.set_meta(Meta { count: kept, deletions, sweep_at, ..meta });
        leaf.unlock();
        true
    }

    /// Joins the node at the end of a path, which has lost entries, with a neighbour, if both fit
    /// well into one, and so on above. A root with one inner child gives way to it.
    fn join(&mut self, records: &Records, path: &[Step], node: *const Node) {
        let (found, meta) = (Tree::node(node), Tree::node(node).meta());
        let Some(((step, index), above)) = path.split_last() else {
            if meta.count == 1 && meta.level > 1 {
                found.lock();
                self.root.node.store(found.word(0) as *mut Inner, Ordering::Release);
                self.free[1].push(node);
            }
            return;
        };
        let parent = Tree::inner(*step);
        let Some(left) = pair(&parent.node, *index, meta.count) else { return };
        let [one, other] = [left, left + 1].map(|child| parent.node.word(child) as *const Node);
        let (first, second) = (Tree::node(one).meta(), Tree::node(other).meta());
        if !fit(first.count, second.count) {
            return;
        }
        let skip = common_skip(above, parent, left, first.skip);
        let (mut items, mut others) = (Tree::items(records, one, skip), Tree::items(records, other, skip));
        let separator = parent.separator_pointer(left + 1);
        if meta.level == 0 {
            self.left.add(separator);
        } else if let Some(first) = others.first_mut() {
            // The bound of the neighbour's first child was its own, which the parent has.
            *first = Item { separator, ..*first }.skipping(records, meta.level, skip);
        }
        items.extend_from_slice(&others);
        let mut locked = Locked::new();
        lock(&mut locked, Tree::node(one));
        lock(&mut locked, &parent.node);
        Tree::node(other).lock();
        Tree::fill(records, one, skip, skip, &items);
        Tree::remove(step.cast(), left + 1);
        unlock(locked);
        self.free[usize::from(meta.level > 0)].push(other);
        self.join(records, above, step.cast());
    }

    /// Frees separators that no reader can see.
    pub(crate) fn recycle(&mut self, pins: &Pins) {
        if self.left.present() >= CHUNK_NODES {
            self.left.close(pins);
        }
        if self.left.has_closed() {
            let oldest = pins.oldest();
            (0..FREED_MAX).map_while(|_| self.left.take_before(oldest)).for_each(free);
        }
    }
}

impl Tree {
    /// Frees a part of a tree that nobody can see any more. Returns whether there is more; until
    /// there is none nothing but this and dropping is left.
    pub(crate) fn take_apart(&mut self) -> bool {
        let root = self.root.node.load(Ordering::Relaxed).cast_const();
        let stack = self.apart.get_or_insert_with(|| vec![root]);
        let mut count = 0;
        while count < APART_MAX
            && let Some(inner) = stack.pop()
        {
            count += 1;
            let inner = Tree::inner(inner);
            let meta = inner.node.meta();
            (1..meta.count).for_each(|index| free(inner.separator_pointer(index)));
            if meta.level > 1 {
                stack.extend((0..meta.count).map(|index| inner.node.word(index) as *const Inner));
            }
        }
        if stack.is_empty() {
            self.leaves.truncate(self.leaves.len().saturating_sub(APART_MAX - count));
        }
        !stack.is_empty() || !self.leaves.is_empty()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.left.drain().for_each(free);
        while self.take_apart() {}
    }
}

fn free(separator: *mut Separator) {
    // SAFETY: from Box::into_raw, and out of its node; no reader can see it any more.
    drop(unsafe { Box::from_raw(separator) });
}

/// Count of the `len` entries that stay on the left when one was inserted at `index`.
fn split_point(index: usize, len: usize) -> usize {
    match index {
        0 => 2.min(len - 1),
        _ if index + 1 == len => len - 1 - (len / 16).min(2),
        _ => len / 2,
    }
}

/// The skip of a node between two bounds whose keys share `skip` bytes at least.
fn grown_skip(skip: u16, lower: Option<&[u8]>, upper: Option<&[u8]>) -> u16 {
    let (Some(lower), Some(upper)) = (lower, upper) else { return skip };
    let common = common_bytes(lower, upper).min(usize::from(u16::MAX));
    if common >= usize::from(skip) + PREFIX_GAIN { common as u16 } else { skip }
}

/// The skip of children `left` and the next one of a node once they are one. `skip` is that of the
/// first.
fn common_skip(above: &[Step], parent: &Inner, left: usize, skip: u16) -> u16 {
    let (lower, upper) = Tree::bounds(above);
    let lower = parent.separator(left).or(lower);
    let upper = if left + 2 < parent.node.meta().count { parent.separator(left + 2) } else { upper };
    let (Some(lower), Some(upper)) = (lower, upper) else { return 0 };
    skip.min(common_bytes(lower, upper).min(usize::from(u16::MAX)) as u16)
}

/// The first of two neighbours of which child `index` with `count` entries is one, if it is to be
/// joined.
fn pair(parent: &Node, index: usize, count: usize) -> Option<usize> {
    let children = parent.meta().count;
    (count < FEW && children > 1).then(|| if index + 1 < children { index } else { index - 1 })
}

/// Whether two nodes of these numbers of entries are joined.
fn fit(one: usize, other: usize) -> bool {
    one + other <= WIDTH * 3 / 4 || one == 0 || other == 0
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::{Root, Tree};
    use crate::memory::bitmap::Bitmap;
    use crate::memory::format::{GRAIN_BYTES, Geometry, RECORD_HEADER_BYTES, RecordHeader, Ref, bytes_of};
    use crate::memory::record::Records;
    use loom::thread;
    use perdura_pmem::{Medium, SimMedium};
    use std::sync::Arc;

    const FILE_BYTES: u64 = 128 << 10;

    fn key(number: u8) -> [u8; 2] {
        [b'k', number]
    }

    /// The reference to the record of a key.
    fn record(records: &Records, number: u8) -> Ref {
        let len = RECORD_HEADER_BYTES.next_multiple_of(GRAIN_BYTES) + GRAIN_BYTES;
        Ref::new(records.geometry.data_at + u64::from(number) * len, len)
    }

    /// A region with the records of this number of keys.
    fn records(count: u8) -> Records {
        let region = SimMedium::new().create("m", FILE_BYTES).expect("room");
        let geometry = Geometry::new(FILE_BYTES, 1024);
        let records = Records::new(region, geometry, 0, Arc::new(Bitmap::new(&geometry, GRAIN_BYTES)));
        records.all_checked();
        for number in 0..count {
            let at = record(&records, number);
            let value_bytes = (at.len() - RECORD_HEADER_BYTES) as u32 - 2;
            let (tag, borne_bytes) = (false, None);
            let header = RecordHeader { ts: 1, deletion: false, tag, key_bytes: 2, value_bytes, borne_bytes, crc: 0 };
            records.region.write(at.offset(), bytes_of(&header.encode(0, 0)));
            records.region.write(at.offset() + RECORD_HEADER_BYTES, &key(number));
        }
        records
    }

    /// Looks for a key once. None if the writer was in the way.
    fn look(root: &Root, records: &Records, number: u8) -> Option<bool> {
        let (leaf, version) = root.descend(&key(number), None)?;
        let found = leaf.find(records, &key(number)).map(|(_, found)| found.is_some());
        leaf.is_still(version).then(|| found.expect("sound records"))
    }

    fn put(tree: &mut Tree, records: &Records, number: u8) {
        let (place, _) = tree.locate(records, &key(number)).expect("sound records");
        let new = record(records, number);
        tree.put(records, &place, &key(number), new, (0, &mut Vec::new())).expect("sound records");
    }

    fn remove(tree: &mut Tree, records: &Records, number: u8) {
        let (place, found) = tree.locate(records, &key(number)).expect("sound records");
        assert!(found.is_some());
        tree.take_out(records, &place);
    }

    /// The root's address, for a reader in another thread, which ends before the tree.
    struct Shared(*const Root, Records);

    // SAFETY: a root and records are shared between threads outside of this test as well.
    unsafe impl Send for Shared {}

    /// Runs `change` on a tree of the first `count` even keys without those of `removed`, beside a
    /// reader that looks for `sought`. It finds the key, before, during and after the change.
    fn model(count: u8, removed: &'static [u8], sought: u8, change: fn(&mut Tree, &Records)) {
        let mut builder = loom::model::Builder::new();
        (builder.preemption_bound, builder.max_branches) = (Some(2), 100_000);
        builder.check(move || {
            let records = records(2 * count);
            let entry = |number| (crate::memory::record::head16(&key(2 * number), 0), record(&records, 2 * number));
            let entries: Vec<_> = (0..count).map(entry).collect();
            let mut tree = Tree::build(&records, &entries);
            removed.iter().for_each(|number| remove(&mut tree, &records, *number));
            let shared = Shared(tree.root(), records.clone());
            let reader = thread::spawn(move || {
                let Shared(root, records) = { shared };
                // SAFETY: the tree outlives the reader.
                look(unsafe { &*root }, &records, sought)
            });
            change(&mut tree, &records);
            assert_ne!(reader.join().unwrap(), Some(false), "a key is lost for a moment");
            assert_eq!(look(tree.root(), &records, sought), Some(true));
        });
    }

    #[test]
    fn a_reader_finds_its_key_beside_a_split() {
        model(4, &[], 6, |tree, records| put(tree, records, 3));
    }

    #[test]
    fn a_reader_finds_its_key_beside_a_split_of_the_root() {
        model(16, &[], 22, |tree, records| put(tree, records, 19));
    }

    #[test]
    fn a_reader_finds_its_key_beside_a_join() {
        model(5, &[2, 8], 6, |tree, records| remove(tree, records, 4));
    }

    /// Two leaves become one, then their parents, and the root gives way to these.
    #[test]
    fn a_reader_finds_its_key_beside_a_join_up_to_the_root() {
        model(17, &[12, 14, 20, 22, 26, 28, 30, 0, 6], 10, |tree, records| {
            let before = tree.root.node.load(super::Ordering::Relaxed);
            remove(tree, records, 8);
            assert_ne!(tree.root.node.load(super::Ordering::Relaxed), before, "the root gives way");
        });
    }
}
