//! Room *changes*: what a transaction has written and not yet published.
//!
//! It owns the write set, single rows and bulk inserts, and knows how to undo, log, publish and
//! retire it. What a transaction does to a page is in the page's shadow; the write set names the
//! pages. It knows nothing of waits, snapshots or sessions. It stands on `table`, `space` and
//! `shadow`. It keeps (I4): nothing published names what was written until its caller publishes;
//! (I3): it flushes what it writes and tells its caller what to fence before another thread goes
//! on; (I6): a record carries the checksums of what it names; and (I8): it settles which RIDs a
//! bulk insert leaves free before the pages are published.
//!
//! The write set has one `table_writes` for each table, which is composed of the touched pages with
//! their `memory`, the `versions` written (in `own_segments` once they are many), a `bulk` insert,
//! the `index_writes`, and the rows that its consistent reads leave out or find by newer entries.
//! `spill` and `table_records` work on these parts, and `deferred_flush` is the pool's.

pub(crate) mod bulk;
pub(crate) mod deferred_flush;
mod index_writes;
pub(crate) mod memory;
pub(crate) mod own_segments;
pub(crate) mod row_request;
mod spill;
mod table_records;
pub(crate) mod table_writes;
mod target;
mod touched;
mod versions;
pub(crate) mod write_set;
