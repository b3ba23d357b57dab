//! Directory words, which name versions, and RIDs, which name rows.

use super::geometry::UNIT_BYTES;

/// The 48 bits of a place, and of a row number.
pub(super) const PLACE_MASK: u64 = (1 << 48) - 1;

/// A directory word: the 48-bit place of a version, with flags.
///
/// Bits 0..32 are the offset in 8-byte units, 32..48 the file number, 48..60 the incarnation of the
/// RID, 60 parity, 63 the tombstone flag: the row is deleted, and the place is that of its last
/// version. Place 0 means no version: offset 0 of file 0 is a file header. A word is sound iff the
/// number of set bits is even and bits 61 and 62 are 0, so a single bit that flips at rest can
/// neither make a row vanish nor bring an older version back unnoticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Word(pub u64);

const INCARNATION_MASK: u64 = (1 << 12) - 1;
const TOMBSTONE: u64 = 1 << 63;
const UNUSED: u64 = 0b11 << 61;
const PARITY_BIT: u32 = 60;

impl Word {
    /// No version, and incarnation 0: the word in zeroed memory.
    pub const EMPTY: Word = Word(0);

    /// A word that names the version at `offset` bytes of file `file`.
    pub fn new(file: u32, offset: u64, incarnation: u16) -> Word {
        debug_assert!(file < 1 << 16 && offset.is_multiple_of(UNIT_BYTES) && offset / UNIT_BYTES < 1 << 32);
        Word::even((offset / UNIT_BYTES) | (u64::from(file) << 32) | (u64::from(incarnation) & INCARNATION_MASK) << 48)
    }

    /// Adds the parity bit to `bits`, which lack it.
    fn even(bits: u64) -> Word {
        Word(bits | u64::from(bits.count_ones() & 1) << PARITY_BIT)
    }

    /// Whether the engine can have written this word.
    pub fn is_sound(self) -> bool {
        self.0.count_ones().is_multiple_of(2) && self.0 & UNUSED == 0
    }

    /// An empty word with the incarnation that the next row under this RID gets.
    pub fn empty(incarnation: u16) -> Word {
        Word::even((u64::from(incarnation) & INCARNATION_MASK) << 48)
    }

    /// The incarnation with which words go on that had `incarnations`: the last of them, going
    /// round modulo 4096. No word skips more than half of the circle, so none of its last 2,048
    /// RIDs comes back. `None` if there is no such incarnation: they are spread over half of the
    /// circle or more. 0 only if there are no others.
    pub fn last_incarnation(incarnations: impl IntoIterator<Item = u16>) -> Option<u16> {
        const COUNT: usize = INCARNATION_MASK as usize + 1;
        let mut had = [false; COUNT];
        incarnations.into_iter().for_each(|incarnation| had[usize::from(incarnation)] = true);
        let all: Vec<usize> = (0..COUNT).filter(|incarnation| had[*incarnation]).collect();
        if all.iter().all(|incarnation| *incarnation == 0) {
            return Some(0);
        }
        let next = all.iter().skip(1).copied().chain([all[0] + COUNT]);
        let last = all.iter().zip(next).find(|(this, next)| next - *this > COUNT / 2);
        last.map(|(last, _)| (*last).max(1) as u16)
    }

    /// The same place, flagged as a tombstone.
    pub fn tombstone(self) -> Word {
        Word::even(self.0 & !(1 << PARITY_BIT) | TOMBSTONE)
    }

    /// The same place, without the flag.
    pub(crate) fn alive(self) -> Word {
        Word::even(self.0 & !(1 << PARITY_BIT) & !TOMBSTONE)
    }

    /// Whether the word names no version.
    pub fn is_empty(self) -> bool {
        self.0 & PLACE_MASK == 0
    }

    /// Whether the row is deleted; the word then names its last version.
    pub fn is_tombstone(self) -> bool {
        self.0 & TOMBSTONE != 0
    }

    /// Number of the file in the table's chain.
    pub fn file(self) -> u32 {
        (self.0 >> 32) as u32 & 0xffff
    }

    /// Offset of the version in the file, in bytes.
    pub fn offset(self) -> u64 {
        (self.0 & 0xffff_ffff) * UNIT_BYTES
    }

    /// Incarnation of the RID.
    pub fn incarnation(self) -> u16 {
        (self.0 >> 48 & INCARNATION_MASK) as u16
    }
}

/// A stable row id: the 48-bit row number, which is a position in the row directory, and the
/// incarnation of that position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rid(u64);

impl Rid {
    /// The RID in the header of a version that is no row's.
    pub const NO_ROW: Rid = Rid(PLACE_MASK);

    /// The RID of row number `row` under `incarnation`.
    pub fn new(row: u64, incarnation: u16) -> Rid {
        Rid(row & PLACE_MASK | u64::from(incarnation) << 48)
    }

    /// Row number: a position in the row directory.
    pub fn row(self) -> u64 {
        self.0 & PLACE_MASK
    }

    /// How often the row number had been freed when this row was inserted, modulo 4096.
    pub fn incarnation(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The RID as one word, for a server's row reference.
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// The RID in one word. Any word is accepted; one that names no row finds none.
    pub fn from_u64(word: u64) -> Rid {
        Rid(word)
    }
}
