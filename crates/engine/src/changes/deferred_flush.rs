//! The deferred flush of directory words that commits have stored.
//!
//! A commit is durable by its record: redo stores its words again. So the words are flushed later,
//! for all commits since the last checkpoint at once, before the next checkpoint goes past them
//! (I9): a line that a thousand commits have changed is flushed once, and no commit waits for it.
//! The page's shadow says which words are due.
//!
//! A page is here once, noted under its lock before its commit is reported as stored. So whoever
//! finds a commit reported finds its pages here, or another has taken them and is done.

use crate::files::context::{RedoForm, TableContext};
use crate::index::leaf::LeafId;
use crate::index::leaves::Leaves;
use crate::space::allocator::Allocator;
use crate::table::Table;
use perdura_pmem::sync::{Mutex, yield_now};
use perdura_pmem::trace;
use perdura_pmem::{Medium, Region};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};

/// Pages after which a flush lets others have the core: some 0.2 ms.
const FLUSHED_AT_ONCE: usize = 64;

/// Owner of words that are to be flushed. One that is gone was dropped, durably; one with commits
/// above the checkpoint is not closed. An alteration takes a table's place, and leaves these.
#[derive(Clone)]
enum Noted {
    /// The row directory of a table, by pages.
    Rows(Weak<Allocator>),
    /// The leaves of a table's indexes.
    Leaves(Weak<Leaves>),
}

impl Noted {
    /// Flushes the words of pages or leaves; with `files` also all else that was stored in the
    /// files of the table. Returns a file in which something may have been flushed.
    fn flush_all(&self, numbers: &[u64], files: bool) -> Option<Region> {
        match self {
            Noted::Rows(space) => {
                let space = space.upgrade()?;
                for page in numbers {
                    if let Some(mut shadow) = space.shadows().slot(*page).lock_existing() {
                        shadow.flush_stored(*page, space.directory());
                    }
                }
                if files {
                    space.chain().files().for_each(|file| file.region().flush(0, file.region().len()));
                }
                space.chain().files().next().map(|file| file.region().clone())
            }
            Noted::Leaves(leaves) => {
                let leaves = leaves.upgrade()?;
                let mut last = None;
                for (index, leaf) in numbers.iter().enumerate() {
                    leaves.prefetch(|at| numbers.get(at).map(|leaf| *leaf as LeafId), index);
                    last = leaves.flush_stored(*leaf as LeafId).or(last);
                }
                last.cloned()
            }
        }
    }
}

/// Pages noted and not flushed.
#[derive(Default)]
struct Pages {
    /// Each once, as long as pages of it are noted.
    of: Vec<Noted>,
    /// Where each is in the list, by address.
    places: FxHashMap<usize, usize>,
    /// Pages and leaves: of what, and their numbers.
    pages: Vec<(usize, u64)>,
}

impl Pages {
    fn add(&mut self, address: usize, number: u64, noted: impl FnOnce() -> Noted) {
        let place = *self.places.entry(address).or_insert_with(|| {
            self.of.push(noted());
            self.of.len() - 1
        });
        self.pages.push((place, number));
    }

    /// Takes up to `most` pages, those of one table that follow one another together.
    fn take(&mut self, most: usize) -> Vec<(Noted, Vec<u64>)> {
        let first = self.pages.len().saturating_sub(most);
        let mut taken: Vec<(Noted, Vec<u64>)> = Vec::new();
        let mut last = None;
        for (place, number) in self.pages.drain(first..) {
            if last != Some(place) {
                taken.push((self.of[place].clone(), Vec::new()));
            }
            last = Some(place);
            taken.last_mut().expect("just pushed").1.push(number);
        }
        if self.pages.is_empty() {
            *self = Pages::default();
        }
        taken
    }
}

/// The pages of a pool with words that are stored and not flushed.
#[derive(Default)]
pub(crate) struct DeferredFlush {
    pages: Mutex<Pages>,
    flushing: Mutex<()>,
    /// Commits leave versions and entries to the checkpoint as well, so that it takes files as a
    /// whole. Each such commit has noted a page of the row directory.
    files: bool,
}

impl DeferredFlush {
    /// Nothing to flush, in a pool of this context. A medium that settles takes the files itself.
    pub(crate) fn new(context: &TableContext) -> DeferredFlush {
        let files = context.redo_form == RedoForm::UnflushedValues && !context.medium.settles();
        DeferredFlush { files, ..DeferredFlush::default() }
    }

    /// Notes a page. The caller holds its lock.
    pub(crate) fn add(&self, table: &Arc<Table>, page: u64) {
        let space = table.shared_space();
        self.pages.lock().add(Arc::as_ptr(space).addr(), page, || Noted::Rows(Arc::downgrade(space)));
    }

    /// Notes a leaf of an index. The caller holds its lock.
    pub(crate) fn add_leaf(&self, table: &Arc<Table>, leaf: LeafId) {
        let leaves = table.index_list().shared_leaves();
        self.pages.lock().add(Arc::as_ptr(leaves).addr(), leaf.into(), || Noted::Leaves(Arc::downgrade(leaves)));
    }

    /// Flushes and fences all words that are stored.
    pub(crate) fn flush(&self) {
        self.flush_some(usize::MAX);
    }

    /// Flushes and fences most words that are stored, and lets others have the core now and then: a
    /// flush that others wait for is short after this.
    pub(crate) fn flush_ahead(&self) {
        if self.files {
            return;
        }
        let batches = self.pages.lock().pages.len() / FLUSHED_AT_ONCE;
        for _ in 0..batches {
            self.flush_some(FLUSHED_AT_ONCE);
            yield_now();
        }
    }

    fn flush_some(&self, most: usize) {
        let _one = self.flushing.lock();
        let taken = self.pages.lock().take(most);
        let _spans = (trace::span("deferred_flush"), trace::span(trace::TRANSIENT));
        let mut last = None;
        for (noted, pages) in taken {
            last = noted.flush_all(&pages, self.files).or(last);
        }
        // One fence covers all that this thread has flushed.
        last.inspect(|region| region.fence());
    }
}
