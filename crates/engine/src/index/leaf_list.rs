//! The list of a table's leaves in DRAM. It grows at its end, and what is in it stays where it is.

use super::leaf::LeafId;
use std::sync::OnceLock;

/// Number of leaves in the first bucket; each further one has as many as all before it.
const FIRST: u32 = 64;
const BUCKETS: usize = 27;

/// States of a table's leaves in DRAM, by number. Readers take no lock.
pub(super) struct LeafList<T> {
    buckets: [OnceLock<Box<[T]>>; BUCKETS],
}

impl<T> Default for LeafList<T> {
    fn default() -> LeafList<T> {
        LeafList { buckets: [const { OnceLock::new() }; BUCKETS] }
    }
}

impl<T: Default> LeafList<T> {
    /// Makes room for leaf `leaf`.
    pub(super) fn make(&self, leaf: LeafId) {
        let (bucket, _, length) = place(leaf);
        self.buckets[bucket].get_or_init(|| (0..length).map(|_| T::default()).collect());
    }

    /// Leaf `leaf`, for which there is room.
    #[inline]
    pub(super) fn get(&self, leaf: LeafId) -> &T {
        let (bucket, index, _) = place(leaf);
        &self.buckets[bucket].get().expect("the number of a leaf")[index as usize]
    }
}

/// Bucket of a leaf, index in the bucket, and length of the bucket.
#[inline]
fn place(leaf: LeafId) -> (usize, u32, usize) {
    let bucket = (leaf / FIRST + 1).ilog2();
    let first = ((1 << bucket) - 1) * FIRST;
    (bucket as usize, leaf - first, (FIRST as usize) << bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leaf_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for leaf in 0..10_000 {
            let (bucket, index, length) = place(leaf);
            assert_eq!((bucket, index), expected, "leaf {leaf}");
            expected = if index as usize + 1 == length { (bucket + 1, 0) } else { (bucket, index + 1) };
        }
        let (bucket, index, length) = place(LeafId::MAX);
        assert!(bucket < BUCKETS && (index as usize) < length);
    }
}
