//! Bytes of entries, tags and users.

use bytes::{Bytes, BytesMut};
use perdura_kv::acl::{user_from_bytes, user_to_bytes};
use perdura_kv::codec::{Reader, get_change, get_entry, get_members, put_entry};
use perdura_kv::entry::{Tag, WriteBatch};
use perdura_kv::store::{PersistentState, change_of_members, changes_of};
use raft::eraftpb::{Entry, EntryType};

/// The first byte chooses what the rest is. What is read is written again the same.
pub fn entries(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let bytes = Bytes::copy_from_slice(data);
    match choice % 9 {
        0 => {
            if let Ok(batch) = WriteBatch::from_bytes(bytes.clone()) {
                assert_eq!(batch.to_bytes(), bytes);
            }
        }
        1 => {
            if let Ok(tag) = Tag::from_bytes(bytes.clone()) {
                assert_eq!(tag.to_bytes(), bytes);
            }
        }
        2 => {
            if let Ok(persistent_state) = PersistentState::from_bytes(bytes.clone()) {
                assert_eq!(persistent_state.to_bytes(), bytes);
            }
        }
        3 => {
            let mut reader = Reader::new(bytes.clone());
            let mut out = BytesMut::new();
            while let Ok(entry) = get_entry(&mut reader) {
                put_entry(&entry, &mut out);
                used(&entry);
            }
            assert!(bytes.starts_with(&out));
        }
        4 => drop(get_members(&mut Reader::new(bytes))),
        5 => drop(get_change(bytes)),
        6 => used(&Entry { index: 5, term: 2, data: bytes, ..Entry::default() }),
        7 => {
            let entry_type = EntryType::EntryConfChangeV2;
            used(&Entry { index: 5, term: 2, entry_type, context: bytes, ..Entry::default() });
        }
        _ => {
            if let Ok(user) = user_from_bytes(&bytes) {
                assert_eq!(user_from_bytes(&user_to_bytes(&user)), Ok(user));
            }
        }
    }
}

/// Errors are as good as changes.
fn used(entry: &Entry) {
    let _ = (changes_of(entry), change_of_members(entry));
}
