//! The copy-on-write B+-tree over nodes in pages.
//!
//! A change copies the nodes from the leaf to the root, those that a published root reaches, and
//! yields a new root; the old root still names the old version. Nodes that no published root
//! reaches are changed in place. A node has at most `branching` entries and is split in halves
//! beyond that. A node with less than a quarter, which only removals leave, is joined with a
//! sibling. Entry i of an inner node is the first entry of child i.

use crate::error::Result;
use crate::index::page_node::{Build, Node, Slot, Standing, Tweak};
use crate::index::page_nodes::{PageReader, PageWriter};
use crate::index::{Entry, evenly};
use crate::memory::format::Ref;
use crate::memory::record::{Newest, Record, Records, common_bytes, head8};
use crate::timestamps::Ts;
use perdura_pmem::{Mutant, planted};
use smallvec::SmallVec;

/// More levels than a tree can have: with two children a node, 2^48 entries.
const LEVELS_MAX: u8 = 48;
/// Nodes of a new tree that are made at a time.
pub(crate) const STEP_NODES: usize = 64;

/// An inner node on the way down, and the index of the child taken there.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    link: u64,
    pub(crate) index: usize,
}

type Path = SmallVec<[Step; 16]>;

/// Place of a key's entry, whether there is one or not.
pub struct Place {
    path: Path,
    /// The leaf, and where the key stands in it; none in an empty tree.
    leaf: Option<(u64, Standing)>,
}

/// Descends from the root to the node of `level` on the path to a key, and calls `visit` with every
/// node above it. Returns the node, its link and where the key stands in it; none in an empty tree.
/// Error: `Damaged`.
#[inline]
pub(crate) fn descend<'n>(
    nodes: &'n PageReader,
    root: u64,
    key: &[u8],
    level: u8,
    mut visit: impl FnMut(Node<'n>, Step),
) -> Result<Option<(Node<'n>, u64, Standing)>> {
    if root == 0 {
        return Ok(None);
    }
    let (mut link, mut node, mut above) = (root, nodes.node(root, None)?, None);
    loop {
        let standing = node.locate(&nodes.records, key, above)?;
        if node.level() <= level {
            return Ok(Some((node, link, standing)));
        }
        // A key below every entry belongs to the first child, and becomes the first entry on the
        // whole path.
        let index = standing.rank.saturating_sub(1);
        visit(node, Step { link, index });
        above = node.above(index, &standing);
        link = node.child(index);
        node = nodes.node(link, Some(node.level() - 1))?;
    }
}

/// The record of a key's entry. Error: `Damaged`.
#[inline]
pub(crate) fn find<'n>(nodes: &'n PageReader, root: u64, key: &[u8]) -> Result<Newest<'n>> {
    let found = descend(nodes, root, key, 0, |_, _| ())?;
    match found {
        Some((leaf, _, standing)) if standing.exact => entry(nodes, &leaf, &standing).map(Some),
        _ => Ok(None),
    }
}

/// The entry where a key stands exactly.
#[inline]
fn entry<'n>(nodes: &'n PageReader, leaf: &Node<'_>, standing: &Standing) -> Result<(Ref, Record<'n>)> {
    let record = leaf.record(standing.rank - 1);
    Ok((record, nodes.records.get(record)?))
}

/// The place of a key, and the record of its entry. Error: `Damaged`.
pub(crate) fn locate<'n>(nodes: &'n PageReader, root: u64, key: &[u8]) -> Result<(Place, Newest<'n>)> {
    let mut path = Path::new();
    let found = descend(nodes, root, key, 0, |_, step| path.push(step))?;
    let Some((leaf, link, standing)) = found else { return Ok((Place { path, leaf: None }, None)) };
    let newest = if standing.exact { Some(entry(nodes, &leaf, &standing)?) } else { None };
    Ok((Place { path, leaf: Some((link, standing)) }, newest))
}

/// Makes the entry of a key at its place name a record.
pub(crate) fn put(nodes: &mut PageWriter<'_>, place: &Place, key: &[u8], record: Ref) -> Result<()> {
    let Some((link, Standing { rank, exact, shares })) = place.leaf else {
        let mut leaf = Build::new(0);
        leaf.slots.push(Slot { head: head8(key, 0), record, child: 0 });
        nodes.edit.root = nodes.put(&mut leaf)?;
        return Ok(());
    };
    let leaf = nodes.node(link, Some(0))?;
    let slot = Slot { head: head8(key, leaf.skip()), record, child: 0 };
    if exact || shares && leaf.len() < nodes.branching() {
        let tweak = if exact { Tweak::Replace(rank - 1, slot) } else { Tweak::Insert(rank, slot) };
        return lift(nodes, place.path.clone(), link, 0, tweak);
    }
    let mut build = Build::from(&leaf);
    build.slots.insert(rank, slot);
    build.is_stale = !shares;
    ascend(nodes, place.path.clone(), link, build)
}

/// Removes the entry at a key's place.
pub(crate) fn remove(nodes: &mut PageWriter<'_>, place: &Place) -> Result<()> {
    let Some((link, standing)) = place.leaf.filter(|(_, standing)| standing.exact) else { return Ok(()) };
    take_out(nodes, place.path.clone(), link, &[standing.rank - 1])
}

/// Removes the entries of deletions up to `forgotten` from the leaf at a key's place. Returns their
/// records.
pub(crate) fn sweep(nodes: &mut PageWriter<'_>, place: &Place, forgotten: Ts) -> Result<SmallVec<[Ref; 16]>> {
    let Some((link, _)) = place.leaf else { return Ok(SmallVec::new()) };
    let leaf = nodes.node(link, Some(0))?;
    let mut over: SmallVec<[usize; 16]> = SmallVec::new();
    let mut swept: SmallVec<[Ref; 16]> = SmallVec::new();
    for index in 0..leaf.len() {
        let record = leaf.record(index);
        if record.is_deletion() && nodes.records().get(record)?.header.ts <= forgotten {
            over.push(index);
            swept.push(record);
        }
    }
    take_out(nodes, place.path.clone(), link, &over)?;
    Ok(swept)
}

/// Removes entries from a leaf.
fn take_out(nodes: &mut PageWriter<'_>, path: Path, link: u64, out: &[usize]) -> Result<()> {
    let leaf = nodes.node(link, Some(0))?;
    let least = if path.is_empty() { 1 } else { least_entries(nodes.branching()) };
    match out {
        [] => Ok(()),
        [index] if leaf.len() > least => lift(nodes, path, link, 0, Tweak::Remove(*index)),
        _ => {
            let mut build = Build::from(&leaf);
            out.iter().rev().for_each(|index| _ = build.slots.remove(*index));
            ascend(nodes, path, link, build)
        }
    }
}

/// Entries below which a node is joined with a sibling. A split leaves twice as many, so that
/// alternating insertions and removals do not split and join in turn.
fn least_entries(branching: usize) -> usize {
    branching.div_ceil(4).max(2)
}

/// Copies node `link` of `level`, if it is on the path to a key, to another place.
pub(crate) fn relocate(nodes: &mut PageWriter<'_>, key: &[u8], (link, level): (u64, u8)) -> Result<()> {
    let mut path = Path::new();
    let found = descend(nodes.reader, nodes.edit.root, key, level, |_, step| path.push(step))?;
    let Some((node, ..)) = found.filter(|(_, found, _)| *found == link) else { return Ok(()) };
    lift(nodes, path, link, level, Tweak::Replace(0, node.slot(0)))
}

/// Replaces node `link` by a copy that differs in one entry, and copies all nodes above it. Nodes
/// that this edit has made are changed in place, since nobody else sees them.
fn lift(nodes: &mut PageWriter<'_>, mut path: Path, mut link: u64, mut level: u8, mut tweak: Tweak) -> Result<()> {
    loop {
        // Planted: a published leaf is changed in place.
        let is_own = nodes.is_unseen(link) || planted(Mutant::LeafChangedInPlace) && level == 0;
        let new = if is_own { nodes.change(link, level, &tweak)? } else { nodes.put_tweaked(link, level, &tweak)? };
        let Some(step) = path.pop() else {
            nodes.edit.root = new;
            return Ok(());
        };
        if is_own && !tweak.is_first() {
            // Its parent, which this edit has made too, names it already.
            return Ok(());
        }
        (link, level) = (step.link, level + 1);
        // Planted: the entry of a child is no longer the child's first.
        if !tweak.is_first() || planted(Mutant::SeparatorNotFirstKey) {
            tweak = Tweak::Relink(step.index, new);
            continue;
        }
        let record = nodes.node(new, Some(level - 1))?.record(0);
        let (parent, key) = (nodes.node(link, Some(level))?, nodes.records().get(record)?.key);
        let slot = Slot { head: head8(key, parent.skip()), record, child: new };
        if !parent.shares(nodes.records(), key)? {
            let mut build = Build { is_stale: true, ..Build::from(&parent) };
            build.slots[step.index] = slot;
            return ascend(nodes, path, link, build);
        }
        tweak = Tweak::Replace(step.index, slot);
    }
}

/// Replaces node `link` by `build`, and the nodes above it by new ones: split when they have too
/// many entries, joined or balanced with a sibling when they have too few.
fn ascend(nodes: &mut PageWriter<'_>, mut path: Path, link: u64, mut build: Build) -> Result<()> {
    let least = least_entries(nodes.branching());
    nodes.replace(link);
    while let Some(Step { link, index }) = path.pop() {
        let level = build.level + 1;
        let parent = nodes.node(link, Some(level))?;
        let mut children = index..index + 1;
        if build.slots.len() < least && parent.len() > 1 {
            let is_last = index + 1 == parent.len();
            children = if is_last { index - 1..index + 1 } else { index..index + 2 };
            let sibling = parent.child(if is_last { index - 1 } else { index + 1 });
            let at = if is_last { 0 } else { build.slots.len() };
            build.slots.insert_many(at, nodes.node(sibling, Some(build.level))?.slots());
            // Prefixes of equal length may still differ.
            build.is_stale = true;
            nodes.replace(sibling);
        }
        let mut above = Build::from(&parent);
        let mut slots = put_split(nodes, build)?;
        for slot in &mut slots {
            let key = nodes.records().get(slot.record)?.key;
            slot.head = head8(key, parent.skip());
            above.is_stale |= !parent.shares(nodes.records(), key)?;
        }
        if let ([slot], 1, false) = (&slots[..], children.len(), above.is_stale) {
            return lift(nodes, path, link, level, Tweak::Replace(index, *slot));
        }
        nodes.replace(link);
        above.slots.drain(children.clone());
        above.slots.insert_many(children.start, slots);
        build = above;
    }
    nodes.edit.root = put_root(nodes, build)?;
    Ok(())
}

/// Writes a node: as two halves if it has too many entries, not at all if it has none. Returns the
/// entries for its parent.
fn put_split(nodes: &mut PageWriter<'_>, mut build: Build) -> Result<SmallVec<[Slot; 2]>> {
    let mut slots = SmallVec::new();
    if build.slots.is_empty() {
        return Ok(slots);
    }
    let (count, level, skip, is_stale) = (build.slots.len(), build.level, build.skip, build.is_stale);
    let right = (count > nodes.branching()).then(|| build.slots.drain(count.div_ceil(2)..).collect());
    let right = right.map(|slots| Build { level, skip, is_stale, slots });
    for mut half in [Some(build), right].into_iter().flatten() {
        let child = nodes.put(&mut half)?;
        slots.push(Slot { child, ..half.slots[0] });
    }
    Ok(slots)
}

/// Writes the root. A split root gets a level above it; a root with one child is replaced by the
/// child.
fn put_root(nodes: &mut PageWriter<'_>, build: Build) -> Result<u64> {
    if build.level > 0 && build.slots.len() == 1 {
        let mut link = build.slots[0].child;
        // Planted: the only child of a root goes with it.
        planted(Mutant::OnlyChildDropped).then(|| nodes.replace(link));
        // That child may itself have one child only.
        for _ in 0..LEVELS_MAX {
            let node = nodes.node(link, None)?;
            if node.level() == 0 || node.len() > 1 {
                break;
            }
            let child = node.child(0);
            nodes.replace(link);
            link = child;
        }
        return Ok(link);
    }
    let level = build.level;
    let slots = put_split(nodes, build)?;
    match slots.len() {
        0 => Ok(0),
        1 => Ok(slots[0].child),
        _ => {
            let mut root = Build { is_stale: true, ..Build::new(level + 1) };
            root.slots.extend(slots);
            nodes.put(&mut root)
        }
    }
}

/// Makes some nodes that are not in the tree yet, and returns their links. Error: `Full`.
pub(crate) type Puts<'p> = dyn FnMut(&[Build]) -> Result<Vec<u64>> + 'p;

/// Builds a tree of entries in ascending order, [`STEP_NODES`] nodes at a time. Returns its root.
pub(crate) fn build(reader: &PageReader, entries: &[Entry], put: &mut Puts<'_>) -> Result<u64> {
    if entries.is_empty() {
        return Ok(0);
    }
    let mut row: Vec<(Entry, u64)> = entries.iter().map(|entry| (*entry, 0)).collect();
    for level in 0.. {
        let groups: Vec<_> = evenly(&row, reader.branching()).collect();
        let mut above = Vec::with_capacity(groups.len());
        for step in groups.chunks(STEP_NODES) {
            let nodes: Result<Vec<Build>> = step.iter().map(|group| node_of(&reader.records, level, group)).collect();
            let links = put(&nodes?)?;
            above.extend(step.iter().zip(links).map(|(group, link)| (group[0].0, link)));
        }
        row = above;
        if row.len() == 1 {
            break;
        }
    }
    Ok(row[0].1)
}

fn node_of(records: &Records, level: u8, group: &[(Entry, u64)]) -> Result<Build> {
    let mut node = Build { skip: skip_of(records, group)?, ..Build::new(level) };
    let shift = 8 * u32::from(node.skip);
    node.slots.extend(group.iter().map(|((begin, record), child)| Slot {
        head: (begin << shift >> 64) as u64,
        record: *record,
        child: *child,
    }));
    Ok(node)
}

/// Length of the prefix that a group's keys share: at most 8, so that the heads after it are in the
/// entries.
fn skip_of(records: &Records, group: &[(Entry, u64)]) -> Result<u16> {
    const BYTES_MAX: usize = 8;
    let (first, last) = (group[0].0, group[group.len() - 1].0);
    if (first.0 ^ last.0).leading_zeros() < 8 {
        return Ok(0);
    }
    let common = common_bytes(records.get(first.1)?.key, records.get(last.1)?.key);
    Ok(common.min(BYTES_MAX) as u16)
}
