//! A leaf on the medium: what lies where, and which bytes are sound.
//!
//! Whoever reads a leaf holds a snapshot, or the leaf's lock. An entry that counts for them does
//! not change meanwhile: its slot is used again only when no snapshot needs it (I8), and likewise
//! the place of the leaf.

use crate::error::{Error, Result};
use crate::format::{
    ENTRY_BYTES_MAX, ENTRY_ROW_BYTES, LEAF_HEADER, LeafKind, LeafShape, SlotValue, decode_valid, encode_valid,
    entry_check, entry_marks, entry_row, key_fingerprint, leaf_check, leaf_version, push_slot_value,
};
use perdura_pmem::{LINE_BYTES, Region, Step, trace};
use smallvec::SmallVec;

/// Number of a leaf in its table.
pub(crate) type LeafId = u32;

/// Offset of the valid word in a leaf.
const VALID_AT: u64 = 8;
/// Offset of the check word in a leaf.
const CHECK_AT: u64 = 16;

/// A leaf with at most one of so many slots in use is sparse.
pub(super) const SPARSE: u32 = 3;

/// A leaf on the medium.
#[derive(Clone, Copy)]
pub(crate) struct LeafBytes<'a> {
    region: &'a Region,
    at: u64,
    bytes: u64,
    shape: LeafShape,
    slots: u32,
}

/// Damage in a leaf.
#[cold]
pub(crate) fn damaged(leaf: &LeafBytes<'_>, what: &str) -> Error {
    let (file, at) = leaf.place();
    Error::damaged_index(file, at, what)
}

/// The error for an entry that does not pass its check.
#[cold]
pub(crate) fn damaged_entry(leaf: &LeafBytes<'_>) -> Error {
    damaged(leaf, "an entry of an index' leaf is damaged")
}

/// Tells entries of a leaf that redo is still to write, by slot.
pub(crate) type Carried<'c> = &'c dyn Fn(u32) -> Option<&'c [u8]>;

/// A range of a leaf's bytes.
pub(crate) type Range = std::ops::Range<u64>;

/// Lines of a leaf, of which the largest has 256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines([u64; 4]);

impl Lines {
    /// Adds the lines that `range` touches.
    #[inline]
    pub(crate) fn add(&mut self, range: &Range) {
        for line in range.start / LINE_BYTES..range.end.div_ceil(LINE_BYTES) {
            self.0[(line / 64) as usize] |= 1 << (line % 64);
        }
    }

    /// Adds the lines of `other`.
    #[inline]
    pub(crate) fn add_all(&mut self, other: &Lines) {
        self.0.iter_mut().zip(other.0).for_each(|(lines, others)| *lines |= others);
    }

    /// Runs of adjacent lines: the first of each, and their number.
    fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().zip((0..).step_by(64)).flat_map(|(lines, base)| {
            let mut rest = *lines;
            std::iter::from_fn(move || {
                let first = (rest != 0).then(|| rest.trailing_zeros())?;
                let count = (!(rest >> first)).trailing_zeros();
                // Adding the lowest bit carries through the run.
                rest &= rest.wrapping_add(1 << first);
                Some((base + u64::from(first), u64::from(count)))
            })
        })
    }
}

/// The set bits of `slots`, as slot numbers.
#[inline]
pub(crate) fn bits(slots: u64) -> impl Iterator<Item = u32> {
    let mut rest = slots;
    std::iter::from_fn(move || {
        let slot = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(slot)
    })
}

impl<'a> LeafBytes<'a> {
    /// The leaf of `bytes` at offset `at` of `region`, laid out as `shape` says, with so many
    /// slots.
    #[inline]
    pub(crate) fn new(region: &'a Region, (at, bytes): (u64, u64), shape: LeafShape, slots: u32) -> LeafBytes<'a> {
        LeafBytes { region, at, bytes, shape, slots }
    }

    /// Its file.
    pub(crate) fn region(&self) -> &'a Region {
        self.region
    }

    /// Its size, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.bytes
    }

    /// Name of the file and offset of the leaf, for errors.
    pub(crate) fn place(&self) -> (&'a str, u64) {
        (self.region.name(), self.at)
    }

    /// Asks for what a search looks at first.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.region.prefetch(self.at);
        self.region.prefetch(self.at + LINE_BYTES);
    }

    /// Number of its slots.
    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// A bit for each of its slots.
    #[inline]
    pub(crate) fn all(&self) -> u64 {
        (1 << self.slots()) - 1
    }

    /// How it is laid out.
    pub(crate) fn shape(&self) -> LeafShape {
        self.shape
    }

    /// The low key: the leaf has the entries from there on, up to the low key of the next.
    #[inline]
    pub(crate) fn low(&self) -> &'a [u8] {
        // SAFETY: the low key never changes while the leaf is in use, nor as long as anybody may
        // have come by it.
        unsafe { self.region.slice(self.at + LEAF_HEADER, self.shape.low.into()) }
    }

    /// Version of the leaf.
    pub(crate) fn version(&self) -> u16 {
        leaf_version(self.region.load(self.at + CHECK_AT))
    }

    /// Whether the header is sound; `salt` tells its table and place.
    pub(crate) fn is_sound(&self, salt: u64) -> bool {
        let fits = u64::from(self.shape.low) + LEAF_HEADER <= self.bytes && self.slots() >= 2;
        fits && self.region.load(self.at + CHECK_AT) == leaf_check(self.shape, self.low(), self.version(), salt)
    }

    /// The slots that count; `None` if the valid word is damaged.
    #[inline]
    pub(crate) fn valid(&self) -> Option<u64> {
        decode_valid(self.region.load(self.at + VALID_AT)).filter(|slots| slots & !self.all() == 0)
    }

    /// As [`LeafBytes::valid`]. Fails with Damaged.
    #[inline]
    pub(crate) fn sound_valid(&self) -> Result<u64> {
        self.valid().ok_or_else(|| damaged(self, "the valid word of an index' leaf is damaged"))
    }

    /// The slots that count, of a leaf whose valid word was found sound before.
    pub(crate) fn loaded_valid(&self) -> u64 {
        self.region.load(self.at + VALID_AT) & self.all()
    }

    /// Whether so few of its slots count that it is to be joined with another leaf.
    pub(crate) fn is_sparse(&self) -> bool {
        self.valid().is_some_and(|valid| self.are_few(valid))
    }

    /// Whether a leaf with so few slots that count is to be joined with another.
    pub(crate) fn are_few(&self, valid: u64) -> bool {
        valid.count_ones() * SPARSE <= self.slots()
    }

    /// Stores the slots that count. It flushes nothing.
    #[track_caller]
    pub(crate) fn set_valid(&self, slots: u64) {
        self.region.store(self.at + VALID_AT, encode_valid(slots));
    }

    /// Flushes the valid word, which is to be durable at the next checkpoint. The caller fences.
    #[track_caller]
    pub(crate) fn flush_valid(&self) {
        self.region.flush_settled(self.at + VALID_AT, 8);
    }

    /// Flushes lines of the leaf. The caller fences.
    #[track_caller]
    pub(crate) fn flush(&self, lines: &Lines) {
        for (first, count) in lines.runs() {
            self.region.flush(self.at + first * LINE_BYTES, count * LINE_BYTES);
        }
    }

    /// Flushes the entries in `slots`, which are to be durable at the next checkpoint. The caller
    /// fences.
    pub(crate) fn flush_slots_settled(&self, slots: u64) {
        for (first, count) in self.lines_of(slots).runs() {
            self.region.flush_settled(self.at + first * LINE_BYTES, count * LINE_BYTES);
        }
    }

    fn lines_of(&self, slots: u64) -> Lines {
        let mut lines = Lines::default();
        bits(slots).filter_map(|slot| self.ranges(slot)).flatten().for_each(|range| lines.add(&range));
        lines
    }

    /// Flushes the entries in `slots`, though whoever put the leaf in the place of another may have
    /// flushed them. The caller fences.
    #[track_caller]
    pub(crate) fn flush_slots_again(&self, slots: u64) {
        let _again = trace::span(trace::TRANSIENT);
        self.flush(&self.lines_of(slots));
    }

    /// Makes the valid word durable, and the entries in `slots`, which an earlier process has
    /// stored; where the medium settles, by the next time it does.
    pub(crate) fn reclaim_slots(&self, slots: u64) {
        let entries = bits(slots).filter_map(|slot| self.ranges(slot)).flatten();
        let all = std::iter::once(VALID_AT..VALID_AT + 8).chain(entries);
        self.region.reclaim_settled(all.map(|range| (self.at + range.start, range.end - range.start)));
    }

    /// Writes everything but the state of a new leaf, without entries, for [`LeafBytes::set_state`]
    /// once entries are there.
    pub(crate) fn write_header(&self, low: &[u8], version: u16, salt: u64) {
        self.region.store(self.at + VALID_AT, 0);
        self.region.store(self.at + CHECK_AT, leaf_check(self.shape, low, version, salt));
        if !low.is_empty() {
            self.region.write(self.at + LEAF_HEADER, low);
        }
    }

    /// The range of header and low key.
    pub(crate) fn header(&self) -> Range {
        0..LEAF_HEADER + u64::from(self.shape.low)
    }

    /// The store of a state, for [`perdura_pmem::publish`].
    pub(crate) fn step(&self, kind: LeafKind) -> Step<'a> {
        Step { region: self.region, offset: self.at, value: self.shape.encode(kind) }
    }

    /// Stores the state and flushes it. The caller fences.
    #[track_caller]
    pub(crate) fn set_state(&self, kind: LeafKind) {
        self.region.store(self.at, self.shape.encode(kind));
        self.region.flush(self.at, 8);
    }

    /// Retires a leaf that an earlier process has left in use, durably.
    pub(crate) fn retire_found(&self) {
        self.region.store(self.at, self.shape.encode(LeafKind::Retired));
        self.region.reclaim(self.at, 8);
    }

    /// Where the entry in `slot` lies, with its length; `None` if that is damaged.
    #[inline]
    fn extent(&self, slot: u32) -> Option<(u64, u64)> {
        let slots_at = self.shape.slots_at(self.slots);
        if self.shape.entry != 0 {
            let each = u64::from(self.shape.entry) + 1;
            return Some((slots_at + u64::from(slot) * each + 1, each - 1));
        }
        let at = u64::from(self.load_u16(slots_at + 2 * u64::from(slot)));
        if at < self.shape.heap_at(self.slots) || at + 3 > self.bytes {
            return None;
        }
        let length = u64::from(self.load_u16(at));
        // Callers have room for the longest entry.
        let is_entry = (ENTRY_ROW_BYTES as u64..=ENTRY_BYTES_MAX as u64).contains(&length);
        (is_entry && at + 3 + length <= self.bytes).then_some((at + 3, length))
    }

    fn load_u16(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.region.read(self.at + at, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    /// The entry in a slot that counts for the caller; `None` if it is damaged.
    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> Option<&'a [u8]> {
        self.placed_entry(slot).map(|(_, entry)| entry)
    }

    /// As [`LeafBytes::entry`]. Fails with Damaged.
    #[inline]
    pub(crate) fn sound_entry(&self, slot: u32) -> Result<&'a [u8]> {
        self.entry(slot).ok_or_else(|| damaged_entry(self))
    }

    /// As [`LeafBytes::entry`], with its offset in the leaf.
    #[inline]
    pub(super) fn placed_entry(&self, slot: u32) -> Option<(u64, &'a [u8])> {
        let (at, length) = self.extent(slot)?;
        // SAFETY: as said above, an entry that counts for the caller does not change.
        let bytes = unsafe { self.region.slice(self.at + at - 1, length + 1) };
        let (check, entry) = bytes.split_first()?;
        (entry_check(entry) == *check).then_some((at, entry))
    }

    /// As [`LeafBytes::entry`], without a look at its check.
    #[inline]
    pub(crate) fn unchecked_entry(&self, slot: u32) -> Option<&'a [u8]> {
        let (at, length) = self.extent(slot)?;
        // SAFETY: as said above, an entry that counts for the caller does not change.
        Some(unsafe { self.region.slice(self.at + at, length) })
    }

    /// The row of the entry in a slot that may be written meanwhile: any number, then.
    pub(super) fn unheld_row(&self, slot: u32) -> Option<u64> {
        let (at, length) = self.extent(slot)?;
        let mut row = [0; ENTRY_ROW_BYTES];
        self.region.read(self.at + at + length.checked_sub(ENTRY_ROW_BYTES as u64)?, &mut row);
        Some(entry_row(&row))
    }

    /// The slots among `slots` with the fingerprint of `key`.
    #[inline]
    pub(crate) fn candidates(&self, slots: u64, key: &[u8]) -> u64 {
        let mut fingerprints = [0u8; 64];
        let at = self.shape.fingerprints_at();
        // Bytes behind the last one do no harm: no slot is of them.
        match at + 64 <= self.bytes {
            true => self.region.read(self.at + at, &mut fingerprints),
            false => self.region.read(self.at + at, &mut fingerprints[..self.slots as usize]),
        }
        equal_to(&fingerprints, key_fingerprint(key)) & slots
    }

    /// A slot among `slots` with exactly this entry.
    pub(crate) fn find(&self, slots: u64, entry: &[u8]) -> Option<u32> {
        let key = crate::format::entry_key(entry);
        bits(self.candidates(slots, key)).find(|slot| self.entry(*slot) == Some(entry))
    }

    /// A place for an entry of `length` bytes, beside those in the slots `occupied`.
    pub(crate) fn room(&self, occupied: u64, length: usize) -> Option<(u32, u64)> {
        let slot = (!occupied & self.all()).trailing_zeros();
        if slot >= self.slots() {
            return None;
        }
        if self.shape.entry != 0 {
            return Some((slot, self.extent(slot)?.0 - 1));
        }
        let need = self.shape.stored(length);
        let heap = self.shape.heap_at(self.slots);
        let mut taken: SmallVec<[Range; 64]> =
            bits(occupied).filter_map(|slot| self.extent(slot)).map(|(at, length)| at - 3..at + length).collect();
        taken.sort_unstable_by_key(|range| range.start);
        let mut free = heap;
        for range in taken {
            if range.start >= free + need {
                return Some((slot, free));
            }
            free = free.max(range.end);
        }
        (free + need <= self.bytes).then_some((slot, free))
    }

    /// Writes an entry into the place that [`LeafBytes::room`] found. Returns the ranges to be
    /// flushed.
    pub(crate) fn write(&self, (slot, at): (u32, u64), entry: &[u8]) -> [Range; 3] {
        let (fingerprint, check) = entry_marks(entry);
        let fingerprint_at = self.shape.fingerprints_at() + u64::from(slot);
        self.region.write(self.at + fingerprint_at, &[fingerprint]);
        if self.shape.entry != 0 {
            self.region.write(self.at + at, &[check]);
            self.region.write(self.at + at + 1, entry);
            return [fingerprint_at..fingerprint_at + 1, at..at + 1 + entry.len() as u64, at..at];
        }
        let offset_at = self.shape.slots_at(self.slots) + 2 * u64::from(slot);
        self.region.write(self.at + offset_at, &(at as u16).to_le_bytes());
        self.region.write(self.at + at, &(entry.len() as u16).to_le_bytes());
        self.region.write(self.at + at + 2, &[check]);
        self.region.write(self.at + at + 3, entry);
        [fingerprint_at..fingerprint_at + 1, offset_at..offset_at + 2, at..at + 3 + entry.len() as u64]
    }

    /// Appends the entries in `slots` with where they lie, for a record by value.
    pub(crate) fn push_values(&self, slots: u64, values: &mut Vec<u8>) {
        for slot in bits(slots) {
            // Damage is left out: then the record does not count as one by value.
            let Some((at, length)) = self.extent(slot) else { continue };
            // SAFETY: the slot is the caller's own.
            let entry = unsafe { self.region.slice(self.at + at, length) };
            push_slot_value(values, if self.shape.entry == 0 { at as u16 - 3 } else { 0 }, entry);
        }
    }

    /// Place for an entry that a record carries by value, as [`LeafBytes::write`] takes it; `None`
    /// if it does not fit where the record says.
    pub(super) fn place_of(&self, value: &SlotValue<'_>) -> Option<(u32, u64)> {
        let (at, length) = (u64::from(value.at), value.entry.len());
        if value.slot >= self.slots {
            return None;
        }
        if self.shape.entry != 0 {
            let fits = length == usize::from(self.shape.entry) && at == 0;
            return self.extent(value.slot).filter(|_| fits).map(|(at, _)| (value.slot, at - 1));
        }
        let end = at + self.shape.stored(length);
        (at >= self.shape.heap_at(self.slots) && end <= self.bytes).then_some((value.slot, at))
    }

    /// The ranges of the entry in `slot`, to be flushed.
    pub(crate) fn ranges(&self, slot: u32) -> Option<[Range; 3]> {
        let (at, length) = self.extent(slot)?;
        let fingerprint_at = self.shape.fingerprints_at() + u64::from(slot);
        if self.shape.entry != 0 {
            return Some([fingerprint_at..fingerprint_at + 1, at - 1..at + length, at..at]);
        }
        let offset_at = self.shape.slots_at(self.slots) + 2 * u64::from(slot);
        Some([fingerprint_at..fingerprint_at + 1, offset_at..offset_at + 2, at - 3..at + length])
    }

    /// Copies a range of the leaf to the end of `bytes`. Entries in it that do not count for the
    /// caller may be any bytes.
    pub(super) fn copy(&self, range: std::ops::Range<u32>, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + range.len(), 0);
        self.region.read(self.at + u64::from(range.start), &mut bytes[start..]);
    }
}

/// A bit for each of the `bytes` that is `wanted`.
#[cfg(target_arch = "x86_64")]
#[inline]
fn equal_to(bytes: &[u8; 64], wanted: u8) -> u64 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: each processor of this kind has these instructions.
    let wanted = unsafe { _mm_set1_epi8(wanted as i8) };
    let equal = |at: usize| {
        let part = bytes[at..at + 16].as_ptr().cast::<__m128i>();
        // SAFETY: as above; the sixteen bytes are there, at any alignment.
        u64::from(unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(part), wanted)) } as u16)
    };
    equal(0) | equal(16) << 16 | equal(32) << 32 | equal(48) << 48
}

/// A bit for each of the `bytes` that is `wanted`.
#[cfg(not(target_arch = "x86_64"))]
fn equal_to(bytes: &[u8; 64], wanted: u8) -> u64 {
    bytes.iter().zip(0..).fold(0, |found, (byte, at)| found | u64::from(*byte == wanted) << at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_pmem::{Medium, SimMedium};

    #[test]
    fn bytes_are_found_wherever_they_are() {
        for seed in 0..64usize {
            let bytes: [u8; 64] = std::array::from_fn(|at| ((at * 7 + seed * at / 3) % 5) as u8 * 63);
            for wanted in [0, 63, 126, 252, 255] {
                let expected = bytes.iter().zip(0..).fold(0, |all, (byte, at)| all | u64::from(*byte == wanted) << at);
                assert_eq!(equal_to(&bytes, wanted), expected, "{bytes:?}, {wanted}");
            }
        }
    }

    /// Hazard: a forged length with a right check leads to more bytes than an entry has, and
    /// overruns whoever has room for one.
    #[test]
    fn a_length_that_no_entry_has_is_damage() {
        const BYTES: u64 = 16 << 10;
        let region = SimMedium::new().create("leaf", BYTES).expect("a file");
        let shape = LeafShape { index: 0, entry: 0, low: 0 };
        let leaf = LeafBytes::new(&region, (0, BYTES), shape, shape.slots(BYTES));
        let at = shape.heap_at(leaf.slots());
        for (length, is_sound) in [
            (ENTRY_ROW_BYTES - 1, false),
            (ENTRY_ROW_BYTES, true),
            (ENTRY_BYTES_MAX, true),
            (ENTRY_BYTES_MAX + 1, false),
        ] {
            leaf.write((0, at), &vec![7; length]);
            assert_eq!(leaf.entry(0).is_some(), is_sound, "{length} bytes");
        }
    }

    #[test]
    fn stretches_of_lines_are_all_lines_once() {
        let some: [&[(u64, u64)]; 6] =
            [&[], &[(0, 1)], &[(0, 64)], &[(100, 4000), (8100, 8300)], &[(0, 16384)], &[(16320, 16384)]];
        for added in some {
            let (mut lines, mut known) = (Lines::default(), [false; 256]);
            for (start, end) in added {
                lines.add(&(*start..*end));
                (start / 64..end.div_ceil(64)).for_each(|line| known[line as usize] = true);
            }
            let mut met = [false; 256];
            for (first, count) in lines.runs() {
                assert!(count > 0, "{added:?}");
                (first..first + count).for_each(|line| assert!(!std::mem::replace(&mut met[line as usize], true)));
            }
            assert_eq!(met, known, "{added:?}");
        }
    }
}
