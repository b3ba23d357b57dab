//! Isolation levels.

/// How far a transaction is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed when it began.
    ReadCommitted,
    /// All statements see what was committed at the first consistent read.
    RepeatableRead,
}
