//! Room *format*: every persistent structure of the engine, defined once for writers, readers,
//! recovery and the check. Only the rows of the catalog have their codec beside it
//! (`recovery/catalog.rs`).
//!
//! `docs/format.md` draws the structures byte by byte. The room stands on nothing and touches no
//! memory: it has codecs and constants. For (I6) it says of each structure when it is valid; for
//! (I2) each structure that changes in place is one word.

mod file;
mod geometry;
mod leaf;
mod page;
mod record;
mod segment;
mod spilled;
mod version;
mod word;

pub use file::segments_for_bytes;
pub(crate) use file::{
    FILE_BYTES_MIN, FileHeader, FileIdentity, HeaderFault, LINK_AT, Link, bytes_for_segments, data_file_name,
    descriptor_at, parse_data_file_name, segments_at,
};
pub(crate) use geometry::{CATALOG_ID, GRANULES, LEAF_UNIT, SEGMENT_BYTES_MIN};
pub use geometry::{FORMAT_VERSION, Geometry, UNIT_BYTES, VALUES_VERSION};
pub(crate) use leaf::{
    ENTRY_BYTES_MAX, ENTRY_ROW_BYTES, LEAF_HEADER, LeafKind, LeafShape, decode_valid, encode_valid, entry_check,
    entry_key, entry_marks, entry_row, fold_entry, key_bytes_max, key_fingerprint, leaf_check, leaf_version,
    push_entry, units_for_fixed, units_for_long,
};
pub use leaf::{IndexDefinition, KEY_BYTES_MAX};
pub use page::PageState;
pub(crate) use record::{
    ENTRY_VALUE_EXTRA, RECORD_BYTES, ROW_VALUE_EXTRA, SlotValue, VALUE_HEAD, delta_crc, push_slot_value, slot_values,
};
pub use record::{Record, fold_row, page_crc};
pub use segment::SegmentKind;
pub use spilled::SpilledPage;
pub use version::{ROW_BYTES_MAX, VERSION_HEADER, VersionHeader};
pub use word::{Rid, Word};
