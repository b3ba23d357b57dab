//! Fields, entries and lists of members as bytes: what messages, files and the maps' small blobs
//! have in common.

mod entries;
mod fields;
mod members;

pub use entries::{ENTRY_BYTES_LEAST, get_entry, put_entry};
pub use fields::{Malformed, Read, Reader, put_bytes};
pub use members::{MEMBERS_MAX, all_members, change_of, get_change, get_members, put_change, put_members};
