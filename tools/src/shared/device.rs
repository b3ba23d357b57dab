//! The block device below a directory: how much was written to it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Bytes of a sector in the kernel's statistics.
const SECTOR_BYTES: u64 = 512;
/// Field of the statistics with the sectors written.
const SECTORS_WRITTEN: usize = 6;

/// Bytes written since the machine started to the device below `directory`, once all that was
/// written before is there. `None` if no device is: a file system in DRAM, say.
pub fn bytes_written(directory: &Path) -> Result<Option<u64>> {
    rustix::fs::sync();
    let device = std::fs::metadata(directory).with_context(|| directory.display().to_string())?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let Ok(text) = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")) else { return Ok(None) };
    let sectors = text.split_whitespace().nth(SECTORS_WRITTEN).context("a block device without statistics")?;
    Ok(Some(sectors.parse::<u64>()? * SECTOR_BYTES))
}
