//! The copy-on-write B+-tree over immutable nodes, wherever they lie.
//!
//! A change copies the nodes from the leaf to the root and yields a new root; the old root still names the old version.
//! A node has at most `branching` entries and is split in halves beyond that. A node with less than a quarter, which
//! only removals leave, is joined with a sibling. Entry i of an inner node is the first entry of child i. [`Nodes`]
//! says where nodes lie: in pages ([`crate::page_nodes`]) or in DRAM ([`crate::dram_nodes`]).

use crate::error::Result;
use crate::format::Ref;
use crate::node::{Build, Node, Place, Slot, Tweak};
use crate::pages::Pages;
use crate::record::{Records, Target, common_bytes, head_at};
use perdura_pmem::planted;
use smallvec::SmallVec;
use std::ops::Range;

/// Reads nodes. The caller holds the writer's lock, or a pin taken before it loaded the root.
pub(crate) trait ReadNodes {
    /// The node that a link names, checked as far as reading it safely requires. Error: `Damaged`, also if it is not of
    /// `level`.
    fn node(&self, link: u64, level: Option<u8>) -> Result<Node<'_>>;
    /// Most entries of a node.
    fn branching(&self) -> usize;
}

/// Makes nodes.
pub(crate) trait Nodes: ReadNodes {
    /// The map's page allocator.
    fn pages(&mut self) -> &mut Pages;
    /// Allocates and writes a node. Returns its link. Error: `Full`.
    fn put(&mut self, node: &Build) -> Result<u64>;
    /// Allocates and writes a copy of a node that differs in one entry. Returns its link. Error: `Full`.
    fn put_tweaked(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<u64>;
    /// Changes an unpublished node in place.
    fn change(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<()>;
}

/// More levels than a tree can have: with two children a node, 2^48 entries.
const LEVELS_MAX: u8 = 48;

/// A change of the tree: the new root, and the nodes it made and replaced. The caller publishes the root and retires
/// what was replaced, or undoes what was made.
#[derive(Default)]
pub(crate) struct Edit {
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
}

/// The outcome of an insertion.
pub(crate) struct Inserted {
    pub(crate) record: Ref,
    /// The replaced record with the same key and timestamp.
    pub(crate) same: Option<Ref>,
}

/// What an insertion finds at its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The record with the same key and timestamp.
    pub(crate) same: Option<Ref>,
    /// The record before, if it may be an older version of the key.
    pub(crate) before: Option<Ref>,
}

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

/// The entry with the greatest (key, timestamp) not above the target, and whether it is the target itself.
#[inline]
pub(crate) fn find(
    nodes: &(impl ReadNodes + ?Sized),
    records: &Records,
    root: u64,
    target: &Target<'_>,
) -> Result<Option<(Ref, bool)>> {
    if root == 0 {
        return Ok(None);
    }
    let (mut node, mut above) = (nodes.node(root, None)?, None);
    loop {
        let place = node.locate(records, target, above)?;
        let Some(index) = place.rank.checked_sub(1) else { return Ok(None) };
        if node.level() == 0 {
            return Ok(Some((node.record(index), place.exact)));
        }
        above = node.above(index, &place);
        node = nodes.node(node.child(index), Some(node.level() - 1))?;
    }
}

/// Inserts at the target the record that `make` returns; it is given what is there. An entry with the same key and
/// timestamp is replaced. If `make` returns none, nothing changes.
pub(crate) fn insert<N: Nodes>(
    nodes: &mut N,
    records: &Records,
    root: u64,
    target: &Target<'_>,
    edit: &mut Edit,
    make: impl FnOnce(&mut N, &Found) -> Result<Option<Ref>>,
) -> Result<Option<Inserted>> {
    edit.root = root;
    let mut path = Path::new();
    let mut found = Found::default();
    let end = if root == 0 { None } else { Some(descend(nodes, records, root, target, 0, &mut path)?) };
    if let Some(End { link, place: Place { rank, exact, shares } }) = end {
        let leaf = nodes.node(link, Some(0))?;
        let before = (rank - usize::from(exact)).checked_sub(1).filter(|_| shares).map(|index| leaf.slot(index));
        let head = head_at(target.key, leaf.skip());
        found.before = before.filter(|before| before.head == head).map(|before| before.record);
        found.same = exact.then(|| leaf.record(rank - 1));
    }
    let Some(record) = make(nodes, &found)? else { return Ok(None) };
    let same = found.same;
    let Some(End { link, place: Place { rank, exact, shares } }) = end else {
        let mut leaf = Build::new(0);
        leaf.slots.push(Slot { head: head_at(target.key, 0), record, child: 0 });
        edit.root = put(nodes, records, &mut leaf, edit)?;
        return Ok(Some(Inserted { record, same }));
    };
    let leaf = nodes.node(link, Some(0))?;
    let slot = Slot { head: head_at(target.key, leaf.skip()), record, child: 0 };
    if exact || shares && leaf.len() < nodes.branching() {
        let tweak = if exact { Tweak::Replace(rank - 1, slot) } else { Tweak::Insert(rank, slot) };
        lift(nodes, records, path, link, 0, &tweak, edit)?;
    } else {
        let mut build = Build::from(&leaf);
        build.slots.insert(rank, slot);
        build.is_stale = !shares;
        ascend(nodes, records, path, link, build, edit)?;
    }
    Ok(Some(Inserted { record, same }))
}

/// Removes the target's entry if it is `expected`. Returns whether it was.
pub(crate) fn remove(
    nodes: &mut impl Nodes,
    records: &Records,
    root: u64,
    target: &Target<'_>,
    expected: Ref,
    edit: &mut Edit,
) -> Result<bool> {
    edit.root = root;
    let Some((path, link, index)) = find_entry(nodes, records, root, target, expected)? else { return Ok(false) };
    take_out(nodes, records, path, link, index..index + 1, edit)?;
    Ok(true)
}

/// The path to the leaf with the target's entry, the leaf, and the entry's index; none if the entry is not `expected`.
fn find_entry(
    nodes: &impl Nodes,
    records: &Records,
    root: u64,
    target: &Target<'_>,
    expected: Ref,
) -> Result<Option<(Path, u64, usize)>> {
    if root == 0 {
        return Ok(None);
    }
    let mut path = Path::new();
    let End { link, place: Place { rank, exact, .. } } = descend(nodes, records, root, target, 0, &mut path)?;
    let is_it = exact && nodes.node(link, Some(0))?.record(rank - 1) == expected;
    Ok(is_it.then(|| (path, link, rank - 1)))
}

/// Entries that were removed.
pub(crate) struct Removed {
    pub(crate) records: SmallVec<[Ref; 4]>,
    /// Whether the leaf before may hold older versions.
    pub(crate) goes_on: bool,
}

/// Removes the versions of the target's key that are older than the target, as far as they lie in one leaf, and with
/// `itself` the target's own.
pub(crate) fn remove_versions(
    nodes: &mut impl Nodes,
    records: &Records,
    root: u64,
    target: &Target<'_>,
    itself: bool,
    edit: &mut Edit,
) -> Result<Removed> {
    edit.root = root;
    let mut removed = Removed { records: SmallVec::new(), goes_on: false };
    if root == 0 {
        return Ok(removed);
    }
    let mut path = Path::new();
    let End { link, place: Place { rank, exact, shares } } = descend(nodes, records, root, target, 0, &mut path)?;
    let leaf = nodes.node(link, Some(0))?;
    let end = if exact && !itself { rank - 1 } else { rank };
    let mut start = end;
    let head = head_at(target.key, leaf.skip());
    while shares && start > 0 {
        let before = leaf.slot(start - 1);
        if before.head != head || records.get(before.record)?.key != target.key {
            break;
        }
        start -= 1;
    }
    removed.goes_on = start == 0;
    removed.records.extend((start..end).map(|index| leaf.record(index)));
    if start < end {
        take_out(nodes, records, path, link, start..end, edit)?;
    }
    Ok(removed)
}

/// Removes entries from a leaf.
fn take_out(
    nodes: &mut impl Nodes,
    records: &Records,
    path: Path,
    link: u64,
    entries: Range<usize>,
    edit: &mut Edit,
) -> Result<()> {
    let leaf = nodes.node(link, Some(0))?;
    let least = if path.is_empty() { 1 } else { least_entries(nodes.branching()) };
    if leaf.len() - entries.len() >= least {
        return lift(nodes, records, path, link, 0, &Tweak::Remove(entries.start, entries.end), edit);
    }
    let mut build = Build::from(&leaf);
    build.slots.drain(entries);
    ascend(nodes, records, path, link, build, edit)
}

/// Entries below which a node is joined with a sibling. A split leaves twice as many, so that alternating insertions
/// and removals do not split and join in turn.
fn least_entries(branching: usize) -> usize {
    branching.div_ceil(4).max(2)
}

/// Replaces the target's entry `old` by `new`. Returns whether `old` was there.
pub(crate) fn replace(
    nodes: &mut impl Nodes,
    records: &Records,
    root: u64,
    target: &Target<'_>,
    (old, new): (Ref, Ref),
    edit: &mut Edit,
) -> Result<bool> {
    edit.root = root;
    let Some((path, link, index)) = find_entry(nodes, records, root, target, old)? else { return Ok(false) };
    let slot = Slot { record: new, ..nodes.node(link, Some(0))?.slot(index) };
    lift(nodes, records, path, link, 0, &Tweak::Replace(index, slot), edit)?;
    Ok(true)
}

/// Copies node `link` of `level`, on the path to the target, to another place. Returns whether it was there.
pub(crate) fn relocate(
    nodes: &mut impl Nodes,
    records: &Records,
    root: u64,
    target: &Target<'_>,
    (link, level): (u64, u8),
    edit: &mut Edit,
) -> Result<bool> {
    edit.root = root;
    if root == 0 || nodes.node(root, None)?.level() < level {
        return Ok(false);
    }
    let mut path = Path::new();
    if descend(nodes, records, root, target, level, &mut path)?.link != link {
        return Ok(false);
    }
    let same = nodes.node(link, Some(level))?.slot(0);
    lift(nodes, records, path, link, level, &Tweak::Replace(0, same), edit)?;
    Ok(true)
}

/// Descends from the root to the node of `level` on the path to the target, and finds the target's place in it.
fn descend(
    nodes: &impl Nodes,
    records: &Records,
    root: u64,
    target: &Target<'_>,
    level: u8,
    path: &mut Path,
) -> Result<End> {
    let mut link = root;
    let (mut node, mut above) = (nodes.node(link, None)?, None);
    loop {
        let place = node.locate(records, target, above)?;
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

fn put(nodes: &mut impl Nodes, records: &Records, node: &mut Build, edit: &mut Edit) -> Result<u64> {
    node.settle(records)?;
    let link = nodes.put(node)?;
    edit.made.push(link);
    Ok(link)
}

/// Replaces node `link` by a copy that differs in one entry, and copies all nodes above it. Nodes that this edit has
/// made are changed in place, since nobody else sees them.
fn lift(
    nodes: &mut impl Nodes,
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
        let is_own = edit.made.contains(&link) || planted(138) && level == 0;
        let new = if is_own {
            nodes.change(link, level, &tweak)?;
            link
        } else {
            let new = nodes.put_tweaked(link, level, &tweak)?;
            edit.made.push(new);
            edit.replaced.push(link);
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
    nodes: &mut impl Nodes,
    records: &Records,
    mut path: Path,
    link: u64,
    mut build: Build,
    edit: &mut Edit,
) -> Result<()> {
    let least = least_entries(nodes.branching());
    edit.replaced.push(link);
    while let Some(Step { link, index }) = path.pop() {
        let parent = nodes.node(link, Some(build.level + 1))?;
        let mut children = index..index + 1;
        if build.slots.len() < least && parent.len() > 1 {
            children = if index + 1 < parent.len() { index..index + 2 } else { index - 1..index + 1 };
            edit.replaced.push(join(nodes, &parent, index, &children, &mut build)?);
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
        edit.replaced.push(link);
        above.slots.drain(children.clone());
        above.slots.insert_many(children.start, slots);
        build = above;
    }
    edit.root = put_root(nodes, records, build, edit)?;
    Ok(())
}

/// Adds to `build`, which is child `index`, the entries of its sibling among `children`. Returns the sibling's link.
fn join(
    nodes: &impl Nodes,
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
    nodes: &mut impl Nodes,
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
        let child = put(nodes, records, &mut half, edit)?;
        slots.push(Slot { child, ..half.slots[0] });
    }
    Ok(slots)
}

/// Writes the root. A split root gets a level above it; a root with one child is replaced by the child.
fn put_root(nodes: &mut impl Nodes, records: &Records, build: Build, edit: &mut Edit) -> Result<u64> {
    if build.level > 0 && build.slots.len() == 1 {
        let mut link = build.slots[0].child;
        // Planted: the only child of a root goes with it.
        planted(139).then(|| edit.replaced.push(link));
        // That child may itself have one child only.
        for _ in 0..LEVELS_MAX {
            let node = nodes.node(link, None)?;
            if node.level() == 0 || node.len() > 1 {
                break;
            }
            let child = node.child(0);
            edit.replaced.push(link);
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
            put(nodes, records, &mut root, edit)
        }
    }
}

/// An entry for [`build`]: the first sixteen bytes of the key as a number, and the record.
pub(crate) type Entry = (u128, Ref);

/// Builds a tree from entries in ascending order. Returns its root.
pub(crate) fn build(nodes: &mut impl Nodes, records: &Records, entries: &[Entry], edit: &mut Edit) -> Result<u64> {
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
