//! Fuzz bodies of the ordered maps: a map's file, a snapshot's chunks, and the arguments of the C interface.
//!
//! Input is a program of changes to something sound, so that the empty input is sound and mutations stay close to what the
//! map expects. Bytes that a checksum covers and that were changed without it are found out, or they do not matter: what
//! is read is what was confirmed, or an error. Where the input makes the checksums right again anything may be read, but
//! nothing panics and everything ends.
//!
//! The same bodies run, seeded, in every `make test`: see `crates/capi/tests/map_fuzz.rs`.

mod forge;
mod input;
mod interface;
mod model;
mod region;
mod stream;
mod subject;

pub use forge::{Shape, objects};
pub use interface::interface;
pub use region::region;
pub use stream::stream;
pub use subject::{FILE_BYTES, NAME, kind, subject};
