//! Pages of 4 KiB, the unit in which images share the bytes of their files, and the cache lines
//! they consist of.

use crate::units::LINE_BYTES;
use std::sync::{Arc, LazyLock};

/// Bytes of a page of an image.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes of a line, as an array length.
pub(crate) const LINE: usize = LINE_BYTES as usize;

/// Content of a cache line.
pub(crate) type LineBytes = [u8; LINE];

/// A page of an image, aligned as memory is, so that lines can be copied whole.
#[derive(Clone)]
#[repr(align(64))]
pub(crate) struct Page(pub(crate) [u8; PAGE_BYTES]);

/// The page of zeros, shared by all images.
pub(crate) static ZERO_PAGE: LazyLock<Arc<Page>> = LazyLock::new(|| Arc::new(Page([0; PAGE_BYTES])));

/// The bytes of a file, zero from its end to the end of the last page.
pub(crate) type Pages = Arc<Vec<Arc<Page>>>;
