//! The foreign keys of a table, as the pool stores them with the table's definition.

use super::bytes::{Reader, put_u32};

/// The greatest number of an action: what becomes of a row whose parent is deleted or changed. The
/// numbers are the server's.
const ACTION_MAX: u8 = 5;
/// Most columns of a foreign key, as of an index of the server's.
const COLUMNS_MAX: u32 = 32;

/// A table's foreign keys.
///
/// Stored form: the table that it is a copy of, the number of keys (u32, little endian), then each:
/// name, number (u32), parent, action on delete, action on update and whether it is carried (a byte
/// each), the number of columns (u32), then each column with that of the parent. Texts stand behind
/// their lengths. Nothing at all says nothing. Valid iff that fills the bytes exactly, no text has
/// a zero byte, every key has 1 to 32 columns, and the numbers are in range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeys {
    /// Of a copy that the server fills under a name of its own: the name of the table whose place
    /// it takes. Empty for others.
    pub copy_of: String,
    /// The table's foreign keys.
    pub keys: Vec<ForeignKey>,
}

/// A foreign key of a table, the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Its name; empty if it has a number.
    pub name: String,
    /// Of a key without a name of its own, which is named after its table and this number; 0 of
    /// others.
    pub number: u32,
    /// The pool's name of the table that it refers to, which need not exist.
    pub parent: String,
    /// The columns, each with the one of the parent.
    pub columns: Vec<(String, String)>,
    /// The action when the parent's row is deleted, by the server's number.
    pub on_delete: u8,
    /// The action when the parent's key changes.
    pub on_update: u8,
    /// The table is a copy that the server fills, and its rows hold to the key already.
    pub is_carried: bool,
}

impl ForeignKeys {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.copy_of.is_empty() && self.keys.is_empty()
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.is_empty() {
            return bytes;
        }
        put_text(&mut bytes, &self.copy_of);
        put_u32(&mut bytes, self.keys.len() as u32);
        for key in &self.keys {
            put_text(&mut bytes, &key.name);
            put_u32(&mut bytes, key.number);
            put_text(&mut bytes, &key.parent);
            bytes.extend([key.on_delete, key.on_update, key.is_carried.into()]);
            put_u32(&mut bytes, key.columns.len() as u32);
            for (column, of_parent) in &key.columns {
                put_text(&mut bytes, column);
                put_text(&mut bytes, of_parent);
            }
        }
        bytes
    }

    /// Reads the stored form; `None` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Option<ForeignKeys> {
        if bytes.is_empty() {
            return Some(ForeignKeys::default());
        }
        let mut source = Reader(bytes);
        let copy_of = text(&mut source)?;
        let count = source.u32()?;
        // A count that is not true ends at the end of the bytes.
        let keys = (0..count).map(|_| decode_one(&mut source)).collect::<Option<Vec<_>>>()?;
        let found = ForeignKeys { copy_of, keys };
        (!found.is_empty() && source.0.is_empty()).then_some(found)
    }
}

fn decode_one(source: &mut Reader<'_>) -> Option<ForeignKey> {
    let name = text(source)?;
    let number = source.u32()?;
    let parent = text(source)?;
    let &[on_delete, on_update, carried] = source.bytes(3)? else { return None };
    let count = source.u32().filter(|count| (1..=COLUMNS_MAX).contains(count))?;
    let columns = (0..count).map(|_| Some((text(source)?, text(source)?))).collect::<Option<Vec<_>>>()?;
    let is_sound = name.is_empty() == (number > 0) && on_delete.max(on_update) <= ACTION_MAX && carried <= 1;
    is_sound.then_some(ForeignKey { name, number, parent, columns, on_delete, on_update, is_carried: carried == 1 })
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_u32(bytes, text.len() as u32);
    bytes.extend(text.as_bytes());
}

fn text(source: &mut Reader<'_>) -> Option<String> {
    let bytes = source.prefixed()?;
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).map(str::to_owned)
}
