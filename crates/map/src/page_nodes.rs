//! The B+-tree's nodes: in pages of persistent memory, so that a root record names a whole version of the tree.
//!
//! A link is a reference. A node is valid iff it lies within the pages, has the length of its level, has one to
//! `branching` entries, and its CRC32C, bound to its place, matches. The checksum is skipped if the live bit is set,
//! which says that the node was written or checked since the map was opened. The place of a node is reused only when
//! neither the newest confirmation nor a snapshot nor a reader can reach the node. Keeps (I8).

use crate::config::Layout;
use crate::error::{Error, Result};
use crate::format::{Geometry, NODE_SUM_BYTES, Ref, bytes_of, checksum, node_bytes};
use crate::live_bits::LiveBits;
use crate::node::{Build, Node, Tweak};
use crate::pages::{Filling, Pages, Urgency};
use crate::pin::Pins;
use crate::record::Records;
use perdura_pmem::{LINE_BYTES, Region, planted, trace};
use std::collections::VecDeque;
use std::sync::Arc;

/// Retired nodes that close an epoch.
const RETIRED_MAX: usize = 32;

/// Reads nodes in pages.
pub(crate) struct PageReader {
    region: Region,
    geometry: Geometry,
    salt: u64,
    live: Arc<LiveBits>,
    branching: u32,
}

impl PageReader {
    #[cold]
    fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::damaged(self.region.name(), offset, what)
    }

    #[cold]
    fn verify(&self, offset: u64, words: &[u64]) -> Result<()> {
        if self.region.load(offset) == u64::from(checksum(self.salt, offset, words)) {
            return Ok(());
        }
        Err(self.damaged(offset, "the checksum of a node does not match"))
    }

    #[inline]
    fn words(&self, link: u64, level: Option<u8>) -> Result<&[u64]> {
        let place = Ref(link);
        let (offset, len) = (place.offset(), place.len());
        if !self.geometry.holds(offset, len) || len < node_bytes(0, self.branching) || offset % LINE_BYTES != 0 {
            return Err(self.damaged(offset, "a link to a node points outside the pages"));
        }
        // SAFETY: the range lies within the region, and a node is not stored to while a reader can reach it.
        let bytes = unsafe { self.region.slice(offset + NODE_SUM_BYTES, len - NODE_SUM_BYTES) };
        // SAFETY: the offset is a multiple of 8 and the region's base of 64.
        let words = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u64>(), bytes.len() / 8) };
        let (count, found) = (words[0] & 0xff, (words[0] >> 8) as u8);
        let fits = count >= 1 && count <= u64::from(self.branching);
        if !fits || len != node_bytes(found, self.branching) || level.is_some_and(|level| level != found) {
            return Err(self.damaged(offset, "a node with an impossible header"));
        }
        Ok(words)
    }
}

impl PageReader {
    /// The node that a link names, checked as far as reading it safely requires. The caller holds the writer's lock, or a
    /// pin taken before it loaded the root. Error: `Damaged`, also if it is not of `level`.
    #[inline]
    pub(crate) fn node(&self, link: u64, level: Option<u8>) -> Result<Node<'_>> {
        let words = self.words(link, level)?;
        if !self.live.is_set(Ref(link).offset()) {
            self.verify(Ref(link).offset(), words)?;
        }
        Ok(Node::new(words, self.branching as usize))
    }

    /// Reads and checks the node at `link`, also when its live bit is set.
    pub(crate) fn check(&self, link: u64) -> Result<()> {
        let words = self.words(link, None)?;
        self.verify(Ref(link).offset(), words)
    }

    /// The node at an offset in a page of nodes.
    pub(crate) fn place(&self, offset: u64) -> Ref {
        let level = (self.region.load(offset + NODE_SUM_BYTES) >> 8) as u8;
        Ref::new(offset, node_bytes(level, self.branching))
    }

    /// Calls `each` with every node at and below `root`, parents first, and its link.
    pub(crate) fn for_each(&self, root: u64, each: &mut dyn FnMut(u64, &Node<'_>) -> Result<()>) -> Result<()> {
        let mut stack = if root == 0 { Vec::new() } else { vec![(root, None)] };
        while let Some((link, level)) = stack.pop() {
            let node = self.node(link, level)?;
            each(link, &node)?;
            if node.level() > 0 {
                stack.extend((0..node.len()).rev().map(|index| (node.child(index), Some(node.level() - 1))));
            }
        }
        Ok(())
    }
}

/// Allocates nodes in pages.
pub(crate) struct PageNodes {
    /// Set where a node lies that no confirmation covers.
    fresh: LiveBits,
    /// Set where such a node lies that has been replaced.
    gone: LiveBits,
    /// Set where a node lies that no published root reaches. It may change in place.
    unseen: LiveBits,
    /// Nodes made since the last confirmation; some of them have gone.
    made: Vec<Ref>,
    /// Free places, those as long as a leaf and longer ones. With few entries per node, inner nodes are as long as
    /// leaves.
    free: [Vec<Ref>; 2],
    /// Replaced before a confirmation covered them.
    retired: Vec<Ref>,
    waiting: VecDeque<(u64, Vec<Ref>)>,
    /// Covered by a confirmation, and replaced since the newest one.
    replaced: Vec<Ref>,
    /// Replaced, and not reached by the confirmation that closed the epoch.
    ended: VecDeque<(u64, Vec<Ref>)>,
    words: Vec<u64>,
    leaf_bytes: u64,
    salt: u64,
    /// Nodes that the newest root reaches.
    pub(crate) count: u64,
}

impl PageNodes {
    fn give_back(&mut self, pages: &mut Pages, node: Ref) {
        if pages.end(node) && pages.takes_nodes(node) {
            self.free[usize::from(node.len() > self.leaf_bytes)].push(node);
        }
    }
}

/// Makes the nodes of one change.
pub(crate) struct PageWriter<'s> {
    reader: &'s PageReader,
    nodes: &'s mut PageNodes,
    pages: &'s mut Pages,
    urgency: Urgency,
}

impl<'s> PageWriter<'s> {
    pub(crate) fn new(
        reader: &'s PageReader,
        nodes: &'s mut PageNodes,
        pages: &'s mut Pages,
        urgency: Urgency,
    ) -> PageWriter<'s> {
        PageWriter { reader, nodes, pages, urgency }
    }

    pub(crate) fn reader(&self) -> &'s PageReader {
        self.reader
    }

    /// The node that a link names. Error: `Damaged`.
    pub(crate) fn node(&self, link: u64, level: Option<u8>) -> Result<Node<'s>> {
        self.reader.node(link, level)
    }

    /// Most entries of a node.
    pub(crate) fn branching(&self) -> usize {
        self.reader.branching as usize
    }

    /// Takes a free place for a node, or allocates one.
    fn place(&mut self, level: u8) -> Result<Ref> {
        let len = node_bytes(level, self.reader.branching);
        if let Some(place) = self.nodes.free[usize::from(len > self.nodes.leaf_bytes)].pop() {
            self.pages.born(place);
            return Ok(place);
        }
        match self.pages.allocate(Filling::Nodes, len, self.urgency) {
            Some(offset) => Ok(Ref::new(offset, len)),
            None => Err(crate::space::full(self.pages, len)),
        }
    }

    /// Fills a place with a node, whose words `write` writes. It is summed and flushed by the next confirmation, if it is
    /// there by then.
    fn fill(&mut self, place: Ref, write: impl FnOnce(&mut [u64])) -> u64 {
        let offset = place.offset();
        let words = &mut self.nodes.words[..(place.len() - NODE_SUM_BYTES) as usize / 8];
        write(words);
        // Whatever is replaced before the confirmation is never flushed.
        let _span = trace::span(trace::TRANSIENT);
        self.pages.region.write(offset + NODE_SUM_BYTES, bytes_of(words));
        self.nodes.fresh.set(offset);
        self.nodes.gone.clear(offset);
        self.nodes.unseen.set(offset);
        self.nodes.made.push(place);
        self.nodes.count += 1;
        place.0
    }

    /// Whether no published root reaches a node.
    pub(crate) fn is_unseen(&self, link: u64) -> bool {
        self.nodes.unseen.is_set(Ref(link).offset())
    }

    /// Gives back a node that no published root reaches.
    pub(crate) fn undo(&mut self, link: u64) {
        self.nodes.undo(self.pages, link);
    }

    /// Allocates and writes a node. Returns its link. Error: `Full`.
    pub(crate) fn put(&mut self, node: &Build) -> Result<u64> {
        let place = self.place(node.level)?;
        let branching = self.reader.branching as usize;
        Ok(self.fill(place, |words| node.write(words, branching)))
    }

    /// Allocates and writes a copy of a node that differs in one entry. Returns its link. Error: `Full`.
    pub(crate) fn put_tweaked(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<u64> {
        let source = self.reader.node(link, Some(level))?;
        let place = self.place(level)?;
        let branching = self.reader.branching as usize;
        Ok(self.fill(place, |words| {
            words.copy_from_slice(source.words());
            tweak.apply(words, branching);
        }))
    }

    /// Changes an unseen node in place.
    pub(crate) fn change(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<()> {
        let source = self.reader.node(link, Some(level))?;
        let branching = self.reader.branching as usize;
        let words = &mut self.nodes.words[..source.words().len()];
        words.copy_from_slice(source.words());
        tweak.apply(words, branching);
        let _span = trace::span(trace::TRANSIENT);
        self.pages.region.write(Ref(link).offset() + NODE_SUM_BYTES, bytes_of(words));
        Ok(())
    }
}

impl PageNodes {
    pub(crate) fn new(layout: &Layout, pages: &Pages, records: &Records) -> (PageNodes, PageReader) {
        let nodes = PageNodes {
            fresh: LiveBits::new(&pages.geometry, LINE_BYTES),
            gone: LiveBits::new(&pages.geometry, LINE_BYTES),
            unseen: LiveBits::new(&pages.geometry, LINE_BYTES),
            made: Vec::new(),
            free: [Vec::new(), Vec::new()],
            retired: Vec::new(),
            waiting: VecDeque::new(),
            replaced: Vec::new(),
            ended: VecDeque::new(),
            words: vec![0; node_bytes(1, layout.branching) as usize / 8],
            leaf_bytes: node_bytes(0, layout.branching),
            salt: records.salt,
            count: 0,
        };
        let reader = PageReader {
            region: pages.region.clone(),
            geometry: pages.geometry,
            salt: records.salt,
            live: pages.live.clone(),
            branching: layout.branching,
        };
        (nodes, reader)
    }

    /// Gives back a node that no published root reaches, unless that was done.
    pub(crate) fn undo(&mut self, pages: &mut Pages, link: u64) {
        let node = Ref(link);
        if self.unseen.clear(node.offset()) {
            self.fresh.clear(node.offset());
            self.count -= 1;
            self.give_back(pages, node);
        }
    }

    /// Says that a published root reaches a node, if it is still there.
    pub(crate) fn seen(&mut self, link: u64) {
        self.unseen.clear(Ref(link).offset());
    }

    /// Retires a node that a published root has replaced. If a confirmation covers the node, its place also waits for the
    /// next confirmation, and for every snapshot to be dropped.
    pub(crate) fn retire(&mut self, link: u64) {
        let node = Ref(link);
        self.count = self.count.saturating_sub(1);
        // Planted: a node that a confirmation covers is reused before a confirmation no longer reaches it.
        if self.fresh.is_set(node.offset()) || planted(117) {
            self.gone.set(node.offset());
            self.retired.push(node);
        } else {
            self.replaced.push(node);
        }
    }

    /// Reuses the places of retired nodes that no reader can see. Cheap when there are few.
    pub(crate) fn recycle(&mut self, pages: &mut Pages, pins: &Pins, held: bool) {
        if self.retired.len() >= RETIRED_MAX {
            self.waiting.push_back((pins.advance(), std::mem::take(&mut self.retired)));
        }
        if self.waiting.is_empty() && (self.ended.is_empty() || held) {
            return;
        }
        let oldest = pins.oldest();
        // Planted: a node's place is reused although a reader is pinned.
        while self.waiting.front().is_some_and(|(epoch, _)| *epoch < oldest || planted(119)) {
            let (_, nodes) = self.waiting.pop_front().expect("there is a front");
            nodes.into_iter().for_each(|node| self.give_back(pages, node));
        }
        // Planted: a snapshot does not hold off the reuse of nodes.
        while (!held || planted(118)) && self.ended.front().is_some_and(|(epoch, _)| *epoch < oldest) {
            let (_, nodes) = self.ended.pop_front().expect("there is a front");
            nodes.into_iter().for_each(|node| self.give_back(pages, node));
        }
    }

    /// Called before each confirmation: sums the nodes that it will cover, and adds them to the batch.
    pub(crate) fn sum(&mut self, pages: &mut Pages) {
        let mut last = Ref(0);
        // A place that was used several times is in the list as often; the node there now is summed with the first.
        self.made.sort_unstable();
        for node in &self.made {
            let offset = node.offset();
            let is_there = *node != last && self.fresh.is_set(offset) && pages.live.is_set(offset);
            last = *node;
            if !is_there || self.dropped(*node) {
                continue;
            }
            // SAFETY: a node that no confirmation covers is changed only by the writer, who is here.
            let bytes = unsafe { pages.region.slice(offset + NODE_SUM_BYTES, node.len() - NODE_SUM_BYTES) };
            // SAFETY: as in PageReader::words().
            let words = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u64>(), bytes.len() / 8) };
            let sum = checksum(self.salt, offset, words);
            pages.region.store(offset, u64::from(sum));
            pages.batch.add(offset, node.len());
        }
    }

    /// Whether a node that no confirmation covers has been replaced.
    fn dropped(&self, node: Ref) -> bool {
        self.gone.is_set(node.offset())
    }

    /// Called after each confirmation.
    pub(crate) fn confirmed(&mut self, pins: &Pins) {
        for node in self.made.drain(..) {
            self.fresh.clear(node.offset());
            self.gone.clear(node.offset());
        }
        if !self.replaced.is_empty() {
            self.ended.push_back((pins.advance(), std::mem::take(&mut self.replaced)));
        }
    }

    /// Called when other content has replaced all: forgets the places kept for reuse.
    pub(crate) fn clear(&mut self) {
        // Planted: free places outlive the content they were in.
        if planted(121) {
            return;
        }
        self.free = [Vec::new(), Vec::new()];
        self.retired.clear();
        self.waiting.clear();
        self.replaced.clear();
        self.ended.clear();
    }

    /// Drops the free places that lie in retired pages, and closes the epoch of the nodes retired so far.
    pub(crate) fn leave_retired(&mut self, pages: &Pages, pins: &Pins) {
        // However few they are, they keep their pages from being freed.
        if !self.retired.is_empty() {
            self.waiting.push_back((pins.advance(), std::mem::take(&mut self.retired)));
        }
        for free in &mut self.free {
            free.retain(|node| !pages.is_retired(*node));
        }
    }

    /// Bytes of replaced nodes that still count as live.
    pub(crate) fn waiting_bytes(&self, live: &LiveBits) -> u64 {
        let lists = self.waiting.iter().chain(&self.ended).map(|(_, nodes)| nodes);
        let nodes = lists.chain([&self.retired, &self.replaced]).flatten();
        // A node that ended before the traversal had reached it was never counted.
        nodes.filter(|node| live.is_set(node.offset())).map(|node| node.len()).sum()
    }
}
