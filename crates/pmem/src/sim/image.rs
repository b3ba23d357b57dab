//! Images: the content of a medium at rest.
//!
//! An image shares 4 KiB pages with the state it was made from and holds, on top, the lines in which it differs; so
//! making one costs a few reference counts and the lines, and opening one a copy of its bytes.
//!
//! Invariants: files are sorted by name; pages beyond a file's length, and its last page's tail, are zero; overlay
//! lines lie within the pages.

use super::memory::Buffer;
use crate::region::LINE_BYTES;
use std::sync::{Arc, LazyLock};

/// Bytes of a page of an image.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes of a line, as an array length.
pub(crate) const LINE: usize = LINE_BYTES as usize;

/// Content of a cache line.
pub(crate) type LineBytes = [u8; LINE];

/// A page of an image.
#[derive(Clone)]
#[repr(align(64))]
pub(crate) struct Page(pub(crate) [u8; PAGE_BYTES]);

/// The page of zeros, shared by all images.
pub(crate) static ZERO_PAGE: LazyLock<Arc<Page>> = LazyLock::new(|| Arc::new(Page([0; PAGE_BYTES])));

/// A file's pages.
pub(crate) type Pages = Arc<Vec<Arc<Page>>>;

/// One file of an image.
#[derive(Clone)]
pub(crate) struct ImageFile {
    pub(crate) name: Arc<str>,
    pub(crate) len: u64,
    pub(crate) pages: Pages,
    /// Line number and content, where it differs from the pages; each line once.
    pub(crate) overlay: Vec<(u32, LineBytes)>,
}

impl ImageFile {
    /// Fills `buffer`, which is at least as long as the file, with its content.
    pub(crate) fn fill(&self, buffer: &Buffer) {
        let pages_len = self.pages.len() * PAGE_BYTES;
        assert!(pages_len <= buffer.size(), "the buffer of {} is too short", self.name);
        for (index, page) in self.pages.iter().enumerate() {
            // SAFETY: the page lies within the buffer, which nobody else has yet.
            unsafe {
                let target = buffer.base().add(index * PAGE_BYTES);
                if Arc::ptr_eq(page, &ZERO_PAGE) {
                    target.write_bytes(0, PAGE_BYTES);
                } else {
                    target.copy_from_nonoverlapping(page.0.as_ptr(), PAGE_BYTES);
                }
            }
        }
        // SAFETY: the rest of the buffer, from the last page on.
        unsafe { buffer.base().add(pages_len).write_bytes(0, buffer.size() - pages_len) };
        for (line, bytes) in &self.overlay {
            let at = *line as usize * LINE;
            assert!(at + LINE <= buffer.size(), "line {line} is outside {}", self.name);
            // SAFETY: the line lies within the buffer.
            unsafe { buffer.base().add(at).copy_from_nonoverlapping(bytes.as_ptr(), LINE) };
        }
    }

    /// A file with the bytes of `buffer`.
    ///
    /// # Safety
    /// Nobody stores to the buffer meanwhile.
    pub(crate) unsafe fn copy_of(name: Arc<str>, len: u64, buffer: &Buffer) -> ImageFile {
        let count = (len as usize).div_ceil(PAGE_BYTES);
        let pages = (0..count).map(|index| {
            let mut page = Page([0; PAGE_BYTES]);
            // SAFETY: buffers are padded to whole pages; not stored to by the caller's promise.
            unsafe { page.0.as_mut_ptr().copy_from_nonoverlapping(buffer.base().add(index * PAGE_BYTES), PAGE_BYTES) };
            if page.0 == ZERO_PAGE.0 { ZERO_PAGE.clone() } else { Arc::new(page) }
        });
        ImageFile { name, len, pages: Arc::new(pages.collect()), overlay: Vec::new() }
    }
}

/// The content of a medium at rest: names, lengths and bytes. Cheap to clone.
#[derive(Clone, Default)]
pub struct Image {
    pub(crate) files: Vec<ImageFile>,
    pub(crate) hash: u128,
}

impl Image {
    /// Names and lengths (bytes), sorted by name.
    pub fn list(&self) -> Vec<(String, u64)> {
        self.files.iter().map(|file| (file.name.to_string(), file.len)).collect()
    }

    /// Sum of the files' lengths in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

impl Image {
    /// An image of these files, which are sorted by name.
    pub(crate) fn of(files: Vec<ImageFile>) -> Image {
        Image { files, hash: 0 }
    }
}
