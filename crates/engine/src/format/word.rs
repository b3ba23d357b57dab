//! Directory words and RIDs: how a row's newest version is named, and how a row is.

use super::geometry::UNIT_BYTES;

/// Bits of a place, and of a row number.
pub(super) const PLACE_MASK: u64 = (1 << 48) - 1;
/// A 48-bit place of a version, with flags: the content of a directory word and of a version's `prev`.
///
/// Bits 0..32 offset in 16-byte units, 32..48 file number, 48..60 incarnation of the RID, 60 parity, 63 tombstone.
/// A place of 0 is "no version": offset 0 of file 0 is a file header. Sound iff the number of bits set is even and bits
/// 61 and 62 are 0: so no single bit that flips at rest makes a row vanish, or an older version of it come back, unnoticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub u64);

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
