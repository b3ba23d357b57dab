//! Room *space*: one allocator a table, which knows what of the table's files is free.
//!
//! It owns free segments and cells, free directory pages and RIDs, the shards that hand them to sessions, the sweep that finds them
//! again after a restart, and the queue of superseded versions that purge reclaims. All of that is DRAM, and a restart
//! derives it from the directory. It stands on `files`. It keeps (I3): the use of a segment or page is durable before
//! anything in it can be named by a committed record; and (I8): what was freed is handed out again only after purge, which its
//! caller limits to what no snapshot and no redo needs.

pub mod allocator;
pub mod bulk_segment;
pub mod directory_space;
pub mod free;
pub mod losses;
pub mod open_cells;
pub mod purge;
pub mod segments;
pub mod shard;
pub mod sweep;
