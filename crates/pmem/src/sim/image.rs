//! Images: the content of a medium at rest.

use super::hash;
use super::memory::Buffer;
use super::page::{LINE, LineBytes, PAGE_BYTES, Page, Pages, ZERO_PAGE};
use rustc_hash::FxHashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// One file of an image.
#[derive(Clone)]
pub(crate) struct ImageFile {
    pub(crate) name: Arc<str>,
    pub(crate) len: u64,
    pub(crate) pages: Pages,
    /// XOR of the hashes of the pages' lines, if it was worked out already.
    pub(crate) content: Option<u128>,
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

    /// XOR of the hashes of the pages' lines, without the overlay.
    pub(crate) fn content_of_pages(&self) -> u128 {
        self.content.unwrap_or_else(|| content_of(&self.pages))
    }

    /// XOR of the hashes of all lines.
    fn content(&self) -> u128 {
        let change = |(number, bytes): &(u32, LineBytes)| {
            hash::line(*number, self.page_line(*number)) ^ hash::line(*number, bytes)
        };
        self.overlay.iter().map(change).fold(self.content_of_pages(), |sum, change| sum ^ change)
    }

    fn page_line(&self, number: u32) -> &LineBytes {
        let at = number as usize * LINE;
        self.pages[at / PAGE_BYTES].0[at % PAGE_BYTES..].first_chunk().expect("a line lies within a page")
    }

    /// A file with these bytes.
    fn from_bytes(name: Arc<str>, bytes: &[u8]) -> ImageFile {
        let page = |chunk: &[u8]| {
            let mut page = Page([0; PAGE_BYTES]);
            page.0[..chunk.len()].copy_from_slice(chunk);
            Arc::new(page)
        };
        let pages = Arc::new(bytes.chunks(PAGE_BYTES).map(page).collect());
        ImageFile { name, len: bytes.len() as u64, pages, content: None, overlay: Vec::new() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.pages.iter().flat_map(|page| page.0).collect();
        for (number, line) in &self.overlay {
            bytes[*number as usize * LINE..][..LINE].copy_from_slice(line);
        }
        bytes.truncate(self.len as usize);
        bytes
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
        ImageFile { name, len, pages: Arc::new(pages.collect()), content: None, overlay: Vec::new() }
    }
}

/// XOR of the hashes of the pages' lines.
pub(crate) fn content_of(pages: &[Arc<Page>]) -> u128 {
    let mut content = 0;
    for (index, page) in pages.iter().enumerate().filter(|(_, page)| !Arc::ptr_eq(page, &ZERO_PAGE)) {
        for (line, bytes) in page.0.chunks_exact(LINE).enumerate() {
            let number = index * (PAGE_BYTES / LINE) + line;
            content ^= hash::line(number as u32, bytes.try_into().expect("a whole line"));
        }
    }
    content
}

/// The content of a medium at rest: names, lengths and bytes. Cheap to clone.
///
/// An image shares 4 KiB pages with the state it was made from and holds, on top, the lines in
/// which it differs; so making one costs a few reference counts and the lines, and opening one a
/// copy of its bytes.
///
/// Invariants: files are sorted by name; pages beyond a file's length, and its last page's tail,
/// are zero; overlay lines lie within the pages.
#[derive(Clone, Default)]
pub struct Image {
    pub(crate) files: Vec<ImageFile>,
    hash: Option<u128>,
}

impl Image {
    /// An image of these files, which are sorted by name.
    pub(crate) fn of(files: Vec<ImageFile>) -> Image {
        Image { files, hash: None }
    }

    /// An image of these files, which are sorted by name, whose hash is known.
    pub(crate) fn hashed(files: Vec<ImageFile>, hash: u128) -> Image {
        Image { files, hash: Some(hash) }
    }

    /// An image with these names and bytes, e.g. damaged on purpose.
    pub fn from_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Image {
        let sorted: std::collections::BTreeMap<&str, &[u8]> = files.into_iter().collect();
        Image::of(sorted.into_iter().map(|(name, bytes)| ImageFile::from_bytes(name.into(), bytes)).collect())
    }

    /// Names and lengths (bytes), sorted by name.
    pub fn list(&self) -> Vec<(String, u64)> {
        self.files.iter().map(|file| (file.name.to_string(), file.len)).collect()
    }

    /// A copy of a file's bytes.
    pub fn bytes_of(&self, name: &str) -> Option<Vec<u8>> {
        self.files.iter().find(|file| &*file.name == name).map(ImageFile::bytes)
    }

    /// Hash of names, lengths and bytes: equal images have equal hashes.
    pub fn hash(&self) -> u128 {
        let of = |file: &ImageFile| hash::file(&file.name, file.len, file.content());
        self.hash.unwrap_or_else(|| self.files.iter().map(of).fold(0, |sum, hash| sum ^ hash))
    }

    /// Writes the files into a directory, to be looked at with other tools.
    pub fn write_to(&self, directory: &Path) -> io::Result<()> {
        self.files.iter().try_for_each(|file| std::fs::write(directory.join(&*file.name), file.bytes()))
    }
}

/// Images seen so far, so that none is tested twice to no purpose.
///
/// An image is worth opening again when the oracle expects something else of it, so a *case* is an
/// image together with what was marked before the crash.
#[derive(Clone, Default)]
pub struct Seen {
    images: FxHashSet<u128>,
    cases: FxHashSet<u128>,
}

impl Seen {
    /// Records the case. True if it is new.
    pub fn insert(&mut self, image: u128, context: u128) -> bool {
        self.images.insert(image);
        self.cases.insert(hash::follow(image, hash::follow(context, 0) as u64))
    }

    /// Number of distinct images.
    pub fn images(&self) -> usize {
        self.images.len()
    }

    /// Number of distinct cases.
    pub fn cases(&self) -> usize {
        self.cases.len()
    }
}
