//! The catalog: table 1, an ordinary table whose rows are the definitions of all others.
//!
//! Rows: tag 0, next table id u32; or tag 1, table id u32, name length u16, name, definition.

use crate::error::{Error, Result};
use crate::files::chain::row as row_bytes;
use crate::format::{CATALOG_ID, Rid, Word};
use crate::table::Table;
use std::collections::BTreeMap;

/// Name of the catalog in reports.
pub const NAME: &str = "perdura.catalog";
/// Bytes of the longest table name.
pub const NAME_BYTES_MAX: usize = 1024;

/// A catalog row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The id that the next table gets; neither it nor a larger one was ever given.
    NextId(u32),
    /// The definition of a table.
    Table {
        /// Table id.
        id: u32,
        /// Table name, 1 to [`NAME_BYTES_MAX`] bytes.
        name: String,
        /// The bytes that the table was created with, unread by the engine.
        definition: Vec<u8>,
    },
}

impl Entry {
    /// Encodes the row image.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Entry::NextId(id) => [&[0u8][..], &id.to_le_bytes()].concat(),
            Entry::Table { id, name, definition } => {
                [&[1u8][..], &id.to_le_bytes(), &(name.len() as u16).to_le_bytes(), name.as_bytes(), definition]
                    .concat()
            }
        }
    }

    /// Decodes a row image; `None` if the bytes are not one.
    pub fn decode(row: &[u8]) -> Option<Entry> {
        let (tag, rest) = row.split_first()?;
        let (id, rest) = rest.split_first_chunk::<4>()?;
        let id = u32::from_le_bytes(*id);
        match tag {
            0 if rest.is_empty() => Some(Entry::NextId(id)),
            1 if id > CATALOG_ID => {
                let (len, rest) = rest.split_first_chunk::<2>()?;
                let (name, definition) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
                let name = std::str::from_utf8(name).ok()?.to_owned();
                Some(Entry::Table { id, name, definition: definition.to_vec() })
            }
            _ => None,
        }
    }
}

/// Reads the catalog before there is a pool to run a transaction: each entry with the RID of its row. `redone` overlays
/// the directory with the words, by row, that a redo still to come will store.
pub fn entries(catalog: &Table, redone: &BTreeMap<u64, Word>) -> Result<Vec<(Rid, Entry)>> {
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
