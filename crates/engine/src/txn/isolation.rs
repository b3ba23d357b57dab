//! The isolation levels that the engine offers.

/// Which commits the statements of a transaction see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed at its first read.
    ReadCommitted,
    /// All statements see what was committed at the transaction's first consistent read.
    RepeatableRead,
}
