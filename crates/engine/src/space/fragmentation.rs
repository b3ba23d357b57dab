//! Fragmentation: units wasted by versions in cells of a larger class than their own, until their
//! class has earned segments of its own (`open_cells.rs`).

use crate::files::cells::{self, CLASS_SLOTS};
use crate::format::UNIT_BYTES;
use std::sync::atomic::{AtomicU32, Ordering};

/// Units that the versions of each class of cells have wasted in larger cells. They never shrink:
/// versions that are freed do not count back.
pub(crate) struct Fragmentation([AtomicU32; CLASS_SLOTS]);

impl Default for Fragmentation {
    fn default() -> Fragmentation {
        Fragmentation([const { AtomicU32::new(0) }; CLASS_SLOTS])
    }
}

impl Fragmentation {
    /// Adds `units` that a version of `class` wastes.
    pub(crate) fn add(&self, class: u32, units: u32) {
        self.0[cells::class_slot(class)].fetch_add(units, Ordering::Relaxed);
    }

    /// Whether `class` has wasted a quarter of a segment, and so earned segments of its own.
    pub(crate) fn is_earned(&self, class: u32, segment_bytes: u64) -> bool {
        let lost = self.0[cells::class_slot(class)].load(Ordering::Relaxed);
        u64::from(lost) * UNIT_BYTES >= segment_bytes / 4
    }
}
