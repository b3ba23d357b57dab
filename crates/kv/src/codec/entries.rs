//! An entry of Raft's log as bytes.

use bytes::{BufMut, BytesMut};
use raft::eraftpb::{Entry, EntryType};

use super::fields::{Malformed, Read, Reader, put_bytes};

/// Bytes of an entry without data and context.
pub(crate) const ENTRY_BYTES_LEAST: usize = 25;

/// Appends an entry.
///
/// | bytes | |
/// |---|---|
/// | 1 | type: 0 usual, 1 and 2 a change of members |
/// | 8 | term |
/// | 8 | index |
/// | each | data and context, behind their lengths in 4 bytes |
pub fn put_entry(entry: &Entry, out: &mut BytesMut) {
    put_entry_front(entry, out);
    put_bytes(out, &entry.data);
    put_bytes(out, &entry.context);
}

/// Appends what an entry has before its data.
pub(crate) fn put_entry_front(entry: &Entry, out: &mut BytesMut) {
    out.put_u8(match entry.entry_type {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChange => 1,
        EntryType::EntryConfChangeV2 => 2,
    });
    out.put_u64_le(entry.term);
    out.put_u64_le(entry.index);
}

/// The entry that was put.
pub fn get_entry(reader: &mut Reader) -> Read<Entry> {
    let entry_type = match reader.u8("the type of an entry")? {
        0 => EntryType::EntryNormal,
        1 => EntryType::EntryConfChange,
        2 => EntryType::EntryConfChangeV2,
        _ => return Err(Malformed { field: "the type of an entry" }),
    };
    let (term, index) = (reader.u64("the term of an entry")?, reader.u64("the index of an entry")?);
    let (data, context) = (reader.bytes("the data of an entry")?, reader.bytes("the context of an entry")?);
    Ok(Entry { entry_type, term, index, data, context, ..Entry::default() })
}
