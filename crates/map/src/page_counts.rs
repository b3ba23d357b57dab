//! Counts of a content that is not in force yet: its live bytes in each page, and where its objects begin. They are made beside those of the
//! content in force, without the writer's lock, and take their place in one turn.

use crate::bitmap::Bitmap;
use crate::format::{GRAIN_BYTES, Geometry, Ref};

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

    /// Where objects begin.
    pub(crate) fn begins(&self) -> &Bitmap {
        &self.begins
    }

    /// Bytes of all objects.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
