//! State that readers and the writer share: the root, and where the keys are.

use crate::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::node::Node;

/// State that readers and the writer share.
pub(crate) struct Trunk<K> {
    pub(crate) keys: K,
    root: AtomicPtr<Node>,
    entries: AtomicU64,
}

impl<K> Trunk<K> {
    /// A tree whose only node is `root`, an empty leaf.
    pub(crate) fn new(keys: K, root: *const Node) -> Trunk<K> {
        Trunk { keys, root: AtomicPtr::new(root.cast_mut()), entries: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn root(&self) -> *const Node {
        self.root.load(Ordering::Acquire)
    }

    /// Makes `root` the root; the writer has marked the one before.
    pub(crate) fn set_root(&self, root: *const Node) {
        self.root.store(root.cast_mut(), Ordering::Release);
    }

    /// Number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Counts entries; for the writer, which alone does.
    pub(crate) fn count(&self, added: i64) {
        self.entries.store(self.entries().wrapping_add_signed(added), Ordering::Relaxed);
    }
}
