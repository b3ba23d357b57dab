//! A directory on the medium for one system and one run, removed on drop, even by a panic.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A directory of this process's own.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory below `base`, which it creates if need be. Panics if it cannot.
    pub fn new(base: &Path) -> Scratch {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("perdura-bench-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Scratch(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}
