//! What a pool stores to describe a table: the server's definition (its frm image), the definition's version, and the record
//! layout.
//!
//! Stored form: magic (8 bytes), then version, layout and frm image, each behind its length (u32, little endian). Valid iff
//! the magic is right and the three parts fill the rest exactly; the engine covers the bytes with a checksum of its own.

use super::bytes::{Reader, put_u32};
use super::layout::Layout;

const MAGIC: &[u8; 8] = b"PRDTDEF1";

/// A table's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// The server's id of this definition; each ALTER gives a new one.
    pub version: &'a [u8],
    /// Where the fields lie in a record of the table.
    pub layout: Layout,
    /// The server's definition, opaque here. Empty for a partition, whose definition the server keeps.
    pub frm: &'a [u8],
}

impl<'a> Definition<'a> {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut layout = Vec::new();
        self.layout.encode(&mut layout);
        let mut bytes = MAGIC.to_vec();
        for part in [self.version, &layout, self.frm] {
            put_u32(&mut bytes, part.len() as u32);
            bytes.extend(part);
        }
        bytes
    }

    /// Reads the stored form; `None` if the bytes are not one.
    pub fn decode(bytes: &'a [u8]) -> Option<Definition<'a>> {
        let mut source = Reader(bytes);
        if source.bytes(MAGIC.len())? != MAGIC {
            return None;
        }
        let version = source.prefixed()?;
        let mut layout = Reader(source.prefixed()?);
        let frm = source.prefixed()?;
        let layout = Layout::decode(&mut layout).filter(|_| layout.0.is_empty())?;
        source.0.is_empty().then_some(Definition { version, layout, frm })
    }
}
