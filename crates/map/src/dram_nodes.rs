//! The list's index: nodes in DRAM, rebuilt from the list at every start.
//!
//! A link is the address of a node. Nodes lie in chunks that live as long as the index, so that a stale link leads at
//! worst to another node, never to unmapped memory. Readers pin, so that their links do not go stale.

use crate::config::{Kind, Layout};
use crate::error::Result;
use crate::format::Ref;
use crate::index::{Index, Store, for_each_node};
use crate::live_bits::LiveBits;
use crate::node::{Build, Node, Tweak};
use crate::pages::{Pages, Urgency};
use crate::pin::Pins;
use crate::record::Records;
use crate::tree::{Nodes, ReadNodes};
use perdura_pmem::planted;
use std::collections::VecDeque;

/// Type parameter of [`crate::List`]: its index lies in DRAM.
pub struct ListIndex;

impl Index for ListIndex {
    const KIND: Kind = Kind::List;
    type Store = DramNodes;
}

/// Nodes of a chunk.
const CHUNK_NODES: usize = 64;
/// Replaced nodes that close an epoch.
const RETIRED_MAX: usize = 32;

/// Reads nodes in DRAM.
pub struct DramReader {
    branching: usize,
}

impl ReadNodes for DramReader {
    #[inline]
    fn node(&self, link: u64, _level: Option<u8>) -> Result<Node<'_>> {
        let address = link as *const u64;
        // SAFETY: the link comes from a published root or from the writer. The node it names does not change while the
        // caller holds its pin or the writer's lock.
        let words = unsafe {
            let level = (*address >> 8) as u8;
            std::slice::from_raw_parts(address, node_words(level, self.branching))
        };
        Ok(Node::new(words, self.branching))
    }

    #[inline]
    fn branching(&self) -> usize {
        self.branching
    }
}

fn node_words(level: u8, branching: usize) -> usize {
    1 + branching * if level == 0 { 2 } else { 3 }
}

/// Allocates nodes in DRAM.
pub struct DramNodes {
    branching: usize,
    chunks: Vec<Box<[u64]>>,
    /// Free leaves and free inner nodes; the last one freed is used first.
    free: [Vec<u64>; 2],
    retired: Vec<u64>,
    waiting: VecDeque<(u64, Vec<u64>)>,
}

impl DramNodes {
    fn place(&mut self, level: u8) -> u64 {
        let class = usize::from(level > 0);
        if let Some(link) = self.free[class].pop() {
            return link;
        }
        let words = node_words(level, self.branching);
        let mut chunk = vec![0u64; words * CHUNK_NODES].into_boxed_slice();
        let start = chunk.as_mut_ptr();
        self.chunks.push(chunk);
        // SAFETY: each address is within the chunk.
        self.free[class].extend((0..CHUNK_NODES).rev().map(|node| unsafe { start.add(node * words) } as u64));
        self.free[class].pop().expect("a chunk has nodes")
    }

    fn give_back(&mut self, link: u64) {
        // SAFETY: the node lies in one of our chunks, and nobody else can reach it any more.
        let level = unsafe { (*(link as *const u64) >> 8) as u8 };
        self.free[usize::from(level > 0)].push(link);
    }
}

impl ReadNodes for DramWriter<'_> {
    fn node(&self, link: u64, level: Option<u8>) -> Result<Node<'_>> {
        self.reader.node(link, level)
    }

    fn branching(&self) -> usize {
        self.reader.branching
    }
}

/// Makes the nodes of one change.
pub struct DramWriter<'s> {
    reader: &'s DramReader,
    nodes: &'s mut DramNodes,
    pages: &'s mut Pages,
}

impl Nodes for DramWriter<'_> {
    fn pages(&mut self) -> &mut Pages {
        self.pages
    }

    fn put(&mut self, node: &Build) -> Result<u64> {
        let link = self.nodes.place(node.level);
        let branching = self.nodes.branching;
        // SAFETY: the node lies in a chunk, has this many words, and is free: nobody else can reach it.
        let words = unsafe { std::slice::from_raw_parts_mut(link as *mut u64, node_words(node.level, branching)) };
        node.write(words, branching, |_| 0);
        Ok(link)
    }

    fn put_tweaked(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<u64> {
        let source = self.reader.node(link, Some(level))?;
        let new = self.nodes.place(level);
        // SAFETY: as in put(). The place is free, so it is not the source.
        let words = unsafe { std::slice::from_raw_parts_mut(new as *mut u64, source.words().len()) };
        words.copy_from_slice(source.words());
        tweak.apply(words, self.nodes.branching, |_| 0);
        Ok(new)
    }

    fn change(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<()> {
        let branching = self.nodes.branching;
        // SAFETY: as in put(). The node is not published, so nobody else can reach it.
        let words = unsafe { std::slice::from_raw_parts_mut(link as *mut u64, node_words(level, branching)) };
        tweak.apply(words, branching, |_| 0);
        Ok(())
    }
}

impl Store for DramNodes {
    type Reader = DramReader;
    type Writer<'s> = DramWriter<'s>;

    fn new(layout: &Layout, _pages: &Pages, _records: &Records) -> (DramNodes, DramReader) {
        let branching = layout.branching as usize;
        let nodes = DramNodes {
            branching,
            chunks: Vec::new(),
            free: [Vec::new(), Vec::new()],
            retired: Vec::new(),
            waiting: VecDeque::new(),
        };
        (nodes, DramReader { branching })
    }

    fn writer<'s>(&'s mut self, reader: &'s DramReader, pages: &'s mut Pages, _urgency: Urgency) -> DramWriter<'s> {
        DramWriter { reader, nodes: self, pages }
    }

    fn undo(&mut self, _pages: &mut Pages, link: u64) {
        self.give_back(link);
    }

    fn retire(&mut self, _pages: &mut Pages, link: u64) {
        self.retired.push(link);
    }

    fn recycle(&mut self, _pages: &mut Pages, pins: &Pins, _snapshots: u64) {
        if self.retired.len() < RETIRED_MAX {
            return;
        }
        self.waiting.push_back((pins.advance(), std::mem::take(&mut self.retired)));
        let oldest = pins.oldest();
        // Planted: a node is reused although a reader is pinned.
        while self.waiting.front().is_some_and(|(epoch, _)| *epoch < oldest || planted(120)) {
            let (_, mut links) = self.waiting.pop_front().expect("there is a front");
            links.drain(..).for_each(|link| self.give_back(link));
            if self.retired.capacity() == 0 {
                self.retired = links;
            }
        }
    }

    fn confirmed(&mut self, _pages: &mut Pages, _pins: &Pins) {}

    fn saved(_link: u64) -> u64 {
        0
    }

    fn clear(&mut self, _pages: &mut Pages, reader: &DramReader, old_root: u64) {
        let retired = &mut self.retired;
        let found = for_each_node(reader, old_root, &mut |link, _| {
            retired.push(link);
            Ok(())
        });
        debug_assert!(found.is_ok(), "nodes in DRAM are never refused");
    }

    fn leave_retired(&mut self, _pages: &Pages, _pins: &Pins) {}

    fn place(reader: &DramReader, offset: u64) -> Result<Ref> {
        let _ = reader;
        unreachable!("a list has no nodes in pages, but one was looked for at {offset}")
    }

    fn waiting_bytes(&self, _live: &LiveBits) -> u64 {
        0
    }

    fn verify(_reader: &DramReader, _link: u64) -> Result<()> {
        Ok(())
    }
}
