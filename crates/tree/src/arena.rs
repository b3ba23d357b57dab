//! The memory of nodes. A node that is given back serves as another; memory is freed with the tree.

use crate::node::Node;

/// Nodes that are made at once.
const BLOCK: usize = if cfg!(loom) { 2 } else { 64 };

/// All nodes of a tree.
#[derive(Default)]
pub(crate) struct Arena {
    /// Each is a box that was let go of: nodes are reached past it.
    blocks: Vec<*mut [Node]>,
    free: Vec<*const Node>,
}

// SAFETY: the pointers are to the arena's own blocks, and nodes are shared by design.
unsafe impl Send for Arena {}

impl Arena {
    /// A node that nobody reaches. It may be marked and changed like any other.
    pub(crate) fn take(&mut self) -> *const Node {
        if self.free.is_empty() {
            let block: *mut [Node] = Box::into_raw((0..BLOCK).map(|_| Node::new()).collect());
            // SAFETY: the block was made just now, and stays until the arena is dropped.
            self.free.extend(unsafe { &*block }.iter().map(|node| node as *const Node));
            self.blocks.push(block);
        }
        self.free.pop().expect("just made sure")
    }

    /// Takes back a node that no other node names.
    pub(crate) fn put(&mut self, node: *const Node) {
        self.free.push(node);
    }

    /// Bytes of all nodes, in use or not.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK * size_of::<Node>()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for block in self.blocks.drain(..) {
            // SAFETY: the tree is dropped with its arena, so nobody reaches a node any more.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}
