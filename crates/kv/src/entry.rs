//! Content of an entry of the replicated log, and what the map keeps of it beside its changes.
//!
//! An entry carries the outcome of its command, not the command: the leader has evaluated it
//! against the versions that all entries before this one make. A replica that has those makes the
//! same state of it, whatever its program would have answered.

use bytes::{BufMut, Bytes, BytesMut};
pub use perdura_map::KeyChange;

use crate::codec::{Malformed, Piece, Read, Reader, put_bytes, put_length, put_short};

/// Most bytes of an entry's data.
pub(crate) const ENTRY_BYTES_MAX: usize = 96 << 20;
/// Version of an entry's layout.
const VERSION: u8 = 1;
/// Version of a tag's layout.
const TAG_VERSION: u8 = 2;
/// Version of the layout before, which is read and no longer written.
const TAG_VERSION_BEFORE: u8 = 1;
/// Bits of a tag's first byte that hold the version; the kind is above them.
const TAG_VERSION_BITS: u32 = 6;
/// Bytes of a change that has an empty key and no value.
const CHANGE_BYTES_LEAST: usize = 5;

/// A key of the map and its new value, or none to delete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key of the map.
    pub key: Bytes,
    /// Its new value.
    pub value: Option<Bytes>,
}

/// The data of an entry.
///
/// | bytes | |
/// |---|---|
/// | 1 | version of the layout |
/// | 8 | the leader's clock, in milliseconds since 1970 |
/// | 4 | number of changes |
/// | each | 1 if there is a value, else 0; key and value, each behind its length in 4 bytes |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    /// The time at which it is done, for all replicas.
    pub clock_ms: u64,
    /// Its changes, all at once.
    pub changes: Vec<Change>,
}

impl WriteBatch {
    /// The data of its entry.
    pub fn to_bytes(&self) -> Bytes {
        let changes = self.changes.iter();
        encode(
            self.clock_ms,
            changes.map(|Change { key, value }| (&key[..], value.as_ref().map(|value| [&value[..], &[]]))),
        )
    }

    /// Decodes the data of an entry.
    pub fn from_bytes(bytes: Bytes) -> Read<Self> {
        let (clock_ms, changes) = parse(bytes, |key, value| Change { key, value })?;
        Ok(Self { clock_ms, changes })
    }
}

/// The data of an entry, given its clock and its changes: each a key, and its new value in two
/// pieces.
pub(crate) fn encode<'a>(
    clock_ms: u64,
    changes: impl ExactSizeIterator<Item = (&'a [u8], Option<[&'a [u8]; 2]>)> + Clone,
) -> Bytes {
    let length = |pieces: [&[u8]; 2]| pieces.map(<[u8]>::len).iter().sum::<usize>();
    let bytes = changes.clone().map(|(key, value)| 9 + key.len() + value.map_or(0, length)).sum::<usize>();
    let mut out = BytesMut::with_capacity(13 + bytes);
    out.put_u8(VERSION);
    out.put_u64_le(clock_ms);
    out.put_u32_le(u32::try_from(changes.len()).expect("changes of one entry"));
    for (key, value) in changes {
        out.put_u8(u8::from(value.is_some()));
        put_bytes(&mut out, key);
        if let Some(pieces) = value {
            put_length(&mut out, length(pieces));
            pieces.into_iter().for_each(|piece| out.put_slice(piece));
        }
    }
    out.freeze()
}

/// The clock of an entry, given its data, and what `change` makes of each key and its new value.
pub(crate) fn parse<P: Piece, C>(bytes: P, mut change: impl FnMut(P, Option<P>) -> C) -> Read<(u64, Vec<C>)> {
    let mut reader = Reader::new(bytes);
    if reader.u8("the version")? != VERSION {
        return Err(Malformed::of_other_version());
    }
    let clock_ms = reader.u64("the clock")?;
    let count = reader.count("the number of changes", CHANGE_BYTES_LEAST)?;
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        let has_value = reader.flag("whether there is a value")?;
        let key = reader.bytes("a key")?;
        let value = if has_value { Some(reader.bytes("a value")?) } else { None };
        changes.push(change(key, value));
    }
    reader.end()?;
    Ok((clock_ms, changes))
}

/// Type of an entry for Raft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It changes keys, or nothing.
    Usual,
    /// It changes who the members are.
    Members,
    /// A leader's first of its term, without data.
    Empty,
}

/// The tag of an entry's timestamp in the map. It is written with every entry, and short: so it
/// fits into the map's root record.
///
/// | bytes | |
/// |---|---|
/// | 1 | bits 0 to 5 version of the layout, 6 and 7 kind: 0 usual, 1 members, 2 empty |
/// | 1 to 10 | term, seven bits a byte |
/// | 1 to 10 | the leader's clock, likewise: 6 in this century |
/// | rest | context: of a change of members, the change |
///
/// In layout 1, which snapshots and backups of earlier programs have, the first byte is the
/// version alone; kind (1), term (8), the leader's clock (8) and context follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Type of the entry.
    pub kind: Kind,
    /// The term in which it was proposed.
    pub term: u64,
    /// The clock of its batch.
    pub clock_ms: u64,
    /// Context that Raft needs of it besides, in its own encoding.
    pub context: Bytes,
}

impl Tag {
    /// The tag as the map keeps it.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(21 + self.context.len());
        let kind = match self.kind {
            Kind::Usual => 0,
            Kind::Members => 1,
            Kind::Empty => 2,
        };
        out.put_u8(kind << TAG_VERSION_BITS | TAG_VERSION);
        put_short(&mut out, self.term);
        put_short(&mut out, self.clock_ms);
        out.put_slice(&self.context);
        out.freeze()
    }

    /// The tag that the map has kept.
    pub fn from_bytes(bytes: Bytes) -> Read<Self> {
        let mut reader = Reader::new(bytes);
        let first = reader.u8("the version")?;
        let (kind, term, clock_ms) = match first & ((1 << TAG_VERSION_BITS) - 1) {
            TAG_VERSION => (first >> TAG_VERSION_BITS, reader.short("the term")?, reader.short("the clock")?),
            TAG_VERSION_BEFORE if first == TAG_VERSION_BEFORE => {
                (reader.u8("the kind")?, reader.u64("the term")?, reader.u64("the clock")?)
            }
            _ => return Err(Malformed::of_other_version()),
        };
        let kind = match kind {
            0 => Kind::Usual,
            1 => Kind::Members,
            2 => Kind::Empty,
            _ => return Err(Malformed { field: "the kind" }),
        };
        Ok(Self { kind, term, clock_ms, context: reader.rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Change, Kind, Malformed, Tag, WriteBatch};
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Bytes> {
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
    }

    proptest! {
        #[test]
        fn a_write_batch_comes_back(clock_ms: u64, pairs in proptest::collection::vec((bytes(), proptest::option::of(bytes())), 0..5)) {
            let changes = pairs.into_iter().map(|(key, value)| Change { key, value }).collect();
            let batch = WriteBatch { clock_ms, changes };
            prop_assert_eq!(WriteBatch::from_bytes(batch.to_bytes()), Ok(batch));
        }

        #[test]
        fn a_tag_comes_back(term: u64, clock_ms: u64, kind in 0..3_usize, context in bytes()) {
            let kind = [Kind::Usual, Kind::Members, Kind::Empty][kind];
            let tag = Tag { kind, term, clock_ms, context };
            prop_assert_eq!(Tag::from_bytes(tag.to_bytes()), Ok(tag));
        }

        #[test]
        fn any_bytes_are_a_write_batch_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..60), is_near: bool) {
            if let (true, Some(first)) = (is_near, bytes.first_mut()) {
                *first = 1;
            }
            let bytes = Bytes::from(bytes);
            if let Ok(batch) = WriteBatch::from_bytes(bytes.clone()) {
                prop_assert_eq!(batch.to_bytes(), bytes);
            }
        }

        #[test]
        fn any_bytes_are_a_tag_or_an_error(first: u8, rest in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x80), Just(0)], 0..30)) {
            let bytes = Bytes::from([&[first & 0xc0 | 2][..], &rest].concat());
            if let Ok(tag) = Tag::from_bytes(bytes.clone()) {
                prop_assert_eq!(tag.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_tag_of_the_layout_before_is_read() {
        let before = |kind: u8| [&[1, kind][..], &3u64.to_le_bytes(), &5u64.to_le_bytes(), b"who"].concat();
        for (number, kind) in [(0, Kind::Usual), (1, Kind::Members), (2, Kind::Empty)] {
            let tag = Tag { kind, term: 3, clock_ms: 5, context: Bytes::from_static(b"who") };
            assert_eq!(Tag::from_bytes(before(number).into()), Ok(tag));
        }
        assert_eq!(Tag::from_bytes(before(3).into()), Err(Malformed { field: "the kind" }));
        assert_eq!(Tag::from_bytes(Bytes::from_static(&[1, 0, 9])), Err(Malformed { field: "the term" }));
        let newer = Bytes::from_static(&[3, 0, 0]);
        assert!(Tag::from_bytes(newer).is_err_and(Malformed::is_of_other_version));
    }

    /// Hazard: a longer one costs each persist another record.
    #[test]
    fn the_tag_of_a_usual_entry_fits_into_a_root_record() {
        let tag = Tag { kind: Kind::Usual, term: 16_000, clock_ms: 1 << 41, context: Bytes::new() };
        assert_eq!(tag.to_bytes().len(), 9);
    }

    #[test]
    fn a_count_that_is_only_said_takes_no_memory() {
        let mut bytes = WriteBatch::default().to_bytes().to_vec();
        bytes[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(WriteBatch::from_bytes(bytes.into()).is_err());
    }
}
