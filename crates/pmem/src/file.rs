//! Files mapped through libpmem2.
//!
//! A trial mapping ([`probe`]) finds once what kind of memory lies below a directory. Each file is
//! then mapped at a 2 MiB boundary and handed to libpmem2, which chooses the flush and copy
//! functions ([`mapping`]).

mod allocate;
mod ffi;
mod mapping;
mod medium;
mod probe;

pub use medium::{FileMedium, Options};
