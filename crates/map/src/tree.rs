//! The copy-on-write B+-tree over nodes that never change, wherever they lie.
//!
//! A change copies the nodes from the leaf to the root and yields a new root; the old one still names the old version.
//! Nodes have at most `branching` entries; a split leaves half of them on each
//! side, and only below a quarter, from removals, are siblings joined; entry i of an inner node
//! is the first entry of child i. [`Nodes`] says where nodes lie: in pages ([`crate::page_nodes`]) or DRAM
//! ([`crate::dram_nodes`]).

use crate::error::Result;
use crate::format::Ref;
use crate::node::{Build, Node, Slot, Tweak};
use crate::pages::Pages;
use crate::record::{Records, Target};
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
    pub(crate) made: SmallVec<[u64; 24]>,
    pub(crate) replaced: SmallVec<[u64; 24]>,
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
    /// The head and record of the entry before, which may be an older version of the key.
    pub(crate) before: Option<(u64, Ref)>,
}

struct Step {
    link: u64,
    index: usize,
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
    let mut node = nodes.node(root, None)?;
    loop {
        let (rank, exact) = node.rank(records, target)?;
        if rank == 0 {
            return Ok(None);
        }
        if node.level() == 0 {
            return Ok(Some((node.record(rank - 1), exact)));
        }
        node = nodes.node(node.child(rank - 1), Some(node.level() - 1))?;
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
    let (mut link, mut rank, mut exact, mut found) = (0, 0, false, Found::default());
    if root != 0 {
        (link, rank, exact) = descend(nodes, records, root, target, 0, &mut path)?;
        let leaf = nodes.node(link, Some(0))?;
        let before = if exact { rank.checked_sub(2) } else { rank.checked_sub(1) };
        found.before = before.map(|index| leaf.slot(index).entry());
        found.same = exact.then(|| leaf.record(rank - 1));
    }
    let Some(record) = make(nodes, &found)? else { return Ok(None) };
    let slot = Slot { head: target.head, record, child: 0 };
    if root == 0 {
        let leaf = Build { level: 0, slots: SmallVec::from_slice(&[slot]) };
        edit.root = put(nodes, &leaf, edit)?;
        return Ok(Some(Inserted { record, same: None }));
    }
    let leaf = nodes.node(link, Some(0))?;
    if exact || leaf.len() < nodes.branching() {
        let tweak = if exact { Tweak::Replace(rank - 1, slot) } else { Tweak::Insert(rank, slot) };
        lift(nodes, path, link, 0, &tweak, edit)?;
    } else {
        let mut build = Build::from(&leaf);
        build.slots.insert(rank, slot);
        ascend(nodes, path, link, build, edit)?;
    }
    Ok(Some(Inserted { record, same: found.same }))
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
    if root == 0 {
        return Ok(false);
    }
    let mut path = Path::new();
    let (link, rank, exact) = descend(nodes, records, root, target, 0, &mut path)?;
    if !exact || nodes.node(link, Some(0))?.record(rank - 1) != expected {
        return Ok(false);
    }
    take_out(nodes, path, link, rank - 1..rank, edit)?;
    Ok(true)
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
    let (link, rank, exact) = descend(nodes, records, root, target, 0, &mut path)?;
    let leaf = nodes.node(link, Some(0))?;
    let end = if exact && !itself { rank - 1 } else { rank };
    let mut start = end;
    while start > 0 {
        let (head, record) = leaf.slot(start - 1).entry();
        if head != target.head || records.get(record)?.key != target.key {
            break;
        }
        start -= 1;
    }
    removed.goes_on = start == 0;
    removed.records.extend((start..end).map(|index| leaf.record(index)));
    if start < end {
        take_out(nodes, path, link, start..end, edit)?;
    }
    Ok(removed)
}

/// Takes entries out of a leaf.
fn take_out(nodes: &mut impl Nodes, path: Path, link: u64, entries: Range<usize>, edit: &mut Edit) -> Result<()> {
    let leaf = nodes.node(link, Some(0))?;
    let least = if path.is_empty() { 1 } else { least_entries(nodes.branching()) };
    if leaf.len() - entries.len() >= least {
        return lift(nodes, path, link, 0, &Tweak::Remove(entries.start, entries.end), edit);
    }
    let mut build = Build::from(&leaf);
    build.slots.drain(entries);
    ascend(nodes, path, link, build, edit)
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
    if root == 0 {
        return Ok(false);
    }
    let mut path = Path::new();
    let (link, rank, exact) = descend(nodes, records, root, target, 0, &mut path)?;
    if !exact {
        return Ok(false);
    }
    let leaf = nodes.node(link, Some(0))?;
    if leaf.record(rank - 1) != old {
        return Ok(false);
    }
    let slot = Slot { record: new, ..leaf.slot(rank - 1) };
    lift(nodes, path, link, 0, &Tweak::Replace(rank - 1, slot), edit)?;
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
    let (found, ..) = descend(nodes, records, root, target, level, &mut path)?;
    if found != link {
        return Ok(false);
    }
    let same = nodes.node(link, Some(level))?.slot(0);
    lift(nodes, path, link, level, &Tweak::Replace(0, same), edit)?;
    Ok(true)
}

/// Goes from the root to the node of `level` that the target belongs to. That node's link, and the target's rank in it.
fn descend(
    nodes: &impl Nodes,
    records: &Records,
    root: u64,
    target: &Target<'_>,
    level: u8,
    path: &mut Path,
) -> Result<(u64, usize, bool)> {
    let mut link = root;
    let mut node = nodes.node(link, None)?;
    loop {
        let (rank, exact) = node.rank(records, target)?;
        if node.level() <= level {
            return Ok((link, rank, exact));
        }
        // What is below every entry belongs to the first child, and becomes the new first entry on the whole way.
        let index = rank.saturating_sub(1);
        path.push(Step { link, index });
        link = node.child(index);
        node = nodes.node(link, Some(node.level() - 1))?;
    }
}

fn put(nodes: &mut impl Nodes, node: &Build, edit: &mut Edit) -> Result<u64> {
    let link = nodes.put(node)?;
    edit.made.push(link);
    Ok(link)
}

/// Puts a copy that differs in one entry in the place of node `link`, and copies of all above it in theirs. Nodes that
/// this edit has made, which nobody else sees, are changed where they are.
fn lift(
    nodes: &mut impl Nodes,
    mut path: Path,
    mut link: u64,
    mut level: u8,
    tweak: &Tweak,
    edit: &mut Edit,
) -> Result<()> {
    let mut tweak = *tweak;
    loop {
        let is_own = edit.made.contains(&link);
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
        let first = nodes.node(new, Some(level))?.slot(0);
        tweak = Tweak::Replace(step.index, Slot { child: new, ..first });
        link = step.link;
        level += 1;
    }
}

/// Puts `build` in the place of node `link`, and new nodes in that of all above it: split when there are too many entries,
/// joined or evened out with a sibling when there are too few.
fn ascend(nodes: &mut impl Nodes, mut path: Path, link: u64, mut build: Build, edit: &mut Edit) -> Result<()> {
    let least = least_entries(nodes.branching());
    edit.replaced.push(link);
    while let Some(Step { link, index }) = path.pop() {
        let mut parent = Build::from(&nodes.node(link, Some(build.level + 1))?);
        edit.replaced.push(link);
        let mut children = index..index + 1;
        if build.slots.len() < least && parent.slots.len() > 1 {
            children = if index + 1 < parent.slots.len() { index..index + 2 } else { index - 1..index + 1 };
            let is_left = children.start == index;
            let sibling = parent.slots[if is_left { index + 1 } else { index - 1 }].child;
            let sibling_node = nodes.node(sibling, Some(build.level))?;
            if is_left {
                build.append(&sibling_node);
            } else {
                let mut joined = Build::from(&sibling_node);
                joined.slots.extend_from_slice(&build.slots);
                build = joined;
            }
            edit.replaced.push(sibling);
        }
        let slots = put_split(nodes, build, edit)?;
        if let ([slot], 1) = (&slots[..], children.len()) {
            edit.replaced.pop();
            return lift(nodes, path, link, parent.level, &Tweak::Replace(index, *slot), edit);
        }
        parent.slots.drain(children.clone());
        parent.slots.insert_many(children.start, slots);
        build = parent;
    }
    edit.root = put_root(nodes, build, edit)?;
    Ok(())
}

/// Puts a node, in two halves if it has too many entries, in none if it has none. The entries for its parent.
fn put_split(nodes: &mut impl Nodes, mut build: Build, edit: &mut Edit) -> Result<SmallVec<[Slot; 2]>> {
    let mut slots = SmallVec::new();
    if build.slots.is_empty() {
        return Ok(slots);
    }
    let count = build.slots.len();
    let right = if count > nodes.branching() {
        let slots = build.slots.drain(count.div_ceil(2)..).collect();
        Some(Build { level: build.level, slots })
    } else {
        None
    };
    for half in [Some(build), right].into_iter().flatten() {
        let child = put(nodes, &half, edit)?;
        slots.push(Slot { child, ..half.slots[0] });
    }
    Ok(slots)
}

/// Puts the root: a level is added when it is split, and taken away when it has one child.
fn put_root(nodes: &mut impl Nodes, build: Build, edit: &mut Edit) -> Result<u64> {
    if build.level > 0 && build.slots.len() == 1 {
        let mut link = build.slots[0].child;
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
    let slots = put_split(nodes, build, edit)?;
    match slots.len() {
        0 => Ok(0),
        1 => Ok(slots[0].child),
        _ => put(nodes, &Build { level: level + 1, slots: slots.into_iter().collect() }, edit),
    }
}

/// Builds a tree from entries in ascending order, all of them anew. Its root.
pub(crate) fn build(nodes: &mut impl Nodes, entries: &[(u64, Ref)], edit: &mut Edit) -> Result<u64> {
    if entries.is_empty() {
        return Ok(0);
    }
    let mut level = 0;
    let mut slots: Vec<Slot> =
        entries.iter().map(|(head, record)| Slot { head: *head, record: *record, child: 0 }).collect();
    loop {
        let mut above = Vec::with_capacity(slots.len() / nodes.branching() + 1);
        for group in evenly(&slots, nodes.branching()) {
            let link = put(nodes, &Build { level, slots: SmallVec::from_slice(group) }, edit)?;
            above.push(Slot { child: link, ..group[0] });
        }
        if above.len() == 1 {
            return Ok(above[0].child);
        }
        slots = above;
        level += 1;
    }
}

/// Groups of nearly equal size, at most seven eighths of `most` where that leaves them large enough.
fn evenly(slots: &[Slot], most: usize) -> impl Iterator<Item = &[Slot]> {
    let groups = if slots.len() <= most { 1 } else { slots.len().div_ceil(most - most / 8) };
    (0..groups).map(move |group| &slots[group * slots.len() / groups..(group + 1) * slots.len() / groups])
}
