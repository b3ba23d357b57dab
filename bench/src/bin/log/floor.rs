//! The floor: a copy past the cache and a fence, of the bytes that a record takes.

use crate::running::RECORD_BYTES;
use perdura_pmem::{Medium, Region};

/// As large as a lane.
const FILE_BYTES: u64 = 16 << 20;

/// A file of one thread, all of its pages present.
pub struct Floor {
    region: Region,
    next: u64,
}

impl Floor {
    /// Creates the file of thread number `number`.
    pub fn create(medium: &dyn Medium, number: usize) -> Floor {
        let region = medium.create(&format!("floor{number}"), FILE_BYTES).expect("there is room");
        region.advise_populate(0, FILE_BYTES).expect("memory can be mapped");
        Floor { region, next: 0 }
    }

    /// Copies a record behind the last, and fences it.
    #[inline]
    pub fn append(&mut self, record: &[u8; RECORD_BYTES]) {
        if self.next + RECORD_BYTES as u64 > FILE_BYTES {
            self.next = 0;
        }
        self.region.write_nt(self.next, record);
        self.region.fence();
        self.next += RECORD_BYTES as u64;
    }
}
