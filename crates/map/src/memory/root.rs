//! The root record: one persisted state of the map, in one line of a ring of slots, or in two.
//!
//! A slot is 16 words of 48 bits of content and a check of 16 bits each. A persist takes the slot
//! of its number and leaves those before it alone, so the newest valid number says which state
//! counts.
//!
//! - A slot is *sound* iff the checks of all its words match.
//! - A record is *valid* iff its slot's words are sound, its CRC32C matches, and its number is one
//!   of the slot.
//!
//! A store of one word is whole. So what a crash leaves of a record is a sound slot, whatever words
//! of it have arrived; a slot that is not sound is damage. Opening tells the two apart by that, in
//! the slots after the newest valid record. Keeps (I2), (I6).

use crate::config::Kind;
use crate::error::{Error, Result};
use crate::memory::format::{GRAIN_BYTES, NUMBER_MAX, RECORD_HEADER_BYTES, checksum, page_number, page_word};
use perdura_pmem::{LINE_BYTES, Mutant, Region, planted};

/// Offset of the ring.
pub(crate) const RING_AT: u64 = 256;
/// Slots of the ring.
pub(crate) const RING_SLOTS: u64 = 16;
/// Words of a slot: two lines.
const SLOT_WORDS: usize = 16;
const LINE_WORDS: usize = LINE_BYTES as usize / 8;
/// Bytes of a slot.
const SLOT_BYTES: u64 = 8 * SLOT_WORDS as u64;
pub(crate) const RING_BYTES: u64 = RING_SLOTS * SLOT_BYTES;

/// Bits of content in a word.
const WORD_BITS: u32 = 48;
/// Bit that distinguishes the ring's words from those of pages and of the summary.
const RING_PLACE: usize = 1 << 41;

const NUMBER_BITS: u32 = 48;
const CRC_BITS: u32 = 32;
const GRAINS_BITS: u32 = 40;
const ASIDE_BITS: u32 = 16;
const TAG_LENGTH_BITS: u32 = 4;
/// Longest tag that a root record holds, in bytes.
pub(crate) const SHORT_TAG_BYTES: usize = 10;
/// In place of a tag's length: the tag lies aside.
const TAG_ASIDE: u64 = (1 << TAG_LENGTH_BITS) - 1;

/// Bits of the fields whose width the form decides: pending changes, and the distances from the
/// last timestamp to the applied one, from that to the forgotten one, from that to the tag's.
type Widths = [u32; 4];
/// The widths in one line.
const NARROW: Widths = [24, 24, 24, 26];
/// The widths in two lines.
const WIDE: Widths = [40, 64, 64, 64];

/// Bits of the fields that both forms have, apart from those of [`Widths`].
const COMMON_BITS: u32 =
    NUMBER_BITS + CRC_BITS + 2 + ASIDE_BITS + GRAINS_BITS + u64::BITS + TAG_LENGTH_BITS + 8 * SHORT_TAG_BYTES as u32;
/// Bits of the fields that only two lines have.
const TREE_BITS: u32 = u64::BITS + 3 * GRAINS_BITS;

const fn sum(widths: Widths) -> u32 {
    widths[0] + widths[1] + widths[2] + widths[3]
}

const _: () = assert!(COMMON_BITS + sum(NARROW) <= WORD_BITS * LINE_WORDS as u32);
const _: () = assert!(COMMON_BITS + sum(WIDE) + TREE_BITS <= WORD_BITS * SLOT_WORDS as u32);
const _: () = assert!(NUMBER_BITS == WORD_BITS && NUMBER_MAX < 1 << NUMBER_BITS);

/// A tag that a root record holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShortTag {
    len: u8,
    bytes: [u8; SHORT_TAG_BYTES],
}

impl ShortTag {
    /// A tag, unless it is too long.
    pub(crate) fn of(tag: &[u8]) -> Option<ShortTag> {
        let mut bytes = [0; SHORT_TAG_BYTES];
        bytes.get_mut(..tag.len())?.copy_from_slice(tag);
        Some(ShortTag { len: tag.len() as u8, bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// One persisted state of the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RootRecord {
    /// Number of the persist, from 1 on.
    pub(crate) number: u64,
    /// B+-tree: reference to the root node. 0: no entries.
    pub(crate) root: u64,
    /// Offset of the newest record. 0: none.
    pub(crate) head: u64,
    pub(crate) last: u64,
    pub(crate) applied: u64,
    pub(crate) forgotten: u64,
    /// Count of the records, from the head on, that are not forgotten.
    pub(crate) pending: u64,
    /// B+-tree: count of the versions. A list counts them at start, and so the next two.
    pub(crate) versions: u64,
    /// Bytes of live objects.
    pub(crate) live: u64,
    /// Count of the nodes.
    pub(crate) nodes: u64,
    /// The newest forgotten tag and its timestamp. None: it lies aside, or there is none.
    pub(crate) tag: Option<(u64, ShortTag)>,
    /// Number of the aside record: its lowest 16 bits.
    pub(crate) aside: u16,
    /// Whether the content is being replaced: it is empty, and not that of any moment.
    pub(crate) is_partial: bool,
}

/// Content of a slot, 48 bits a word.
type Content = [u64; SLOT_WORDS];

/// Content of a slot, packed from its lowest bit on. There is no loop, so that with constant widths
/// a few shifts are left of it: each persist packs a record.
struct Packer<'w> {
    words: &'w mut Content,
    at: u32,
}

impl Packer<'_> {
    #[inline(always)]
    fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits == u64::BITS || value >> bits == 0, "{value} has more than {bits} bits");
        let (word, shift) = ((self.at / WORD_BITS) as usize, self.at % WORD_BITS);
        let (in_first, in_two) = (WORD_BITS - shift, 2 * WORD_BITS - shift);
        self.words[word] |= value << shift & NUMBER_MAX;
        if bits > in_first {
            self.words[word + 1] |= value >> in_first & NUMBER_MAX;
        }
        if bits > in_two {
            self.words[word + 2] |= value >> in_two;
        }
        self.at += bits;
    }
}

/// Content of a slot, read from its lowest bit on.
struct Bits {
    words: Content,
    at: u32,
}

impl Bits {
    fn new(words: Content) -> Bits {
        Bits { words, at: 0 }
    }

    fn take(&mut self, bits: u32) -> u64 {
        let (mut value, mut taken) = (0, 0);
        while taken < bits {
            let (word, shift) = ((self.at / WORD_BITS) as usize, self.at % WORD_BITS);
            let part = (bits - taken).min(WORD_BITS - shift);
            value |= (self.words[word] >> shift & ((1 << part) - 1)) << taken;
            (taken, self.at) = (taken + part, self.at + part);
        }
        value
    }
}

impl RootRecord {
    /// The fields of [`Widths`].
    fn distances(&self) -> [u64; 4] {
        let tag_ts = self.tag.map_or(self.forgotten, |(ts, _)| ts);
        [self.pending, self.last - self.applied, self.applied - self.forgotten, self.forgotten - tag_ts]
    }

    fn is_wide(&self, kind: Kind) -> bool {
        kind == Kind::BTree || self.distances().iter().zip(NARROW).any(|(value, bits)| value >> bits != 0)
    }

    /// Puts the fields, without the checksum, into words of zeros.
    fn pack<const IS_WIDE: bool>(&self, words: &mut Content) {
        let mut packer = Packer { words, at: 0 };
        packer.put(self.number, NUMBER_BITS);
        packer.put(0, CRC_BITS);
        packer.put(u64::from(IS_WIDE) | u64::from(self.is_partial) << 1, 2);
        packer.put(u64::from(self.aside), ASIDE_BITS);
        packer.put(self.head / GRAIN_BYTES, GRAINS_BITS);
        packer.put(self.last, u64::BITS);
        let (widths, distances) = (if IS_WIDE { WIDE } else { NARROW }, self.distances());
        packer.put(distances[0], widths[0]);
        packer.put(distances[1], widths[1]);
        packer.put(distances[2], widths[2]);
        packer.put(distances[3], widths[3]);
        let (length, tag) = self.tag.map_or((TAG_ASIDE, ShortTag::default()), |(_, tag)| (u64::from(tag.len), tag));
        packer.put(length, TAG_LENGTH_BITS);
        let [a, b, c, d, e, f, g, h, i, j] = tag.bytes;
        packer.put(u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::BITS);
        packer.put(u64::from(u16::from_le_bytes([i, j])), u16::BITS);
        if IS_WIDE {
            packer.put(self.root, u64::BITS);
            packer.put(self.versions, GRAINS_BITS);
            packer.put(self.live / GRAIN_BYTES, GRAINS_BITS);
            packer.put(self.nodes, GRAINS_BITS);
        }
    }

    /// Puts the content of the record's slot into words of zeros. Returns how many it takes: those
    /// of a line, or of two.
    fn encode(&self, kind: Kind, salt: u64, words: &mut Content) -> usize {
        debug_assert!(self.number > 0 && self.number <= NUMBER_MAX);
        let is_wide = self.is_wide(kind);
        if is_wide {
            self.pack::<true>(words)
        } else {
            self.pack::<false>(words)
        }
        let count = if is_wide { SLOT_WORDS } else { LINE_WORDS };
        words[1] |= u64::from(record_sum(&words[..count], self.number % RING_SLOTS, salt));
        count
    }

    /// Decodes the record in a slot with sound words, or none if it is not valid.
    fn decode(content: Content, slot: u64, salt: u64) -> Option<RootRecord> {
        let mut bits = Bits::new(content);
        let (number, crc) = (bits.take(NUMBER_BITS), bits.take(CRC_BITS));
        let flags = bits.take(2);
        let (is_wide, is_partial) = (flags & 1 != 0, flags & 2 != 0);
        let mut summed = content;
        summed[1] &= !u64::from(u32::MAX);
        let count = if is_wide { SLOT_WORDS } else { LINE_WORDS };
        // Planted: a record that has not arrived whole counts.
        let is_whole = u64::from(record_sum(&summed[..count], slot, salt)) == crc || planted(Mutant::TornRootCounts);
        if !is_whole || number == 0 || number % RING_SLOTS != slot {
            return None;
        }
        let aside = bits.take(ASIDE_BITS) as u16;
        let head = bits.take(GRAINS_BITS) * GRAIN_BYTES;
        let last = bits.take(u64::BITS);
        let [pending, to_applied, to_forgotten, to_tag] =
            if is_wide { WIDE } else { NARROW }.map(|width| bits.take(width));
        let applied = last.checked_sub(to_applied)?;
        let forgotten = applied.checked_sub(to_forgotten)?;
        let length = bits.take(TAG_LENGTH_BITS);
        let bytes = [0; SHORT_TAG_BYTES].map(|_: u8| bits.take(8) as u8);
        let tag = match length {
            TAG_ASIDE => None,
            _ if length as usize > SHORT_TAG_BYTES => return None,
            _ => Some((forgotten.checked_sub(to_tag)?, ShortTag { len: length as u8, bytes })),
        };
        let mut of_tree = [0; 4];
        if is_wide {
            of_tree = [u64::BITS, GRAINS_BITS, GRAINS_BITS, GRAINS_BITS].map(|width| bits.take(width));
        }
        let [root, versions, live_grains, nodes] = of_tree;
        let live = live_grains * GRAIN_BYTES;
        Some(RootRecord {
            number,
            root,
            head,
            last,
            applied,
            forgotten,
            pending,
            versions,
            live,
            nodes,
            tag,
            aside,
            is_partial,
        })
    }

    /// Stores the record. Returns the range that the caller flushes.
    #[track_caller]
    pub(crate) fn store(&self, region: &Region, kind: Kind, salt: u64) -> (u64, u64) {
        let mut words = [0; SLOT_WORDS];
        let count = self.encode(kind, salt, &mut words);
        let slot = self.number % RING_SLOTS;
        store_content(region, slot, &words[..count], salt);
        (slot_at(slot), 8 * count as u64)
    }

    /// Says what is impossible about a record, if anything is.
    fn wrong(&self, region: &Region) -> Option<&'static str> {
        let most = region.len() / RECORD_HEADER_BYTES;
        if self.number == NUMBER_MAX {
            return Some("a root record with a number that no map gives");
        }
        if self.last == u64::MAX {
            return Some("a root record with impossible timestamps");
        }
        let counts = [self.versions, self.pending, self.nodes];
        let are_too_many = counts.iter().any(|count| *count > most) || self.live > region.len();
        are_too_many.then_some("a root record that counts more than the file can hold")
    }
}

/// Stores a ring whose only record is that of an empty map. The caller flushes it.
pub(crate) fn create(region: &Region, kind: Kind, aside: u16, salt: u64) {
    for slot in 0..RING_SLOTS {
        store_content(region, slot, &[0; SLOT_WORDS], salt);
    }
    RootRecord { number: 1, aside, ..RootRecord::default() }.store(region, kind, salt);
}

/// Asks for the slot of a number ahead of its use.
pub(crate) fn prefetch(region: &Region, number: u64, kind: Kind) {
    let at = slot_at(number % RING_SLOTS);
    region.prefetch(at);
    if kind == Kind::BTree {
        region.prefetch(at + LINE_BYTES);
    }
}

/// The newest root record, and the number of the next persist. Error: `Damaged`.
///
/// A part of a record that a crash has left stays in its slot, and another number is taken: a
/// record of the same number could have words in common with it, and so make it whole. A slot after
/// the newest record that is not sound may have held a record that somebody relied on.
pub(crate) fn open(region: &Region, salt: u64) -> Result<(RootRecord, u64)> {
    let damaged = |at: u64, what: &str| Err(Error::damaged(region.name(), at, what));
    let slots: Vec<Option<Content>> = (0..RING_SLOTS).map(|slot| sound(region, slot, salt)).collect();
    let records = (0..).zip(&slots).filter_map(|(slot, content)| RootRecord::decode((*content)?, slot, salt));
    // Planted: an older record counts.
    let newest = match planted(Mutant::OlderRootCounts) {
        true => records.min_by_key(|record| record.number),
        false => records.max_by_key(|record| record.number),
    };
    let Some(newest) = newest else { return damaged(RING_AT, "no root record is valid") };
    if let Some(what) = newest.wrong(region) {
        return damaged(slot_at(newest.number % RING_SLOTS), what);
    }
    for number in newest.number + 1..newest.number + RING_SLOTS {
        let slot = number % RING_SLOTS;
        let Some(content) = slots[slot as usize] else {
            let what = "a slot after the newest valid root record is damaged, which may have held a newer one";
            return damaged(slot_at(slot), what);
        };
        let is_torn = content != [0; SLOT_WORDS] && RootRecord::decode(content, slot, salt).is_none();
        // Planted: the next record has the number of one that has arrived in part.
        if !is_torn || planted(Mutant::TornRootNumberReused) {
            return Ok((newest, number));
        }
    }
    damaged(RING_AT, "all slots but one hold parts of root records")
}

/// Offset of a slot.
fn slot_at(slot: u64) -> u64 {
    // Planted: the record in force is overwritten.
    RING_AT + if planted(Mutant::RootInForceOverwritten) { 0 } else { slot * SLOT_BYTES }
}

fn word_place(slot: u64, word: usize) -> usize {
    RING_PLACE | (slot as usize * SLOT_WORDS + word)
}

/// Stores content in a slot, each word with its check.
///
/// The words are read and written one by one: a copy of several at once cannot take them from the
/// processor's buffer of stores, and would wait for the fence before.
#[track_caller]
fn store_content(region: &Region, slot: u64, content: &[u64], salt: u64) {
    for (number, word) in content.iter().enumerate() {
        region.store(slot_at(slot) + 8 * number as u64, page_word(*word, word_place(slot, number), salt));
    }
}

/// The content of a slot, or none if it is not sound.
fn sound(region: &Region, slot: u64, salt: u64) -> Option<Content> {
    let mut content = [0; SLOT_WORDS];
    for (number, word) in region.words(slot_at(slot), SLOT_WORDS).enumerate() {
        content[number] = page_number(word, word_place(slot, number), salt)?;
    }
    Some(content)
}

/// CRC32C of the content of a record, without the checksum itself.
fn record_sum(content: &[u64], slot: u64, salt: u64) -> u32 {
    checksum(salt, RING_PLACE as u64 | slot, content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::memory::format::bytes_of;
    use perdura_pmem::{Medium, SimMedium};

    const SALT: u64 = 7;
    const KINDS: [Kind; 2] = [Kind::List, Kind::BTree];

    fn record(number: u64) -> RootRecord {
        let tag = Some((number * 100 - 3, ShortTag::of(b"short tag.").expect("ten bytes")));
        let (last, applied, forgotten) = (number * 100, number * 100 - 1, number * 100 - 2);
        RootRecord {
            number,
            head: 4096 * number,
            last,
            applied,
            forgotten,
            pending: 2,
            tag,
            aside: 9,
            ..RootRecord::default()
        }
    }

    /// The record of a B+-tree.
    fn of_tree(number: u64) -> RootRecord {
        RootRecord { root: 77 + number, versions: 5, live: 4096, nodes: 3, ..record(number) }
    }

    fn made(kind: Kind, number: u64) -> RootRecord {
        if kind == Kind::List { record(number) } else { of_tree(number) }
    }

    fn region(kind: Kind) -> Region {
        let region = SimMedium::new().create("map", 64 << 10).expect("room");
        create(&region, kind, 0, SALT);
        region
    }

    fn read_slot(region: &Region, number: u64) -> Vec<u64> {
        region.words(slot_at(number % RING_SLOTS), SLOT_WORDS).collect()
    }

    fn damage(region: &Region) -> Option<ErrorKind> {
        open(region, SALT).err().map(|error| error.kind())
    }

    #[test]
    fn the_newest_record_counts_also_after_the_ring_has_gone_round() {
        for kind in KINDS {
            let region = region(kind);
            assert_eq!(open(&region, SALT).map(|(found, next)| (found.number, next)).ok(), Some((1, 2)));
            for number in 2..50 {
                made(kind, number).store(&region, kind, SALT);
                assert_eq!(open(&region, SALT).ok(), Some((made(kind, number), number + 1)));
                assert!(open(&region, SALT + 1).is_err());
            }
        }
    }

    #[test]
    fn what_one_line_has_no_bits_for_takes_two() {
        let far = RootRecord { number: 3, last: u64::MAX - 1, forgotten: 0, tag: None, ..record(3) };
        let long = RootRecord { pending: 1 << 24, applied: u64::MAX - 1, is_partial: true, ..far };
        for (record, count) in [(record(3), LINE_WORDS), (far, SLOT_WORDS), (long, SLOT_WORDS)] {
            let region = region(Kind::List);
            assert_eq!(record.encode(Kind::List, SALT, &mut [0; SLOT_WORDS]), count);
            record.store(&region, Kind::List, SALT);
            let content = sound(&region, 3, SALT).expect("sound");
            assert_eq!(RootRecord::decode(content, 3, SALT), Some(record));
        }
    }

    /// Hazard: a record of which only some words have arrived counts, is called damage, or is made
    /// whole by the next one.
    #[test]
    fn of_a_record_that_has_arrived_in_part_the_one_before_counts() {
        for (kind, number) in [(Kind::List, 5), (Kind::List, 30), (Kind::BTree, 5), (Kind::BTree, 30)] {
            let region = region(kind);
            for before in 2..number {
                made(kind, before).store(&region, kind, SALT);
            }
            let before = read_slot(&region, number);
            made(kind, number).store(&region, kind, SALT);
            let whole = read_slot(&region, number);
            for arrived in 0..1_u32 << 16 {
                let chosen = |word: usize| if arrived >> word & 1 != 0 { whole[word] } else { before[word] };
                let words: Vec<u64> = (0..SLOT_WORDS).map(chosen).collect();
                region.write(slot_at(number % RING_SLOTS), bytes_of(&words));
                let found = open(&region, SALT).expect("no damage");
                let wanted = match words {
                    _ if words == whole => (made(kind, number), number + 1),
                    // All that has arrived was there before.
                    _ if words == before => (made(kind, number - 1), number),
                    _ => (made(kind, number - 1), number + 1),
                };
                assert_eq!(found, wanted, "{kind}: {arrived:#x}");
            }
        }
    }

    /// Hazard: crash upon crash makes the record in force the next one's place.
    #[test]
    fn no_number_is_left_when_all_slots_but_one_hold_parts() {
        let region = region(Kind::List);
        for number in 1..RING_SLOTS {
            assert_eq!(open(&region, SALT).map(|(found, next)| (found.number, next)).ok(), Some((1, number + 1)));
            record(number + 1).store(&region, Kind::List, SALT);
            let word = page_word(77, word_place((number + 1) % RING_SLOTS, 4), SALT);
            region.store(slot_at((number + 1) % RING_SLOTS) + 32, word);
        }
        assert_eq!(damage(&region), Some(ErrorKind::Damaged));
    }

    /// Hazard: damage of the newest record passes for a crash, and what was acknowledged is gone.
    #[test]
    fn damage_of_the_newest_record_is_no_crash() {
        for kind in KINDS {
            let region = region(kind);
            for number in 2..40 {
                made(kind, number).store(&region, kind, SALT);
            }
            let (words, at) = (read_slot(&region, 39), slot_at(39 % RING_SLOTS));
            let count = made(kind, 39).encode(kind, SALT, &mut [0; SLOT_WORDS]);
            let is_damage = |change: &dyn Fn(&mut [u64])| {
                let mut changed = words.clone();
                change(&mut changed);
                region.write(at, bytes_of(&changed));
                damage(&region) == Some(ErrorKind::Damaged)
            };
            for bit in 0..64 * count {
                assert!(is_damage(&|words| words[bit / 64] ^= 1 << (bit % 64)), "{kind}: bit {bit}");
            }
            for word in 0..count {
                assert!(is_damage(&|words| words[word] = 0), "{kind}: word {word}");
            }
            assert!(is_damage(&|words| words.fill(0)) && is_damage(&|words| words.fill(u64::MAX)));
            let other = read_slot(&region, 38);
            assert!(is_damage(&|words| words.copy_from_slice(&other)), "{kind}: another slot's record");
        }
    }
}
