//! Versions and entries that the records of a log carry by value for one table, and that redo is
//! still to write. The offline check, which writes nothing, takes them from here (I6).

use crate::error::Result;
use crate::format::{Record, Rid, VersionHeader, Word, slot_values};
use crate::table::Table;
use rustc_hash::FxHashMap;

/// Versions and entries that records of one table carry.
#[derive(Default)]
pub(super) struct Values {
    /// Headers of versions, by file and offset.
    versions: FxHashMap<(u32, u64), VersionHeader>,
    /// Entries, by file and offset of the leaf, and slot.
    entries: FxHashMap<(u32, u64, u32), Vec<u8>>,
}

impl Values {
    /// Those that `records` carry.
    pub(super) fn of(records: &[Record<'_>]) -> Values {
        let mut values = Values::default();
        for record in records {
            match record {
                Record::Row { rid, word, crc, value: Some(row), .. } => {
                    let header = VersionHeader { rid: *rid, len: row.len() as u32, crc: *crc };
                    values.versions.insert((word.file(), word.offset()), header);
                }
                Record::Leaf { place, inserted, values: carried, .. } => {
                    for value in slot_values(*inserted, carried) {
                        values.entries.insert((place.file(), place.offset(), value.slot), value.entry.to_vec());
                    }
                }
                _ => {}
            }
        }
        values
    }

    /// Header of the version of row `rid` that is to be written where `word` says, if one is.
    pub(super) fn version(&self, rid: Rid, word: Word) -> Option<VersionHeader> {
        self.versions.get(&(word.file(), word.offset())).copied().filter(|header| header.rid == rid)
    }

    /// The entry that is to be written into slot `slot` of the leaf that `leaf` names, if one is.
    pub(super) fn entry(&self, leaf: Word, slot: u32) -> Option<&[u8]> {
        self.entries.get(&(leaf.file(), leaf.offset(), slot)).map(Vec::as_slice)
    }
}

/// A table, with what redo is still to write there.
#[derive(Clone, Copy)]
pub(super) struct Known<'t> {
    pub table: &'t Table,
    values: Option<&'t Values>,
}

impl<'t> Known<'t> {
    /// The table as it is: redo has written everything.
    pub(super) fn written(table: &'t Table) -> Known<'t> {
        Known { table, values: None }
    }

    /// The table, to which redo is still to write `values`.
    pub(super) fn with(table: &'t Table, values: &'t Values) -> Known<'t> {
        Known { table, values: Some(values) }
    }

    /// Header of the version of row `rid` that redo is still to write where `word` says.
    pub(super) fn version(&self, rid: Rid, word: Word) -> Option<VersionHeader> {
        self.values?.version(rid, word)
    }

    /// The entry that redo is still to write into slot `slot` of the leaf that `leaf` names.
    pub(super) fn entry(&self, leaf: Word, slot: u32) -> Option<&'t [u8]> {
        self.values?.entry(leaf, slot)
    }

    /// Verifies the version that `word` names against its header, and returns its checksum. One
    /// that is to be written was verified with its record.
    pub(super) fn checksum(&self, rid: Rid, word: Word) -> Result<u32> {
        match self.version(rid, word) {
            Some(header) => Ok(header.crc),
            None => version_checksum(self.table, rid, word),
        }
    }
}

/// Verifies the version that `word` names against its header, and returns its checksum.
pub(super) fn version_checksum(table: &Table, rid: Rid, word: Word) -> Result<u32> {
    // SAFETY: recovery and the check run before any session, so nobody stores there.
    unsafe { table.verify_version(rid, word) }.map(|sound| sound.header.crc)
}
