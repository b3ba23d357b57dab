//! Writes of files past the mapping: a file system on persistent memory copies what `pwrite` gives
//! it past the caches, and fences at a sync.

use super::device::Device;
use super::preset::Model;
use crate::numa::node_of_each_cpu;

/// The most bytes of a file; the next one begins behind them in the device.
const FILE_BYTES: u64 = 1 << 40;

/// A modelled device that is written by calls of the kernel. The calls themselves take their own
/// time, in whichever file system; this is the device's.
pub struct ModelledWrites(Device);

impl ModelledWrites {
    /// An idle device.
    pub fn new(model: Model) -> ModelledWrites {
        ModelledWrites(Device::new(model, node_of_each_cpu()))
    }

    /// Charges `len` bytes that were written at `at` of a file. The thread spins for it at the next
    /// sync, or before if it is much.
    pub fn wrote(&self, file: u32, at: u64, len: u64) {
        self.0.wrote(place(file, at), len, false);
    }

    /// Charges bytes that were read.
    pub fn read(&self, file: u32, at: u64, len: u64) {
        self.0.read(place(file, at), len);
    }

    /// Charges a sync, and spins for what is owed.
    pub fn synced(&self) {
        self.0.fence();
    }
}

fn place(file: u32, at: u64) -> usize {
    (u64::from(file) * FILE_BYTES + at % FILE_BYTES) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters;
    use crate::model::Preset;

    #[test]
    fn a_write_and_its_sync_are_charged_as_through_a_mapping() {
        let writes = ModelledWrites::new(Model::new(Preset::Optane));
        let before = counters();
        for at in 0..64 {
            writes.wrote(1, at * 256, 256);
            writes.synced();
        }
        let whole = counters().since(&before);
        assert!(whole.modelled_ps > 0 && whole.modelled_device_ps > 0, "{whole:?}");
        let before = counters();
        for at in 0..64 {
            writes.wrote(2, at * 1000, 64);
            writes.synced();
        }
        let parts = counters().since(&before);
        assert!(parts.modelled_ps < whole.modelled_ps, "a quarter of the lines");
        let before = counters();
        writes.read(3, 0, 64 << 10);
        writes.synced();
        assert!(counters().since(&before).modelled_ps > whole.modelled_ps / 64);
    }
}
