//! Files mapped through libpmem2.
//!
//! What kind of memory lies below a directory is found once, by a trial mapping ([`probe`]); each file is then mapped
//! at a 2 MiB boundary and handed to libpmem2, which chooses the flush and copy functions ([`mapping`]).

mod allocate;
mod ffi;
mod mapping;
mod medium;
mod probe;

pub use medium::{FileMedium, Options};
