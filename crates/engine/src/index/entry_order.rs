//! The entries of one leaf in their order.

use super::leaf::{LeafBytes, bits, damaged_entry};
use crate::error::Result;

/// Bits of the number of a slot.
const SLOT_BITS: u32 = 6;

/// The entries of a leaf in their order, in memory that is used again.
#[derive(Default)]
pub(super) struct EntryOrder {
    /// The head of each entry, and its slot, in order. The heads may lack bits that all have.
    heads: Vec<(u64, u32)>,
    /// The heads without the bits that all begin with, each with its slot in the lowest ones.
    packed: Vec<u64>,
    /// Where the entry in each slot lies.
    places: Vec<Place>,
}

/// Where an entry lies in its leaf.
#[derive(Clone, Copy, Default)]
struct Place {
    at: u32,
    length: u32,
}

impl EntryOrder {
    /// Finds the entries in `slots` of `leaf` that lie in a range, from a bound to below another;
    /// each in `slots` is checked. Fails with Damaged.
    pub(super) fn find(&mut self, leaf: &LeafBytes<'_>, slots: u64, (from, end): (&[u8], Option<&[u8]>)) -> Result<()> {
        self.heads.clear();
        self.heads.reserve(slots.count_ones() as usize);
        self.places.resize(1 << SLOT_BITS, Place::default());
        let (from, end) = (Bound::new(from), end.map(Bound::new));
        // The slots of a leaf that was filled in order and not changed since are in order.
        let (mut last, mut ascend, mut differing) = (None, true, 0);
        for slot in bits(slots) {
            let (at, entry) = leaf.placed_entry(slot).ok_or_else(|| damaged_entry(leaf))?;
            let head = head(entry);
            if from.is_above_head(head, entry) || end.is_some_and(|end| !end.is_above_head(head, entry)) {
                continue;
            }
            ascend &= last.is_none_or(|last| last < head);
            differing |= last.unwrap_or(head) ^ head;
            last = Some(head);
            self.places[slot as usize] = Place { at: at as u32, length: entry.len() as u32 };
            self.heads.push((head, slot));
        }
        if !ascend {
            // One bit stays where the heads are all the same.
            self.sort(leaf, differing.leading_zeros().min(u64::BITS - 1));
        }
        Ok(())
    }

    /// Sorts the heads, which have the first `common` bits in common.
    fn sort(&mut self, leaf: &LeafBytes<'_>, common: u32) {
        if common >= SLOT_BITS {
            // A head and its slot fit one word: these are sorted faster than pairs.
            self.packed.clear();
            self.packed.extend(self.heads.iter().map(|(head, slot)| head << common | u64::from(*slot)));
            self.packed.sort_unstable();
            let mask = (1 << SLOT_BITS) - 1;
            let unpacked = self.packed.iter().map(|packed| (packed & !mask, (packed & mask) as u32));
            self.heads.clear();
            self.heads.extend(unpacked);
        } else {
            self.heads.sort_unstable_by_key(|(head, _)| *head);
        }
        for alike in self.heads.chunk_by_mut(|one, two| one.0 == two.0).filter(|alike| alike.len() > 1) {
            alike.sort_unstable_by_key(|(_, slot)| leaf.unchecked_entry(*slot));
        }
    }

    /// The slots, in the order of their entries.
    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.heads.iter().map(|(_, slot)| *slot)
    }

    /// Where the entries lie in the leaf, in their order.
    pub(super) fn ranges(&self) -> impl ExactSizeIterator<Item = std::ops::Range<u32>> + '_ {
        let range = |Place { at, length }: Place| at..at + length;
        self.slots().map(move |slot| range(self.places[slot as usize]))
    }

    /// The range of the leaf in which the entries lie; `None` if there are none.
    pub(super) fn extent(&self) -> Option<std::ops::Range<u32>> {
        let start = self.ranges().map(|range| range.start).min()?;
        Some(start..self.ranges().map(|range| range.end).max()?)
    }
}

/// The entries in `slots` of `leaf` with their slots, in order. Fails with Damaged.
pub(super) fn sorted<'l>(leaf: &LeafBytes<'l>, slots: u64) -> Result<Vec<(&'l [u8], u32)>> {
    let mut order = EntryOrder::default();
    order.find(leaf, slots, (&[], None))?;
    let entry = |slot| leaf.unchecked_entry(slot).ok_or_else(|| damaged_entry(leaf));
    order.slots().map(|slot| Ok((entry(slot)?, slot))).collect()
}

/// The first bytes of an entry as a number, by which most entries of a leaf can be told apart: the
/// greater of two entries has no lesser head.
#[inline]
fn head(entry: &[u8]) -> u64 {
    if let Some(first) = entry.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    bytes[..entry.len()].copy_from_slice(entry);
    u64::from_be_bytes(bytes)
}

/// A bound, with its head.
#[derive(Clone, Copy)]
pub(super) struct Bound<'k> {
    head: u64,
    bytes: &'k [u8],
}

impl<'k> Bound<'k> {
    pub(super) fn new(bytes: &'k [u8]) -> Bound<'k> {
        Bound { head: head(bytes), bytes }
    }

    /// Whether an entry lies below the bound.
    #[inline]
    pub(super) fn is_above(self, entry: &[u8]) -> bool {
        self.is_above_head(head(entry), entry)
    }

    /// As [`Bound::is_above`], of an entry with this head.
    #[inline]
    fn is_above_head(self, head: u64, entry: &[u8]) -> bool {
        if head == self.head { entry < self.bytes } else { head < self.head }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::LeafShape;
    use perdura_pmem::sim::Random;
    use perdura_pmem::{Medium, SimMedium};

    /// Keys that are prefixes of each other, have zeros at their ends, or differ behind the head.
    fn keys(random: &mut Random) -> Vec<u8> {
        (0..random.below(12)).map(|at| if at < 7 { random.below(2) as u8 } else { random.below(3) as u8 }).collect()
    }

    #[test]
    fn a_bound_compares_as_its_bytes_do() {
        let mut random = Random::new(16);
        for _ in 0..20_000 {
            let (entry, bound) = (keys(&mut random), keys(&mut random));
            assert_eq!(Bound::new(&bound).is_above(&entry), entry < bound, "{entry:?}, {bound:?}");
        }
    }

    /// Hazard: where heads differ in their first bits, a head and a slot do not fit a word.
    #[test]
    fn entries_come_in_order_wherever_their_heads_differ() {
        const BYTES: u64 = 4 << 10;
        for bit in 0..u64::BITS {
            let region = SimMedium::new().create("leaf", BYTES).expect("a file");
            let shape = LeafShape { index: 0, entry: 14, low: 0 };
            let leaf = LeafBytes::new(&region, (0, BYTES), shape, shape.slots(BYTES));
            let (mut slots, mut expected) = (0, Vec::new());
            for number in (0..leaf.slots()).rev() {
                // The bit, and what follows it where there is room.
                let head = u64::from(number & 1) << (63 - bit) | u64::from(number) >> bit.saturating_sub(50);
                let mut entry = head.to_be_bytes().to_vec();
                entry.extend([0, 0, 0, 0, 0, number as u8]);
                let place = leaf.room(slots, entry.len()).expect("room");
                leaf.write(place, &entry);
                slots |= 1 << place.0;
                expected.push(entry);
            }
            assert_eq!(slots.count_ones(), leaf.slots());
            expected.sort_unstable();
            let mut order = EntryOrder::default();
            order.find(&leaf, slots, (&[], None)).expect("sound");
            let found: Vec<_> = order.slots().map(|slot| leaf.entry(slot).expect("sound")).collect();
            assert_eq!(found, expected, "bit {bit}");
        }
    }

    #[test]
    fn entries_come_in_order_whatever_slots_they_have() {
        const BYTES: u64 = 4 << 10;
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let region = SimMedium::new().create("leaf", BYTES).expect("a file");
            let fixed = seed % 2 == 0;
            let shape = LeafShape { index: 0, entry: if fixed { 14 } else { 0 }, low: 0 };
            let leaf = LeafBytes::new(&region, (0, BYTES), shape, shape.slots(BYTES));
            let (mut slots, mut expected) = (0, Vec::new());
            for number in 0..random.below(40) {
                let mut entry = if random.one_in(2) { vec![0, number as u8] } else { keys(&mut random) };
                entry.resize(if fixed { 14 } else { entry.len() + 6 }, random.below(256) as u8);
                let place = leaf.room(slots, entry.len()).expect("room");
                leaf.write(place, &entry);
                slots |= 1 << place.0;
                expected.push(entry);
            }
            expected.sort_unstable();
            let (from, end) = (keys(&mut random), Some(keys(&mut random)).filter(|_| random.one_in(2)));
            let mut order = EntryOrder::default();
            for (from, end) in [(vec![], None), (from, end)] {
                let is_in = |entry: &&Vec<u8>| **entry >= from && end.as_ref().is_none_or(|end| *entry < end);
                let expected: Vec<_> = expected.iter().filter(is_in).collect();
                order.find(&leaf, slots, (&from, end.as_deref())).expect("sound");
                let found: Vec<_> = order.slots().map(|slot| leaf.entry(slot).expect("sound")).collect();
                assert_eq!(found, expected, "seed {seed}");
                let mut bytes = vec![0; BYTES as usize];
                region.read(0, &mut bytes);
                let ranges: Vec<_> =
                    order.ranges().map(|range| &bytes[range.start as usize..range.end as usize]).collect();
                assert_eq!(ranges, expected, "seed {seed}");
                assert_eq!(order.extent().is_none(), expected.is_empty());
            }
        }
    }
}
