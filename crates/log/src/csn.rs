//! The numbers that commits and transactions go by.

/// Commit sequence number: the place of a commit in the order of all, from 1.
pub type Csn = u64;
/// Transaction id, never given twice in a pool (48 bits).
pub type TxnId = u64;
