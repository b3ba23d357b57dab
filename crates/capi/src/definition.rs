//! What the pool keeps of a table: the server's own definition (its frm image), the version of it, and the record layout.
//!
//! Stored form: magic (8 bytes), then version, layout and frm image, each behind its length (u32, little endian).
//! The engine covers the bytes with its checksum; here they are checked for form only.

use crate::bytes::{Reader, put_u32};
use crate::layout::Layout;

const MAGIC: &[u8; 8] = b"PRDTDEF1";

/// A table's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// The server's id of this definition; another one after each ALTER.
    pub version: &'a [u8],
    /// How a record of the table lies in the server's buffer.
    pub layout: Layout,
    /// The server's definition, opaque. Empty for a partition, which the server keeps itself.
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

    /// Reads a stored form; `None` if the bytes are not one.
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
