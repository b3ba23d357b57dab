//! Visibility: which version of a row a reader sees.
//!
//! The directory word names the newest committed version whose word is stored. Where a page has a
//! shadow, the shadow says what a snapshot sees instead: words not stored yet, words that newer
//! commits replaced, the reader's own writes. A page that a bulk insert published is seen by
//! snapshots at or above its CSN.

use super::Table;
use crate::error::Result;
use crate::files::datafile::DataFile;
use crate::format::{Rid, VERSION_HEADER, VersionHeader, Word};
use crate::shadow::page::{OwnView, PageShadow};
use perdura_log::Csn;
use perdura_pmem::{LINE_BYTES, Mutant, Region};
use std::ptr::NonNull;
use std::sync::Arc;

/// A row image in persistent memory, valid while the statement that read it holds its version.
#[derive(Clone, Copy, Debug)]
pub struct RowRef {
    data: *const u8,
    len: usize,
}

// SAFETY: while it is valid its bytes do not change, so any thread may read them.
unsafe impl Send for RowRef {}

impl RowRef {
    pub(crate) fn new(region: &Region, at: u64, header: &VersionHeader) -> RowRef {
        // SAFETY: `Chain::header` checked that the row lies in the region.
        let data = unsafe { region.as_ptr().add((at + VERSION_HEADER) as usize) };
        RowRef { data, len: header.len as usize }
    }

    /// Length of the row, in bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether the row has no bytes.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The bytes of the row.
    ///
    /// # Safety
    /// The session read the row from a table of its own pool; a [`Scan`] that it came from was
    /// begun by the same session in the same statement. While the slice lives, that session must
    /// not end or begin a statement, catch up ([`Session::catch_up`]), or roll back, not even to a
    /// savepoint, nor unlock a row that it read with [`ReadView::Newest`]; and somebody must keep
    /// the [`Table`], which maps the row's file.
    ///
    /// [`Scan`]: crate::Scan
    /// [`Session::catch_up`]: crate::Session::catch_up
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: in bounds by construction; the caller keeps the version and its mapping alive.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

/// Which committed version a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadView {
    /// The newest version at the snapshot of the statement or transaction.
    Snapshot,
    /// The newest committed version; for rows that the reader has locked: the lock holds the
    /// version, so the row is not valid beyond it. It takes no snapshot for the transaction.
    Newest,
}

/// Reads the rows of a scan, page after page. Most lie in the file of the one before, so it
/// remembers that file.
pub(crate) struct RowReader {
    table: Arc<Table>,
    /// The file of the row before in the page, one of `table`'s chain.
    file: Option<NonNull<DataFile>>,
    /// Its sequence number.
    sequence: u32,
}

// SAFETY: the file is borrowed from the table, which the reader holds, and both may be used by any
// thread.
unsafe impl Send for RowReader {}
// SAFETY: as for Send.
unsafe impl Sync for RowReader {}

impl RowReader {
    pub(crate) fn new(table: Arc<Table>) -> RowReader {
        RowReader { table, file: None, sequence: 0 }
    }

    /// Looks the file up anew: the words that follow were loaded since, and its number may name
    /// another file now. It names the same one for all words of the page, since a file with a
    /// version that the reader's snapshot sees is not given back.
    pub(crate) fn start_page(&mut self) {
        self.file = self.table.chain().file(self.sequence).map(NonNull::from);
    }

    #[inline(always)]
    fn known(&self, word: Word) -> Option<&DataFile> {
        if word.file() != self.sequence {
            return None;
        }
        // SAFETY: files stay in memory as long as somebody holds the table.
        self.file.map(|file| unsafe { file.as_ref() })
    }

    /// Asks for the beginning of the version that `word` names ahead of its use, if it lies in the
    /// file of the row before.
    #[inline]
    pub(crate) fn prefetch(&self, word: Word) {
        if let Some(file) = self.known(word) {
            file.prefetch(word, LINE_BYTES);
        }
    }

    /// The row that `word` names, if all is well and it lies in the file of the row before. `None`
    /// tells nothing: [`RowReader::row`] does.
    #[inline(always)]
    pub(crate) fn near_row(&self, rid: Rid, word: Word) -> Option<RowRef> {
        if word.is_tombstone() {
            return None;
        }
        let file = self.known(word)?;
        let (at, header) = file.sound_header(word, rid)?;
        Some(RowRef::new(file.region(), at, &header))
    }

    /// The row that `word` names; `None` if it names none or the row is deleted.
    pub(crate) fn row(&mut self, rid: Rid, word: Word) -> Result<Option<RowRef>> {
        let row = self.table.row(rid, word);
        if matches!(row, Ok(Some(_))) && self.known(word).is_none() {
            self.file = self.table.chain().file(word.file()).map(NonNull::from);
            self.sequence = word.file();
        }
        row
    }

    /// The table.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

impl Table {
    /// The committed word of row `row` as a reader at `snapshot` sees it; empty or flagged as
    /// deleted if it sees none.
    #[inline]
    pub(crate) fn word_at(&self, row: u64, snapshot: Csn) -> Word {
        let mut word = [Word::EMPTY];
        self.words_in_page_at(&[row], snapshot, &mut word);
        word[0]
    }

    /// [`Table::word_at`] of several rows, into `words`. Those that follow each other in a page are
    /// looked up at once.
    pub(crate) fn words_of(&self, rows: &[u64], snapshot: Csn, mut words: &mut [Word]) {
        let page_of = |row: &u64| self.directory().page_of(*row);
        for rows in rows.chunk_by(|row, next| page_of(row) == page_of(next)) {
            let (in_page, behind) = words.split_at_mut(rows.len());
            self.words_in_page_at(rows, snapshot, in_page);
            words = behind;
        }
    }

    /// [`Table::word_at`] of rows of one page.
    #[inline(always)]
    fn words_in_page_at(&self, rows: &[u64], snapshot: Csn, words: &mut [Word]) {
        let directory = self.directory();
        let page = directory.page_of(rows[0]);
        // A damaged entry may name a row beyond the pages, for which no slot is to be made.
        if page >= directory.page_count() {
            return words.fill(Word::EMPTY);
        }
        let slot = self.space().shadows().slot(page);
        loop {
            if let Some(mark) = slot.quiet(snapshot) {
                // The state first: a page is emptied before it is published anew (I3).
                let state = directory.state(page);
                directory.load_rows(page, rows, words);
                if slot.is_still(mark) {
                    // Planted: a snapshot misses the last commit that it should see.
                    let is_seen = state.is_published()
                        && state.csn() <= snapshot - u64::from(perdura_pmem::planted(Mutant::SnapshotMissesLastCommit));
                    if !is_seen {
                        words.fill(Word::EMPTY);
                    }
                    return;
                }
            }
            if let Some(shadow) = slot.lock_existing() {
                let state = directory.state(page);
                directory.load_rows(page, rows, words);
                for (row, word) in rows.iter().zip(words) {
                    *word = shadow.word(directory.position_of(*row), *word, state, snapshot);
                }
                return;
            }
        }
    }

    /// The words of page `page` as a reader at `snapshot` sees them, by position, as far as the
    /// page is in use. Returns whether it may see any row.
    #[inline]
    pub(crate) fn words_at(&self, page: u64, snapshot: Csn, own: Option<OwnView<'_>>, words: &mut Vec<Word>) -> bool {
        let directory = self.directory();
        let slot = self.space().shadows().slot(page);
        loop {
            if let Some(mark) = slot.quiet(snapshot) {
                let state = directory.state(page);
                // Planted: a scan sees a page that was published after its snapshot.
                let is_seen = state.is_published()
                    && (state.csn() <= snapshot || perdura_pmem::planted(Mutant::ScanSeesLaterPage));
                if is_seen {
                    directory.load_page(page, words);
                }
                if slot.is_still(mark) {
                    return is_seen;
                }
            }
            if let Some(shadow) = slot.lock_existing() {
                directory.load_page(page, words);
                return shadow.words(words, directory.state(page), snapshot, own);
            }
        }
    }

    /// The row that `word` names; `None` if it names none or the row is deleted.
    #[inline]
    pub(crate) fn row(&self, rid: Rid, word: Word) -> Result<Option<RowRef>> {
        // Planted: a deleted row is read.
        let is_deleted = word.is_tombstone() && !perdura_pmem::planted(Mutant::DeletedRowRead);
        if word.is_empty() || is_deleted || word.incarnation() != rid.incarnation() {
            return Ok(None);
        }
        let (region, at, header) = self.chain().header(word, rid)?;
        Ok(Some(RowRef::new(region, at, &header)))
    }

    /// Word and CSN of the newest committed version of row `row`; the CSN is 0 if no snapshot is
    /// older. The caller must have locked the row, so that nobody replaces the version.
    pub(crate) fn newest(&self, row: u64) -> (Word, Csn) {
        self.newest_by(row, newest_in)
    }

    /// As [`Table::newest`], with an upper bound of the version's CSN, and without a search.
    pub(crate) fn newest_with_bound(&self, row: u64) -> (Word, Csn) {
        self.newest_by(row, newest_with_bound_in)
    }

    #[inline]
    fn newest_by(&self, row: u64, locked: impl Fn(&mut PageShadow, &Table, u64) -> (Word, Csn)) -> (Word, Csn) {
        let directory = self.directory();
        let page = directory.page_of(row);
        if page >= directory.page_count() {
            return (Word::EMPTY, 0);
        }
        if let Some(mut shadow) = self.space().shadows().slot(page).lock_existing() {
            return locked(&mut shadow, self, row);
        }
        let state = directory.state(page);
        (if state.is_published() { directory.raw_word(row) } else { Word::EMPTY }, state.csn())
    }

    /// Reads the committed row `rid` at `snapshot`.
    pub(crate) fn read_at(&self, rid: Rid, snapshot: Csn) -> Result<Option<RowRef>> {
        self.row(rid, self.word_at(rid.row(), snapshot))
    }
}

/// Word and CSN of the newest committed version of a row whose page is locked. It stores the word
/// if the row's last commit has not yet.
pub(crate) fn newest_in(shadow: &mut PageShadow, table: &Table, row: u64) -> (Word, Csn) {
    let word = newest_word_in(shadow, table, row);
    let directory = table.directory();
    let state = directory.state(directory.page_of(row));
    (word, shadow.newest_csn(directory.position_of(row), 0).max(state.csn()))
}

/// As [`newest_in`], with an upper bound of the version's CSN, and without a search.
pub(crate) fn newest_with_bound_in(shadow: &mut PageShadow, table: &Table, row: u64) -> (Word, Csn) {
    let word = newest_word_in(shadow, table, row);
    let directory = table.directory();
    (word, shadow.newest_csn_of_page().max(directory.state(directory.page_of(row)).csn()))
}

/// As [`newest_in`], but it searches only if a CSN that the page remembers is above `limit`.
/// Otherwise the CSN is an upper bound, also at or below `limit`.
pub(crate) fn newest_up_to(shadow: &mut PageShadow, table: &Table, row: u64, limit: Csn) -> (Word, Csn) {
    let (word, bound) = newest_with_bound_in(shadow, table, row);
    if bound <= limit {
        return (word, bound);
    }
    let directory = table.directory();
    let state = directory.state(directory.page_of(row));
    (word, shadow.newest_csn(directory.position_of(row), limit).max(state.csn()).max(limit))
}

/// As [`newest_in`], without the CSN.
fn newest_word_in(shadow: &mut PageShadow, table: &Table, row: u64) -> Word {
    let directory = table.directory();
    let (page, position) = (directory.page_of(row), directory.position_of(row));
    // Planted: a row is taken over before the words of its last commit are stored.
    if !perdura_pmem::planted(Mutant::TakenOverBeforeStored) {
        shadow.store_committed(position, page, directory);
    }
    directory.word(row)
}
