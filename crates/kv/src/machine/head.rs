//! The head of a key: what its value is, when it ends, and for a string the value itself.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::{Malformed, Read, Reader};

/// Bytes of a head beside the value, at most.
pub(crate) const HEAD_BYTES_MAX: usize = 18;

const STRING: u8 = 1;

/// A string without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    /// Index of the entry that changed it last, by which it is compared.
    pub version: u64,
    /// When it ends, in milliseconds since 1970 by the cluster's clock.
    pub deadline_ms: Option<u64>,
    /// Offset of the value in the bytes that the map keeps.
    pub value_at: usize,
    /// Length of the value in bytes.
    pub length: usize,
}

impl Front {
    /// The front of what the map has kept: its first [`HEAD_BYTES_MAX`] bytes, or all, of `length`.
    pub(crate) fn from_bytes(bytes: Bytes, length: usize) -> Read<Self> {
        let shown = bytes.len();
        let Head { version, deadline_ms, value } = Head::from_bytes(bytes)?;
        let value_at = shown - value.len();
        let length = length.checked_sub(value_at).ok_or(Malformed { field: "the length" })?;
        Ok(Self { version, deadline_ms, value_at, length })
    }

    /// Whether it has ended at a time.
    pub(crate) fn has_ended(&self, now_ms: u64) -> bool {
        self.deadline_ms.is_some_and(|at| at <= now_ms)
    }
}

/// The head of a string.
///
/// | bytes | |
/// |---|---|
/// | 1 | type: 1 a string. Others are kept for hashes, lists, sets, sorted sets and streams |
/// | 1 | 1 if there is a deadline, else 0 |
/// | 8 | version: the index of the entry that changed the key last |
/// | 8 | the deadline in milliseconds since 1970, if there is one |
/// | rest | the value of a string |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Index of the entry that changed it last, by which it is compared.
    pub version: u64,
    /// When it ends, in milliseconds since 1970 by the cluster's clock.
    pub deadline_ms: Option<u64>,
    /// Its value.
    pub value: Bytes,
}

/// The value and deadline of a key; of one that is not there, nothing.
pub(crate) fn parts(head: Option<Head>) -> (Bytes, Option<u64>) {
    head.map_or((Bytes::new(), None), |head| (head.value, head.deadline_ms))
}

/// Bytes that the map is to keep for a key, in two pieces: so a long value is copied once, into its
/// entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// All, or a head without its value.
    front: Bytes,
    rest: Bytes,
}

impl From<Bytes> for Stored {
    fn from(front: Bytes) -> Self {
        Self { front, rest: Bytes::new() }
    }
}

impl Stored {
    /// Both pieces.
    pub(crate) fn pieces(&self) -> [&[u8]; 2] {
        [&self.front, &self.rest]
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.front.len() + self.rest.len()
    }

    /// All bytes in one piece.
    pub(crate) fn bytes(&self) -> Bytes {
        if self.rest.is_empty() { self.front.clone() } else { self.pieces().concat().into() }
    }

    /// The first [`HEAD_BYTES_MAX`] bytes, or of a head those before its value.
    pub(crate) fn front(&self) -> Bytes {
        self.front.slice(..self.front.len().min(HEAD_BYTES_MAX))
    }

    /// The head that it is. Its value shares the memory.
    pub(crate) fn head(self) -> Read<Head> {
        let head = Head::from_bytes(self.front)?;
        Ok(if self.rest.is_empty() { head } else { Head { value: self.rest, ..head } })
    }

    /// The bytes of a range that does not reach from one piece into the other, as far as there are
    /// any.
    pub(crate) fn part(&self, range: Range<usize>) -> Bytes {
        let before = self.front.len();
        let (piece, range) = if self.rest.is_empty() {
            (&self.front, range)
        } else {
            (&self.rest, range.start.saturating_sub(before)..range.end.saturating_sub(before))
        };
        piece.slice(range.start.min(piece.len())..range.end.min(piece.len()))
    }
}

impl Head {
    /// The head as the map keeps it. Its value is not copied.
    pub(crate) fn stored(self) -> Stored {
        let mut out = BytesMut::with_capacity(HEAD_BYTES_MAX);
        out.put_u8(STRING);
        out.put_u8(u8::from(self.deadline_ms.is_some()));
        out.put_u64_le(self.version);
        if let Some(at) = self.deadline_ms {
            out.put_u64_le(at);
        }
        Stored { front: out.freeze(), rest: self.value }
    }

    /// The head that the map has kept.
    pub(crate) fn from_bytes(bytes: Bytes) -> Read<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u8("the type")? != STRING {
            return Err(Malformed { field: "the type" });
        }
        let has_deadline = reader.flag("whether there is a deadline")?;
        let version = reader.u64("the version")?;
        let deadline_ms = if has_deadline { Some(reader.u64("the deadline")?) } else { None };
        Ok(Self { version, deadline_ms, value: reader.rest() })
    }

    /// Whether it has ended at a time.
    pub(crate) fn has_ended(&self, now_ms: u64) -> bool {
        self.deadline_ms.is_some_and(|at| at <= now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Front, HEAD_BYTES_MAX, Head};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_head_comes_back(version: u64, deadline_ms: Option<u64>, value in proptest::collection::vec(any::<u8>(), 0..20)) {
            let head = Head { version, deadline_ms, value: value.into() };
            let stored = head.clone().stored();
            let bytes = stored.bytes();
            let front = Front::from_bytes(bytes.slice(..bytes.len().min(HEAD_BYTES_MAX)), bytes.len()).expect("a head");
            prop_assert_eq!((front.version, front.deadline_ms, front.length), (version, deadline_ms, head.value.len()));
            prop_assert_eq!(Front::from_bytes(stored.front(), stored.len()), Ok(front));
            prop_assert_eq!(stored.clone().head(), Ok(head.clone()));
            prop_assert_eq!(stored.part(front.value_at + 1..front.value_at + 3), head.value.slice(1.min(front.length)..3.min(front.length)));
            prop_assert_eq!(&bytes[front.value_at..], &head.value[..]);
            prop_assert_eq!(Head::from_bytes(bytes), Ok(head));
        }

        #[test]
        fn any_bytes_are_a_head_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let bytes = Bytes::from(bytes);
            if let Ok(head) = Head::from_bytes(bytes.clone()) {
                prop_assert_eq!(head.stored().bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_key_ends_at_its_deadline() {
        let head = |deadline_ms| Head { version: 1, deadline_ms, value: Bytes::new() };
        assert!(!head(None).has_ended(u64::MAX));
        assert!(!head(Some(7)).has_ended(6));
        assert!(head(Some(7)).has_ended(7));
    }
}
