//! The open segments of one owner, a shard or a bulk insert: those whose cells it fills, at most
//! one for each class.

use super::segments::{OpenCells, OpenSegment, Segments};
use crate::error::{ErrorKind, Result};
use crate::files::cells::{self, CLASS_SLOTS};
use crate::format::Word;
use std::ops::RangeInclusive;

/// How a kind of owner takes segments over and closes them.
pub(crate) trait SegmentOwner {
    /// An open segment of this kind of owner.
    type Segment: OpenCells;

    /// Takes a segment over.
    fn open(segments: &Segments, segment: OpenSegment) -> Self::Segment;

    /// Returns a segment to `segments`.
    fn close(segments: &Segments, segment: Self::Segment);
}

/// The open segments of one owner.
///
/// A table may have rows of any mix of lengths, and there are some sixty classes. A segment for
/// each from the start would make a small table large; too few would waste cells. So a class has to
/// earn its segment: its versions go to the next larger open cells until they have wasted a quarter
/// of a segment there (`fragmentation.rs`, kept for the whole table). From then on each owner opens
/// a segment of that class. For a version larger than all open cells the owner opens a class twice
/// the largest open one, or larger still if the version needs it, so that rows of growing length
/// open few. When an owner closes a segment partly filled, the next owner that asks for its class
/// continues there. Whoever moves rows takes no segment into use: it fills up those that are
/// offered.
///
/// So for each class in use an owner wastes at most a quarter of a segment and the unfilled part of
/// one, beside what rounding versions up to cells wastes.
pub(crate) struct OpenSet<O: SegmentOwner> {
    segments: Vec<O::Segment>,
    /// By slot of the class: 1 + position in `segments`, or 0. Empty until the first segment is
    /// opened.
    by_slot: Vec<u8>,
}

impl<O: SegmentOwner> Default for OpenSet<O> {
    fn default() -> OpenSet<O> {
        OpenSet { segments: Vec::new(), by_slot: Vec::new() }
    }
}

impl<O: SegmentOwner> OpenSet<O> {
    /// Claims a cell for a version of class `class`. Returns its word and its segment.
    ///
    /// # Errors
    /// DeviceFull or TableFull if there is neither a cell of that class or a larger one, nor room
    /// for a segment; Damaged.
    #[inline]
    pub(crate) fn claim(&mut self, segments: &Segments, class: u32) -> Result<(Word, &mut O::Segment)> {
        if let Some(position) = self.position(class)
            && let Some(word) = self.segments[position].claim()
        {
            return Ok((word, &mut self.segments[position]));
        }
        let (word, position) = self.claim_elsewhere(segments, class)?;
        Ok((word, &mut self.segments[position]))
    }

    #[inline]
    fn position(&self, class: u32) -> Option<usize> {
        let position = self.by_slot.get(cells::class_slot(class))?;
        position.checked_sub(1).map(usize::from)
    }

    #[cold]
    fn claim_elsewhere(&mut self, segments: &Segments, class: u32) -> Result<(Word, usize)> {
        if let Some(full) = self.position(class) {
            O::close(segments, self.remove(full));
        }
        let earned = segments.fragmentation().is_earned(class, segments.chain().segment_bytes());
        if !earned && let Some((word, position)) = self.claim_larger(segments, class) {
            return Ok((word, position));
        }
        let mut all_offered = false;
        loop {
            let largest = self.segments.iter().map(OpenCells::units).max();
            let taken = match segments.take_cells(class, earned, largest) {
                Err(error) if [ErrorKind::DeviceFull, ErrorKind::TableFull].contains(&error.kind()) => {
                    if let Some((word, position)) = self.claim_larger(segments, class) {
                        return Ok((word, position));
                    }
                    if !std::mem::replace(&mut all_offered, true) {
                        segments.offer_all();
                        continue;
                    }
                    segments.take_larger_cells(class).ok_or(error)?
                }
                taken => taken?,
            };
            let position = self.insert(O::open(segments, taken));
            let segment = &mut self.segments[position];
            let units = segment.units();
            if let Some(word) = segment.claim() {
                segments.fragmentation().add(class, units - class);
                return Ok((word, position));
            }
            // Others have claimed its last cells since it was offered.
            O::close(segments, self.remove(position));
        }
    }

    /// Claims a cell of the smallest larger class with an open segment; closes segments that it
    /// finds full.
    fn claim_larger(&mut self, segments: &Segments, class: u32) -> Option<(Word, usize)> {
        loop {
            let larger = self.segments.iter().enumerate().filter(|(_, segment)| segment.units() > class);
            let (position, units) =
                larger.map(|(position, segment)| (position, segment.units())).min_by_key(|(_, units)| *units)?;
            if let Some(word) = self.segments[position].claim() {
                segments.fragmentation().add(class, units - class);
                return Some((word, position));
            }
            O::close(segments, self.remove(position));
        }
    }

    /// Claims a cell of one of `classes`, the smallest that is free in a segment that is open or
    /// offered; `None` if there is none. It takes no segment into use, and what the version wastes
    /// was counted when it was written first.
    pub(crate) fn claim_offered(
        &mut self,
        segments: &Segments,
        classes: RangeInclusive<u32>,
    ) -> Option<(Word, &mut O::Segment)> {
        let (word, position) = loop {
            let open = self.segments.iter().map(OpenCells::units).enumerate();
            let smallest = open.filter(|(_, units)| classes.contains(units)).min_by_key(|(_, units)| *units);
            let end = smallest.map_or(*classes.end() + 1, |(_, units)| units);
            let position = match segments.take_offered_cells(*classes.start()..end) {
                Some(taken) => self.insert(O::open(segments, taken)),
                None => smallest?.0,
            };
            if let Some(word) = self.segments[position].claim() {
                break (word, position);
            }
            O::close(segments, self.remove(position));
        };
        Some((word, &mut self.segments[position]))
    }

    fn insert(&mut self, segment: O::Segment) -> usize {
        self.by_slot.resize(CLASS_SLOTS, 0);
        let slot = cells::class_slot(segment.units());
        debug_assert_eq!(self.by_slot[slot], 0, "two open segments of one class");
        self.segments.push(segment);
        self.by_slot[slot] = self.segments.len() as u8;
        self.segments.len() - 1
    }

    fn remove(&mut self, position: usize) -> O::Segment {
        let segment = self.segments.swap_remove(position);
        self.by_slot[cells::class_slot(segment.units())] = 0;
        if let Some(moved) = self.segments.get(position) {
            self.by_slot[cells::class_slot(moved.units())] = position as u8 + 1;
        }
        segment
    }

    /// The open segments.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut O::Segment> {
        self.segments.iter_mut()
    }

    /// Closes the open segments that `goes` returns true for.
    pub(crate) fn close_those(&mut self, segments: &Segments, goes: impl Fn(&O::Segment) -> bool) {
        while let Some(position) = self.segments.iter().position(&goes) {
            O::close(segments, self.remove(position));
        }
    }

    /// Closes all open segments.
    pub(crate) fn close_all(&mut self, segments: &Segments) {
        while let Some(last) = self.segments.len().checked_sub(1) {
            O::close(segments, self.remove(last));
        }
    }
}
