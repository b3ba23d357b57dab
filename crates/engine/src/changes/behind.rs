//! Directory words that commits have stored and that nobody has flushed yet.
//!
//! A commit is durable by its record: redo stores its words again. So the words are flushed behind, for all commits since the
//! last checkpoint at once, before the next checkpoint goes past them (I9): a line that a thousand commits have changed is
//! flushed once, and no commit waits for it. The page's shadow says which words are due.
//!
//! A page is here once, noted under its lock before its commit is reported as stored. So whoever finds a commit reported finds
//! its pages here, or another has taken them and is done.

use crate::index::leaf::LeafId;
use crate::index::leaves::Leaves;
use crate::space::allocator::Allocator;
use crate::table::Table;
use perdura_pmem::Region;
use perdura_pmem::sync::{Mutex, yield_now};
use perdura_pmem::trace;
use std::sync::{Arc, Weak};

/// Pages after which a flush lets others have the core: some 0.2 ms.
const FLUSHED_AT_ONCE: usize = 64;

/// Where words are to be flushed.
enum Noted {
    /// In a page of the row directory.
    Page(Weak<Allocator>, u64),
    /// In a leaf of an index.
    Leaf(Weak<Leaves>, LeafId),
}

impl Noted {
    /// Flushes the words. Returns a file in which something may have been flushed.
    fn flush(&self) -> Option<Region> {
        match self {
            Noted::Page(space, page) => {
                let space = space.upgrade()?;
                if let Some(mut shadow) = space.shadows().slot(*page).lock_existing() {
                    shadow.flush_stored(*page, space.directory());
                }
                space.chain().files().next().map(|file| file.region().clone())
            }
            Noted::Leaf(leaves, leaf) => leaves.upgrade()?.flush_stored(*leaf),
        }
    }
}

/// The pages of a pool with words that are stored and not flushed.
#[derive(Default)]
pub struct Behind {
    /// A table whose space is gone was dropped, durably; one with commits above the checkpoint is not closed. An alteration takes
    /// the table's place, and leaves its space.
    pages: Mutex<Vec<Noted>>,
    flushing: Mutex<()>,
}

impl Behind {
    /// Notes a page. The caller holds its lock.
    pub fn add(&self, table: &Arc<Table>, page: u64) {
        self.pages.lock().push(Noted::Page(Arc::downgrade(table.shared_space()), page));
    }

    /// Notes a leaf of an index. The caller holds its lock.
    pub fn add_leaf(&self, table: &Arc<Table>, leaf: LeafId) {
        self.pages.lock().push(Noted::Leaf(Arc::downgrade(table.index_list().shared_leaves()), leaf));
    }

    /// Flushes and fences all words that are stored.
    pub fn flush(&self) {
        self.flush_some(usize::MAX);
    }

    /// Flushes and fences most words that are stored, and lets others have the core now and then: a flush that others wait
    /// for is short after this.
    pub fn flush_ahead(&self) {
        let batches = self.pages.lock().len() / FLUSHED_AT_ONCE;
        for _ in 0..batches {
            self.flush_some(FLUSHED_AT_ONCE);
            yield_now();
        }
    }

    fn flush_some(&self, most: usize) {
        let _one = self.flushing.lock();
        let pages = {
            let mut pages = self.pages.lock();
            match pages.len().checked_sub(most) {
                Some(first) => pages.split_off(first),
                None => std::mem::take(&mut *pages),
            }
        };
        let _behind = (trace::span("stored_behind"), trace::span(trace::TRANSIENT));
        let mut last = None;
        for noted in pages {
            last = noted.flush().or(last);
        }
        // One fence covers all that this thread has flushed.
        last.inspect(|region| region.fence());
    }
}
