//! Bodies of the fuzz targets of perdura-kv: all bytes that it reads from others or from its files.
//!
//! `crates/kv/tests/fuzz.rs` runs them, seeded, in every `make test`.

mod entries;
mod files;
mod frames;
#[path = "../map/input.rs"]
mod input;
mod replica;
mod requests;

pub use entries::entries;
pub use files::files;
pub use frames::frames;
pub use replica::replica;
pub use requests::requests;
