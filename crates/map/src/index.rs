//! What differs between the two structures: where the index lies.
//!
//! A node goes in one of two ways. One that was never published is given back at once ([`Store::undo`]). One that a
//! published root has replaced ([`Store::retire`]) may still be read: its place is reused when every pin is younger. If
//! a confirmation covers the node, its place also waits for the next confirmation, and for every snapshot to be
//! dropped.

use crate::config::{Kind, Layout};
use crate::error::Result;
use crate::format::Ref;
use crate::live_bits::LiveBits;
use crate::node::Node;
use crate::pages::{Pages, Urgency};
use crate::pin::Pins;
use crate::record::Records;
use crate::tree::{Nodes, ReadNodes};

/// Where a map's index lies: [`crate::ListIndex`] (DRAM) or [`crate::TreeIndex`] (pages).
#[allow(private_bounds, reason = "only this crate's two structures are meant")]
pub trait Index: Send + Sync + 'static {
    #[doc(hidden)]
    const KIND: Kind;
    #[doc(hidden)]
    type Store: Store;
}

/// The writer's side of an index.
pub(crate) trait Store: Sized + Send + 'static {
    type Reader: ReadNodes + Send + Sync;
    type Writer<'s>: Nodes
    where
        Self: 's;

    fn new(layout: &Layout, pages: &Pages, records: &Records) -> (Self, Self::Reader);

    /// Lends what makes the nodes of one change.
    fn writer<'s>(&'s mut self, reader: &'s Self::Reader, pages: &'s mut Pages, urgency: Urgency) -> Self::Writer<'s>;

    /// Gives back a node that was never published.
    fn undo(&mut self, pages: &mut Pages, link: u64);

    /// Retires a node that a published root has replaced.
    fn retire(&mut self, pages: &mut Pages, link: u64);

    /// Reuses the places of retired nodes that no reader can see. Cheap when there are few.
    fn recycle(&mut self, pages: &mut Pages, pins: &Pins, snapshots: u64);

    /// Called after each confirmation.
    fn confirmed(&mut self, pages: &mut Pages, pins: &Pins);

    /// The root as a root record names it. 0 for an index that is rebuilt at start.
    fn saved(link: u64) -> u64;

    /// Called when a snapshot has replaced the whole content: forgets all places kept for reuse.
    fn clear(&mut self, pages: &mut Pages, reader: &Self::Reader, old_root: u64);

    /// Drops the free places that lie in retired pages, and closes the epoch of the nodes retired so far.
    fn leave_retired(&mut self, pages: &Pages, pins: &Pins);

    /// The node at an offset in a page of nodes.
    fn place(reader: &Self::Reader, offset: u64) -> Result<Ref>;

    /// Bytes of replaced nodes that still count as live.
    fn waiting_bytes(&self, live: &LiveBits) -> u64;

    /// Reads and checks the node at `link`, also when its live bit is set.
    fn verify(reader: &Self::Reader, link: u64) -> Result<()>;
}

/// Calls `each` with every node at and below `root`, parents first, and its link.
pub(crate) fn for_each_node(
    reader: &(impl ReadNodes + ?Sized),
    root: u64,
    each: &mut dyn FnMut(u64, &Node<'_>) -> Result<()>,
) -> Result<()> {
    let mut stack = if root == 0 { Vec::new() } else { vec![(root, None)] };
    while let Some((link, level)) = stack.pop() {
        let node = reader.node(link, level)?;
        each(link, &node)?;
        if node.level() > 0 {
            stack.extend((0..node.len()).rev().map(|index| (node.child(index), Some(node.level() - 1))));
        }
    }
    Ok(())
}
