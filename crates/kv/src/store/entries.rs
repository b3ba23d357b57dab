//! Conversion of an entry of Raft's log to a tag and changes in a store, and back.
//!
//! The two ways lose two things. Changes come back in the order of their keys, which is that in
//! which drafts make them. And a map does not keep deletions of keys that are not there: they
//! change nothing, so a replica that gets such an entry from one that was restarted has the same
//! state.

use bytes::{BufMut, Bytes, BytesMut};
use perdura_map::{KEY_BYTES_MAX, TAG_BYTES_MAX, VALUE_BYTES_MAX};
use protobuf::Message as _;
use raft::eraftpb::{ConfChangeV2, Entry, EntryType};

use super::error::{Error, ErrorKind, Result};
use crate::codec::{Malformed, Piece, get_change, put_change};
use crate::entry::{Change, ENTRY_BYTES_MAX, KeyChange, Kind, Tag, WriteBatch, parse};

/// Decoded entry, and what was made of its changes.
pub(super) struct Done<C> {
    pub(super) kind: Kind,
    /// The entry's own clock, if it has one.
    pub(super) clock_ms: Option<u64>,
    pub(super) changes: Vec<C>,
    /// Of a change of members: the change.
    pub(super) context: Bytes,
}

fn unreadable(index: u64) -> impl Fn(Malformed) -> Error {
    move |malformed| {
        if malformed.is_of_other_version() {
            return Error::of_other_version(format!("the entry at {index}"));
        }
        Error::new(ErrorKind::Entry, format!("the entry at {index} cannot be read: {malformed}"))
    }
}

/// The context of an entry that changes members: the leader's clock, and the change.
pub fn members_entry_context(clock_ms: u64, change: &ConfChangeV2) -> Bytes {
    let change = put_change(change);
    let mut out = BytesMut::with_capacity(8 + change.len());
    out.put_u64_le(clock_ms);
    out.put_slice(&change);
    out.freeze()
}

/// Whether an entry changes members.
pub(crate) fn is_change_of_members(entry: &Entry) -> bool {
    entry.entry_type == EntryType::EntryConfChangeV2
}

/// The change that an entry of that kind makes. Without a context it leaves a joint configuration.
pub fn change_of_members(entry: &Entry) -> Result<ConfChangeV2> {
    if entry.context.is_empty() {
        return Ok(ConfChangeV2::default());
    }
    let (_, change) = clock_and_change(entry)?;
    get_change(change).map_err(unreadable(entry.index))
}

fn clock_and_change(entry: &Entry) -> Result<(u64, Bytes)> {
    let mut context = entry.context.clone();
    if context.len() < 8 {
        return Err(unreadable(entry.index)(Malformed { field: "the context" }));
    }
    let clock = context.split_to(8);
    Ok((u64::from_le_bytes(clock.as_ref().try_into().expect("eight bytes")), context))
}

/// The changes that an entry makes to keys. They share its memory.
pub fn changes_of(entry: &Entry) -> Result<Vec<Change>> {
    read_shared(entry).map(|done| done.changes)
}

/// Whether every store takes an entry: it can be read, and nothing in it is too long.
pub(crate) fn is_sound(entry: &Entry) -> bool {
    let mut fits = entry.data.len() <= ENTRY_BYTES_MAX;
    let look = |key: &[u8], value: Option<&[u8]>| {
        fits &= key.len() <= KEY_BYTES_MAX && value.is_none_or(|value| value.len() <= VALUE_BYTES_MAX);
    };
    decode(entry, &entry.data[..], look).is_ok_and(|done| {
        // Without a context it is short.
        done.context.is_empty() || tag(entry.term, 0, &done).to_bytes().len() <= TAG_BYTES_MAX
    }) && fits
}

/// Whether another version of the program has made an entry, which this one cannot read.
pub(crate) fn is_of_other_version(entry: &Entry) -> bool {
    read(entry).is_err_and(|error| error.kind() == ErrorKind::Version)
}

/// Where entries begin, if there are any. Error: `Order` if they do not follow each other, or what
/// is there.
pub(super) fn begin(entries: &[Entry], last: u64, applied: u64) -> Result<Option<u64>> {
    let Some(from) = entries.first().map(|entry| entry.index) else { return Ok(None) };
    let follow = entries.iter().zip(from..).all(|(entry, index)| entry.index == index);
    if !follow || from > last + 1 || from <= applied {
        return Err(Error::order(format!("entries from {from} on, where {applied} is applied and {last} the last")));
    }
    Ok(Some(from))
}

/// Decodes an entry where it lies. Error: `Entry`.
pub(super) fn read(entry: &Entry) -> Result<Done<KeyChange<'_>>> {
    decode(entry, &entry.data[..], |key, value| KeyChange { key, value })
}

/// Decodes an entry to changes that share its memory. Error: `Entry`.
pub(super) fn read_shared(entry: &Entry) -> Result<Done<Change>> {
    decode(entry, entry.data.clone(), |key, value| Change { key, value })
}

/// Decodes an entry with this data.
fn decode<P: Piece, C>(entry: &Entry, data: P, change: impl FnMut(P, Option<P>) -> C) -> Result<Done<C>> {
    let done = |kind, clock_ms, context| Done { kind, clock_ms, changes: Vec::new(), context };
    match entry.entry_type {
        EntryType::EntryNormal if entry.data.is_empty() => Ok(done(Kind::Empty, None, Bytes::new())),
        EntryType::EntryNormal => {
            let (clock_ms, changes) = parse(data, change).map_err(unreadable(entry.index))?;
            Ok(Done { changes, ..done(Kind::Usual, Some(clock_ms), Bytes::new()) })
        }
        EntryType::EntryConfChangeV2 if entry.context.is_empty() => Ok(done(Kind::Members, None, Bytes::new())),
        EntryType::EntryConfChangeV2 => {
            let (clock_ms, change) = clock_and_change(entry)?;
            change_of_members(entry)?;
            Ok(done(Kind::Members, Some(clock_ms), change))
        }
        EntryType::EntryConfChange => Err(unreadable(entry.index)(Malformed { field: "the type" })),
    }
}

/// The tag of an entry. One without a clock of its own has the clock of the one before.
pub(super) fn tag<C>(term: u64, before_ms: u64, done: &Done<C>) -> Tag {
    Tag { kind: done.kind, term, clock_ms: done.clock_ms.unwrap_or(before_ms), context: done.context.clone() }
}

/// The entry of which a store has kept the tag and the changes. Error: `Entry`.
pub(super) fn entry(index: u64, tag: &Tag, changes: Vec<Change>) -> Result<Entry> {
    let entry = Entry { index, term: tag.term, ..Entry::default() };
    match tag.kind {
        Kind::Empty => Ok(entry),
        Kind::Usual => Ok(Entry { data: WriteBatch { clock_ms: tag.clock_ms, changes }.to_bytes(), ..entry }),
        Kind::Members if tag.context.is_empty() => Ok(Entry { entry_type: EntryType::EntryConfChangeV2, ..entry }),
        Kind::Members => {
            let change = get_change(tag.context.clone()).map_err(unreadable(index))?;
            let data = change.write_to_bytes().expect("a short message in memory").into();
            let context = members_entry_context(tag.clock_ms, &change);
            Ok(Entry { entry_type: EntryType::EntryConfChangeV2, data, context, ..entry })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Bytes, Change, ConfChangeV2, Entry, EntryType, WriteBatch, change_of_members, members_entry_context, read,
        read_shared, tag,
    };
    use protobuf::Message as _;
    use raft::eraftpb::{ConfChangeSingle, ConfChangeType};

    fn comes_back(entry: &Entry) {
        let done = read_shared(entry).expect("an entry");
        let tag = tag(entry.term, 5, &done);
        assert_eq!(super::entry(entry.index, &tag, done.changes).expect("an entry"), *entry);
    }

    #[test]
    fn entries_of_all_kinds_come_back() {
        let usual = Entry { index: 3, term: 2, ..Entry::default() };
        comes_back(&usual);
        let key = |text: &'static str| Bytes::from_static(text.as_bytes());
        let changes = vec![Change { key: key("a"), value: Some(key("1")) }, Change { key: key("b"), value: None }];
        comes_back(&Entry { data: WriteBatch { clock_ms: 9, changes }.to_bytes(), ..usual.clone() });
        comes_back(&Entry { data: WriteBatch { clock_ms: 9, changes: Vec::new() }.to_bytes(), ..usual.clone() });
        let leaving = Entry { entry_type: EntryType::EntryConfChangeV2, ..usual };
        comes_back(&leaving);
        let single =
            ConfChangeSingle { change_type: ConfChangeType::AddLearnerNode, node_id: 9, ..ConfChangeSingle::default() };
        let change = ConfChangeV2 { changes: vec![single].into(), ..ConfChangeV2::default() };
        let data = change.write_to_bytes().expect("bytes").into();
        let members = Entry { data, context: members_entry_context(9, &change), ..leaving.clone() };
        comes_back(&members);
        assert_eq!(change_of_members(&members).expect("a change"), change);
        assert_eq!(change_of_members(&leaving).expect("a change"), ConfChangeV2::default());
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_refused() {
        let usual = Entry { index: 3, term: 2, ..Entry::default() };
        let old = EntryType::EntryConfChange;
        let new = EntryType::EntryConfChangeV2;
        for wrong in [
            Entry { data: Bytes::from_static(b"9"), ..usual.clone() },
            Entry { entry_type: old, ..usual.clone() },
            Entry { entry_type: new, context: Bytes::from_static(b"short"), ..usual.clone() },
            Entry { entry_type: new, context: Bytes::from_static(b"12345678\x09"), ..usual.clone() },
        ] {
            assert!(read(&wrong).is_err() && !super::is_sound(&wrong), "{wrong:?}");
        }
        let long = vec![Change { key: vec![1; super::KEY_BYTES_MAX + 1].into(), value: None }];
        assert!(!super::is_sound(&Entry { data: WriteBatch { clock_ms: 9, changes: long }.to_bytes(), ..usual }));
    }
}
