//! Visibility: which version of a row a reader sees.
//!
//! The directory word names the newest committed version; `prev` links it to older ones. A commit stamps its CSN into
//! the csn word of each version that it publishes singly. A version that the directory names although its csn word is
//! still pending came with its bulk page or from before a restart. The CSN of its page then counts, which is at or
//! below every snapshot that can reach the version. A reader follows `prev` only past versions newer than its snapshot,
//! and the snapshot holds what lies behind those.

use super::Table;
use crate::error::Result;
use crate::files::chain::version_csn;
use crate::format::{PENDING, PageState, Rid, VERSION_HEADER, VersionHeader, Word};
use perdura_log::Csn;
use perdura_pmem::Region;

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

    /// The bytes of the row.
    ///
    /// # Safety
    /// The session read the row from a table of its own pool; a [`Scan`] that it came from was begun by the same session
    /// in the same statement. While the slice lives, that session must not end or begin a statement, catch up
    /// ([`Session::catch_up`]), or roll back, not even to a savepoint; and somebody must keep the [`Table`], which maps
    /// the row's file.
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
    /// The newest committed version; for rows that the reader has locked. It takes no snapshot for the transaction.
    Newest,
}

impl Table {
    /// Finds the newest version of `rid` at or below `csn_limit`, following the versions from `word` on. `state` is
    /// that of the row's page. Returns `None` if there is none, or if it is a tombstone.
    #[inline]
    pub(crate) fn visible(&self, rid: Rid, mut word: Word, state: PageState, csn_limit: u64) -> Result<Option<RowRef>> {
        while !word.is_empty() {
            let (region, at, header) = self.chain().header(word, rid)?;
            // Planted: a snapshot misses the last commit that it should see.
            if version_csn(region, at, state) <= csn_limit - u64::from(perdura_pmem::planted(58)) {
                return Ok((!header.tombstone).then(|| RowRef::new(region, at, &header)));
            }
            // A version that came with its page has no committed version before it.
            word = if region.load(at) & PENDING == 0 { header.prev } else { Word::EMPTY };
        }
        Ok(None)
    }

    /// Reads the committed row `rid` at or below `csn_limit`.
    pub(crate) fn committed(&self, rid: Rid, csn_limit: u64) -> Result<Option<RowRef>> {
        loop {
            let word = self.directory().word(rid.row());
            if word.is_empty() || word.incarnation() != rid.incarnation() {
                return Ok(None);
            }
            let state = self.chain().state_of(rid.row());
            let seen = self.visible(rid, word, state, csn_limit);
            // Purge may reclaim a tombstone under a reader; the word has changed then, and the reader looks again.
            if !word.is_tombstone() || self.directory().word(rid.row()) == word {
                return seen;
            }
        }
    }

    /// Reads the newest committed row `rid` and its CSN. The caller must have locked the row, so that nobody replaces
    /// it.
    pub(crate) fn newest(&self, rid: Rid) -> Result<Option<(RowRef, Csn)>> {
        let word = self.directory().word(rid.row());
        if word.is_empty() || word.is_tombstone() || word.incarnation() != rid.incarnation() {
            return Ok(None);
        }
        let (region, at, header) = self.chain().header(word, rid)?;
        let state = self.chain().state_of(rid.row());
        Ok(Some((RowRef::new(region, at, &header), version_csn(region, at, state))))
    }

    /// Finds the newest version of a row that its own transaction wrote before write sequence `sequence`. `word` names
    /// the newest own version, `base` the committed one.
    pub(crate) fn own(&self, rid: Rid, mut word: Word, base: Word, sequence: u64) -> Result<OwnVersion> {
        loop {
            if word == base || word.is_empty() {
                return Ok(OwnVersion::Later);
            }
            let (region, at, header) = self.chain().header(word, rid)?;
            let csn = region.load(at);
            if csn & PENDING == 0 || csn & !PENDING < sequence {
                let row = (!header.tombstone).then(|| RowRef::new(region, at, &header));
                return Ok(OwnVersion::Seen(row));
            }
            word = header.prev;
        }
    }
}

/// What a transaction sees of its own writes to a row.
pub(crate) enum OwnVersion {
    /// This row; `None` if the transaction had deleted it.
    Seen(Option<RowRef>),
    /// The transaction wrote the row only later: the committed row counts.
    Later,
}
