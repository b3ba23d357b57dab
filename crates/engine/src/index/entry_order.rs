//! The entries of one leaf in their order.

use super::leaf::{LeafBytes, bits};

/// An entry of a leaf, which was found sound: where it lies, and its head.
#[derive(Clone, Copy)]
struct Placed {
    head: u64,
    at: u32,
    length: u16,
    slot: u16,
}

impl Placed {
    fn range(self) -> std::ops::Range<u32> {
        self.at..self.at + u32::from(self.length)
    }
}

/// The entries of a leaf in their order, in memory that is used again.
#[derive(Default)]
pub(super) struct EntryOrder(Vec<Placed>);

impl EntryOrder {
    /// Finds the entries in `slots` of `leaf`, each checked; `Err` names a slot whose entry is
    /// damaged.
    pub(super) fn find(&mut self, leaf: &LeafBytes<'_>, slots: u64) -> Result<(), u32> {
        self.0.clear();
        self.0.reserve(slots.count_ones() as usize);
        // The slots of a leaf that was filled in order and not changed since are in order.
        let (mut last, mut ascend) = (None, true);
        for slot in bits(slots) {
            let (at, entry) = leaf.placed_entry(slot).ok_or(slot)?;
            let head = head(entry);
            ascend &= last.is_none_or(|last| last < head);
            last = Some(head);
            self.0.push(Placed { head, at: at as u32, length: entry.len() as u16, slot: slot as u16 });
        }
        if !ascend {
            self.0.sort_unstable_by_key(|placed| placed.head);
            let bytes = |placed: &Placed| leaf.unchecked_entry(placed.slot.into());
            for alike in self.0.chunk_by_mut(|one, two| one.head == two.head).filter(|alike| alike.len() > 1) {
                alike.sort_unstable_by_key(|placed| bytes(placed));
            }
        }
        Ok(())
    }

    /// The slots, in the order of their entries.
    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.0.iter().map(|placed| placed.slot.into())
    }

    /// Where the entries lie in the leaf, in their order.
    pub(super) fn ranges(&self) -> impl ExactSizeIterator<Item = std::ops::Range<u32>> + '_ {
        self.0.iter().map(|placed| placed.range())
    }

    /// The range of the leaf in which the entries lie; `None` if there are none.
    pub(super) fn extent(&self) -> Option<std::ops::Range<u32>> {
        let start = self.ranges().map(|range| range.start).min()?;
        Some(start..self.ranges().map(|range| range.end).max()?)
    }
}

/// The entries in `slots` of `leaf` with their slots, in order; `Err` names a slot whose entry is
/// damaged.
pub(super) fn sorted<'l>(leaf: &LeafBytes<'l>, slots: u64) -> Result<Vec<(&'l [u8], u32)>, u32> {
    let mut order = EntryOrder::default();
    order.find(leaf, slots)?;
    order.slots().map(|slot| Ok((leaf.unchecked_entry(slot).ok_or(slot)?, slot))).collect()
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
        let head = head(entry);
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
            let mut order = EntryOrder::default();
            assert_eq!(order.find(&leaf, slots), Ok(()));
            let found: Vec<_> = order.slots().map(|slot| leaf.entry(slot).expect("sound").to_vec()).collect();
            assert_eq!(found, expected, "seed {seed}");
            let mut bytes = vec![0; BYTES as usize];
            region.read(0, &mut bytes);
            let ranges: Vec<_> = order.ranges().map(|range| &bytes[range.start as usize..range.end as usize]).collect();
            assert_eq!(ranges, expected, "seed {seed}");
            assert_eq!(order.extent().is_none(), expected.is_empty());
        }
    }
}
