//! The catalog: table 1, an ordinary table whose rows are the definitions of all others.
//!
//! Rows: tag 0, next table id u32; tag 1, table id u32, name length u16, name, definition; tag 2, a
//! table with indexes: as tag 1, with the number of indexes and three bytes for each before the
//! definition; or tag 3, a table whose indexes were altered: as tag 2, with the next number of an
//! index after their count, and five bytes for each.

use crate::error::{Error, Result};
use crate::files::chain::row as row_bytes;
use crate::format::{CATALOG_ID, IndexDefinition, KEY_BYTES_MAX, Rid, Word};
use crate::table::Table;
use crate::table::definition::Definition;
use std::collections::BTreeMap;

/// Name of the catalog in reports.
pub(crate) const NAME: &str = "perdura.catalog";
/// Bytes of the longest table name.
pub(crate) const NAME_BYTES_MAX: usize = 1024;
/// Most indexes of a table.
pub(crate) const INDEXES_MAX: usize = 255;

/// A catalog row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The id that the next table gets; neither it nor a larger one was ever given.
    NextId(u32),
    /// The definition of a table.
    Table {
        /// Table id.
        id: u32,
        /// Table name, 1 to [`NAME_BYTES_MAX`] bytes.
        name: String,
        /// Definition that the table was created with.
        definition: Definition,
    },
}

impl Entry {
    /// Encodes the row image.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Entry::NextId(id) => [&[0u8][..], &id.to_le_bytes()].concat(),
            Entry::Table { id, name, definition } => {
                let tag = match (definition.is_plain(), definition.indexes.is_empty()) {
                    (true, true) => 1,
                    (true, false) => 2,
                    (false, _) => 3,
                };
                let mut row =
                    [&[tag][..], &id.to_le_bytes(), &(name.len() as u16).to_le_bytes(), name.as_bytes()].concat();
                if tag != 1 {
                    row.push(definition.indexes.len() as u8);
                }
                if tag == 3 {
                    row.extend_from_slice(&definition.next_number.to_le_bytes());
                }
                for (number, index) in definition.numbered() {
                    row.push(index.unique.into());
                    row.extend_from_slice(&index.key_bytes.to_le_bytes());
                    if tag == 3 {
                        row.extend_from_slice(&number.to_le_bytes());
                    }
                }
                row.extend_from_slice(&definition.bytes);
                row
            }
        }
    }

    /// Decodes a row image; `None` if the bytes are not one.
    pub(crate) fn decode(row: &[u8]) -> Option<Entry> {
        let (tag, rest) = row.split_first()?;
        let (id, rest) = rest.split_first_chunk::<4>()?;
        let id = u32::from_le_bytes(*id);
        match tag {
            0 if rest.is_empty() => Some(Entry::NextId(id)),
            1..=3 if id > CATALOG_ID => {
                let (len, rest) = rest.split_first_chunk::<2>()?;
                let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
                let name = std::str::from_utf8(name).ok()?.to_owned();
                let definition = match tag {
                    1 => Definition::new(&[], rest),
                    2 => decode_indexes(rest)?,
                    _ => decode_altered(rest)?,
                };
                Some(Entry::Table { id, name, definition })
            }
            _ => None,
        }
    }
}

/// Decodes indexes as they were created, and what follows them.
fn decode_indexes(bytes: &[u8]) -> Option<Definition> {
    let (count, rest) = bytes.split_first()?;
    let (indexes, rest) = rest.split_at_checked(usize::from(*count) * 3)?;
    let indexes: Vec<_> = indexes.chunks_exact(3).map(decode_index).collect::<Option<_>>()?;
    (!indexes.is_empty()).then(|| Definition::new(&indexes, rest))
}

/// Decodes indexes that were altered, and what follows them.
fn decode_altered(bytes: &[u8]) -> Option<Definition> {
    let (count, rest) = bytes.split_first()?;
    let (next, rest) = rest.split_first_chunk::<2>()?;
    let next_number = u16::from_le_bytes(*next);
    let (indexes, rest) = rest.split_at_checked(usize::from(*count) * 5)?;
    let numbers: Vec<_> = indexes.chunks_exact(5).map(|index| u16::from_le_bytes([index[3], index[4]])).collect();
    let indexes: Vec<_> = indexes.chunks_exact(5).map(decode_index).collect::<Option<_>>()?;
    let is_new = |(at, number): (usize, &u16)| *number < next_number && !numbers[..at].contains(number);
    let definition =
        Definition { indexes: indexes.into(), numbers: numbers.as_slice().into(), next_number, bytes: rest.into() };
    (numbers.iter().enumerate().all(is_new) && !definition.is_plain()).then_some(definition)
}

fn decode_index(bytes: &[u8]) -> Option<IndexDefinition> {
    let key_bytes = u16::from_le_bytes([bytes[1], bytes[2]]);
    let is_sound = bytes[0] <= 1 && usize::from(key_bytes) <= KEY_BYTES_MAX;
    is_sound.then_some(IndexDefinition { unique: bytes[0] == 1, key_bytes })
}

/// Reads the catalog before there is a pool to run a transaction: each entry with the RID of its
/// row. `redone` overlays the directory with the words, by row, that a redo still to come will
/// store.
pub(crate) fn entries(catalog: &Table, redone: &BTreeMap<u64, Word>) -> Result<Vec<(Rid, Entry)>> {
    let mut entries = Vec::new();
    for page in 0..catalog.directory().page_count() {
        let state = catalog.directory().state(page);
        if !state.is_published() {
            continue;
        }
        for row in catalog.directory().page_rows(page) {
            let word = match redone.get(&row) {
                Some(word) => *word,
                None => catalog.directory().sound_word(row)?,
            };
            if word.is_empty() || word.is_tombstone() {
                continue;
            }
            let rid = Rid::new(row, word.incarnation());
            let (region, at, header) = catalog.chain().header(word, rid)?;
            // SAFETY: recovery and the check run before any session, so nobody stores there.
            let bytes = unsafe { row_bytes(region, at, &header) };
            if header.checksum(bytes) != header.crc {
                return Err(Error::damaged(region.name(), at, "a catalog row does not match its checksum"));
            }
            let entry = Entry::decode(bytes)
                .ok_or_else(|| Error::damaged(region.name(), at, "a catalog row is not a table definition"))?;
            entries.push((rid, entry));
        }
    }
    Ok(entries)
}
