//! A file of the replayed medium: what of it is durable, and its open lines.
//!
//! Invariants: `content` is the XOR of the durable lines' hashes; every open line has a pending
//! store.

use super::hash;
use super::image::ImageFile;
use super::lines::{OpenLine, Pending};
use super::page::{LINE, LineBytes, PAGE_BYTES, Pages, ZERO_PAGE};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A file of the replayed medium.
#[derive(Clone)]
pub(crate) struct FileState {
    pub(crate) len: u64,
    /// Whether its size and blocks are durable.
    pub(crate) synced: bool,
    /// Whether a sector whose write is cut off may hold anything.
    pub(crate) is_written: bool,
    pub(crate) pages: Pages,
    pub(crate) content: u128,
    pub(crate) open: FxHashMap<u32, OpenLine>,
}

impl FileState {
    pub(crate) fn empty(len: u64) -> FileState {
        let count = (len as usize).div_ceil(PAGE_BYTES);
        let pages = Arc::new(vec![ZERO_PAGE.clone(); count]);
        FileState { len, synced: false, is_written: false, pages, content: 0, open: FxHashMap::default() }
    }

    /// A file that is durable as it is.
    pub(crate) fn of(image: &ImageFile) -> FileState {
        let mut file = FileState {
            synced: true,
            pages: image.pages.clone(),
            content: image.content_of_pages(),
            ..FileState::empty(0)
        };
        file.len = image.len;
        for (line, bytes) in &image.overlay {
            file.set_line(*line, bytes);
        }
        file
    }

    /// The durable content of a line.
    pub(crate) fn line(&self, line: u32) -> &LineBytes {
        let at = line as usize * LINE;
        let page = &self.pages[at / PAGE_BYTES];
        page.0[at % PAGE_BYTES..].first_chunk().expect("a line lies within a page")
    }

    fn set_line(&mut self, line: u32, bytes: &LineBytes) {
        let before = self.line(line);
        if before == bytes {
            return;
        }
        self.content ^= hash::line(line, before) ^ hash::line(line, bytes);
        let at = line as usize * LINE;
        let page = &mut Arc::make_mut(&mut self.pages)[at / PAGE_BYTES];
        Arc::make_mut(page).0[at % PAGE_BYTES..][..LINE].copy_from_slice(bytes);
    }

    /// Makes all stores past the cache durable; on a page medium they are like others from now on.
    pub(crate) fn drain(&mut self, is_paged: bool) {
        if is_paged {
            self.open.values_mut().flat_map(|open| &mut open.pending).for_each(|pending| pending.nt = false);
            return;
        }
        let lines: Vec<u32> = self.open.keys().copied().collect();
        lines.into_iter().for_each(|line| self.settle(line, |pending| pending.nt));
    }

    /// Makes those stores of an open line durable that `settled` selects.
    pub(crate) fn settle(&mut self, line: u32, settled: impl Fn(&Pending) -> bool) {
        let Some(open) = self.open.get_mut(&line) else { return };
        let at = line as usize * LINE;
        let page = &self.pages[at / PAGE_BYTES];
        let mut bytes = *page.0[at % PAGE_BYTES..].first_chunk().expect("a line lies within a page");
        open.settle(&mut bytes, settled);
        if open.pending.is_empty() {
            self.open.remove(&line);
        }
        self.set_line(line, &bytes);
    }

    /// The file as a program sees it.
    pub(crate) fn seen(&self, name: Arc<str>) -> ImageFile {
        let mut overlay: Vec<_> = self.open.iter().map(|(line, open)| (*line, open.full(self.line(*line)))).collect();
        overlay.sort_unstable_by_key(|(line, _)| *line);
        ImageFile { name, len: self.len, pages: self.pages.clone(), content: Some(self.content), overlay }
    }
}
