//! Room *changes*: what a transaction has written and not published yet.
//!
//! It owns the write set (single rows and bulk inserts), and how that is taken back, logged and published. It knows nothing of locks,
//! snapshots or sessions. It stands on `table` and `space`. It keeps (I4): until its caller publishes, nothing persistent names
//! what was written; (I3): whoever hands a write set to another thread has flushed and fenced it; and (I8): RIDs that a bulk
//! insert leaves free are settled before its pages are published.

pub mod bulk;
pub mod row_writes;
pub mod write_set;
