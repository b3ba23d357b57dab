//! The copy-on-write B+-tree over immutable nodes in pages.
//!
//! A change copies the nodes from the leaf to the root and yields a new root; the old root still names the old version.
//! A node has at most `branching` entries and is split in halves beyond that. A node with less than a quarter, which
//! only removals leave, is joined with a sibling. Entry i of an inner node is the first entry of child i.

use crate::error::Result;
use crate::format::Ref;
use crate::index::Entry;
use crate::node::{Build, Node, Place, Slot, Tweak};
use crate::page_nodes::{PageReader, PageWriter};
use crate::record::{Record, Records, common_bytes, head_at};
use crate::timestamps::Ts;
use perdura_pmem::planted;
use smallvec::SmallVec;
use std::ops::Range;

/// More levels than a tree can have: with two children a node, 2^48 entries.
const LEVELS_MAX: u8 = 48;

/// Changes of the tree: the new root, and the nodes that they made and replaced. The caller publishes the root and retires
/// what was replaced, or undoes what was made. What was made and replaced within one edit has gone already.
#[derive(Default)]
pub struct Edit {
    pub(crate) root: u64,
    pub(crate) made: Vec<u64>,
    pub(crate) replaced: Vec<u64>,
}

impl Edit {
    /// Empties the edit, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.root = 0;
        self.made.clear();
        self.replaced.clear();
    }

    /// Notes that the root no longer reaches a node. One that nobody has seen is given back at once.
    fn replace(&mut self, nodes: &mut PageWriter<'_>, link: u64) {
        if nodes.is_unseen(link) {
            nodes.undo(link);
        } else {
            self.replaced.push(link);
        }
    }
}

#[derive(Clone, Copy)]
struct Step {
    link: u64,
    index: usize,
}

/// Where a descent ends.
struct End {
    link: u64,
    place: Place,
}

type Path = SmallVec<[Step; 16]>;

/// A key's entry: its place, and whether it is there.
pub struct Spot {
    path: Path,
    /// The leaf; none in an empty tree.
    leaf: Option<(u64, Place)>,
}

/// The record of a key's entry. Error: `Damaged`.
#[inline]
pub(crate) fn find<'r>(
    nodes: &PageReader,
    records: &'r Records,
    root: u64,
    key: &[u8],
) -> Result<Option<(Ref, Record<'r>)>> {
    if root == 0 {
        return Ok(None);
    }
    let (mut node, mut above) = (nodes.node(root, None)?, None);
    loop {
        let place = node.locate(records, key, above)?;
        let Some(index) = place.rank.checked_sub(1) else { return Ok(None) };
        if node.level() == 0 {
            let record = node.record(index);
            return if place.exact { Ok(Some((record, records.get(record)?))) } else { Ok(None) };
        }
        above = node.above(index, &place);
        node = nodes.node(node.child(index), Some(node.level() - 1))?;
    }
}

/// The place of a key, and the record of its entry. Error: `Damaged`.
pub(crate) fn locate(nodes: &PageReader, records: &Records, root: u64, key: &[u8]) -> Result<(Spot, Option<Ref>)> {
    let mut path = Path::new();
    if root == 0 {
        return Ok((Spot { path, leaf: None }, None));
    }
    let End { link, place } = descend(nodes, records, root, key, 0, &mut path)?;
    let found = if place.exact { Some(nodes.node(link, Some(0))?.record(place.rank - 1)) } else { None };
    Ok((Spot { path, leaf: Some((link, place)) }, found))
}

/// Makes the entry of a key at its place name a record.
pub(crate) fn put(
    nodes: &mut PageWriter<'_>,
    records: &Records,
    spot: &Spot,
    key: &[u8],
    record: Ref,
    edit: &mut Edit,
) -> Result<()> {
    let Some((link, Place { rank, exact, shares })) = spot.leaf else {
        let mut leaf = Build::new(0);
        leaf.slots.push(Slot { head: head_at(key, 0), record, child: 0 });
        edit.root = put_node(nodes, records, &mut leaf, edit)?;
        return Ok(());
    };
    let leaf = nodes.node(link, Some(0))?;
    let slot = Slot { head: head_at(key, leaf.skip()), record, child: 0 };
    if exact || shares && leaf.len() < nodes.branching() {
        let tweak = if exact { Tweak::Replace(rank - 1, slot) } else { Tweak::Insert(rank, slot) };
        return lift(nodes, records, spot.path.clone(), link, 0, &tweak, edit);
    }
    let mut build = Build::from(&leaf);
    build.slots.insert(rank, slot);
    build.is_stale = !shares;
    ascend(nodes, records, spot.path.clone(), link, build, edit)
}

/// Removes the entry at a key's place.
pub(crate) fn remove(nodes: &mut PageWriter<'_>, records: &Records, spot: &Spot, edit: &mut Edit) -> Result<()> {
    let Some((link, place)) = spot.leaf.filter(|(_, place)| place.exact) else { return Ok(()) };
    take_out(nodes, records, spot.path.clone(), link, |index| index + 1 == place.rank, edit)
}

/// Removes the entries of deletions up to `forgotten` from the leaf at a key's place, and adds their records to `dead`.
pub(crate) fn sweep(
    nodes: &mut PageWriter<'_>,
    records: &Records,
    spot: &Spot,
    (forgotten, dead): (Ts, &mut Vec<Ref>),
    edit: &mut Edit,
) -> Result<()> {
    let Some((link, _)) = spot.leaf else { return Ok(()) };
    let leaf = nodes.node(link, Some(0))?;
    let mut over: SmallVec<[usize; 16]> = SmallVec::new();
    for index in 0..leaf.len() {
        if leaf.record(index).is_deletion() && records.get(leaf.record(index))?.header.ts <= forgotten {
            over.push(index);
        }
    }
    if over.is_empty() {
        return Ok(());
    }
    let swept: SmallVec<[Ref; 16]> = over.iter().map(|index| leaf.record(*index)).collect();
    take_out(nodes, records, spot.path.clone(), link, |index| over.contains(&index), edit)?;
    dead.extend(swept);
    Ok(())
}

/// Removes entries from a leaf.
fn take_out(
    nodes: &mut PageWriter<'_>,
    records: &Records,
    path: Path,
    link: u64,
    is_out: impl Fn(usize) -> bool,
    edit: &mut Edit,
) -> Result<()> {
    let leaf = nodes.node(link, Some(0))?;
    let least = if path.is_empty() { 1 } else { least_entries(nodes.branching()) };
    let mut out = (0..leaf.len()).filter(|index| is_out(*index));
    let (Some(first), None) = (out.next(), out.next()) else {
        let mut build = Build::from(&leaf);
        let mut index = 0;
        build.slots.retain(|_| {
            index += 1;
            !is_out(index - 1)
        });
        return ascend(nodes, records, path, link, build, edit);
    };
    if leaf.len() > least {
        return lift(nodes, records, path, link, 0, &Tweak::Remove(first, first + 1), edit);
    }
    let mut build = Build::from(&leaf);
    build.slots.remove(first);
    ascend(nodes, records, path, link, build, edit)
}

/// Entries below which a node is joined with a sibling. A split leaves twice as many, so that alternating insertions
/// and removals do not split and join in turn.
fn least_entries(branching: usize) -> usize {
    branching.div_ceil(4).max(2)
}

/// Copies node `link` of `level`, on the path to the target, to another place. Returns whether it was there.
pub(crate) fn relocate(
    nodes: &mut PageWriter<'_>,
    records: &Records,
    root: u64,
    key: &[u8],
    (link, level): (u64, u8),
    edit: &mut Edit,
) -> Result<bool> {
    edit.root = root;
    if root == 0 || nodes.node(root, None)?.level() < level {
        return Ok(false);
    }
    let mut path = Path::new();
    if descend(nodes.reader(), records, root, key, level, &mut path)?.link != link {
        return Ok(false);
    }
    let same = nodes.node(link, Some(level))?.slot(0);
    lift(nodes, records, path, link, level, &Tweak::Replace(0, same), edit)?;
    Ok(true)
}

/// Descends from the root to the node of `level` on the path to the target, and finds the target's place in it.
fn descend(nodes: &PageReader, records: &Records, root: u64, key: &[u8], level: u8, path: &mut Path) -> Result<End> {
    let mut link = root;
    let (mut node, mut above) = (nodes.node(link, None)?, None);
    loop {
        let place = node.locate(records, key, above)?;
        if node.level() <= level {
            return Ok(End { link, place });
        }
        // A target below every entry belongs to the first child, and becomes the first entry on the whole path.
        let index = place.rank.saturating_sub(1);
        path.push(Step { link, index });
        above = node.above(index, &place);
        link = node.child(index);
        node = nodes.node(link, Some(node.level() - 1))?;
    }
}

fn put_node(nodes: &mut PageWriter<'_>, records: &Records, node: &mut Build, edit: &mut Edit) -> Result<u64> {
    node.settle(records)?;
    let link = nodes.put(node)?;
    edit.made.push(link);
    Ok(link)
}

/// Replaces node `link` by a copy that differs in one entry, and copies all nodes above it. Nodes that this edit has
/// made are changed in place, since nobody else sees them.
fn lift(
    nodes: &mut PageWriter<'_>,
    records: &Records,
    mut path: Path,
    mut link: u64,
    mut level: u8,
    tweak: &Tweak,
    edit: &mut Edit,
) -> Result<()> {
    let mut tweak = *tweak;
    loop {
        // Planted: a published leaf is changed in place.
        let is_own = nodes.is_unseen(link) || planted(138) && level == 0;
        let new = if is_own {
            nodes.change(link, level, &tweak)?;
            link
        } else {
            let new = nodes.put_tweaked(link, level, &tweak)?;
            edit.made.push(new);
            edit.replace(nodes, link);
            new
        };
        let Some(step) = path.pop() else {
            edit.root = new;
            return Ok(());
        };
        if is_own && !tweak.is_first() {
            // Its parent, which this edit has made too, names it already.
            return Ok(());
        }
        (link, level) = (step.link, level + 1);
        // Planted: the entry of a child is no longer the child's first.
        if !tweak.is_first() || planted(140) {
            tweak = Tweak::Relink(step.index, new);
            continue;
        }
        let record = nodes.node(new, Some(level - 1))?.record(0);
        let (parent, key) = (nodes.node(link, Some(level))?, records.get(record)?.key);
        let slot = Slot { head: head_at(key, parent.skip()), record, child: new };
        if !parent.shares(records, key)? {
            let mut build = Build { is_stale: true, ..Build::from(&parent) };
            build.slots[step.index] = slot;
            return ascend(nodes, records, path, link, build, edit);
        }
        tweak = Tweak::Replace(step.index, slot);
    }
}

/// Replaces node `link` by `build`, and the nodes above it by new ones: split when they have too many entries, joined
/// or balanced with a sibling when they have too few.
fn ascend(
    nodes: &mut PageWriter<'_>,
    records: &Records,
    mut path: Path,
    link: u64,
    mut build: Build,
    edit: &mut Edit,
) -> Result<()> {
    let least = least_entries(nodes.branching());
    edit.replace(nodes, link);
    while let Some(Step { link, index }) = path.pop() {
        let parent = nodes.node(link, Some(build.level + 1))?;
        let mut children = index..index + 1;
        if build.slots.len() < least && parent.len() > 1 {
            children = if index + 1 < parent.len() { index..index + 2 } else { index - 1..index + 1 };
            let sibling = join(nodes.reader(), &parent, index, &children, &mut build)?;
            edit.replace(nodes, sibling);
        }
        let mut above = Build::from(&parent);
        let level = above.level;
        let mut slots = put_split(nodes, records, build, edit)?;
        let parent = nodes.node(link, Some(level))?;
        for slot in &mut slots {
            let key = records.get(slot.record)?.key;
            slot.head = head_at(key, parent.skip());
            above.is_stale |= !parent.shares(records, key)?;
        }
        if let ([slot], 1, false) = (&slots[..], children.len(), above.is_stale) {
            return lift(nodes, records, path, link, level, &Tweak::Replace(index, *slot), edit);
        }
        edit.replace(nodes, link);
        above.slots.drain(children.clone());
        above.slots.insert_many(children.start, slots);
        build = above;
    }
    edit.root = put_root(nodes, records, build, edit)?;
    Ok(())
}

/// Adds to `build`, which is child `index`, the entries of its sibling among `children`. Returns the sibling's link.
fn join(
    nodes: &PageReader,
    parent: &Node<'_>,
    index: usize,
    children: &Range<usize>,
    build: &mut Build,
) -> Result<u64> {
    let is_left = children.start == index;
    let link = parent.child(if is_left { index + 1 } else { index - 1 });
    let sibling = nodes.node(link, Some(build.level))?;
    if is_left {
        build.append(&sibling);
    } else {
        let mut joined = Build::from(&sibling);
        joined.slots.extend_from_slice(&build.slots);
        *build = joined;
    }
    // Prefixes of equal length may still differ.
    build.is_stale = true;
    Ok(link)
}

/// Writes a node: as two halves if it has too many entries, not at all if it has none. Returns the entries for its
/// parent.
fn put_split(
    nodes: &mut PageWriter<'_>,
    records: &Records,
    mut build: Build,
    edit: &mut Edit,
) -> Result<SmallVec<[Slot; 2]>> {
    let mut slots = SmallVec::new();
    if build.slots.is_empty() {
        return Ok(slots);
    }
    let count = build.slots.len();
    let right = if count > nodes.branching() {
        let slots = build.slots.drain(count.div_ceil(2)..).collect();
        Some(Build { level: build.level, skip: build.skip, is_stale: build.is_stale, slots })
    } else {
        None
    };
    for mut half in [Some(build), right].into_iter().flatten() {
        let child = put_node(nodes, records, &mut half, edit)?;
        slots.push(Slot { child, ..half.slots[0] });
    }
    Ok(slots)
}

/// Writes the root. A split root gets a level above it; a root with one child is replaced by the child.
fn put_root(nodes: &mut PageWriter<'_>, records: &Records, build: Build, edit: &mut Edit) -> Result<u64> {
    if build.level > 0 && build.slots.len() == 1 {
        let mut link = build.slots[0].child;
        // Planted: the only child of a root goes with it.
        planted(139).then(|| edit.replace(nodes, link));
        // That child may itself have one child only.
        for _ in 0..LEVELS_MAX {
            let node = nodes.node(link, None)?;
            if node.level() == 0 || node.len() > 1 {
                break;
            }
            let child = node.child(0);
            edit.replace(nodes, link);
            link = child;
        }
        return Ok(link);
    }
    let level = build.level;
    let slots = put_split(nodes, records, build, edit)?;
    match slots.len() {
        0 => Ok(0),
        1 => Ok(slots[0].child),
        _ => {
            let mut root = Build { is_stale: true, ..Build::new(level + 1) };
            root.slots.extend(slots);
            put_node(nodes, records, &mut root, edit)
        }
    }
}

/// Builds a tree from entries in ascending order. Returns its root.
pub(crate) fn build(nodes: &mut PageWriter<'_>, records: &Records, entries: &[Entry], edit: &mut Edit) -> Result<u64> {
    if entries.is_empty() {
        return Ok(0);
    }
    let mut level = 0;
    let mut row: Vec<(Entry, u64)> = entries.iter().map(|entry| (*entry, 0)).collect();
    loop {
        let mut above = Vec::with_capacity(row.len() / nodes.branching() + 1);
        for group in evenly(&row, nodes.branching()) {
            let mut node = Build { skip: skip_of(records, group)?, ..Build::new(level) };
            let shift = 8 * u32::from(node.skip);
            node.slots.extend(group.iter().map(|((begin, record), child)| Slot {
                head: (begin << shift >> 64) as u64,
                record: *record,
                child: *child,
            }));
            let link = nodes.put(&node)?;
            edit.made.push(link);
            above.push((group[0].0, link));
        }
        if above.len() == 1 {
            return Ok(above[0].1);
        }
        row = above;
        level += 1;
    }
}

/// Length of the prefix that a group's keys share: at most 8, so that the heads after it are in the entries.
fn skip_of(records: &Records, group: &[(Entry, u64)]) -> Result<u16> {
    const BYTES_MAX: usize = 8;
    let (first, last) = (group[0].0, group[group.len() - 1].0);
    if (first.0 ^ last.0).leading_zeros() < 8 {
        return Ok(0);
    }
    let common = common_bytes(records.get(first.1)?.key, records.get(last.1)?.key);
    Ok(common.min(BYTES_MAX) as u16)
}

/// Groups of nearly equal size, of at most seven eighths of `most` if there are several.
fn evenly<T>(row: &[T], most: usize) -> impl Iterator<Item = &[T]> {
    let groups = if row.len() <= most { 1 } else { row.len().div_ceil(most - most / 8) };
    (0..groups).map(move |group| &row[group * row.len() / groups..(group + 1) * row.len() / groups])
}
