//! Every persistent structure of a map but the root record ([`super::root`]) and what lies aside
//! ([`super::aside`]): sizes, words and checks, shared by writer and reader.
//!
//! docs/format.md draws them. Numbers are little-endian; offsets are from the start of the file, in
//! bytes.

use crate::config::{KEY_BYTES_MAX, Kind, Layout, TAG_BYTES_MAX, VALUE_BYTES_MAX};
use perdura_pmem::Mutant;
use perdura_pmem::checksum::{crc32c, crc32c_append};

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PERDMAP1");
pub(crate) const VERSION: u32 = 4;

pub(crate) const IDENTITY_BYTES: usize = 64;
/// Offset of the summary of the page table, one word per block of it.
pub(crate) const SUMMARY_AT: u64 = 8192;
/// Words of the page table in a block: one page of memory.
pub(crate) const BLOCK_PAGES: usize = 512;
/// Alignment of the page table and of the first page, in bytes.
const DATA_ALIGNMENT: u64 = 4096;
/// Unit of allocation: objects begin at multiples of a grain and fill whole grains.
pub(crate) const GRAIN_BYTES: u64 = 16;
pub(crate) const PAGES_MIN: u64 = 64;

/// Layout of pages and their words in a file of a given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) page_bytes: u64,
    pub(crate) pages: u64,
    pub(crate) table_at: u64,
    pub(crate) data_at: u64,
}

impl Geometry {
    /// As many pages as fit, each with its word in the page table, and a word of the summary for
    /// every block of those.
    pub(crate) fn new(bytes: u64, page_bytes: u32) -> Geometry {
        let page_bytes = u64::from(page_bytes);
        let mut pages = bytes.saturating_sub(SUMMARY_AT) / (page_bytes + 8);
        pages = pages.min(u64::from(u32::MAX));
        loop {
            let table_at = (SUMMARY_AT + 8 * pages.div_ceil(BLOCK_PAGES as u64)).next_multiple_of(DATA_ALIGNMENT);
            let data_at = (table_at + 8 * pages).next_multiple_of(DATA_ALIGNMENT);
            if pages == 0 || data_at + pages * page_bytes <= bytes {
                return Geometry { page_bytes, pages, table_at, data_at };
            }
            let over = data_at + pages * page_bytes - bytes;
            pages = pages.saturating_sub((over / (page_bytes + 9)).max(1));
        }
    }

    /// Blocks of the page table.
    pub(crate) fn blocks(&self) -> usize {
        self.pages.div_ceil(BLOCK_PAGES as u64) as usize
    }

    /// Offset of the summary's word for a block.
    pub(crate) fn summary_at(block: usize) -> u64 {
        SUMMARY_AT + 8 * block as u64
    }

    /// The pages an object lies in, with its bytes in each.
    pub(crate) fn parts(self, object: Ref) -> impl Iterator<Item = (usize, u32)> {
        let (start, end) = (object.offset(), object.offset() + object.len());
        let (first, last) = (self.page_of(start), self.page_of(end - 1));
        // Planted: an object is counted only in the page it begins in.
        let last = if perdura_pmem::planted(Mutant::ObjectCountedInFirstPage) { first } else { last };
        (first..last + 1).map(move |page| {
            let page_start = self.page_at(page);
            let bytes = end.min(page_start + self.page_bytes) - start.max(page_start);
            (page, bytes as u32)
        })
    }

    /// The pages whose words lie in a block.
    pub(crate) fn pages_of(&self, block: usize) -> std::ops::Range<usize> {
        block * BLOCK_PAGES..((block + 1) * BLOCK_PAGES).min(self.pages as usize)
    }

    /// An upper bound of the records that fit.
    pub(crate) fn records_max(&self) -> u64 {
        self.pages * self.page_bytes / RECORD_HEADER_BYTES
    }

    pub(crate) fn data_end(&self) -> u64 {
        self.data_at + self.pages * self.page_bytes
    }

    /// Whether an object of this place and length lies within the pages and begins at a grain.
    #[inline]
    pub(crate) fn holds(&self, offset: u64, len: u64) -> bool {
        offset >= self.data_at
            && offset.is_multiple_of(GRAIN_BYTES)
            && offset <= self.data_end()
            && len <= self.data_end() - offset
    }

    #[inline]
    pub(crate) fn page_of(&self, offset: u64) -> usize {
        ((offset - self.data_at) >> self.page_bytes.trailing_zeros()) as usize
    }

    pub(crate) fn page_at(&self, page: usize) -> u64 {
        self.data_at + page as u64 * self.page_bytes
    }

    pub(crate) fn word_at(&self, page: usize) -> u64 {
        self.table_at + 8 * page as u64
    }
}

/// Identity of a file. Valid iff magic, version and CRC32C match, and all numbers agree with the
/// file's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) kind: Kind,
    pub(crate) layout: Layout,
    pub(crate) salt: u64,
}

impl Identity {
    pub(crate) fn encode(&self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[16..20].copy_from_slice(&self.layout.page_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.layout.branching.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.layout.bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.salt.to_le_bytes());
        let crc = crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the identity, or says what is wrong with it.
    pub(crate) fn decode(bytes: &[u8; IDENTITY_BYTES], file_bytes: u64) -> Result<Identity, Wrong> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if long(0) != MAGIC {
            return Err(Wrong::Foreign);
        }
        if word(8) != VERSION {
            return Err(Wrong::Version(word(8)));
        }
        if word(60) != crc32c(&bytes[..60]) {
            return Err(Wrong::Damaged("the checksum of its identity does not match".into()));
        }
        let kind = match word(12) {
            0 => Kind::List,
            1 => Kind::BTree,
            other => return Err(Wrong::Damaged(format!("structure {other} is unknown"))),
        };
        let layout = Layout { bytes: long(24), page_bytes: word(16), branching: word(20) };
        if let Err(error) = layout.check() {
            return Err(Wrong::Damaged(error.to_string()));
        }
        if layout.bytes != file_bytes {
            return Err(Wrong::Damaged(format!("made with {} bytes, found {file_bytes}", layout.bytes)));
        }
        if Geometry::new(layout.bytes, layout.page_bytes).pages < PAGES_MIN {
            return Err(Wrong::Damaged(format!("{} bytes hold fewer than {PAGES_MIN} pages", layout.bytes)));
        }
        Ok(Identity { kind, layout, salt: long(32) })
    }
}

#[derive(Debug)]
pub(crate) enum Wrong {
    Foreign,
    Version(u32),
    Damaged(String),
}

/// CRC32C of words, bound to their file (`salt`) and place.
#[inline]
pub(crate) fn checksum(salt: u64, place: u64, words: &[u64]) -> u32 {
    crc32c_append(seed(salt, place), bytes_of(words))
}

/// Start value of a checksum. The same bytes elsewhere, or in another file, do not match.
#[inline]
pub(crate) fn seed(salt: u64, place: u64) -> u32 {
    let mixed = (salt ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

/// The bytes of words as they lie in memory, which is little-endian on every supported platform.
#[inline]
pub(crate) fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: any eight bytes of a word are eight bytes; the length is that of the words.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8) }
}

const _: () = assert!(cfg!(target_endian = "little"), "the format is little-endian");

/// Reference to an object: 40 bits of offset and 23 bits of length, both in grains, and a bit that
/// is set for a record which is a deletion. 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ref(pub(crate) u64);

const REF_DELETION: u64 = 1 << 63;

impl Ref {
    pub(crate) const NONE: Ref = Ref(0);

    #[inline]
    pub(crate) fn new(offset: u64, len: u64) -> Ref {
        debug_assert!(offset.is_multiple_of(GRAIN_BYTES) && len.is_multiple_of(GRAIN_BYTES));
        debug_assert!(offset / GRAIN_BYTES < 1 << 40 && len / GRAIN_BYTES < 1 << 23);
        Ref((offset / GRAIN_BYTES) | ((len / GRAIN_BYTES) << 40))
    }

    /// A reference to a record with this header.
    #[inline]
    pub(crate) fn of(offset: u64, header: &RecordHeader) -> Ref {
        Ref(Ref::new(offset, header.record_bytes()).0 | if header.deletion { REF_DELETION } else { 0 })
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn is_deletion(self) -> bool {
        self.0 & REF_DELETION != 0
    }

    #[inline]
    pub(crate) fn offset(self) -> u64 {
        (self.0 & ((1 << 40) - 1)) * GRAIN_BYTES
    }

    #[inline]
    pub(crate) fn len(self) -> u64 {
        ((self.0 & !REF_DELETION) >> 40) * GRAIN_BYTES
    }
}

/// Most persists of a map: a page word has 48 bits for the number.
pub(crate) const NUMBER_MAX: u64 = (1 << 48) - 1;

/// The word of a page: the number of the persist that took it, or 0 if it is free, and a check
/// of 16 bits bound to the page and its map. The check is never zero, so a word of zeros is damage.
pub(crate) fn page_word(number: u64, page: usize, salt: u64) -> u64 {
    debug_assert!(number <= NUMBER_MAX);
    let check = (number ^ salt ^ (page as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    number | check.max(1) << 48
}

/// The number in a page's word (0: free), or none if its check fails.
pub(crate) fn page_number(word: u64, page: usize, salt: u64) -> Option<u64> {
    let number = word & NUMBER_MAX;
    (page_word(number, page, salt) == word).then_some(number)
}

/// Bit that distinguishes the summary's words from those of pages.
const SUMMARY_PLACE: usize = 1 << 40;

/// The summary's word of a block: the number of the persist since which the block's words
/// count, or 0 if none of them does, and a check as of a page's word.
pub(crate) fn summary_word(number: u64, block: usize, salt: u64) -> u64 {
    page_word(number, SUMMARY_PLACE + block, salt)
}

/// The number in a word of the summary, or none if its check fails.
pub(crate) fn summary_number(word: u64, block: usize, salt: u64) -> Option<u64> {
    page_number(word, SUMMARY_PLACE + block, salt)
}

/// Bytes of a record before its key.
pub(crate) const RECORD_HEADER_BYTES: u64 = 40;
pub(crate) const RECORD_HEADER_WORDS: usize = RECORD_HEADER_BYTES as usize / 8;
/// In the word of the key's length: the record is a deletion.
const DELETION: u32 = 1 << 31;
/// In the word of the key's length: the record is no change of a key. Its value is the tag of its
/// timestamp.
const TAG: u32 = 1 << 30;
/// In the word of the key's length: the record bears the tag of its timestamp, behind its value.
const BEARS_TAG: u32 = 1 << 29;
/// In the word of the key's length: bits of that length, and of the length of the tag it bears.
const KEY_LENGTH_BITS: u32 = 17;
const TAG_LENGTH_BITS: u32 = 11;

const _: () = assert!(KEY_BYTES_MAX < 1 << KEY_LENGTH_BITS && TAG_BYTES_MAX < 1 << TAG_LENGTH_BITS);
const _: () = assert!(KEY_LENGTH_BITS + TAG_LENGTH_BITS <= BEARS_TAG.trailing_zeros());

/// Bytes of a record before those its checksum covers: the two links and the checksum itself.
pub(crate) const RECORD_UNCHECKED_BYTES: usize = 24;
/// Offset in a record of the link to the next older version of its key.
pub(crate) const OLDER_AT: u64 = 8;

/// Header of a record. Valid iff the CRC32C over timestamp, lengths, key, value and tag, bound to
/// the place, matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) ts: u64,
    pub(crate) deletion: bool,
    pub(crate) tag: bool,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    /// Of a change that bears the tag of its timestamp: bytes of that tag.
    pub(crate) borne_bytes: Option<u32>,
    pub(crate) crc: u32,
}

impl RecordHeader {
    /// The header's words, with the links to the older record and to the key's next older version,
    /// see [`link`].
    #[inline]
    pub(crate) fn encode(&self, next: u64, older: u64) -> [u64; RECORD_HEADER_WORDS] {
        let borne = self.borne_bytes.map_or(0, |bytes| BEARS_TAG | bytes << KEY_LENGTH_BITS);
        let kind = if self.deletion { DELETION } else { 0 } | if self.tag { TAG } else { 0 };
        let key = self.key_bytes | borne | kind;
        [next, older, u64::from(self.crc), self.ts, u64::from(key) | u64::from(self.value_bytes) << 32]
    }

    /// The header from the words after the links.
    #[inline]
    pub(crate) fn decode(words: [u64; 3]) -> RecordHeader {
        let key = words[2] as u32;
        RecordHeader {
            ts: words[1],
            deletion: key & DELETION != 0,
            tag: key & TAG != 0,
            key_bytes: key & ((1 << KEY_LENGTH_BITS) - 1),
            value_bytes: (words[2] >> 32) as u32,
            borne_bytes: (key & BEARS_TAG != 0).then_some(key >> KEY_LENGTH_BITS & ((1 << TAG_LENGTH_BITS) - 1)),
            crc: words[0] as u32,
        }
    }

    /// Bytes of the whole record, in whole grains.
    #[inline]
    pub(crate) fn record_bytes(&self) -> u64 {
        record_bytes(u64::from(self.key_bytes), u64::from(self.value_bytes), u64::from(self.borne_bytes.unwrap_or(0)))
    }

    /// Whether the word of the key's length is one that [`RecordHeader::encode`] makes.
    pub(crate) fn is_possible(&self) -> bool {
        let has_key_beside_tag = self.tag && (self.key_bytes > 0 || self.deletion || self.borne_bytes.is_some());
        let tag_bytes = if self.tag { self.value_bytes } else { self.borne_bytes.unwrap_or(0) };
        !has_key_beside_tag
            && self.key_bytes as usize <= KEY_BYTES_MAX
            && self.value_bytes as usize <= VALUE_BYTES_MAX
            && tag_bytes as usize <= TAG_BYTES_MAX
    }
}

/// Bytes of a record with a key, a value and a tag of these lengths, in whole grains.
#[inline]
pub(crate) const fn record_bytes(key_bytes: u64, value_bytes: u64, borne_bytes: u64) -> u64 {
    (RECORD_HEADER_BYTES + key_bytes + value_bytes + borne_bytes).next_multiple_of(GRAIN_BYTES)
}

/// The link word that names the record at `offset` (0: none): 40 bits of offset in grains and a
/// check of 24 bits. The check is never zero, so a word of zeros is damage.
#[inline]
pub(crate) fn link(offset: u64, salt: u64) -> u64 {
    let grains = offset / GRAIN_BYTES;
    grains | link_check(grains, salt) << 40
}

/// The offset that a link names (0: the end), or none if its check fails.
#[inline]
pub(crate) fn linked(link: u64, salt: u64) -> Option<u64> {
    let grains = link & ((1 << 40) - 1);
    (link >> 40 == link_check(grains, salt)).then_some(grains * GRAIN_BYTES)
}

#[inline]
fn link_check(grains: u64, salt: u64) -> u64 {
    ((grains ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).max(1)
}

/// Nodes fill whole cache lines.
const NODE_ALIGNMENT: u64 = 64;

/// Bytes of a node before its words: the word with its checksum.
pub(crate) const NODE_CHECKSUM_BYTES: u64 = 8;

/// Bytes of a leaf (level 0) or inner node: the checksum's word, a header word, then heads,
/// references and, in inner nodes, children.
#[inline]
pub(crate) fn node_bytes(level: u8, branching: u32) -> u64 {
    let arrays = if level == 0 { 2 } else { 3 };
    (8 * (2 + arrays * u64::from(branching))).next_multiple_of(NODE_ALIGNMENT)
}

/// The header word of a node: entries, level and length of the common prefix.
#[inline]
pub(crate) fn node_header(entries: usize, level: u8, skip: u16) -> u64 {
    entries as u64 | u64::from(level) << 8 | u64::from(skip) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometry_fills_the_file_and_no_more() {
        for bytes in [0, 4096, 70_000, 1 << 20, (1 << 30) + 12_345] {
            for page_bytes in [256, 1024, 65_536] {
                let geometry = Geometry::new(bytes, page_bytes);
                assert!(geometry.pages == 0 || geometry.data_end() <= bytes);
                assert!(geometry.data_end() + 2 * (u64::from(page_bytes) + 8192) > bytes);
                assert!(geometry.table_at + 8 * geometry.pages <= geometry.data_at);
                assert!(Geometry::summary_at(geometry.blocks()) <= geometry.table_at);
            }
        }
    }

    #[test]
    fn references_and_links_come_back() {
        let one = Ref::new(4096 + 160, 64);
        assert_eq!((one.offset(), one.len()), (4256, 64));
        assert_eq!(linked(link(4256, 7), 7), Some(4256));
        assert_eq!(linked(link(4256, 7), 8), None);
        assert_eq!(linked(link(4256, 7) ^ 1, 7), None);
        assert_eq!(linked(link(0, 7), 7), Some(0));
        assert_eq!(linked(0, 7), None);
    }
}
