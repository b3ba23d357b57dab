//! The copy-on-write B+-tree over nodes that never change, wherever they lie.
//!
//! A change copies the nodes from the leaf to the root and yields a new root; the old one still names the old version.
//! Nodes have at most `branching` entries; a split leaves half of them on each
//! side, and only below a quarter, from removals, are siblings joined; entry i of an inner node
//! is the first entry of child i. [`Nodes`] says where nodes lie: in pages ([`crate::page_nodes`]) or DRAM
//! ([`crate::dram_nodes`]).

use crate::error::Result;
use crate::format::Ref;
use crate::node::{Build, Node, Place, Slot, Tweak};
use crate::pages::Pages;
use crate::record::{Records, Target, common_bytes, head_at};
use perdura_pmem::planted;
use smallvec::SmallVec;
use std::ops::Range;

/// Where nodes are read. Callers hold a pin taken before they loaded the root they come from, or the writer's lock.
pub(crate) trait ReadNodes {
    /// The node a link names; checked as far as needed to read it safely. It is of `level` if that is given.
    fn node(&self, link: u64, level: Option<u8>) -> Result<Node<'_>>;
    /// Most entries of a node.
    fn branching(&self) -> usize;
}

/// Where nodes are made.
pub(crate) trait Nodes: ReadNodes {
    /// The pages of the map.
    fn pages(&mut self) -> &mut Pages;
    /// Puts a node somewhere; its link. Error: `Full`.
    fn put(&mut self, node: &Build) -> Result<u64>;
    /// Puts a copy of a node somewhere that differs in one entry; its link. Error: `Full`.
    fn put_tweaked(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<u64>;
    /// Changes a node that has not been published where it is.
    fn change(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<()>;
}

/// Depth no tree reaches: with at least two children a node, 2^48 entries.
const LEVELS_MAX: u8 = 48;

/// A change: the new root, and what it made and replaced. To be completed, or undone by retiring what it made.
#[derive(Default)]
pub(crate) struct Edit {
    pub(crate) root: u64,
    pub(crate) made: Vec<u64>,
    pub(crate) replaced: Vec<u64>,
}

impl Edit {
    /// Nothing made or replaced yet.
    pub(crate) fn clear(&mut self) {
        self.root = 0;
        self.made.clear();
        self.replaced.clear();
    }
}

/// What an insertion has done.
pub(crate) struct Inserted {
    pub(crate) record: Ref,
    /// The entry with the same key and timestamp, which was replaced.
    pub(crate) same: Option<Ref>,
}

/// What an insertion finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The entry with the same key and timestamp.
    pub(crate) same: Option<Ref>,
    /// The entry before, if it may be an older version of the key.
    pub(crate) before: Option<Ref>,
}

struct Step {
    link: u64,
    index: usize,
}

/// Where a descent has ended.
struct End {
    link: u64,
    place: Place,
}

type Path = SmallVec<[Step; 16]>;

/// The entry with the largest (key, timestamp) not above the target; and whether it is the target itself.
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

/// Puts the record that `make` makes, told what is there, in at the target: in place of an entry with the same key and
/// timestamp if there is one. Nothing changes if it makes none.
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

/// Takes the entry of the target out, if it is `expected`. Whether it was there.
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

/// The way to the leaf that has the target's entry, the leaf, and the entry's index; none if the entry is not `expected`.
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

/// Entries taken out.
pub(crate) struct Removed {
    pub(crate) records: SmallVec<[Ref; 4]>,
    /// Whether older versions may be in another leaf still.
    pub(crate) goes_on: bool,
}

/// Takes out the versions of the target's key that are older than it, as far as they are in one leaf, and, if `itself`,
/// that of the target too.
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

/// Takes entries out of a leaf.
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

/// Entries below which a node is joined with a sibling. Splits leave twice as many, so that removing and inserting in turn does not
/// split and join in turn.
fn least_entries(branching: usize) -> usize {
    branching.div_ceil(4).max(2)
}

/// Puts `new` in the place of entry `old` of the target. Whether it was there.
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

/// Copies the node `link` of `level`, on the way to the target, to another place. Whether it was there.
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

/// Goes from the root to the node of `level` that the target belongs to, and finds the target's place in it.
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
        // What is below every entry belongs to the first child, and becomes the new first entry on the whole way.
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

/// Puts a copy that differs in one entry in the place of node `link`, and copies of all above it in theirs. Nodes that
/// this edit has made, which nobody else sees, are changed where they are.
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
        // Planted: a leaf is changed where it lies.
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
        // Planted: the entry of a child is not its first one any more.
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

/// Puts `build` in the place of node `link`, and new nodes in that of all above it: split when there are too many entries,
/// joined or evened out with a sibling when there are too few.
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

/// Adds the entries of the sibling that is among `children` of `parent` to `build`, which is child `index`. Its link.
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
    // The prefixes of two nodes may differ though they are equally long.
    build.is_stale = true;
    Ok(link)
}

/// Puts a node, in two halves if it has too many entries, in none if it has none. The entries for its parent.
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

/// Puts the root: a level is added when it is split, and taken away when it has one child.
fn put_root(nodes: &mut impl Nodes, records: &Records, build: Build, edit: &mut Edit) -> Result<u64> {
    if build.level > 0 && build.slots.len() == 1 {
        let mut link = build.slots[0].child;
        // Planted: the only child of a root goes with it.
        planted(139).then(|| edit.replaced.push(link));
        // The only child of a root may itself have one child, if that is the only one.
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

/// An entry of a tree to be built: the first sixteen bytes of its key as a number, and its record.
pub(crate) type Entry = (u128, Ref);

/// Builds a tree from entries in ascending order, all of them anew. Its root.
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

/// How many bytes the keys of a group have in common, as far as the begins of their keys go that heads are taken from.
fn skip_of(records: &Records, group: &[(Entry, u64)]) -> Result<u16> {
    const BYTES_MAX: usize = 8;
    let (first, last) = (group[0].0, group[group.len() - 1].0);
    if (first.0 ^ last.0).leading_zeros() < 8 {
        return Ok(0);
    }
    let common = common_bytes(records.get(first.1)?.key, records.get(last.1)?.key);
    Ok(common.min(BYTES_MAX) as u16)
}

/// Groups of nearly equal size, at most seven eighths of `most` where that leaves them large enough.
fn evenly<T>(row: &[T], most: usize) -> impl Iterator<Item = &[T]> {
    let groups = if row.len() <= most { 1 } else { row.len().div_ceil(most - most / 8) };
    (0..groups).map(move |group| &row[group * row.len() / groups..(group + 1) * row.len() / groups])
}
