//! The online check of a table, which others read and change meanwhile.
//!
//! It verifies the segments' descriptors, the words of the row directory, and each committed row
//! with its checksum. Each page is checked under a snapshot of its own: that holds the versions
//! (I8), and purge goes on behind it. A row that is committed when its page is looked at is
//! checked; a deleted one is not. Indexes are checked against the rows of one snapshot
//! (`check_index.rs`), and their keys with those that the client makes of the rows. The check
//! stores nothing and locks no row.

use super::keys::Key;
use super::snapshots::Snapshots;
use crate::error::{Error, Result};
use crate::format::{Rid, VERSION_HEADER, Word};
use crate::pool::Pool;
use crate::table::Table;
use std::sync::Arc;

/// Faults after which a check ends: the table is to be restored anyway.
const FAULTS_MAX: u64 = 100;
/// Bytes of rows after which the client is asked again whether to go on.
const BYTES_BETWEEN: u64 = 1 << 20;

/// How much a check reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Descriptors, directory words, and the headers of the versions that they name.
    Quick,
    /// All that, and every row.
    Full,
}

/// Caller of a table's check.
pub trait CheckClient {
    /// Whether to go on; `done` of `all` directory pages are checked. Asked before each page, and
    /// in between at least after each MiB of rows and the row in which it ends.
    fn goes_on(&mut self, done: u64, all: u64) -> bool;

    /// Whether the bytes, whose checksum is right, are a row of the table's definition.
    fn is_row(&mut self, row: &[u8]) -> bool;

    /// The key that the row must have in the index at `position`, for a full check. `None`: the
    /// client cannot tell, and keys are not compared with their rows.
    fn key(&mut self, _position: usize, _row: &[u8]) -> Option<Key<'_>> {
        None
    }

    /// Takes a fault: where it is, and the remedy.
    fn found(&mut self, fault: Error);
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Rows checked, sound or not.
    pub rows: u64,
    /// Faults that were reported to the client.
    pub faults: u64,
    /// The check did not come to its end: the client said so, or there were a hundred faults.
    pub is_partial: bool,
}

/// A check under way.
pub(super) struct Check<'c> {
    table: Arc<Table>,
    depth: CheckDepth,
    client: &'c mut dyn CheckClient,
    summary: CheckSummary,
    /// Bytes of rows since the client was asked whether to go on.
    bytes: u64,
    /// Number of directory pages.
    pages: u64,
}

impl<'c> Check<'c> {
    /// A check of `table`, which tells `client` what is wrong.
    pub(super) fn new(table: Arc<Table>, depth: CheckDepth, client: &'c mut dyn CheckClient) -> Check<'c> {
        Check { table, depth, client, summary: CheckSummary::default(), bytes: 0, pages: 0 }
    }

    /// Outcome so far.
    pub(super) fn summary(&self) -> CheckSummary {
        self.summary
    }

    /// Checks descriptors and rows, each page under a snapshot of its own. Returns whether the
    /// check goes on.
    pub(super) fn pages(&mut self, pool: &Pool, snapshots: &mut Snapshots) -> bool {
        let table = self.table.clone();
        table.verify_descriptors(&mut |fault| self.found(fault));
        // Pages that are added meanwhile hold later rows.
        self.pages = table.directory().page_count();
        let mut words = Vec::new();
        for page in 0..self.pages {
            if !self.goes_on(page) {
                return false;
            }
            table.verify_page(page, &mut |fault| self.found(fault));
            let snapshot = snapshots.statement(pool);
            let goes_on = !table.words_at(page, snapshot, None, &mut words) || self.rows(page, &words);
            snapshots.close_statement(pool);
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// The table.
    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Whether a row's key in the index at `position` is the one that its row, which a snapshot
    /// holds, must have; and whether other rows may have it. `None` if nobody compares them.
    pub(super) fn compares(&mut self, position: usize, row: &[u8], key: &[u8]) -> Option<(bool, bool)> {
        self.bytes += row.len() as u64;
        let wanted = self.client.key(position, row)?;
        Some((wanted.bytes == key, wanted.may_repeat))
    }

    /// Whether rows are read.
    pub(super) fn is_full(&self) -> bool {
        self.depth == CheckDepth::Full
    }

    /// Whether it is time to ask the client whether to go on.
    pub(super) fn is_long(&self) -> bool {
        self.bytes >= BYTES_BETWEEN
    }

    fn is_medium_sound(&self) -> bool {
        self.table.chain().context().health.check().is_ok()
    }

    /// Tells the client of a fault, unless the medium has failed: zeros are no fault of the table.
    pub(super) fn found(&mut self, fault: Error) {
        if self.summary.faults < FAULTS_MAX && self.is_medium_sound() {
            self.summary.faults += 1;
            self.client.found(fault);
        }
    }

    /// Whether the check goes on with page `page`.
    fn goes_on(&mut self, page: u64) -> bool {
        self.bytes = 0;
        let goes_on = self.summary.faults < FAULTS_MAX && self.is_medium_sound();
        let goes_on = goes_on && self.client.goes_on(page, self.pages);
        self.summary.is_partial = !goes_on;
        goes_on
    }

    /// Whether the check goes on with the indexes, which come after all pages.
    pub(super) fn goes_on_with_indexes(&mut self) -> bool {
        self.goes_on(self.pages)
    }

    /// Checks the rows that the words of page `page` name, by position. Returns whether to go on.
    fn rows(&mut self, page: u64, words: &[Word]) -> bool {
        let base = self.table.directory().page_base(page);
        for (row, word) in (base..).zip(words) {
            // The directory's own words are verified already.
            if word.is_empty() || word.is_tombstone() || !word.is_sound() {
                continue;
            }
            self.summary.rows += 1;
            if let Err(fault) = self.row(Rid::new(row, word.incarnation()), *word) {
                self.found(fault.in_row(row));
            }
            if self.bytes >= BYTES_BETWEEN && !self.goes_on(page) {
                return false;
            }
        }
        true
    }

    /// Checks a row, whose version a snapshot holds.
    fn row(&mut self, rid: Rid, word: Word) -> Result<()> {
        self.bytes += VERSION_HEADER;
        self.table.verify_place(rid, word)?;
        if self.depth == CheckDepth::Quick {
            return Ok(());
        }
        // SAFETY: the snapshot of the page holds the version until its words are checked.
        let sound = unsafe { self.table.verify_version(rid, word)? };
        self.bytes += sound.row.len() as u64;
        if self.client.is_row(sound.row) {
            return Ok(());
        }
        let (region, at) = self.table.chain().locate(word)?;
        Err(Error::damaged(region.name(), at, "the row is not one of the table's definition"))
    }
}
