//! Every persistent structure of the engine, defined once for writers, readers, recovery and the checker.
//! Drawn byte by byte in `docs/format.md`. Nothing here touches memory; these are codecs and constants.

use crc32c::{crc32c, crc32c_append};

/// Version of the engine's structures, kept in the superblock's geometry. A pool of a newer version is refused.
pub const FORMAT_VERSION: u64 = 1;
/// Smallest unit of space inside a segment, in bytes. Cells are multiples of it.
pub const UNIT_BYTES: u64 = 16;
/// Pages in one segment of the row directory.
pub const PAGES_PER_SEGMENT: u64 = 16;
/// Table id of the catalog.
pub const CATALOG_ID: u32 = 1;

/// Sizes fixed when a pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a segment: a power of two from 4 KiB to 1 MiB.
    pub segment_bytes: u64,
}

impl Geometry {
    /// The words stored in the superblock.
    pub fn to_words(self) -> [u64; 8] {
        [FORMAT_VERSION, self.segment_bytes, 0, 0, 0, 0, 0, 0]
    }

    /// Reads the superblock's words. `Err` says what is wrong.
    pub fn from_words(words: [u64; 8]) -> Result<Geometry, String> {
        if words[0] != FORMAT_VERSION {
            return Err(format!(
                "the pool has table format {}, this build reads format {FORMAT_VERSION}; use the build that wrote it",
                words[0]
            ));
        }
        let geometry = Geometry { segment_bytes: words[1] };
        geometry.check()?;
        Ok(geometry)
    }

    /// Whether the sizes are usable.
    pub fn check(self) -> Result<(), String> {
        if self.segment_bytes.is_power_of_two() && (4096..=1 << 20).contains(&self.segment_bytes) {
            Ok(())
        } else {
            Err(format!("segment size {} is not a power of two from 4096 to 1048576", self.segment_bytes))
        }
    }

    /// Directory words in a segment.
    pub fn words_per_segment(self) -> u64 {
        self.segment_bytes / 8
    }

    /// Directory words in a page: the rows of one extent.
    pub fn words_per_page(self) -> u64 {
        self.words_per_segment() / PAGES_PER_SEGMENT
    }
}

/// A 48-bit place of a version, with flags: the content of a directory word and of a version's `prev`.
///
/// Bits 0..32 offset in 16-byte units, 32..48 file number, 48..60 incarnation of the RID, 60 parity, 63 tombstone.
/// A place of 0 is "no version": offset 0 of file 0 is a file header. Sound iff the number of bits set is even and bits
/// 61 and 62 are 0: so no single bit that flips at rest makes a row vanish, or an older version of it come back, unnoticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub u64);

const PLACE_MASK: u64 = (1 << 48) - 1;
const INCARNATION_MASK: u64 = (1 << 12) - 1;
const TOMBSTONE: u64 = 1 << 63;
const UNUSED: u64 = 0b11 << 61;
const PARITY_BIT: u32 = 60;

impl Word {
    /// No version, incarnation 0: what zeroed memory holds.
    pub const EMPTY: Word = Word(0);

    /// A word naming the version at `offset` bytes of file `file`.
    pub fn new(file: u32, offset: u64, incarnation: u16) -> Word {
        debug_assert!(file < 1 << 16 && offset.is_multiple_of(UNIT_BYTES) && offset / UNIT_BYTES < 1 << 32);
        Word::even((offset / UNIT_BYTES) | (u64::from(file) << 32) | (u64::from(incarnation) & INCARNATION_MASK) << 48)
    }

    /// The word with these bits, which lack the parity.
    fn even(bits: u64) -> Word {
        Word(bits | u64::from(bits.count_ones() & 1) << PARITY_BIT)
    }

    /// Whether it can have been written so.
    pub fn is_sound(self) -> bool {
        self.0.count_ones().is_multiple_of(2) && self.0 & UNUSED == 0
    }

    /// An empty word that remembers the incarnation the RID's next row gets.
    pub fn empty(incarnation: u16) -> Word {
        Word::even((u64::from(incarnation) & INCARNATION_MASK) << 48)
    }

    /// The same place marked as a deletion.
    pub fn tombstone(self) -> Word {
        Word::even(self.0 & !(1 << PARITY_BIT) | TOMBSTONE)
    }

    /// Whether it names no version.
    pub fn is_empty(self) -> bool {
        self.0 & PLACE_MASK == 0
    }

    /// Whether the version it names is a deletion.
    pub fn is_tombstone(self) -> bool {
        self.0 & TOMBSTONE != 0
    }

    /// File number in the table's chain.
    pub fn file(self) -> u32 {
        (self.0 >> 32) as u32 & 0xffff
    }

    /// Offset in the file, in bytes.
    pub fn offset(self) -> u64 {
        (self.0 & 0xffff_ffff) * UNIT_BYTES
    }

    /// Incarnation of the RID.
    pub fn incarnation(self) -> u16 {
        (self.0 >> 48 & INCARNATION_MASK) as u16
    }

    /// Whether both words name the same place.
    pub fn same_place(self, other: Word) -> bool {
        (self.0 ^ other.0) & PLACE_MASK == 0
    }
}

/// Stable row id: 48-bit row number (a position in the row directory) and the incarnation of that position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rid(u64);

impl Rid {
    /// A RID from its parts.
    pub fn new(row: u64, incarnation: u16) -> Rid {
        Rid(row & PLACE_MASK | u64::from(incarnation) << 48)
    }

    /// Position in the row directory.
    pub fn row(self) -> u64 {
        self.0 & PLACE_MASK
    }

    /// How often that position had been freed when this row was made, modulo 4096.
    pub fn incarnation(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// As one word, for a server's row reference.
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// From one word. Any value is accepted; one that names no row finds none.
    pub fn from_u64(word: u64) -> Rid {
        Rid(word)
    }
}

/// Bytes of a version's header, before the row.
pub const VERSION_HEADER: u64 = 32;
/// Set in a version's csn word until its transaction publishes it; the other bits are the write sequence.
pub const PENDING: u64 = 1 << 63;
const META_TOMBSTONE: u32 = 1 << 31;
/// Longest row image, in bytes.
pub const ROW_BYTES_MAX: u64 = (1 << 31) - 1;

/// The header of a version without its csn word (which changes once, when the version is published).
///
/// Valid iff the CRC32C over prev, rid, meta and the row matches; live iff the directory word of `rid` names its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionHeader {
    /// The version this one replaced, for older snapshots of the running server. Meaningless after a restart.
    pub prev: Word,
    /// The row it belongs to.
    pub rid: Rid,
    /// Row length in bytes.
    pub len: u32,
    /// A deletion.
    pub tombstone: bool,
    /// CRC32C.
    pub crc: u32,
}

impl VersionHeader {
    /// A header for `row`, with its checksum.
    pub fn new(prev: Word, rid: Rid, row: &[u8], tombstone: bool) -> VersionHeader {
        let mut header = VersionHeader { prev, rid, len: row.len() as u32, tombstone, crc: 0 };
        header.crc = header.checksum(row);
        header
    }

    /// The checksum the header should carry for `row`.
    pub fn checksum(&self, row: &[u8]) -> u32 {
        let mut head = [0u8; 20];
        head[..8].copy_from_slice(&self.prev.0.to_le_bytes());
        head[8..16].copy_from_slice(&self.rid.0.to_le_bytes());
        head[16..].copy_from_slice(&self.meta().to_le_bytes());
        crc32c_append(crc32c(&head), row)
    }

    fn meta(&self) -> u32 {
        self.len | if self.tombstone { META_TOMBSTONE } else { 0 }
    }

    /// The 32 bytes, pending with write sequence `sequence`.
    pub fn encode(&self, sequence: u64) -> [u8; 32] {
        let mut bytes = [0u8; 32];
        bytes[..8].copy_from_slice(&(PENDING | sequence).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.prev.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.rid.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.meta().to_le_bytes());
        bytes[28..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// From the three words that follow the csn word.
    pub fn decode(prev: u64, rid: u64, meta_crc: u64) -> VersionHeader {
        let meta = meta_crc as u32;
        VersionHeader {
            prev: Word(prev),
            rid: Rid(rid),
            len: meta & !META_TOMBSTONE,
            tombstone: meta & META_TOMBSTONE != 0,
            crc: (meta_crc >> 32) as u32,
        }
    }
}

/// State word of a directory page: 0 is unpublished; otherwise bit 0 is set, bit 1 is parity, and bits 2 and up are the
/// CSN of the commit that published it (0 if it was published empty). Sound iff it is 0, or bit 0 is set and the number of bits set is even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState(pub u64);

impl PageState {
    /// Nothing in the page counts.
    pub const UNPUBLISHED: PageState = PageState(0);
    /// Published before any row was in it.
    pub const OPEN: PageState = PageState(0b11);

    /// Published, with the rows in it, by commit `csn`.
    pub fn extent(csn: u64) -> PageState {
        PageState(csn << 2 | u64::from((csn.count_ones() + 1) & 1) << 1 | 1)
    }

    /// Whether its words count.
    pub fn is_published(self) -> bool {
        self.0 & 1 != 0
    }

    /// The commit that published its first rows.
    pub fn csn(self) -> u64 {
        self.0 >> 2
    }

    /// Whether it can have been written so.
    pub fn is_sound(self) -> bool {
        self.0 == 0 || self.is_published() && self.0.count_ones().is_multiple_of(2)
    }
}

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Nothing.
    Free,
    /// Versions in cells of so many 16-byte units.
    Cells(u32),
    /// The row directory's segment of this number.
    Directory(u32),
    /// First of so many segments that hold one version.
    Run(u32),
    /// Later segment of a run; how many segments after the first.
    RunTail(u32),
}

impl SegmentKind {
    /// The descriptor word: kind in bits 0..4, argument 4..36, check of word, table, file and index in 48..64.
    pub fn encode(self, salt: u64) -> u64 {
        let (kind, argument) = match self {
            SegmentKind::Free => return 0,
            SegmentKind::Cells(units) => (1, units),
            SegmentKind::Directory(number) => (2, number),
            SegmentKind::Run(count) => (3, count),
            SegmentKind::RunTail(index) => (4, index),
        };
        let body = kind | u64::from(argument) << 4;
        body | check16(body, salt) << 48
    }

    /// Reads a descriptor word; `None` if damaged.
    pub fn decode(word: u64, salt: u64) -> Option<SegmentKind> {
        if word == 0 {
            return Some(SegmentKind::Free);
        }
        let body = word & PLACE_MASK;
        if check16(body, salt) != word >> 48 {
            return None;
        }
        let argument = u32::try_from(body >> 4).ok()?;
        match body & 15 {
            1 => Some(SegmentKind::Cells(argument)),
            2 => Some(SegmentKind::Directory(argument)),
            3 => Some(SegmentKind::Run(argument)),
            4 => Some(SegmentKind::RunTail(argument)),
            _ => None,
        }
    }
}

fn check16(body: u64, salt: u64) -> u64 {
    let crc = crc32c_append(crc32c(&body.to_le_bytes()), &salt.to_le_bytes());
    u64::from(crc >> 16 ^ crc & 0xffff)
}

/// Bytes of one redo record.
pub const RECORD_BYTES: usize = 24;
/// Flag in a record's word: the record publishes a directory page (RID field: page number, low word bits: row count).
const RECORD_EXTENT: u64 = 1 << 62;

/// A redo record: by reference, with the checksum of what it refers to (I6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Directory word of `rid` becomes `word`, whose version has checksum `crc`.
    Row {
        /// Table id.
        table: u32,
        /// The row.
        rid: Rid,
        /// Its new directory word.
        word: Word,
        /// CRC32C of the version the word names.
        crc: u32,
    },
    /// Directory page `page` with `rows` rows is published; `crc` covers its words and its versions' checksums.
    Extent {
        /// Table id.
        table: u32,
        /// Number of the page.
        page: u64,
        /// Rows filled, from its first on.
        rows: u32,
        /// See [`extent_crc`].
        crc: u32,
    },
}

impl Record {
    /// The table it belongs to.
    pub fn table(&self) -> u32 {
        match *self {
            Record::Row { table, .. } | Record::Extent { table, .. } => table,
        }
    }

    /// The 24 bytes.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let (rid, word, table, crc) = match *self {
            Record::Row { table, rid, word, crc } => (rid.0, word.0, table, crc),
            Record::Extent { table, page, rows, crc } => (page, u64::from(rows) | RECORD_EXTENT, table, crc),
        };
        let mut bytes = [0u8; RECORD_BYTES];
        bytes[..8].copy_from_slice(&rid.to_le_bytes());
        bytes[8..16].copy_from_slice(&word.to_le_bytes());
        bytes[16..20].copy_from_slice(&table.to_le_bytes());
        bytes[20..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads one record.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Record {
        let (words, _) = bytes.as_chunks::<8>();
        let rid = u64::from_le_bytes(words[0]);
        let word = u64::from_le_bytes(words[1]);
        let tail = u64::from_le_bytes(words[2]);
        let (table, crc) = (tail as u32, (tail >> 32) as u32);
        if word & RECORD_EXTENT != 0 {
            Record::Extent { table, page: rid, rows: word as u32, crc }
        } else {
            Record::Row { table, rid: Rid(rid), word: Word(word), crc }
        }
    }
}

/// Folds one row's checksum into an extent's sum. Order does not matter, and folding twice removes it again.
pub fn fold_row(row: u64, crc: u32) -> u64 {
    (u64::from(crc) << 32 | (row & 0xffff_ffff)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The checksum of an extent record: over the page's words and the folded checksums of its versions.
pub fn extent_crc(words: &[u8], folded: u64) -> u32 {
    crc32c_append(crc32c(words), &folded.to_le_bytes())
}
