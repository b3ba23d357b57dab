//! Fields, entries and lists of members as bytes: what messages, files and the maps' small blobs
//! have in common.

mod entries;
mod fields;
mod members;

pub(crate) use entries::{ENTRY_BYTES_LEAST, put_entry_front};
pub use entries::{get_entry, put_entry};
pub use fields::{Malformed, Piece, Read, Reader};
pub(crate) use fields::{put_bytes, put_length, put_short};
pub(crate) use members::{MEMBERS_MAX, all_members, put_change, put_members};
pub use members::{change_of, get_change, get_members};
