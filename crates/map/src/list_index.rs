//! The list's index: a tree in DRAM, rebuilt from the list at every start.
//!
//! Readers take no lock: they descend, and do so again if the writer was in the way. A walk copies one leaf at a time, so what
//! it returns is not of one moment; at a timestamp that a view holds that makes no difference, because the versions seen
//! there do not change.

use crate::atomic::{AtomicPtr, Ordering, yield_now};
use crate::config::{Kind, Layout};
use crate::dram_node::WIDTH;
use crate::dram_tree::{Memory, Place, Tree};
use crate::error::Result;
use crate::format::{Ref, RootRecord};
use crate::index::{Editing, Entry, Index, Walk};
use crate::pages::Pages;
use crate::pin::Pins;
use crate::record::{Record, Records};

/// Type parameter of [`crate::List`]: its index lies in DRAM.
pub struct ListIndex {
    tree: AtomicPtr<Tree>,
}

/// The writer's side: the tree in force, and those that loads have replaced.
pub struct ListWriter {
    memory: Memory,
    replaced: Vec<(u64, Memory)>,
}

impl ListIndex {
    #[inline]
    fn tree(&self) -> &Tree {
        // SAFETY: the address of a tree in force, which the writer's side keeps until no pin is as old.
        unsafe { &*self.tree.load(Ordering::Acquire) }
    }
}

#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
impl Index for ListIndex {
    const KIND: Kind = Kind::List;
    type Writer = ListWriter;
    type Place = Place;
    type Built = Memory;

    fn open(_: &Layout, _: &Pages, _: &Records, _: &RootRecord) -> Result<(ListIndex, ListWriter)> {
        let memory = Memory::new();
        let tree = AtomicPtr::new(std::ptr::from_ref(memory.tree()).cast_mut());
        Ok((ListIndex { tree }, ListWriter { memory, replaced: Vec::new() }))
    }

    #[inline]
    fn newest<'r>(&self, records: &'r Records, key: &[u8]) -> Result<Option<(Ref, Record<'r>)>> {
        let tree = self.tree();
        loop {
            if let Some((leaf, version)) = tree.descend(key, None) {
                let found = leaf.find(records, key);
                if leaf.is_still(version) {
                    return found.map(|(_, found)| found);
                }
            }
            yield_now();
        }
    }

    fn walk<'m>(&'m self, records: &'m Records, _: Option<u64>, from: &[u8]) -> Result<Box<dyn Walk + 'm>> {
        let leaf = [Ref::NONE; WIDTH];
        Ok(Box::new(ListWalk { tree: self.tree(), records, leaf, at: 0, len: 0, bound: Some(from.to_vec()) }))
    }

    #[inline]
    fn locate<'r>(
        &self,
        writer: &ListWriter,
        records: &'r Records,
        key: &[u8],
    ) -> Result<(Place, Option<(Ref, Record<'r>)>)> {
        Memory::locate(writer.memory.tree(), records, key)
    }

    #[inline]
    fn put(&self, edit: &mut Editing<'_, ListIndex>, place: &Place, key: &[u8], record: Option<Ref>) -> Result<()> {
        let Editing { writer, records, forgotten, dead, .. } = edit;
        match record {
            Some(record) => writer.memory.put(records, place, key, record, (*forgotten, dead)),
            None => {
                writer.memory.take_out(records, place);
                Ok(())
            }
        }
    }

    fn sweep(&self, edit: &mut Editing<'_, ListIndex>, key: &[u8]) -> Result<()> {
        let (place, _) = self.locate(edit.writer, edit.records, key)?;
        edit.writer.memory.sweep_at(edit.records, &place, edit.forgotten, edit.dead);
        Ok(())
    }

    fn build(&self, edit: &mut Editing<'_, ListIndex>, entries: &[Entry]) -> Result<Memory> {
        Ok(Memory::build(edit.records, entries))
    }

    fn install(&self, edit: &mut Editing<'_, ListIndex>, built: Memory, pins: &Pins) {
        self.tree.store(std::ptr::from_ref(built.tree()).cast_mut(), Ordering::Release);
        let old = std::mem::replace(&mut edit.writer.memory, built);
        edit.writer.replaced.push((pins.advance(), old));
    }

    #[inline]
    fn publish(&self, _: &mut ListWriter) {}

    fn abort(&self, _: &mut ListWriter, _: &mut Pages) -> bool {
        false
    }

    fn root(&self) -> u64 {
        0
    }

    fn nodes(_: &ListWriter) -> u64 {
        0
    }

    fn confirms(_: &mut ListWriter, _: &mut Pages) {}

    fn confirmed(_: &mut ListWriter, _: &mut Pages, _: &Pins) {}

    fn leave_retired(_: &mut ListWriter, _: &Pages, _: &Pins) {}

    #[inline]
    fn recycle(writer: &mut ListWriter, _: &mut Pages, pins: &Pins, _held: bool) {
        writer.memory.recycle(pins);
        if !writer.replaced.is_empty() {
            let oldest = pins.oldest();
            writer.replaced.retain(|(epoch, _)| *epoch >= oldest);
        }
    }
}

/// A walk over the list's entries.
struct ListWalk<'m> {
    tree: &'m Tree,
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
            if let Some((leaf, version)) = self.tree.descend(from, Some(&mut bound)) {
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
