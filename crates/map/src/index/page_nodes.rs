//! The B+-tree's nodes: in pages of persistent memory, so that a root record names a whole version
//! of the tree.
//!
//! A link is a reference. A node is valid iff it lies within the pages, has the length of its
//! level, has one to `branching` entries, and its CRC32C, bound to its place, matches. The checksum
//! is skipped if the live bit is set, which says that the node was written or checked since the map
//! was opened. The place of a node is reused only when neither the newest persist nor a
//! snapshot nor a reader can reach the node. Keeps (I8).

use crate::config::Layout;
use crate::error::Result;
use crate::index::page_node::{Build, Node, Tweak};
use crate::memory::bitmap::Bitmap;
use crate::memory::format::{NODE_CHECKSUM_BYTES, Ref, bytes_of, checksum, node_bytes};
use crate::memory::pages::{Filling, Pages, Urgency};
use crate::memory::pin::Pins;
use crate::memory::record::Records;
use crate::memory::retired::Retired;
use perdura_pmem::{LINE_BYTES, Mutant, planted, trace};

/// Retired nodes that close an epoch.
const RETIRED_MAX: usize = 32;
/// Retired nodes given back in one step under the writer's lock. A change retires a few.
const GIVEN_BACK_MAX: usize = 256;
/// Free places kept for reuse, of each length. The collector empties the pages of further ones.
const FREE_MAX: usize = 4096;

/// Reads nodes in pages.
pub(crate) struct PageReader {
    pub(crate) records: Records,
    branching: u32,
}

impl PageReader {
    #[cold]
    fn verify(&self, offset: u64, words: &[u64]) -> Result<()> {
        let Records { region, salt, .. } = &self.records;
        if region.load(offset) == u64::from(checksum(*salt, offset, words)) {
            return Ok(());
        }
        Err(self.records.damaged(offset, "the checksum of a node does not match"))
    }

    #[inline]
    fn words(&self, link: u64, level: Option<u8>) -> Result<&[u64]> {
        let place = Ref(link);
        let (offset, len) = (place.offset(), place.len());
        if !self.records.geometry.holds(offset, len) || len < node_bytes(0, self.branching) || offset % LINE_BYTES != 0
        {
            return Err(self.records.damaged(offset, "a link to a node points outside the pages"));
        }
        // SAFETY: the range lies within the region, and a node is not stored to while a reader can
        // reach it.
        let bytes = unsafe { self.records.region.slice(offset + NODE_CHECKSUM_BYTES, len - NODE_CHECKSUM_BYTES) };
        // SAFETY: the offset is a multiple of 8 and the region's base of 64.
        let words = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u64>(), bytes.len() / 8) };
        let (count, found) = (words[0] & 0xff, (words[0] >> 8) as u8);
        let fits = count >= 1 && count <= u64::from(self.branching);
        if !fits || len != node_bytes(found, self.branching) || level.is_some_and(|level| level != found) {
            return Err(self.records.damaged(offset, "a node with an impossible header"));
        }
        Ok(words)
    }

    /// The node that a link names, checked as far as reading it safely requires. The caller holds
    /// the writer's lock, or a pin taken before it loaded the root. Error: `Damaged`, also if it is
    /// not of `level`.
    #[inline]
    pub(crate) fn node(&self, link: u64, level: Option<u8>) -> Result<Node<'_>> {
        let words = self.words(link, level)?;
        if !self.records.live.is_set(Ref(link).offset()) {
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
        Ref::new(offset, node_bytes(self.level_at(offset), self.branching))
    }

    /// Most entries of a node.
    pub(crate) fn branching(&self) -> usize {
        self.branching as usize
    }

    /// Bytes of the longest node.
    pub(crate) fn node_bytes_max(&self) -> u64 {
        node_bytes(1, self.branching)
    }

    /// The level of a node that was checked.
    #[inline]
    pub(crate) fn level(&self, link: u64) -> u8 {
        self.level_at(Ref(link).offset())
    }

    #[inline]
    fn level_at(&self, offset: u64) -> u8 {
        (self.records.region.load(offset + NODE_CHECKSUM_BYTES) >> 8) as u8
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
    /// Set where a node lies that no persist covers and the next one will.
    fresh: Bitmap,
    /// Set where a node lies that no published root reaches. It may change in place.
    unseen: Bitmap,
    /// Nodes made since the last persist; some of them have gone.
    made: Vec<Ref>,
    /// Free places, those as long as a leaf and longer ones. With few entries per node, inner nodes
    /// are as long as leaves.
    free: [Vec<Ref>; 2],
    /// Replaced before a persist covered them. A few dozen close an epoch.
    retired: Retired<Ref>,
    /// Covered by a persist, and replaced. Each persist closes an epoch of them.
    replaced: Retired<Ref>,
    words: Vec<u64>,
    leaf_bytes: u64,
    salt: u64,
    /// Nodes that the newest root reaches.
    pub(crate) count: u64,
}

impl PageNodes {
    fn give_back(&mut self, pages: &mut Pages, node: Ref) {
        let free = &mut self.free[usize::from(node.len() > self.leaf_bytes)];
        if pages.end(node) && pages.takes_nodes(node) && free.len() < FREE_MAX {
            free.push(node);
        }
    }
}

/// Changes of the tree: the new root, and the nodes that they made and replaced. The caller
/// publishes the root and retires what was replaced, or undoes what was made. What was made and
/// replaced within one edit has gone already.
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
}

/// Makes and replaces the nodes of an edit.
pub(crate) struct PageWriter<'s> {
    pub(crate) reader: &'s PageReader,
    pub(crate) nodes: &'s mut PageNodes,
    pub(crate) pages: &'s mut Pages,
    pub(crate) edit: &'s mut Edit,
    pub(crate) urgency: Urgency,
}

impl<'s> PageWriter<'s> {
    pub(crate) fn records(&self) -> &'s Records {
        &self.reader.records
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
            None => Err(self.pages.full(len)),
        }
    }

    /// Stores the words of a node, which `write` writes.
    fn store(&mut self, place: Ref, write: impl FnOnce(&mut [u64])) {
        let words = &mut self.nodes.words[..(place.len() - NODE_CHECKSUM_BYTES) as usize / 8];
        write(words);
        // A node that is replaced before the persist is never flushed.
        let _span = trace::span(trace::TRANSIENT);
        self.pages.region.write(place.offset() + NODE_CHECKSUM_BYTES, bytes_of(words));
    }

    /// Makes a node, whose words `write` writes. The next persist adds its checksum and flushes it,
    /// if it is there by then. Returns its link. Error: `Full`.
    fn make(&mut self, level: u8, write: impl FnOnce(&mut [u64])) -> Result<u64> {
        let place = self.place(level)?;
        self.store(place, write);
        self.nodes.fresh.set(place.offset());
        self.nodes.unseen.set(place.offset());
        self.nodes.made.push(place);
        self.nodes.count += 1;
        self.edit.made.push(place.0);
        Ok(place.0)
    }

    /// Makes a node of what was built. Returns its link. Error: `Full`.
    pub(crate) fn put(&mut self, node: &mut Build) -> Result<u64> {
        node.settle(self.records())?;
        self.put_settled(node)
    }

    /// Makes a node of what was built, whose heads are up to date.
    pub(crate) fn put_settled(&mut self, node: &Build) -> Result<u64> {
        let branching = self.branching();
        self.make(node.level, |words| node.write(words, branching))
    }

    /// Replaces a node by a copy that differs in one entry. Returns its link. Error: `Full`.
    pub(crate) fn put_tweaked(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<u64> {
        let (source, branching) = (self.node(link, Some(level))?, self.branching());
        let new = self.make(level, |words| {
            words.copy_from_slice(source.words());
            tweak.apply(words, branching);
        })?;
        self.replace(link);
        Ok(new)
    }

    /// Changes one entry of an unseen node in place. Returns its link.
    pub(crate) fn change(&mut self, link: u64, level: u8, tweak: &Tweak) -> Result<u64> {
        let (source, branching) = (self.node(link, Some(level))?, self.branching());
        self.store(Ref(link), |words| {
            words.copy_from_slice(source.words());
            tweak.apply(words, branching);
        });
        Ok(link)
    }

    /// Whether no published root reaches a node.
    pub(crate) fn is_unseen(&self, link: u64) -> bool {
        self.nodes.unseen.is_set(Ref(link).offset())
    }

    /// Notes that the root no longer reaches a node. One that nobody has seen is given back at
    /// once.
    pub(crate) fn replace(&mut self, link: u64) {
        if self.is_unseen(link) {
            self.nodes.undo(self.pages, link);
        } else {
            self.edit.replaced.push(link);
        }
    }
}

impl PageNodes {
    /// The nodes of a tree that has `count`, and their reader.
    pub(crate) fn new(layout: &Layout, pages: &Pages, records: &Records, count: u64) -> (PageNodes, PageReader) {
        let nodes = PageNodes {
            fresh: Bitmap::new(&pages.geometry, LINE_BYTES),
            unseen: Bitmap::new(&pages.geometry, LINE_BYTES),
            made: Vec::new(),
            free: [Vec::new(), Vec::new()],
            retired: Retired::default(),
            replaced: Retired::default(),
            words: vec![0; node_bytes(1, layout.branching) as usize / 8],
            leaf_bytes: node_bytes(0, layout.branching),
            salt: records.salt,
            count,
        };
        let reader = PageReader { records: records.clone(), branching: layout.branching };
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

    /// Retires a node that a published root has replaced. If a persist covers the node, its
    /// place also waits for the next persist, and for every snapshot to be dropped.
    pub(crate) fn retire(&mut self, link: u64) {
        let node = Ref(link);
        self.count = self.count.saturating_sub(1);
        // Planted: a node that a persist covers is reused before a persist no longer
        // reaches it.
        if self.fresh.clear(node.offset()) || planted(Mutant::NodeReusedBeforePersist) {
            self.retired.add(node);
        } else {
            self.replaced.add(node);
        }
    }

    /// Reuses the places of retired nodes that no reader can see, some in each step. Returns
    /// whether there are more.
    #[inline]
    pub(crate) fn recycle(&mut self, pages: &mut Pages, pins: &Pins, held: bool) -> bool {
        if self.retired.present() >= RETIRED_MAX {
            self.retired.close(pins);
        }
        // Planted: a snapshot does not hold off the reuse of nodes.
        let held = held && !planted(Mutant::SnapshotHoldsNoNodes);
        let waits = self.retired.has_closed() || !held && self.replaced.has_closed();
        waits && self.give_back_ended(pages, pins.oldest(), held)
    }

    fn give_back_ended(&mut self, pages: &mut Pages, oldest: u64, held: bool) -> bool {
        for _ in 0..GIVEN_BACK_MAX {
            // Planted: a node's place is reused although a reader is pinned.
            let retired =
                self.retired.take_before(if planted(Mutant::NodeReusedUnderReader) { u64::MAX } else { oldest });
            let replaced = || if held { None } else { self.replaced.take_before(oldest) };
            let Some(node) = retired.or_else(replaced) else { return false };
            self.give_back(pages, node);
        }
        self.retired.has_before(oldest) || !held && self.replaced.has_before(oldest)
    }

    /// Called before each persist: adds the checksums of nodes that it will cover, and the nodes to
    /// the batch.
    pub(crate) fn add_checksums(&mut self, pages: &mut Pages) {
        let mut last = Ref(0);
        // A place that was used several times is in the list as often; the node there now gets its
        // checksum with the first.
        self.made.sort_unstable();
        for node in &self.made {
            let offset = node.offset();
            let is_there = *node != last && self.fresh.is_set(offset) && pages.live.is_set(offset);
            last = *node;
            if !is_there {
                continue;
            }
            self.add_checksum(pages, *node);
            pages.batch.add(offset, node.len());
        }
    }

    /// Adds the checksums of nodes that were replaced before a persist: readers who still see them
    /// check them once they do not count as live any more.
    pub(crate) fn add_checksums_for_readers(&self, pages: &Pages) {
        let _span = trace::span(trace::TRANSIENT);
        let waiting = self.retired.iter().filter(|node| pages.live.is_set(node.offset()));
        waiting.for_each(|node| self.add_checksum(pages, *node));
    }

    fn add_checksum(&self, pages: &Pages, node: Ref) {
        let offset = node.offset();
        // SAFETY: the words of a node that is published or that no persist covers are changed only
        // by the writer, which is here.
        let bytes = unsafe { pages.region.slice(offset + NODE_CHECKSUM_BYTES, node.len() - NODE_CHECKSUM_BYTES) };
        // SAFETY: as in PageReader::words().
        let words = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u64>(), bytes.len() / 8) };
        pages.region.store(offset, u64::from(checksum(self.salt, offset, words)));
    }

    /// Called after each persist.
    pub(crate) fn persisted(&mut self, pins: &Pins) {
        for node in self.made.drain(..) {
            self.fresh.clear(node.offset());
        }
        self.replaced.close(pins);
    }

    /// Called when other content has replaced all: forgets the places kept for reuse.
    pub(crate) fn clear(&mut self) {
        // Planted: free places outlive the content they were in.
        if planted(Mutant::NodePlacesSurviveLoad) {
            return;
        }
        self.free = [Vec::new(), Vec::new()];
        self.retired.clear();
        self.replaced.clear();
    }

    /// Drops the free places that lie in retired pages, and closes the epoch of the nodes retired
    /// so far.
    pub(crate) fn leave_retired(&mut self, pages: &Pages, pins: &Pins) {
        // However few they are, they keep their pages from being freed.
        self.retired.close(pins);
        for free in &mut self.free {
            free.retain(|node| !pages.is_retired(*node));
        }
    }

    /// Bytes of replaced nodes that still count as live.
    pub(crate) fn waiting_bytes(&self, live: &Bitmap) -> u64 {
        let nodes = self.retired.iter().chain(self.replaced.iter());
        // A node that ended before the traversal had reached it was never counted.
        nodes.filter(|node| live.is_set(node.offset())).map(|node| node.len()).sum()
    }
}
