//! Room *changes*: what a transaction has written and not yet published.
//!
//! It owns the write set, single rows and bulk inserts, and knows how to undo, log, publish and retire it. It knows
//! nothing of locks, snapshots or sessions. It stands on `table` and `space`. It keeps (I4): nothing published names
//! what was written until its caller publishes; (I3): it flushes what it writes and tells its caller what to fence
//! before another thread goes on; (I6): a bulk page's record carries the checksum of its words and versions; and (I8):
//! it settles which RIDs a bulk insert leaves free before the pages are published.

pub mod bulk;
pub mod row_writes;
pub mod write_set;
