//! Counts of a content that is not installed yet: its live bytes in each page, and where its
//! objects begin. They are made beside those of the current content, without the writer's lock, and
//! take their place in one step.

use crate::memory::bitmap::Bitmap;
use crate::memory::format::{GRAIN_BYTES, Geometry, Ref};

/// The counts.
pub(crate) struct Counts {
    geometry: Geometry,
    /// Bytes of live objects in each page.
    live: Box<[u32]>,
    begins: Bitmap,
    bytes: u64,
}

impl Counts {
    /// Those of a content without an object.
    pub(crate) fn new(geometry: &Geometry) -> Counts {
        let live = vec![0; geometry.pages as usize].into_boxed_slice();
        Counts { geometry: *geometry, live, begins: Bitmap::new(geometry, GRAIN_BYTES), bytes: 0 }
    }

    /// Counts an object, once.
    pub(crate) fn add(&mut self, object: Ref) {
        if self.begins.set(object.offset()) {
            self.geometry.parts(object).for_each(|(page, bytes)| self.live[page] += bytes);
            self.bytes += object.len();
        }
    }

    /// Bytes of live objects in a page.
    pub(crate) fn live_in(&self, page: usize) -> u32 {
        self.live[page]
    }

    /// Puts into `live` where objects begin in a page. The bits of pages that are free are not
    /// touched: so they take no DRAM.
    pub(crate) fn take_over(&self, page: usize, live: &Bitmap) {
        live.copy_within(&self.begins, self.geometry.page_at(page), self.geometry.page_bytes);
    }

    /// Bytes of all objects.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// The shortest of some changes of contents that have ten pages, in a map of this number of
    /// bytes.
    #[allow(clippy::disallowed_methods, reason = "what is measured is the time of the machine; nothing is replayed")]
    fn shortest(bytes: u64) -> Duration {
        let geometry = Geometry::new(bytes, 4096);
        let (counts, live) = (Counts::new(&geometry), Bitmap::new(&geometry, GRAIN_BYTES));
        let pages: Vec<usize> = (0..10).map(|number| number * (geometry.pages as usize / 10)).collect();
        let steps = (0..5).map(|_| {
            let begun = Instant::now();
            pages.iter().for_each(|page| counts.take_over(*page, &live));
            begun.elapsed()
        });
        steps.min().expect("some steps")
    }

    /// Hazard: the one step that installs a loaded content goes over the bits of the whole region,
    /// which are then in DRAM, and everybody waits: 64 MiB for 8 GiB of region, whatever is in it.
    #[test]
    fn contents_change_places_in_a_time_of_the_pages_used() {
        let (small, large) = (shortest(16 << 20), shortest(8 << 30));
        assert!(large < small * 50 + Duration::from_millis(2), "{small:?} in 16 MiB, {large:?} in 8 GiB");
    }
}
