//! The order of the parts of the stream, and the places in the lanes to which they go.

use super::ends::Key;
use super::lsn::Lsn;
use perdura_pmem::{Mutant, Region};
use std::collections::VecDeque;
use std::ops::Range;

/// A lane: its file, and what tells it from others and from itself armed anew.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) region: &'a Region,
    pub(crate) activation: u64,
    pub(crate) lane: u32,
}

impl Target<'_> {
    pub(super) fn key(&self) -> Key {
        self.activation << 8 | u64::from(self.lane)
    }
}

/// Parts that lie one behind the other, in the stream as in their lane. The first begins a block.
pub(super) struct Extent {
    pub(super) begin: Lsn,
    pub(super) bytes: u64,
    pub(super) key: Key,
    pub(super) region: Region,
    pub(super) offset: u64,
}

impl Extent {
    pub(super) fn end(&self) -> Lsn {
        self.begin + self.bytes
    }
}

/// Where a part goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) begin: Lsn,
    /// In its lane.
    pub(super) offset: u64,
    /// Whether it takes anything of the blocks that were reserved for it.
    pub(super) is_in_own: bool,
}

/// Rest of the last extent's blocks.
struct Room {
    key: Key,
    range: Range<u64>,
}

/// Parts that are placed and not taken by the log writer yet.
///
/// Invariants: the extents follow one another up to `tail`; while there is room, it lies behind the
/// last of them. A block of which the log writer takes anything is closed: no part is placed in it
/// any more, so no block is in two writes (I2).
#[derive(Default)]
pub(super) struct Order {
    tail: Lsn,
    room: Option<Room>,
    extents: VecDeque<Extent>,
}

impl Order {
    /// End of all that is placed.
    pub(super) fn tail(&self) -> Lsn {
        self.tail
    }

    /// Places a part of `bytes`, for which the whole blocks `own` of the lane are reserved: behind
    /// the last one if there is room, with its own blocks where they go on with it, or else in its
    /// own.
    pub(super) fn place(&mut self, target: Target<'_>, own: Range<u64>, bytes: u64) -> Place {
        let (begin, key) = (self.tail, target.key());
        self.tail += bytes;
        if let Some(room) = self.room.as_mut().filter(|room| room.key == key) {
            let is_short = bytes > room.range.end - room.range.start;
            let is_in_own = is_short && own.start == room.range.end && bytes <= own.end - room.range.start;
            if is_in_own {
                room.range.end = own.end;
            }
            if bytes <= room.range.end - room.range.start {
                let offset = room.range.start;
                room.range.start += bytes;
                match self.extents.back_mut().filter(|last| last.key == key && last.offset + last.bytes == offset) {
                    Some(last) => last.bytes += bytes,
                    None => self.push(begin, bytes, target, offset),
                }
                return Place { begin, offset, is_in_own };
            }
        }
        self.room = Some(Room { key, range: own.start + bytes..own.end });
        self.push(begin, bytes, target, own.start);
        Place { begin, offset: own.start, is_in_own: true }
    }

    fn push(&mut self, begin: Lsn, bytes: u64, target: Target<'_>, offset: u64) {
        self.extents.push_back(Extent { begin, bytes, key: target.key(), region: target.region.clone(), offset });
    }

    /// Takes the extents that are filled up to `filled`. If there is none it closes the first, so
    /// that this one will be.
    pub(super) fn take(&mut self, filled: Lsn, batch: &mut Vec<Extent>) {
        while self.extents.front().is_some_and(|first| first.end() <= filled) {
            if self.extents.len() == 1 {
                self.close();
            }
            batch.extend(self.extents.pop_front());
        }
        if batch.is_empty() && self.extents.len() == 1 {
            self.close();
        }
    }

    fn close(&mut self) {
        // Planted: the next part goes on in a block that is being written.
        if !perdura_pmem::planted(Mutant::BlockOfTwoWrites) {
            self.room = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_pmem::{Medium, SimMedium};

    fn order() -> (Order, Region) {
        (Order::default(), SimMedium::new().create("lane", 8192).expect("room"))
    }

    #[test]
    fn parts_lie_behind_each_other_until_their_block_is_taken() {
        let (mut order, region) = order();
        let target = Target { region: &region, activation: 3, lane: 0 };
        let place = |order: &mut Order, own, bytes| {
            let place = order.place(target, own, bytes);
            (place.begin, place.offset, place.is_in_own)
        };
        assert_eq!(place(&mut order, 0..512, 320), (0, 0, true));
        assert_eq!(place(&mut order, 512..1024, 128), (320, 320, false), "in the first block");
        assert_eq!(place(&mut order, 512..1024, 192), (448, 448, true), "across, with blocks that go on");
        assert_eq!(place(&mut order, 2048..2560, 448), (640, 2048, true), "no room, and others behind");
        let mut batch = Vec::new();
        order.take(640, &mut batch);
        assert_eq!(batch.iter().map(|extent| (extent.offset, extent.bytes)).collect::<Vec<_>>(), [(0, 640)]);
        assert_eq!(place(&mut order, 2560..3072, 64), (1088, 2496, false), "the last is open still");
        batch.clear();
        order.take(640, &mut batch);
        assert!(batch.is_empty());
        assert_eq!(place(&mut order, 4096..4608, 64), (1152, 4096, true), "it was closed");
        order.take(1216, &mut batch);
        let taken: Vec<_> = batch.iter().map(|extent| (extent.begin, extent.offset, extent.bytes)).collect();
        assert_eq!((taken, order.tail()), (vec![(640, 2048, 512), (1152, 4096, 64)], 1216));
        assert_eq!(place(&mut order, 4608..5120, 64), (1216, 4608, true));
    }

    #[test]
    fn lanes_and_activations_share_no_block() {
        let (mut order, region) = order();
        let at = |activation, lane| Target { region: &region, activation, lane };
        order.place(at(3, 0), 0..512, 64);
        for (target, own, begin) in [(at(3, 1), 512..1024, 64), (at(4, 1), 0..512, 128)] {
            let offset = own.start;
            assert_eq!(order.place(target, own, 64), Place { begin, offset, is_in_own: true });
        }
    }
}
