//! The two numbers that name a transaction: its id from its start, its CSN from its commit on.

/// Commit sequence number: the place of a commit in the order of all, from 1.
pub type Csn = u64;
/// Transaction id, never given twice in a pool (48 bits).
pub type TxnId = u64;
