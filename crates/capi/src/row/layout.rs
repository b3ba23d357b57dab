//! Where the fields lie in a server's record buffer. The layout is checked once, when a table is
//! opened.

use super::bytes::{Reader, put_u32};

/// How a record holds a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// The row does not store it: a virtual column, which the server computes.
    Virtual,
    /// `length` bytes.
    Fixed,
    /// `length_bytes` (1 or 2) bytes of length, little endian, then the content.
    Varchar,
    /// `length_bytes` (1 to 4) bytes of length, little endian, then a pointer to the content.
    Blob,
    /// `length` bytes, which mostly end in spaces. The row stores them without these.
    Padded,
}

/// One field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// How the record holds it.
    pub kind: FieldKind,
    /// Width of the length in front of a varchar or blob, in bytes; 0 otherwise.
    pub length_bytes: u8,
    /// The field's bit in its NULL byte; 0 for a field that cannot be NULL.
    pub null_mask: u8,
    /// Offset of the NULL byte in the record.
    pub null_offset: u32,
    /// Offset in the record, in bytes.
    pub offset: u32,
    /// Fixed and padded: bytes of the field. Varchar: most bytes of its content. Blob: 0.
    pub length: u32,
}

impl Field {
    /// Width of the length in front of the content in a row, in bytes; 0 if there is none.
    pub fn row_length_bytes(&self) -> u8 {
        match self.kind {
            FieldKind::Padded if self.length <= u32::from(u8::MAX) => 1,
            FieldKind::Padded => 2,
            _ => self.length_bytes,
        }
    }

    /// The field as a record holds it, which does not tell a padded field from a fixed one.
    fn in_record(&self) -> Field {
        let kind = if self.kind == FieldKind::Padded { FieldKind::Fixed } else { self.kind };
        Field { kind, ..*self }
    }
}

/// A checked layout: every field lies within the record and behind the null bytes.
///
/// A record starts with `null_bytes` bytes of NULL bits; the fields follow at their offsets. The
/// pool stores the layout with the table's definition, and a table is opened only if the server
/// lays out its records the same way. Its rows keep the stored layout: a table created before
/// padded fields existed keeps fixed ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    record_bytes: u32,
    null_bytes: u32,
    fields: Vec<Field>,
}

/// Bytes of a blob's pointer in a record.
pub const POINTER_BYTES: usize = size_of::<*const u8>();
/// Most bytes of a record; the server's own limit is 65,535 and the pointers of blobs.
const RECORD_BYTES_MAX: u32 = 1 << 20;
const FIELDS_MAX: usize = 1 << 16;

impl Layout {
    /// Checks a layout. The error says which field is wrong.
    pub fn new(record_bytes: u32, null_bytes: u32, fields: Vec<Field>) -> Result<Layout, String> {
        if record_bytes > RECORD_BYTES_MAX || null_bytes > record_bytes || fields.len() > FIELDS_MAX {
            return Err(format!(
                "a record of {record_bytes} bytes, {null_bytes} of them for NULL bits, with {} fields",
                fields.len()
            ));
        }
        for (index, field) in fields.iter().enumerate() {
            check_field(field, record_bytes, null_bytes).map_err(|what| format!("field {index}: {what}"))?;
        }
        Ok(Layout { record_bytes, null_bytes, fields })
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes as usize
    }

    /// Bytes of NULL bits at the start of the record.
    pub fn null_bytes(&self) -> usize {
        self.null_bytes as usize
    }

    /// The fields, in the order of the table definition.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether records of both layouts are the same, however their rows store the fields.
    pub fn has_same_records(&self, other: &Layout) -> bool {
        self.record_bytes == other.record_bytes
            && self.null_bytes == other.null_bytes
            && self.fields.iter().map(Field::in_record).eq(other.fields.iter().map(Field::in_record))
    }

    /// Appends the layout's stored form.
    pub fn encode(&self, target: &mut Vec<u8>) {
        put_u32(target, self.record_bytes);
        put_u32(target, self.null_bytes);
        put_u32(target, self.fields.len() as u32);
        for field in &self.fields {
            target.extend([field.kind as u8, field.length_bytes, field.null_mask, 0]);
            put_u32(target, field.null_offset);
            put_u32(target, field.offset);
            put_u32(target, field.length);
        }
    }

    /// Reads a stored layout; `None` if the bytes are not one.
    pub fn decode(source: &mut Reader<'_>) -> Option<Layout> {
        let (record_bytes, null_bytes, count) = (source.u32()?, source.u32()?, source.u32()?);
        let mut fields = Vec::new();
        for _ in 0..count {
            let &[kind, length_bytes, null_mask, _] = source.bytes(4)? else { return None };
            let kind = kind_of(kind)?;
            let (null_offset, offset, length) = (source.u32()?, source.u32()?, source.u32()?);
            fields.push(Field { kind, length_bytes, null_mask, null_offset, offset, length });
        }
        Layout::new(record_bytes, null_bytes, fields).ok()
    }
}

/// The kind that `number` stands for in a stored layout and in the C interface.
pub fn kind_of(number: u8) -> Option<FieldKind> {
    [FieldKind::Virtual, FieldKind::Fixed, FieldKind::Varchar, FieldKind::Blob, FieldKind::Padded]
        .into_iter()
        .find(|kind| *kind as u8 == number)
}

fn check_field(field: &Field, record_bytes: u32, null_bytes: u32) -> Result<(), String> {
    if field.null_mask != 0 && field.null_offset >= null_bytes {
        return Err(format!("its NULL bit is at byte {}, of {null_bytes}", field.null_offset));
    }
    let length_bytes = u64::from(field.length_bytes);
    let (lengths, bytes) = match field.kind {
        FieldKind::Virtual => return Ok(()),
        FieldKind::Fixed => (0..=0, u64::from(field.length)),
        FieldKind::Padded if field.length > u32::from(u16::MAX) => {
            return Err(format!("{} padded bytes", field.length));
        }
        FieldKind::Padded => (0..=0, u64::from(field.length)),
        FieldKind::Varchar => (1..=2, length_bytes + u64::from(field.length)),
        FieldKind::Blob => (1..=4, length_bytes + POINTER_BYTES as u64),
    };
    if !lengths.contains(&field.length_bytes) {
        return Err(format!("{} bytes of length", field.length_bytes));
    }
    if field.offset < null_bytes && bytes > 0 || u64::from(field.offset) + bytes > u64::from(record_bytes) {
        return Err(format!("{bytes} bytes at {} of a record of {record_bytes}", field.offset));
    }
    Ok(())
}
