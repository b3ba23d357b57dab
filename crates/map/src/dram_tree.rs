//! The list's index as a tree of nodes in DRAM: how readers descend, and how the writer splits and joins.
//!
//! A writer locks every node that a change concerns and unlocks them from the root down. So a reader that sees a child as it
//! is after the change cannot have seen its parent as it was before. The root is an inner node, also above a single leaf.
//!
//! Nodes lie in chunks that live as long as the tree. Separators that have left their node wait until no pin is as old.

use crate::atomic::{AtomicPtr, Ordering};
use crate::dram_node::{FEW, Inner, Meta, Node, Separator, WIDTH, head_of};
use crate::error::Result;
use crate::format::Ref;
use crate::index::Entry;
use crate::pin::Pins;
use crate::record::{Record, Records, common_bytes};
use crate::timestamps::Ts;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ptr::null_mut;

/// Nodes of a chunk.
const CHUNK_NODES: usize = if cfg!(loom) { 2 } else { 64 };
/// Bytes by which a common prefix must have grown before heads leave it out.
const PREFIX_GAIN: usize = 4;
/// Forgotten deletions of a leaf for which it is swept.
const SWEPT_AT: u8 = FEW as u8;

/// What readers share: the address of the root.
pub(crate) struct Tree {
    root: AtomicPtr<Inner>,
}

/// The inner nodes from the root to a leaf, each with the index of the child taken.
type Path = SmallVec<[(*const Inner, usize); 8]>;

/// Where a key's entry is, or would be.
pub struct Place {
    leaf: *const Node,
    index: usize,
    exact: bool,
    path: Path,
}

impl Tree {
    /// Descends to the leaf whose keys include `key`, once: none if the writer was in the way. Returns the leaf with its
    /// version. `bound` receives the least key after those of the leaf. The caller has pinned.
    #[inline]
    pub(crate) fn descend<'t>(
        &'t self,
        key: &[u8],
        mut bound: Option<&mut Option<&'t [u8]>>,
    ) -> Option<(&'t Node, u64)> {
        let root = self.root.load(Ordering::Acquire);
        // SAFETY: addresses of nodes come from the tree, whose nodes live as long as it does.
        let mut inner = unsafe { &*root };
        let mut version = inner.node.version()?;
        if self.root.load(Ordering::Acquire) != root {
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
pub struct Memory {
    tree: Box<Tree>,
    leaves: Vec<Box<[Node]>>,
    inners: Vec<Box<[Inner]>>,
    free_leaves: Vec<*const Node>,
    free_inners: Vec<*const Inner>,
    /// Separators that have left their node since the last epoch was closed, and those of closed epochs.
    leaving: Vec<*mut Separator>,
    left: VecDeque<(u64, Vec<*mut Separator>)>,
}

// SAFETY: the addresses are those of nodes and separators that the struct owns.
unsafe impl Send for Memory {}

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

impl Memory {
    /// A tree of one empty leaf.
    pub(crate) fn new() -> Memory {
        let mut memory = Memory {
            tree: Box::new(Tree { root: AtomicPtr::new(null_mut()) }),
            leaves: Vec::new(),
            inners: Vec::new(),
            free_leaves: Vec::new(),
            free_inners: Vec::new(),
            leaving: Vec::new(),
            left: VecDeque::new(),
        };
        let (root, leaf) = (memory.new_inner(Meta { level: 1, ..Meta::default() }), memory.new_leaf(0));
        Memory::set_children(root, &[(null_mut(), leaf as u64)]);
        Memory::node(leaf).unlock();
        Memory::inner(root).node.unlock();
        memory.tree.root.store(root.cast_mut(), Ordering::Release);
        memory
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    fn node<'m>(node: *const Node) -> &'m Node {
        // SAFETY: addresses of nodes come from this memory, which outlives the change under way.
        unsafe { &*node }
    }

    fn inner<'m>(inner: *const Inner) -> &'m Inner {
        // SAFETY: as in node().
        unsafe { &*inner }
    }

    /// A leaf, locked and empty.
    fn new_leaf(&mut self, skip: u16) -> *const Node {
        if self.free_leaves.is_empty() {
            let chunk: Box<[Node]> = (0..CHUNK_NODES).map(|_| Node::new()).collect();
            self.free_leaves.extend(chunk.iter().map(|node| node as *const Node));
            self.leaves.push(chunk);
        }
        let leaf = self.free_leaves.pop().expect("a chunk has nodes");
        Memory::node(leaf).lock();
        Memory::node(leaf).set_meta(Meta { skip, sweep_at: SWEPT_AT, ..Meta::default() });
        leaf
    }

    /// An inner node, locked and without children.
    fn new_inner(&mut self, meta: Meta) -> *const Inner {
        if self.free_inners.is_empty() {
            let chunk: Box<[Inner]> = (0..CHUNK_NODES).map(|_| Inner::new()).collect();
            self.free_inners.extend(chunk.iter().map(|inner| inner as *const Inner));
            self.inners.push(chunk);
        }
        let inner = self.free_inners.pop().expect("a chunk has nodes");
        Memory::inner(inner).node.lock();
        Memory::inner(inner).node.set_meta(Meta { count: 0, ..meta });
        inner
    }

    fn set_children(inner: *const Inner, children: &[(*mut Separator, u64)]) {
        let inner = Memory::inner(inner);
        for (index, (separator, child)) in children.iter().enumerate() {
            inner.set_child(index, if index == 0 { null_mut() } else { *separator }, *child);
        }
        inner.node.set_meta(Meta { count: children.len(), ..inner.node.meta() });
    }

    /// The place of a key, and its newest record. Error: `Damaged`.
    #[inline]
    pub(crate) fn locate<'r>(
        tree: &Tree,
        records: &'r Records,
        key: &[u8],
    ) -> Result<(Place, Option<(Ref, Record<'r>)>)> {
        let mut path = Path::new();
        let mut inner = Memory::inner(tree.root.load(Ordering::Relaxed));
        loop {
            let index = inner.child_of(key);
            path.push((inner, index));
            let child = inner.node.word(index);
            if inner.node.meta().level == 1 {
                let leaf = Memory::node(child as *const Node);
                let (index, found) = leaf.find(records, key)?;
                return Ok((Place { leaf, index, exact: found.is_some(), path }, found));
            }
            inner = Memory::inner(child as *const Inner);
        }
    }

    /// The bounds of the keys below the last node of a path, at the child taken there.
    fn bounds<'m>(path: &[(*const Inner, usize)]) -> (Option<&'m [u8]>, Option<&'m [u8]>) {
        let lower = path.iter().rev().find_map(|(inner, index)| Memory::inner(*inner).separator(*index));
        let upper = path.iter().rev().find_map(|(inner, index)| {
            let inner = Memory::inner(*inner);
            (index + 1 < inner.node.meta().count).then(|| inner.separator(index + 1)).flatten()
        });
        (lower, upper)
    }

    /// Makes the entry at a place name `record`. Sweeps the leaf if it is full, or if enough in it may have been deleted.
    pub(crate) fn put(
        &mut self,
        records: &Records,
        place: &Place,
        key: &[u8],
        record: Ref,
        (forgotten, dead): (Ts, &mut Vec<Ref>),
    ) -> Result<()> {
        let leaf = Memory::node(place.leaf);
        let meta = leaf.meta();
        if place.exact {
            let was_deletion = leaf.record(place.index).is_deletion();
            let deletions = meta.deletions + u8::from(record.is_deletion()) - u8::from(was_deletion);
            leaf.set_meta(Meta { deletions, ..meta });
            leaf.set_word(place.index, record.0);
            if deletions >= meta.sweep_at && record.is_deletion() {
                self.sweep(records, &place.path, leaf, forgotten, dead);
            }
            return Ok(());
        }
        if meta.count == WIDTH && meta.deletions > 0 && Memory::sweep_leaf(records, leaf, forgotten, dead) {
            let (index, _) = leaf.find(records, key)?;
            let place = Place { leaf, index, exact: false, path: place.path.clone() };
            return self.insert(records, &place, key, record);
        }
        self.insert(records, place, key, record)
    }

    fn insert(&mut self, records: &Records, place: &Place, key: &[u8], record: Ref) -> Result<()> {
        let leaf = Memory::node(place.leaf);
        let meta = leaf.meta();
        if meta.count == WIDTH {
            self.split(records, place, key, record);
            return Ok(());
        }
        leaf.lock();
        leaf.copy(place.index + 1, leaf, place.index, meta.count);
        leaf.set(place.index, head_of(key, usize::from(meta.skip)), record.0);
        let deletions = meta.deletions + u8::from(record.is_deletion());
        leaf.set_meta(Meta { count: meta.count + 1, deletions, ..meta });
        leaf.unlock();
        Ok(())
    }

    /// Inserts into a full leaf by splitting it. Keys that arrive in order leave full leaves behind.
    fn split(&mut self, records: &Records, place: &Place, key: &[u8], record: Ref) {
        let leaf = Memory::node(place.leaf);
        let meta = leaf.meta();
        let mut entries: SmallVec<[(u128, u64); 36]> =
            (0..meta.count).map(|index| (leaf.head(index), leaf.word(index))).collect();
        entries.insert(place.index, (head_of(key, usize::from(meta.skip)), record.0));
        let middle = split_point(place.index, entries.len());
        let key_of = |word: u64| records.trusted_key(Ref(word));
        let (before, after) = (key_of(entries[middle - 1].1), key_of(entries[middle].1));
        let separator = Box::into_raw(Box::new(after[..=common_bytes(before, after)].to_vec()));
        let (lower, upper) = Memory::bounds(&place.path);
        // SAFETY: it was just made.
        let bound = unsafe { &(&*separator)[..] };
        let right = self.new_leaf(grown_skip(meta.skip, Some(bound), upper));
        let mut locked = Locked::new();
        lock(&mut locked, Memory::node(right));
        lock(&mut locked, leaf);
        Memory::fill(records, right, meta.skip, &entries[middle..]);
        self.add_child(&place.path, separator, right as u64, &mut locked);
        let skip = grown_skip(meta.skip, lower, Some(bound));
        leaf.set_meta(Meta { skip, ..meta });
        Memory::fill(records, leaf, meta.skip, &entries[..middle]);
        unlock(locked);
    }

    /// Fills a leaf, whose skip is set, with entries whose heads leave out `skip` bytes.
    fn fill(records: &Records, leaf: *const Node, skip: u16, entries: &[(u128, u64)]) {
        let leaf = Memory::node(leaf);
        let meta = leaf.meta();
        let mut deletions = 0;
        for (index, (head, word)) in entries.iter().enumerate() {
            let record = Ref(*word);
            let head =
                if meta.skip == skip { *head } else { head_of(records.trusted_key(record), usize::from(meta.skip)) };
            leaf.set(index, head, *word);
            deletions += u8::from(record.is_deletion());
        }
        leaf.set_meta(Meta { count: entries.len(), deletions, sweep_at: deletions + SWEPT_AT, ..meta });
    }

    /// Adds a child after the one taken at the end of a path, and splits nodes that have no room for it.
    fn add_child(
        &mut self,
        path: &[(*const Inner, usize)],
        separator: *mut Separator,
        child: u64,
        locked: &mut Locked,
    ) {
        let Some(((inner, index), above)) = path.split_last() else {
            return self.grow(separator, child, locked);
        };
        let (inner, at) = (Memory::inner(*inner), index + 1);
        let meta = inner.node.meta();
        if meta.count < WIDTH {
            lock(locked, &inner.node);
            inner.copy(at + 1, inner, at, meta.count);
            inner.set_child(at, separator, child);
            inner.node.set_meta(Meta { count: meta.count + 1, ..meta });
            return;
        }
        let mut children: SmallVec<[(*mut Separator, u64); 36]> =
            (0..meta.count).map(|index| (inner.separator_pointer(index), inner.node.word(index))).collect();
        children.insert(at, (separator, child));
        let middle = split_point(at, children.len());
        let up = children[middle].0;
        let (lower, upper) = Memory::bounds(above);
        // SAFETY: separators in a node are not freed.
        let bound = unsafe { &(&*up)[..] };
        let skip = grown_skip(meta.skip, Some(bound), upper);
        let right = self.new_inner(Meta { skip, ..meta });
        lock(locked, &Memory::inner(right).node);
        lock(locked, &inner.node);
        Memory::set_children(right, &children[middle..]);
        self.add_child(above, up, right as u64, locked);
        inner.node.set_meta(Meta { skip: grown_skip(meta.skip, lower, Some(bound)), ..meta });
        Memory::set_children(inner, &children[..middle]);
    }

    /// Puts a new root above the present one and its new neighbour.
    fn grow(&mut self, separator: *mut Separator, child: u64, locked: &mut Locked) {
        let old = self.tree.root.load(Ordering::Relaxed);
        let level = Memory::inner(old).node.meta().level + 1;
        let root = self.new_inner(Meta { level, ..Meta::default() });
        lock(locked, &Memory::inner(root).node);
        Memory::set_children(root, &[(null_mut(), old as u64), (separator, child)]);
        self.tree.root.store(root.cast_mut(), Ordering::Release);
    }

    /// Removes the entry at a place.
    pub(crate) fn take_out(&mut self, records: &Records, place: &Place) {
        let leaf = Memory::node(place.leaf);
        let meta = leaf.meta();
        let deletions = meta.deletions - u8::from(leaf.record(place.index).is_deletion());
        leaf.lock();
        leaf.copy(place.index, leaf, place.index + 1, meta.count);
        leaf.set_meta(Meta { count: meta.count - 1, deletions, ..meta });
        leaf.unlock();
        self.join(records, &place.path, leaf);
    }

    /// Sweeps the leaf of a place, and joins it with a neighbour if it has become sparse.
    pub(crate) fn sweep_at(&mut self, records: &Records, place: &Place, forgotten: Ts, dead: &mut Vec<Ref>) {
        self.sweep(records, &place.path, Memory::node(place.leaf), forgotten, dead);
    }

    fn sweep(&mut self, records: &Records, path: &Path, leaf: &Node, forgotten: Ts, dead: &mut Vec<Ref>) {
        if Memory::sweep_leaf(records, leaf, forgotten, dead) {
            self.join(records, path, leaf);
        }
    }

    /// Removes the entries of deletions up to `forgotten` from a leaf. Returns whether there were any.
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

    /// Joins the leaf at the end of a path with a neighbour, if both fit well into one, and so on above.
    fn join(&mut self, records: &Records, path: &[(*const Inner, usize)], leaf: &Node) {
        let Some(((parent, index), above)) = path.split_last() else { return };
        let parent = Memory::inner(*parent);
        let Some(left) = pair(&parent.node, *index, leaf.meta().count) else { return };
        let [one, other] = [left, left + 1].map(|child| Memory::node(parent.node.word(child) as *const Node));
        let [(first, second), ..] = [(one.meta(), other.meta())];
        if !fit(first.count, second.count) {
            return;
        }
        let skip = common_skip(above, parent, left, first.skip);
        let mut locked = Locked::new();
        lock(&mut locked, one);
        lock(&mut locked, &parent.node);
        other.lock();
        let entries: SmallVec<[(u128, u64); WIDTH]> = [(one, first), (other, second)]
            .into_iter()
            .flat_map(|(leaf, meta)| (0..meta.count).map(move |index| (leaf, meta, index)))
            .map(|(leaf, meta, index)| {
                let word = leaf.word(index);
                let head = if meta.skip == skip {
                    leaf.head(index)
                } else {
                    head_of(records.trusted_key(Ref(word)), usize::from(skip))
                };
                (head, word)
            })
            .collect();
        one.set_meta(Meta { skip, ..first });
        Memory::fill(records, one, skip, &entries);
        self.remove_child(parent, left + 1);
        unlock(locked);
        self.free_leaves.push(other);
        self.join_inner(path);
    }

    /// Takes a child other than the first out of a locked node.
    fn remove_child(&mut self, parent: &Inner, index: usize) {
        let meta = parent.node.meta();
        self.leaving.push(parent.separator_pointer(index));
        parent.copy(index, parent, index + 1, meta.count);
        parent.node.set_meta(Meta { count: meta.count - 1, ..meta });
    }

    /// Joins the inner node at the end of a path, which has lost a child, with a neighbour. A root with one inner child
    /// gives way to it.
    fn join_inner(&mut self, path: &[(*const Inner, usize)]) {
        let Some(((inner, _), above)) = path.split_last() else { return };
        let inner = Memory::inner(*inner);
        let Some(((parent, index), higher)) = above.split_last() else {
            let meta = inner.node.meta();
            if meta.count == 1 && meta.level > 1 {
                inner.node.lock();
                self.tree.root.store(inner.node.word(0) as *mut Inner, Ordering::Release);
                self.free_inners.push(inner);
            }
            return;
        };
        let parent = Memory::inner(*parent);
        let Some(left) = pair(&parent.node, *index, inner.node.meta().count) else { return };
        let [one, other] = [left, left + 1].map(|child| Memory::inner(parent.node.word(child) as *const Inner));
        let (first, second) = (one.node.meta(), other.node.meta());
        if !fit(first.count, second.count) {
            return;
        }
        let skip = common_skip(higher, parent, left, first.skip);
        let mut locked = Locked::new();
        lock(&mut locked, &one.node);
        lock(&mut locked, &parent.node);
        other.node.lock();
        one.set_skip(skip);
        for index in 0..second.count {
            // The bound of the neighbour's first child was its own, which the parent has.
            let separator =
                if index == 0 { parent.separator_pointer(left + 1) } else { other.separator_pointer(index) };
            one.set_child(first.count + index, separator, other.node.word(index));
        }
        one.node.set_meta(Meta { count: first.count + second.count, skip, ..first });
        self.remove_child(parent, left + 1);
        // That separator has not left: it is one of the joined node's now.
        self.leaving.pop();
        unlock(locked);
        self.free_inners.push(other);
        self.join_inner(above);
    }

    /// Frees separators that no reader can see.
    pub(crate) fn recycle(&mut self, pins: &Pins) {
        if self.leaving.len() >= CHUNK_NODES {
            self.left.push_back((pins.advance(), std::mem::take(&mut self.leaving)));
        }
        if self.left.is_empty() {
            return;
        }
        let oldest = pins.oldest();
        while self.left.front().is_some_and(|(epoch, _)| *epoch < oldest) {
            let (_, separators) = self.left.pop_front().expect("there is a front");
            separators.into_iter().for_each(free);
        }
    }

    /// A tree of entries in ascending order.
    pub(crate) fn build(records: &Records, entries: &[Entry]) -> Memory {
        let mut memory = Memory::new();
        if entries.is_empty() {
            return memory;
        }
        let mut row: Vec<(*mut Separator, u64)> = Vec::new();
        let groups: Vec<&[Entry]> = evenly(entries, WIDTH).collect();
        let key = |entry: &Entry| records.trusted_key(entry.1);
        let separators: Vec<*mut Separator> = groups
            .windows(2)
            .map(|pair| {
                let (before, after) = (key(&pair[0][pair[0].len() - 1]), key(&pair[1][0]));
                Box::into_raw(Box::new(after[..=common_bytes(before, after)].to_vec()))
            })
            .collect();
        for (number, group) in groups.iter().enumerate() {
            // SAFETY: they were just made.
            let bound =
                |at: Option<usize>| at.and_then(|at| separators.get(at)).map(|bound| unsafe { &(&**bound)[..] });
            let skip = grown_skip(0, bound(number.checked_sub(1)), bound(Some(number)));
            let leaf = memory.new_leaf(skip);
            // The first sixteen bytes of the key are its head only where nothing is left out.
            let words: SmallVec<[(u128, u64); WIDTH]> = group.iter().map(|(head, record)| (*head, record.0)).collect();
            Memory::fill(records, leaf, 0, &words);
            Memory::node(leaf).unlock();
            row.push((if number == 0 { null_mut() } else { separators[number - 1] }, leaf as u64));
        }
        memory.build_above(row);
        memory
    }

    fn build_above(&mut self, mut row: Vec<(*mut Separator, u64)>) {
        for level in 1.. {
            let mut above = Vec::new();
            for group in evenly(&row, WIDTH) {
                let inner = self.new_inner(Meta { level, ..Meta::default() });
                Memory::set_children(inner, group);
                Memory::inner(inner).node.unlock();
                above.push((group[0].0, inner as u64));
            }
            row = above;
            if row.len() == 1 {
                break;
            }
        }
        let old = Memory::inner(self.tree.root.swap(row[0].1 as *mut Inner, Ordering::AcqRel));
        self.free_leaves.push(old.node.word(0) as *const Node);
        self.free_inners.push(old);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let left = self.left.drain(..).flat_map(|(_, separators)| separators);
        left.chain(self.leaving.drain(..)).for_each(free);
        let mut stack = vec![self.tree.root.load(Ordering::Relaxed).cast_const()];
        while let Some(inner) = stack.pop() {
            let inner = Memory::inner(inner);
            let meta = inner.node.meta();
            (1..meta.count).for_each(|index| free(inner.separator_pointer(index)));
            if meta.level > 1 {
                stack.extend((0..meta.count).map(|index| inner.node.word(index) as *const Inner));
            }
        }
    }
}

fn free(separator: *mut Separator) {
    // SAFETY: from Box::into_raw, and out of its node; no reader can see it any more.
    drop(unsafe { Box::from_raw(separator) });
}

/// How many of `len` entries stay on the left when one was inserted at `index`.
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

/// The skip of children `left` and the next one of a node once they are one. `skip` is that of the first.
fn common_skip(above: &[(*const Inner, usize)], parent: &Inner, left: usize, skip: u16) -> u16 {
    let (lower, upper) = Memory::bounds(above);
    let lower = parent.separator(left).or(lower);
    let upper = if left + 2 < parent.node.meta().count { parent.separator(left + 2) } else { upper };
    let (Some(lower), Some(upper)) = (lower, upper) else { return 0 };
    skip.min(common_bytes(lower, upper).min(usize::from(u16::MAX)) as u16)
}

/// The first of two neighbours of which child `index` with `count` entries is one, if it is to be joined.
fn pair(parent: &Node, index: usize, count: usize) -> Option<usize> {
    let children = parent.meta().count;
    (count < FEW && children > 1).then(|| if index + 1 < children { index } else { index - 1 })
}

/// Whether two nodes of so many entries are joined.
fn fit(one: usize, other: usize) -> bool {
    one + other <= WIDTH * 3 / 4 || one == 0 || other == 0
}

/// Groups of nearly equal size, of at most seven eighths of `most` if there are several.
fn evenly<T>(row: &[T], most: usize) -> impl Iterator<Item = &[T]> {
    let groups = if row.len() <= most { 1 } else { row.len().div_ceil(most - most / 8) };
    (0..groups).map(move |group| &row[group * row.len() / groups..(group + 1) * row.len() / groups])
}
