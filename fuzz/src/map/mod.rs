//! Bodies of the ordered maps' fuzz targets: a map's file, a snapshot's chunks, and the arguments
//! of the C interface.
//!
//! The input is a program of changes to something sound, so that the empty input is sound and
//! mutations stay close to what the map expects. If bytes are changed and their checksum is not,
//! the change is found or harmless: a read returns what was persisted, or an error. If the input
//! corrects the checksums, a read may return anything, but nothing panics and every call ends.
//!
//! The same bodies run, seeded, in every `make test`: see `crates/capi/tests/map_fuzz.rs`.
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
