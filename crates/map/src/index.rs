//! What differs between the two structures: where the index lies.
//!
//! Nodes end in two ways. One that was made and never published is given back at once ([`Store::undo`]). One that was
//! replaced by a published root ([`Store::retire`]) may still be read: its place is used again when no pin is old enough,
//! and, if a confirmation covers it, after the confirmation that does without it and when no snapshot is held.

use crate::config::{Kind, Layout};
use crate::error::Result;
use crate::format::Ref;
use crate::live_bits::LiveBits;
use crate::node::Node;
use crate::pages::{Pages, Urgency};
use crate::pin::Pins;
use crate::record::Records;
use crate::tree::{Nodes, ReadNodes};

/// Where a map's index lies: [`crate::ListIndex`] or [`crate::TreeIndex`].
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

    /// To make nodes with.
    fn writer<'s>(&'s mut self, reader: &'s Self::Reader, pages: &'s mut Pages, urgency: Urgency) -> Self::Writer<'s>;

    /// Gives a node back that was never published.
    fn undo(&mut self, pages: &mut Pages, link: u64);

    /// A published root does without this node.
    fn retire(&mut self, pages: &mut Pages, link: u64);

    /// Uses places again that no reader is left for. Cheap when there is little to do.
    fn recycle(&mut self, pages: &mut Pages, pins: &Pins, snapshots: u64);

    /// A confirmation has been made.
    fn confirmed(&mut self, pages: &mut Pages, pins: &Pins);

    /// The word that names a root for a root record (0 if the index is made anew at start).
    fn saved(link: u64) -> u64;

    /// The content has been replaced as a whole: what is known of places to be used again is void.
    fn clear(&mut self, pages: &mut Pages, reader: &Self::Reader, old_root: u64);

    /// Uses no place in retired pages again, and lets go of what was replaced so far.
    fn leave_retired(&mut self, pages: &Pages, pins: &Pins);

    /// The node that lies at an offset in a page of nodes.
    fn place(reader: &Self::Reader, offset: u64) -> Result<Ref>;

    /// Bytes of nodes that have been replaced and still count as live.
    fn waiting_bytes(&self, live: &LiveBits) -> u64;

    /// Reads and checks the node at `link` though the live bits vouch for it.
    fn verify(reader: &Self::Reader, link: u64) -> Result<()>;
}

/// Calls `each` with the link of every node at and below `root`, and the node, parents first.
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
