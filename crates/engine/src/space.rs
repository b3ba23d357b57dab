//! Room *space*: the allocator of a table, which knows what is free in the table's files.
//!
//! It owns free segments and cells, free directory pages and RIDs, the shards that hand them to
//! sessions, the sweep that finds them again after a restart, and the queue of superseded versions
//! that purge reclaims. All of that is DRAM; a restart derives it from segment descriptors and the
//! row directory. It stands on `files`. It keeps (I3): the use of a segment or page is durable
//! before a committed record can name anything in it; (I4): a cell that no directory word names is
//! free; and (I8): a committed version's cell and RID are handed out again only after purge, which
//! the pool limits to what no snapshot and no redo needs.

pub(crate) mod allocator;
pub(crate) mod bulk_segment;
pub(crate) mod directory_space;
pub(crate) mod emptying;
pub(crate) mod extents;
pub(crate) mod file_return;
pub(crate) mod fragmentation;
pub(crate) mod free;
pub(crate) mod free_rids;
pub(crate) mod open_cells;
pub(crate) mod purge;
pub(crate) mod segments;
pub(crate) mod shard;
pub(crate) mod sparse;
pub(crate) mod sweep;
