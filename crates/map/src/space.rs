//! The report of how a region is used.

/// Bytes of a region by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of all pages.
    pub total: u64,
    /// Bytes of pages that are not free.
    pub used: u64,
    /// Bytes of free pages.
    pub free: u64,
    /// Bytes of live objects: those reachable from the newest persist, and those made since.
    pub live: u64,
    /// Bytes of used pages that are not live: superseded, or not filled.
    pub garbage: u64,
    /// Bytes of the longest run of free pages, besides the one kept for compactions.
    pub free_run_max: u64,
    /// Free bytes kept for deletions, forgetting and the collector. A value fits if its bytes, with
    /// key and header, are within both `free_run_max` and `free - reserved`.
    pub reserved: u64,
    /// Whether the content of every page is known. After a restart a B+-tree finds it out in the
    /// background; until then `live` includes pages it has not seen.
    pub exact: bool,
    /// Whether a snapshot or a load keeps garbage from being collected.
    pub held: bool,
}

/// Room that a caller asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Free bytes besides those reserved ([`Space::reserved`]).
    pub bytes: u64,
    /// Bytes in one piece.
    pub run: u64,
}

impl Demand {
    /// The room that either needs.
    pub(crate) fn or(self, other: Demand) -> Demand {
        Demand { bytes: self.bytes.max(other.bytes), run: self.run.max(other.run) }
    }
}

impl Space {
    /// Share of the free bytes outside the longest free run: 0 is not fragmented.
    pub fn fragmentation(&self) -> f64 {
        if self.free == 0 { 0.0 } else { 1.0 - self.free_run_max as f64 / self.free as f64 }
    }
}
