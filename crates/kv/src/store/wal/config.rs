//! Settings of the store with a write-ahead log.

/// How a store with a log is run.
#[derive(Clone, Copy, Debug)]
pub struct WalConfig {
    /// DRAM for the last entries, in bytes. Entries that are not given up are beyond it.
    pub ring_bytes: u64,
    /// Length of a log in bytes at which the state is written out.
    pub log_bytes: u64,
    /// Bytes of state that a call of [`Store::upkeep`](crate::store::Store::upkeep) writes,
    /// roughly.
    pub step_bytes: usize,
    /// Most bytes of keys and values in DRAM, beyond which nothing is put.
    pub state_bytes_max: u64,
    /// Most bytes of keys that may come while a snapshot lasts, beyond which it ends by itself.
    pub snapshot_garbage_bytes: u64,
    /// Bytes by which a log is made longer ahead of its frames.
    pub extent_bytes: u64,
}

impl Default for WalConfig {
    fn default() -> Self {
        Self {
            ring_bytes: 64 << 20,
            log_bytes: 64 << 20,
            step_bytes: 256 << 10,
            state_bytes_max: u64::MAX,
            snapshot_garbage_bytes: 256 << 20,
            extent_bytes: 1 << 20,
        }
    }
}
