//! The direction of a walk through an index.

/// The direction in which a cursor looks for its first entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards larger keys.
    Forward,
    /// Towards smaller keys.
    Backward,
}
