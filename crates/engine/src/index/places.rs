//! The places of leaves by size: which are free, and in which segments they lie.
//!
//! Each size knows how many places it has, and which of its segments are free as a whole. So nobody
//! who holds the lock of these lists goes through all segments: what purge gives back costs the
//! segments given back, what it moves the leaves moved.

use super::leaf::LeafId;
use crate::files::chain::SegmentId;
use perdura_pmem::Mutant;
use std::collections::{BTreeMap, BTreeSet};

/// Of the places of leaves of one size, one of so many may be free before leaves are moved.
const FREE_SHARE: usize = 16;
/// Fewest free places of one size for which anything is moved.
pub(super) const PLACES_MIN: usize = 32;
/// Places looked at for each leaf that may be moved; whole segments, at least one.
const LOOKED_AT: usize = 8;

/// The leaves of a segment, in the order of their places.
pub(super) struct LeafSegment {
    pub units: u32,
    pub leaves: Vec<LeafId>,
    /// Number of them that are free.
    free: usize,
}

/// The places of one size.
#[derive(Default)]
struct OfSize {
    /// Free places, in the order of the chain: the first are used first, so that segments at the
    /// end become free.
    free: BTreeSet<(SegmentId, LeafId)>,
    segments: BTreeSet<SegmentId>,
    /// Segments whose places are all free.
    empty: BTreeSet<SegmentId>,
    /// Number of places, free or not.
    places: usize,
}

/// The places of a table's leaves.
#[derive(Default)]
pub(super) struct Places {
    /// By size in units of 256 bytes.
    sizes: BTreeMap<u32, OfSize>,
    segments: BTreeMap<SegmentId, LeafSegment>,
}

impl Places {
    /// Adds a segment with places of `units`, none of them free.
    pub(super) fn add_segment(&mut self, id: SegmentId, units: u32, leaves: Vec<LeafId>) {
        let size = self.sizes.entry(units).or_default();
        size.segments.insert(id);
        size.places += leaves.len();
        self.segments.insert(id, LeafSegment { units, leaves, free: 0 });
    }

    /// The segment `id`, if it has leaves.
    pub(super) fn segment(&self, id: SegmentId) -> Option<&LeafSegment> {
        self.segments.get(&id)
    }

    /// Makes a place of segment `id` free.
    pub(super) fn put_free(&mut self, id: SegmentId, leaf: LeafId) {
        let segment = self.segments.get_mut(&id).expect("the segment of a leaf");
        let size = self.sizes.get_mut(&segment.units).expect("the size of a segment");
        if size.free.insert((id, leaf)) {
            segment.free += 1;
        }
        // Planted: a segment is given back although a leaf there is in use, or in quarantine.
        let in_use = usize::from(perdura_pmem::planted(Mutant::LeafSegmentReturnedInUse));
        if segment.free + in_use >= segment.leaves.len() {
            size.empty.insert(id);
        }
    }

    /// Takes the first free place of `units`.
    pub(super) fn take_first(&mut self, units: u32) -> Option<LeafId> {
        let (id, leaf) = *self.sizes.get(&units)?.free.first()?;
        self.take(id, leaf).then_some(leaf)
    }

    /// Takes a place of segment `id`, if it is free. Returns whether it was.
    pub(super) fn take(&mut self, id: SegmentId, leaf: LeafId) -> bool {
        let segment = self.segments.get_mut(&id).expect("the segment of a leaf");
        let size = self.sizes.get_mut(&segment.units).expect("the size of a segment");
        let was_free = size.free.remove(&(id, leaf));
        if was_free {
            segment.free -= 1;
            size.empty.remove(&id);
        }
        was_free
    }

    /// Takes the segments out whose places are all free, with their leaves, but for one of each
    /// size that is in use: so splits and joins do not take and give back segments in turn.
    pub(super) fn take_empty(&mut self) -> Vec<(SegmentId, Vec<LeafId>)> {
        let mut taken = Vec::new();
        for size in self.sizes.values_mut() {
            let kept = usize::from(size.empty.len() < size.segments.len());
            let empty: Vec<SegmentId> = size.empty.iter().skip(kept).copied().collect();
            for id in empty {
                let Some(segment) = self.segments.remove(&id) else { continue };
                size.empty.remove(&id);
                size.segments.remove(&id);
                size.places -= segment.leaves.len();
                segment.leaves.iter().for_each(|leaf| {
                    size.free.remove(&(id, *leaf));
                });
                taken.push((id, segment.leaves));
            }
        }
        self.sizes.retain(|_, size| !size.segments.is_empty());
        taken
    }

    /// Leaves at the end of the chain that are to move to free places before them, at most `most`:
    /// those of the last segments with leaves of a size of which more than one place in
    /// [`FREE_SHARE`] is free, as many as have room. So segments become free.
    pub(super) fn to_move(&self, most: usize) -> Vec<LeafId> {
        let (mut moved, mut looked) = (Vec::new(), 0);
        // Nothing to be had, as most often.
        for size in self.sizes.values().filter(|size| size.free.len() >= PLACES_MIN) {
            let mut room = size.free.len().saturating_sub(size.places / FREE_SHARE);
            for id in size.segments.iter().rev() {
                let leaves = &self.segments[id].leaves;
                if moved.len() >= most || looked >= most * LOOKED_AT || leaves.len() > room {
                    break;
                }
                room -= leaves.len();
                looked += leaves.len();
                moved.extend(leaves.iter().copied().filter(|leaf| !size.free.contains(&(*id, *leaf))));
            }
        }
        moved.truncate(most);
        moved
    }

    /// Number of free places of `units`.
    pub(super) fn free_of(&self, units: u32) -> usize {
        self.sizes.get(&units).map_or(0, |size| size.free.len())
    }

    /// Number of free places, and of all.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.sizes.values().fold((0, 0), |(free, places), size| (free + size.free.len(), places + size.places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_pmem::sim::Random;
    use std::time::{Duration, Instant};

    const IN_SEGMENT: u32 = 8;

    fn id(number: u32) -> SegmentId {
        SegmentId { file: number / 64, index: number % 64 }
    }

    fn leaves(number: u32) -> Vec<LeafId> {
        (number * IN_SEGMENT..(number + 1) * IN_SEGMENT).collect()
    }

    /// Segments of two sizes in turn, none of whose places is free.
    fn segments(count: u32) -> Places {
        let mut places = Places::default();
        (0..count).for_each(|number| places.add_segment(id(number), 1 + number % 2, leaves(number)));
        places
    }

    /// Hazard: what is kept by size is not what all segments together say.
    #[test]
    fn the_counts_of_a_size_are_those_of_its_segments() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let count = 1 + random.below(30) as u32;
            let mut places = segments(count);
            let mut free = BTreeSet::new();
            let mut gone = BTreeSet::new();
            for _ in 0..400 {
                let leaf = random.below(u64::from(count * IN_SEGMENT)) as u32;
                let number = leaf / IN_SEGMENT;
                if gone.contains(&number) {
                    continue;
                }
                if random.one_in(3) {
                    assert_eq!(places.take(id(number), leaf), free.remove(&leaf), "seed {seed}");
                } else if free.insert(leaf) {
                    places.put_free(id(number), leaf);
                }
                if !random.one_in(40) {
                    continue;
                }
                let here = |number: &u32, units| !gone.contains(number) && number % 2 == units;
                let is_empty = |number: &u32| leaves(*number).iter().all(|leaf| free.contains(leaf));
                let mut expected = Vec::new();
                for units in 0..2 {
                    let of_size: Vec<u32> = (0..count).filter(|number| here(number, units)).collect();
                    let empty: Vec<u32> = of_size.iter().copied().filter(&is_empty).collect();
                    expected.extend(empty.iter().copied().skip(usize::from(empty.len() < of_size.len())));
                }
                let taken: Vec<_> = places.take_empty();
                assert_eq!(taken, expected.iter().map(|number| (id(*number), leaves(*number))).collect::<Vec<_>>());
                expected.iter().flat_map(|number| leaves(*number)).for_each(|leaf| {
                    free.remove(&leaf);
                });
                gone.extend(expected);
                assert_eq!(places.counts(), (free.len(), ((count as usize) - gone.len()) * IN_SEGMENT as usize));
                let moved = places.to_move(usize::MAX / LOOKED_AT);
                assert!(moved.iter().all(|leaf| !free.contains(leaf) && !gone.contains(&(leaf / IN_SEGMENT))));
            }
            while let Some(leaf) = places.take_first(1) {
                assert_eq!(
                    free.iter().copied().find(|leaf| (leaf / IN_SEGMENT).is_multiple_of(2)),
                    Some(leaf),
                    "seed {seed}"
                );
                free.remove(&leaf);
            }
        }
    }

    /// The shortest of some rounds of purge without much to do.
    #[allow(clippy::disallowed_methods, reason = "what is measured is the time of the machine; nothing is replayed")]
    fn round(count: u32) -> Duration {
        let mut places = segments(count);
        (0..40).for_each(|number| places.put_free(id(number), number * IN_SEGMENT));
        let rounds = (0..50).map(|_| {
            let begun = Instant::now();
            places.put_free(id(7), 7 * IN_SEGMENT);
            assert!(places.take_empty().is_empty());
            assert!(places.take(id(7), 7 * IN_SEGMENT));
            assert!(places.to_move(1024).len() <= 40 * IN_SEGMENT as usize);
            begun.elapsed()
        });
        rounds.min().expect("some rounds")
    }

    /// Hazard: each round of purge goes through all segments of the table under the lock that
    /// everybody takes who needs a place.
    #[test]
    fn a_round_does_not_cost_all_segments() {
        let (few, many) = (round(100), round(200_000));
        // Two thousand times as many: each of them looked at would take milliseconds.
        assert!(many < few * 50 + Duration::from_micros(200), "{few:?} with 100 segments, {many:?} with 200,000");
    }
}
