//! Description of a table in a pool: the server's definition (its frm image), the definition's
//! version, the record layout, and the foreign keys.

use super::bytes::{Reader, put_u32};
use super::layout::{FieldKind, Layout};

const MAGIC: &[u8; 7] = b"PRDTDEF";
const FORMAT_PLAIN: u8 = b'1';
const FORMAT_PADDED: u8 = b'2';
const FORMAT_REFERRING: u8 = b'3';

/// Why stored bytes give no definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A later build wrote them, in a format that this one does not know.
    Newer,
    /// They are not a definition.
    Damaged,
}

/// A table's definition.
///
/// Stored form: magic (7 bytes) and format (a digit), then version, layout and frm image, each
/// behind its length (u32, little endian). Format 2 has padded fields, which builds before it do
/// not know; a definition without them is of format 1. Format 3 has foreign keys, as a fourth part,
/// and maybe padded fields. Valid iff the magic is right and the parts fill the rest exactly; the
/// engine covers the bytes with a checksum of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// The server's id of this definition; each ALTER gives a new one.
    pub version: &'a [u8],
    /// Where the fields lie in a record of the table.
    pub layout: Layout,
    /// The server's definition, opaque here. Empty for a partition, whose definition the server
    /// keeps.
    pub frm: &'a [u8],
    /// The foreign keys in their [stored form](super::foreign_key::ForeignKeys); empty if there are
    /// none.
    pub foreign_keys: &'a [u8],
}

impl<'a> Definition<'a> {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut layout = Vec::new();
        self.layout.encode(&mut layout);
        let mut bytes = MAGIC.to_vec();
        bytes.push(self.format());
        let parts = [self.version, &layout, self.frm, self.foreign_keys];
        let count = if self.foreign_keys.is_empty() { 3 } else { 4 };
        for part in &parts[..count] {
            put_u32(&mut bytes, part.len() as u32);
            bytes.extend(*part);
        }
        bytes
    }

    fn format(&self) -> u8 {
        if !self.foreign_keys.is_empty() {
            return FORMAT_REFERRING;
        }
        let is_padded = self.layout.fields().iter().any(|field| field.kind == FieldKind::Padded);
        if is_padded { FORMAT_PADDED } else { FORMAT_PLAIN }
    }

    /// Reads the stored form.
    pub fn decode(bytes: &'a [u8]) -> Result<Definition<'a>, Unreadable> {
        let mut source = Reader(bytes);
        if source.bytes(MAGIC.len()) != Some(MAGIC) {
            return Err(Unreadable::Damaged);
        }
        match source.bytes(1) {
            Some(&[format @ FORMAT_PLAIN..=FORMAT_REFERRING]) => Definition::decode_parts(source, format)
                .filter(|definition| definition.format() == format)
                .ok_or(Unreadable::Damaged),
            Some(&[b'4'..=b'9']) => Err(Unreadable::Newer),
            _ => Err(Unreadable::Damaged),
        }
    }

    fn decode_parts(mut source: Reader<'a>, format: u8) -> Option<Definition<'a>> {
        let version = source.prefixed()?;
        let mut layout = Reader(source.prefixed()?);
        let frm = source.prefixed()?;
        let foreign_keys = if format == FORMAT_REFERRING { source.prefixed()? } else { &[] };
        let layout = Layout::decode(&mut layout).filter(|_| layout.0.is_empty())?;
        source.0.is_empty().then_some(Definition { version, layout, frm, foreign_keys })
    }
}
