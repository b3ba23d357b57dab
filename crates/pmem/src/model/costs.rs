//! Times of the presets, in picoseconds, beyond those of the memory below; their sources are in
//! `docs/operations.md`.

use super::preset::Preset;
use crate::units::LINE_BYTES;

/// Bytes of the buffer by which a device may be behind its writers.
const BUFFER_BYTES: u64 = 16 << 10;
/// Time of a remote access in percent of a local one (NF-log, SNU 2022, 1.3.2).
const REMOTE_READ: u64 = 153;
const REMOTE_WRITE: u64 = 204;

/// Prices of a device, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// The thread's time for a fence.
    pub(super) fence: u64,
    /// The thread's time for a line written.
    pub(super) line: u64,
    /// The thread's time for a line read that is neither cached nor next to the last one.
    pub(super) read: u64,
    /// The thread's time for a line read that is next to the last one.
    pub(super) read_next: u64,
    /// Lines of a block, the unit of the device; at most 32.
    pub(super) block_lines: u64,
    /// The device's time to write a block.
    pub(super) block_write: u64,
    /// The device's time to read a block.
    pub(super) block_read: u64,
    /// The device's time that may be outstanding while its writers go on.
    pub(super) behind: u64,
}

impl Costs {
    /// Prices for threads of the device's own node.
    pub(super) const fn of(preset: Preset) -> Costs {
        match preset {
            Preset::Optane => Costs::device(120_000, 12_000, 204_000, 256, (2_300, 6_600)),
            Preset::NvCmm => Costs::device(100_000, 2_000, 100_000, 64, (32_000, 32_000)),
            Preset::Dram => Costs {
                fence: 0,
                line: 0,
                read: 0,
                read_next: 0,
                block_lines: 1,
                block_write: 0,
                block_read: 0,
                behind: 0,
            },
        }
    }

    /// Prices by latencies, the bytes of a block, and the rates of writing and reading in MB/s.
    const fn device(fence: u64, line: u64, read: u64, block_bytes: u64, rates: (u64, u64)) -> Costs {
        // A byte takes 10^12 / 10^6 picoseconds by the rate in MB/s.
        let (write, sequential) = (1_000_000 * block_bytes / rates.0, 1_000_000 * block_bytes / rates.1);
        Costs {
            fence,
            line,
            read,
            read_next: 1_000_000 * LINE_BYTES / rates.1,
            block_lines: block_bytes / LINE_BYTES,
            block_write: write,
            block_read: sequential,
            behind: BUFFER_BYTES / block_bytes * write,
        }
    }

    /// Prices for threads of other nodes. The device itself is as fast as before.
    pub(super) const fn remote(self) -> Costs {
        Costs {
            fence: self.fence * REMOTE_WRITE / 100,
            line: self.line * REMOTE_WRITE / 100,
            read: self.read * REMOTE_READ / 100,
            read_next: self.read_next * REMOTE_READ / 100,
            ..self
        }
    }
}
