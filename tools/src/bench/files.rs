//! Lengths of files.

use std::path::Path;

use anyhow::{Context, Result};

/// Bytes of the files in `directory` whose names count.
pub fn lengths(directory: &Path, counts: impl Fn(&str) -> bool) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        if counts(&entry.file_name().to_string_lossy()) {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
