//! Files mapped through libpmem2.
//!
//! A trial mapping ([`probe`]) finds once what kind of memory lies below a directory. Each file is
//! then mapped at a 2 MiB boundary and handed to libpmem2, which chooses the flush and copy
//! functions ([`mapping`]). On a disk a fence ([`fence`], [`noted`]) syncs pages ([`paged`],
//! [`syncs`]) or writes them to a journal ([`journal`]), and a page that cannot be read ends the
//! medium, not the process ([`bus`]); what is dirty is written back ahead ([`write_back`]); files
//! of the log are written there ([`written`]), by [`sectors`]. A pool that is only read is mapped
//! privately ([`viewed`]).

mod allocate;
mod bus;
mod fence;
mod ffi;
mod journal;
mod mapping;
mod medium;
mod noted;
mod paged;
mod probe;
mod sectors;
mod syncs;
mod viewed;
mod write_back;
mod written;

pub(crate) use journal::{end_journal_beside, is_segment};
pub use medium::{FileMedium, Options};
