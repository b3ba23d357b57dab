//! Which version of a row a reader sees.
//!
//! Committed versions hang at the directory word, newest first, linked by `prev`. A version's csn word holds its CSN once it is
//! published. While it is still marked pending although the word names it, it came with its bulk page or from before a
//! restart: then the page's CSN counts, which is at or below every snapshot that can reach it.
//! `prev` is followed only past versions newer than the snapshot, and what lies behind those is held by the snapshot.

use super::Table;
use crate::error::Result;
use crate::files::chain::version_csn;
use crate::format::{PENDING, PageState, Rid, VERSION_HEADER, VersionHeader, Word};
use perdura_log::Csn;
use perdura_pmem::Region;

/// A row image, valid as long as its reader holds it (statement, snapshot or lock).
#[derive(Clone, Copy, Debug)]
pub struct RowRef {
    data: *const u8,
    len: usize,
}

// SAFETY: it points to bytes that do not change while it is valid; any thread may read them.
unsafe impl Send for RowRef {}

impl RowRef {
    pub(crate) fn new(region: &Region, at: u64, header: &VersionHeader) -> RowRef {
        // SAFETY: `Chain::header` checked that the row lies in the region.
        let data = unsafe { region.as_ptr().add((at + VERSION_HEADER) as usize) };
        RowRef { data, len: header.len as usize }
    }

    /// The bytes.
    ///
    /// # Safety
    /// The transaction that read the row must not have ended its statement (or rolled back) yet.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: in bounds by construction; the caller keeps the version alive.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

/// What a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadView {
    /// The snapshot of the statement or transaction.
    Snapshot,
    /// The newest committed version, for rows that are locked. Takes no snapshot for the transaction.
    Newest,
}

impl Table {
    /// The newest version at or below `csn_limit`, starting at `word` of `rid`.
    #[inline]
    pub(crate) fn visible(&self, rid: Rid, mut word: Word, state: PageState, csn_limit: u64) -> Result<Option<RowRef>> {
        while !word.is_empty() {
            let (region, at, header) = self.chain().header(word, rid)?;
            // Planted: a snapshot does not see the last commit before it.
            if version_csn(region, at, state) <= csn_limit - u64::from(perdura_pmem::planted(58)) {
                return Ok((!header.tombstone).then(|| RowRef::new(region, at, &header)));
            }
            // What came with its page has nothing committed before it.
            word = if region.load(at) & PENDING == 0 { header.prev } else { Word::EMPTY };
        }
        Ok(None)
    }

    /// The committed row of `rid` at or below `csn_limit`.
    pub(crate) fn committed(&self, rid: Rid, csn_limit: u64) -> Result<Option<RowRef>> {
        loop {
            let word = self.directory().word(rid.row());
            if word.is_empty() || word.incarnation() != rid.incarnation() {
                return Ok(None);
            }
            let state = self.chain().state_of(rid.row());
            let seen = self.visible(rid, word, state, csn_limit);
            // A tombstone can be purged under a reader; then its word has changed.
            if !word.is_tombstone() || self.directory().word(rid.row()) == word {
                return seen;
            }
        }
    }

    /// The newest committed row of `rid` and its commit; for rows that are locked, or in a page that nobody else can
    /// change.
    pub(crate) fn newest(&self, rid: Rid) -> Result<Option<(RowRef, Csn)>> {
        let word = self.directory().word(rid.row());
        if word.is_empty() || word.is_tombstone() || word.incarnation() != rid.incarnation() {
            return Ok(None);
        }
        let (region, at, header) = self.chain().header(word, rid)?;
        let state = self.chain().state_of(rid.row());
        Ok(Some((RowRef::new(region, at, &header), version_csn(region, at, state))))
    }

    /// The newest version of a row that its writer wrote before write sequence `sequence`. `word` names its newest, `base` the
    /// committed one it replaces.
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
    /// This; `None` if it had deleted the row.
    Seen(Option<RowRef>),
    /// It wrote the row only later: the committed row counts.
    Later,
}
