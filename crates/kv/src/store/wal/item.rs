//! Items of frames, one after the other.

use bytes::{BufMut, Bytes, BytesMut};
use raft::eraftpb::Entry;

use super::super::PersistentState;
use super::super::ring::Base;
use crate::codec::{Malformed, Read, Reader, get_entry, put_bytes, put_entry};

const PERSISTENT_STATE: u8 = 1;
const ENTRY: u8 = 2;
const COMMIT: u8 = 3;
const BASE: u8 = 4;
const RESET: u8 = 5;
const PAIR: u8 = 6;
const END: u8 = 7;

/// An item.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// The replica's persistent state.
    PersistentState(Box<PersistentState>),
    /// An entry, in place of those from its index on.
    Entry(Entry),
    /// Entries up to this index are applied.
    Commit(u64),
    /// The entry before the first of the file.
    Base(Base),
    /// The state was emptied for a snapshot.
    Reset,
    /// A key and its value.
    Pair(Bytes, Bytes),
    /// The end of a state, which is that of an index or earlier for each key.
    End(u64),
}

impl Item {
    /// Appends the item.
    pub(super) fn put(&self, out: &mut BytesMut) {
        match self {
            Item::PersistentState(persistent_state) => {
                out.put_u8(PERSISTENT_STATE);
                put_bytes(out, &persistent_state.to_bytes());
            }
            Item::Entry(entry) => {
                out.put_u8(ENTRY);
                put_entry(entry, out);
            }
            Item::Commit(index) => {
                out.put_u8(COMMIT);
                out.put_u64_le(*index);
            }
            Item::Base(Base { index, term, clock_ms }) => {
                out.put_u8(BASE);
                [index, term, clock_ms].into_iter().for_each(|word| out.put_u64_le(*word));
            }
            Item::Reset => out.put_u8(RESET),
            Item::Pair(key, value) => put_pair(key, value, out),
            Item::End(index) => {
                out.put_u8(END);
                out.put_u64_le(*index);
            }
        }
    }

    /// The next item.
    pub(super) fn get(reader: &mut Reader) -> Read<Item> {
        Ok(match reader.u8("the kind of an item")? {
            PERSISTENT_STATE => {
                Item::PersistentState(Box::new(PersistentState::from_bytes(reader.bytes("a persistent state")?)?))
            }
            ENTRY => Item::Entry(get_entry(reader)?),
            COMMIT => Item::Commit(reader.u64("what is applied")?),
            BASE => {
                let (index, term) = (reader.u64("the base")?, reader.u64("the base")?);
                Item::Base(Base { index, term, clock_ms: reader.u64("the base")? })
            }
            RESET => Item::Reset,
            PAIR => Item::Pair(reader.bytes("a key")?, reader.bytes("a value")?),
            END => Item::End(reader.u64("the end")?),
            _ => return Err(Malformed { field: "the kind of an item" }),
        })
    }

    /// The items of a body.
    pub(super) fn all(body: Vec<u8>) -> impl Iterator<Item = Read<Item>> {
        let mut reader = Reader::new(body.into());
        std::iter::from_fn(move || (reader.left() > 0).then(|| Item::get(&mut reader)))
    }
}

/// Appends a key and its value.
pub(super) fn put_pair(key: &[u8], value: &[u8], out: &mut BytesMut) {
    out.put_u8(PAIR);
    put_bytes(out, key);
    put_bytes(out, value);
}

#[cfg(test)]
mod tests {
    use super::{Base, Bytes, BytesMut, Entry, Item, PersistentState};

    #[test]
    fn items_come_back() {
        let persistent_state = PersistentState::founder(5, 6, vec![6, 7]);
        let entry = Entry { index: 3, term: 2, data: Bytes::from_static(b"data"), ..Entry::default() };
        let (key, value) = (Bytes::from_static(b"key"), Bytes::from_static(b"value"));
        let base = Base { index: 1, term: 2, clock_ms: 3 };
        let items = [
            Item::PersistentState(Box::new(persistent_state)),
            Item::Entry(entry),
            Item::Commit(9),
            Item::Base(base),
            Item::Reset,
            Item::Pair(key, value),
            Item::End(4),
        ];
        let mut out = BytesMut::new();
        items.iter().for_each(|item| item.put(&mut out));
        let found: Result<Vec<Item>, _> = Item::all(out.to_vec()).collect();
        assert_eq!(found.as_deref(), Ok(&items[..]));
        for cut in 1..out.len() {
            let found: Vec<_> = Item::all(out[..cut].to_vec()).take(8).collect();
            assert!(found.iter().any(Result::is_err) || found.len() < items.len(), "{cut}");
        }
    }
}
