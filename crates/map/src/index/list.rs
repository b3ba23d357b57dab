//! The list's index: a tree in DRAM, rebuilt from the list at every start.
//!
//! Readers take no lock: they descend, and do so again if the writer was in the way. A walk copies
//! one leaf at a time, so what it returns is not of one moment; at a timestamp that a view holds
//! that makes no difference, because the versions seen there do not change.

use crate::config::{Kind, Layout};
use crate::error::Result;
use crate::index::dram_node::WIDTH;
use crate::index::dram_tree::{Place, Root, Tree};
use crate::index::rebuild::{Rebuilt, rebuild};
use crate::index::{Editing, Entry, Index, Opened, Steps, Walk};
use crate::memory::atomic::{AtomicPtr, Ordering, yield_now};
use crate::memory::format::Ref;
use crate::memory::pages::Pages;
use crate::memory::pin::Pins;
use crate::memory::record::{Newest, Records};
use crate::memory::root::RootRecord;

/// Type parameter of [`crate::List`]: its index lies in DRAM.
pub struct ListIndex {
    root: AtomicPtr<Root>,
    records: Records,
}

/// The writer's side: the current tree, and those that loads have replaced.
pub struct ListWriter {
    tree: Tree,
    replaced: Vec<(u64, Tree)>,
}

impl ListIndex {
    #[inline]
    fn root(&self) -> &Root {
        // SAFETY: the address of a current tree, which the writer's side keeps until no pin is as
        // old.
        unsafe { &*self.root.load(Ordering::Acquire) }
    }
}

#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
impl Index for ListIndex {
    const KIND: Kind = Kind::List;
    const LINKS_ALL: bool = true;
    type Writer = ListWriter;
    type Place = Place;
    type Built = Tree;

    fn open(_: &Layout, pages: &mut Pages, records: &Records, root: &RootRecord) -> Result<Opened<ListIndex>> {
        let Rebuilt { entries, versions, dead_deletions } = rebuild(records, pages, root)?;
        let tree = Tree::build(records, &entries);
        records.all_checked();
        let root = AtomicPtr::new(std::ptr::from_ref(tree.root()).cast_mut());
        Ok(Opened {
            index: ListIndex { root, records: records.clone() },
            writer: ListWriter { tree, replaced: Vec::new() },
            versions,
            dead_deletions,
            is_counted: true,
        })
    }

    #[inline]
    fn newest(&self, key: &[u8]) -> Result<Newest<'_>> {
        let root = self.root();
        loop {
            if let Some((leaf, version)) = root.descend(key, None) {
                let found = leaf.find(&self.records, key);
                if leaf.is_still(version) {
                    return found.map(|(_, found)| found);
                }
            }
            yield_now();
        }
    }

    fn walk(&self, _: Option<u64>, from: &[u8]) -> Result<Box<dyn Walk + '_>> {
        let (leaf, bound) = ([Ref::NONE; WIDTH], Some(from.to_vec()));
        Ok(Box::new(ListWalk { root: self.root(), records: &self.records, leaf, at: 0, len: 0, bound }))
    }

    #[inline]
    fn locate<'r>(&'r self, writer: &ListWriter, key: &[u8]) -> Result<(Place, Newest<'r>)> {
        writer.tree.locate(&self.records, key)
    }

    #[inline]
    fn put(&self, edit: &mut Editing<'_, ListIndex>, place: &Place, key: &[u8], record: Option<Ref>) -> Result<()> {
        let Editing { writer, forgotten, dead, .. } = edit;
        match record {
            Some(record) => writer.tree.put(&self.records, place, key, record, (*forgotten, dead))?,
            None => writer.tree.take_out(&self.records, place),
        }
        Ok(())
    }

    fn sweep(&self, edit: &mut Editing<'_, ListIndex>, key: &[u8]) -> Result<()> {
        let (place, _) = self.locate(edit.writer, key)?;
        edit.writer.tree.sweep(&self.records, &place, edit.forgotten, edit.dead);
        Ok(())
    }

    fn build(&self, _: &mut Steps<'_, ListIndex>, entries: &[Entry]) -> Result<Tree> {
        Ok(Tree::build(&self.records, entries))
    }

    fn install(&self, edit: &mut Editing<'_, ListIndex>, built: Tree, pins: &Pins) {
        self.root.store(std::ptr::from_ref(built.root()).cast_mut(), Ordering::Release);
        let old = std::mem::replace(&mut edit.writer.tree, built);
        edit.writer.replaced.push((pins.advance(), old));
    }

    #[inline]
    fn recycle(writer: &mut ListWriter, _: &mut Pages, pins: &Pins, _held: bool) -> bool {
        writer.tree.recycle(pins);
        let Some((epoch, tree)) = writer.replaced.first_mut() else { return false };
        if *epoch >= pins.oldest() {
            return false;
        }
        if !tree.take_apart() {
            writer.replaced.remove(0);
        }
        !writer.replaced.is_empty()
    }
}

/// A walk over the list's entries.
struct ListWalk<'m> {
    root: &'m Root,
    records: &'m Records,
    leaf: [Ref; WIDTH],
    at: usize,
    len: usize,
    /// The least key of the next leaf; none after the last.
    bound: Option<Vec<u8>>,
}

impl ListWalk<'_> {
    /// Copies the next leaf.
    fn fill(&mut self, from: &[u8]) -> Result<()> {
        loop {
            let mut bound = None;
            if let Some((leaf, version)) = self.root.descend(from, Some(&mut bound)) {
                let found = leaf.find(self.records, from);
                let count = leaf.meta().count.min(WIDTH);
                let first = found.as_ref().map_or(0, |(index, _)| *index).min(count);
                (first..count).for_each(|index| self.leaf[index - first] = leaf.record(index));
                if leaf.is_still(version) {
                    found?;
                    (self.at, self.len) = (0, count - first);
                    self.bound = bound.map(<[u8]>::to_vec);
                    return Ok(());
                }
            }
            yield_now();
        }
    }
}

impl Walk for ListWalk<'_> {
    fn next(&mut self) -> Result<Option<Ref>> {
        while self.at == self.len {
            let Some(from) = self.bound.take() else { return Ok(None) };
            self.fill(&from)?;
        }
        self.at += 1;
        Ok(Some(self.leaf[self.at - 1]))
    }
}
