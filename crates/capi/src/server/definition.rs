//! A table's definition as the plugin hands it over.

use super::code::{Failure, Outcome, PerduraCode};
use super::name;
use crate::row::definition::{Definition, Unreadable};
use crate::row::foreign_key::{ForeignKey, ForeignKeys};
use crate::row::layout::{Field, Layout, kind_of};
use perdura_engine::IndexDefinition;
use std::ffi::{CStr, c_char};
use std::slice;

/// A virtual column, which rows do not store.
pub const PERDURA_FIELD_VIRTUAL: u8 = 0;
/// A column of a fixed number of bytes.
pub const PERDURA_FIELD_FIXED: u8 = 1;
/// A column that holds a length, then the content.
pub const PERDURA_FIELD_VARCHAR: u8 = 2;
/// A column that holds a length, then a pointer to the content.
pub const PERDURA_FIELD_BLOB: u8 = 3;
/// A column of a fixed number of bytes that mostly end in spaces, which rows do not store.
pub const PERDURA_FIELD_PADDED: u8 = 4;

/// Where a column lies in a record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraField {
    /// One of the PERDURA_FIELD constants.
    pub kind: u8,
    /// Width of a length, in bytes: 1 or 2 for a varchar, 1 to 4 for a blob, 0 otherwise.
    pub length_bytes: u8,
    /// The column's bit in its NULL byte; 0 if the column cannot be NULL.
    pub null_mask: u8,
    /// Offset of the NULL byte in the record.
    pub null_offset: u32,
    /// Offset of the column in the record.
    pub offset: u32,
    /// Bytes of a fixed or padded column, most bytes of a varchar's content; 0 for a blob.
    pub length: u32,
}

/// An index of a table. Every row has one key in it, made by the plugin: bytes in whose order the
/// rows are found.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraIndex {
    /// No two rows have the same key, except keys that say that they may repeat.
    pub unique: bool,
    /// Length of every key; 0 if the lengths differ.
    pub key_bytes: u16,
}

/// A foreign key. Its texts are in UTF-8, but paths in the server's file name encoding.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraForeignKey {
    /// Its name; empty if it has a number.
    pub name: *const c_char,
    /// Of a key without a name of its own, which is named after its table and this number; 0 of
    /// others.
    pub number: u32,
    /// Path of the table that has it, the child, of which database and table count. Null in a
    /// definition.
    pub child: *const c_char,
    /// Path of the table that it refers to, which need not exist.
    pub parent: *const c_char,
    /// The columns of the child.
    pub columns: *const *const c_char,
    /// The columns of the parent.
    pub parent_columns: *const *const c_char,
    /// Number of columns.
    pub column_count: usize,
    /// The server's number of what becomes of the row when the parent's is deleted.
    pub on_delete: u8,
    /// The server's number of what becomes of the row when the parent's key changes.
    pub on_update: u8,
    /// The table is a copy that the server fills, and its rows hold to the key already. The rename
    /// that puts the copy in place ends that.
    pub is_carried: bool,
}

/// A table as the server defines it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraDefinition {
    /// The server's id of the definition. Null for a partition.
    pub version: *const u8,
    /// Length of the id.
    pub version_bytes: usize,
    /// The server's definition (frm image), by which another server finds the table. Null if the
    /// server keeps it.
    pub frm: *const u8,
    /// Length of the definition.
    pub frm_bytes: usize,
    /// The columns.
    pub fields: *const PerduraField,
    /// Number of columns.
    pub field_count: usize,
    /// Length of a record.
    pub record_bytes: u32,
    /// Bytes of NULL bits at the start of a record.
    pub null_bytes: u32,
    /// The indexes.
    pub indexes: *const PerduraIndex,
    /// Number of indexes.
    pub index_count: usize,
    /// The foreign keys.
    pub foreign_keys: *const PerduraForeignKey,
    /// Number of foreign keys.
    pub foreign_key_count: usize,
    /// Of a copy that is filled under a name of the server's own: path of the table whose place it
    /// takes. Null for others.
    pub copy_of: *const c_char,
}

/// # Safety
/// `data` must be readable for `count` items, or null with a `count` of 0.
pub(super) unsafe fn items<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: as the caller vouches for.
    unsafe { slice::from_raw_parts(data, count) }
}

/// The definition of `table` that the pool has stored.
pub(super) fn stored<'a>(bytes: &'a [u8], table: &str) -> Outcome<Definition<'a>> {
    Definition::decode(bytes).map_err(|unreadable| {
        let (code, what) = match unreadable {
            Unreadable::Newer => (PerduraCode::NotSupported, "was written by a newer build; use that build"),
            Unreadable::Damaged => (PerduraCode::Damaged, "cannot be read; run `perdura check` on the pool"),
        };
        Failure::new(code, format!("the definition of table {table} {what}"))
    })
}

/// # Safety
/// `text` must be a C string.
unsafe fn text(text: *const c_char) -> Outcome<String> {
    // SAFETY: as the caller vouches for.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(str::to_owned)
        .map_err(|_| Failure::new(PerduraCode::Configuration, "a name of a foreign key is not in UTF-8"))
}

impl PerduraForeignKey {
    /// # Safety
    /// All texts must be C strings, and the columns as many as the count says.
    pub(super) unsafe fn key(&self) -> Outcome<ForeignKey> {
        // SAFETY: as the caller vouches for.
        unsafe {
            let own = items(self.columns, self.column_count).iter();
            let columns = own.zip(items(self.parent_columns, self.column_count));
            Ok(ForeignKey {
                name: text(self.name)?,
                number: self.number,
                parent: name::of_path(CStr::from_ptr(self.parent))?,
                columns: columns.map(|(own, of)| Ok((text(*own)?, text(*of)?))).collect::<Outcome<_>>()?,
                on_delete: self.on_delete,
                on_update: self.on_update,
                is_carried: self.is_carried,
            })
        }
    }
}

impl PerduraDefinition {
    /// The definition, without the foreign keys.
    ///
    /// # Safety
    /// Pointers and counts must agree, and what they point to must outlive the result.
    pub(super) unsafe fn checked<'a>(&self) -> Outcome<Definition<'a>> {
        // SAFETY: as the caller vouches for.
        let (version, frm, fields) = unsafe {
            (
                items(self.version, self.version_bytes),
                items(self.frm, self.frm_bytes),
                items(self.fields, self.field_count),
            )
        };
        let wrong = |what: String| {
            Failure::new(PerduraCode::NotSupported, format!("the server's record layout is not understood: {what}"))
        };
        let field = |field: &PerduraField| {
            let &PerduraField { kind, length_bytes, null_mask, null_offset, offset, length } = field;
            let kind = kind_of(kind).ok_or_else(|| wrong(format!("field kind {kind}")))?;
            Ok(Field { kind, length_bytes, null_mask, null_offset, offset, length })
        };
        let fields = fields.iter().map(field).collect::<Outcome<Vec<_>>>()?;
        let layout = Layout::new(self.record_bytes, self.null_bytes, fields).map_err(wrong)?;
        Ok(Definition { version, layout, frm, foreign_keys: &[] })
    }

    /// The foreign keys, and the table that this one is a copy of.
    ///
    /// # Safety
    /// Pointers and counts must agree, and texts be C strings.
    pub(super) unsafe fn foreign_keys(&self) -> Outcome<ForeignKeys> {
        // SAFETY: as the caller vouches for.
        unsafe {
            let keys = items(self.foreign_keys, self.foreign_key_count).iter();
            let keys = keys.map(|key| key.key()).collect::<Outcome<_>>()?;
            let copy_of = if self.copy_of.is_null() { None } else { Some(CStr::from_ptr(self.copy_of)) };
            Ok(ForeignKeys { copy_of: copy_of.map(name::of_path).transpose()?.unwrap_or_default(), keys })
        }
    }

    /// The indexes, as the engine declares them.
    ///
    /// # Safety
    /// Pointer and count must agree.
    pub(super) unsafe fn index_definitions(&self) -> Vec<IndexDefinition> {
        // SAFETY: as the caller vouches for.
        let declarations = unsafe { items(self.indexes, self.index_count) };
        let declared = |index: &PerduraIndex| IndexDefinition { unique: index.unique, key_bytes: index.key_bytes };
        declarations.iter().map(declared).collect()
    }
}
