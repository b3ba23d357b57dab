//! Bodies of the fuzz targets of the medium: the journal of fences, and the files by which the two
//! directories of a pool know each other.
//!
//! `crates/pmem/tests/fuzz.rs` runs them, seeded, in every `make test`.

#[path = "../map/input.rs"]
mod input;
mod journal;
mod pair;

pub use journal::journal;
pub use pair::pair;

use perdura_pmem::{FileMedium, Medium, Options, Result};
use std::path::Path;
use tempfile::TempDir;

/// A directory in DRAM, where there is such a file system.
fn directory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a temporary directory")
}

/// Opens a directory on whatever it lies, which ends its journal.
fn open(directory: &Path) -> Result<FileMedium> {
    FileMedium::open(directory, Options { emulate: true, ..Options::default() })
}

/// Names and bytes of all files of a medium.
fn content(medium: &dyn Medium) -> Vec<(String, Vec<u8>)> {
    let files = medium.list().expect("it lists").into_iter();
    files
        .map(|(name, len)| {
            let mut bytes = vec![0; len as usize];
            medium.open(&name).expect("it is there").read(0, &mut bytes);
            (name, bytes)
        })
        .collect()
}
