//! What versions lose by lying in cells of a larger class than their own, until that class has earned segments of its own.

use crate::files::cells::{self, CLASS_SLOTS};
use crate::format::UNIT_BYTES;
use std::sync::atomic::{AtomicU32, Ordering};

/// Units that versions of each class have lost by lying in larger cells, until the class has earned segments of its
/// own.
pub struct Losses([AtomicU32; CLASS_SLOTS]);

impl Default for Losses {
    fn default() -> Losses {
        Losses([const { AtomicU32::new(0) }; CLASS_SLOTS])
    }
}

impl Losses {
    /// Adds what one version of `class` loses.
    pub fn add(&self, class: u32, units: u32) {
        self.0[cells::class_slot(class)].fetch_add(units, Ordering::Relaxed);
    }

    /// Whether `class` has lost a quarter of a segment.
    pub fn is_earned(&self, class: u32, segment_bytes: u64) -> bool {
        let lost = self.0[cells::class_slot(class)].load(Ordering::Relaxed);
        u64::from(lost) * UNIT_BYTES >= segment_bytes / 4
    }
}
