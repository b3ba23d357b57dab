//! Segments with cells that one owner, a shard or a bulk insert, fills at the same time: at most one of each class of cells.
//!
//! A table may have rows of any mix of lengths, and there are some sixty classes. A segment for each from the start
//! would make a small table large; too few would waste cells. So a class has to earn its segment: its versions go to
//! the next larger open cells until they have lost a quarter of a segment there ([`Losses`], kept for the whole table).
//! From then on each owner opens a segment of that class. For a version larger than all open cells the owner opens a
//! class twice the largest open one, or larger still if the version needs it, so that rows that grow open few. The next
//! owner that asks for a class goes on in a segment that another gave back partly filled.
//!
//! So beside the rounding of versions to cells an owner wastes at most a quarter of a segment, and the unfilled part of
//! one, for each class in use.

use crate::bulk_segment::BulkSegment;
use crate::cells::{self, CLASS_SLOTS};
use crate::error::{ErrorKind, Result};
use crate::format::{UNIT_BYTES, Word};
use crate::space::OpenSegment;
use crate::table::Table;
use std::sync::atomic::{AtomicU32, Ordering};

/// Units that versions of each class have lost by lying in larger cells, until the class has earned segments of its
/// own.
pub struct Losses([AtomicU32; CLASS_SLOTS]);

impl Default for Losses {
    fn default() -> Losses {
        Losses([const { AtomicU32::new(0) }; CLASS_SLOTS])
    }
}

impl Losses {
    fn add(&self, class: u32, units: u32) {
        self.0[cells::class_slot(class)].fetch_add(units, Ordering::Relaxed);
    }

    fn is_earned(&self, class: u32, segment_bytes: u64) -> bool {
        let lost = self.0[cells::class_slot(class)].load(Ordering::Relaxed);
        u64::from(lost) * UNIT_BYTES >= segment_bytes / 4
    }
}

/// A segment being filled by one owner.
pub trait OpenCells {
    /// Units of its cells.
    fn units(&self) -> u32;

    /// The next free cell, if there is one.
    fn claim(&mut self) -> Option<Word>;
}

/// How a kind of owner takes segments over and gives them back.
pub trait Owner {
    /// A segment in its hands.
    type Segment: OpenCells;

    /// Takes a segment over.
    fn open(table: &Table, segment: OpenSegment) -> Self::Segment;

    /// Gives one back to `table`.
    fn close(table: &Table, segment: Self::Segment);
}

/// The open segments of one owner.
pub struct OpenSet<O: Owner> {
    segments: Vec<O::Segment>,
    /// Position in `segments`, and 1, by slot of the class; empty until the first is opened.
    by_slot: Vec<u8>,
}

impl<O: Owner> Default for OpenSet<O> {
    fn default() -> OpenSet<O> {
        OpenSet { segments: Vec::new(), by_slot: Vec::new() }
    }
}

impl<O: Owner> OpenSet<O> {
    /// The next cell for a version of class `class`, and the segment it is in.
    ///
    /// # Errors
    /// DeviceFull, TableFull, Damaged: there is no cell of that class or of a larger one, nor room for more.
    #[inline]
    pub fn claim(&mut self, table: &Table, class: u32) -> Result<(Word, &mut O::Segment)> {
        if let Some(position) = self.position(class)
            && let Some(word) = self.segments[position].claim()
        {
            return Ok((word, &mut self.segments[position]));
        }
        let (word, position) = self.claim_elsewhere(table, class)?;
        Ok((word, &mut self.segments[position]))
    }

    #[inline]
    fn position(&self, class: u32) -> Option<usize> {
        let position = self.by_slot.get(cells::class_slot(class))?;
        position.checked_sub(1).map(usize::from)
    }

    #[cold]
    fn claim_elsewhere(&mut self, table: &Table, class: u32) -> Result<(Word, usize)> {
        if let Some(full) = self.position(class) {
            O::close(table, self.remove(full));
        }
        let earned = table.losses.is_earned(class, table.context.geometry.segment_bytes);
        if !earned && let Some((word, position)) = self.claim_larger(table, class) {
            return Ok((word, position));
        }
        let largest = self.segments.iter().map(OpenCells::units).max();
        let taken = match table.take_cells(class, earned, largest) {
            Err(error) if [ErrorKind::DeviceFull, ErrorKind::TableFull].contains(&error.kind()) => {
                if let Some((word, position)) = self.claim_larger(table, class) {
                    return Ok((word, position));
                }
                table.take_larger_cells(class).ok_or(error)?
            }
            taken => taken?,
        };
        let position = self.insert(O::open(table, taken));
        let segment = &mut self.segments[position];
        let (word, units) = (segment.claim().expect("a segment with free cells"), segment.units());
        table.losses.add(class, units - class);
        Ok((word, position))
    }

    /// A cell of the smallest larger class that has one.
    fn claim_larger(&mut self, table: &Table, class: u32) -> Option<(Word, usize)> {
        loop {
            let larger = self.segments.iter().enumerate().filter(|(_, segment)| segment.units() > class);
            let (position, units) =
                larger.map(|(position, segment)| (position, segment.units())).min_by_key(|(_, units)| *units)?;
            if let Some(word) = self.segments[position].claim() {
                table.losses.add(class, units - class);
                return Some((word, position));
            }
            O::close(table, self.remove(position));
        }
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

    /// All open segments.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut O::Segment> {
        self.segments.iter_mut()
    }

    /// Gives all back.
    pub fn close_all(&mut self, table: &Table) {
        while let Some(last) = self.segments.len().checked_sub(1) {
            O::close(table, self.remove(last));
        }
    }
}

/// A bulk insert as an owner of segments.
pub enum Bulk {}

impl Owner for Bulk {
    type Segment = BulkSegment;

    fn open(table: &Table, segment: OpenSegment) -> BulkSegment {
        let region = table.file(segment.id.file).expect("its own file").region().clone();
        BulkSegment::new(segment, region)
    }

    fn close(table: &Table, segment: BulkSegment) {
        table.release_partly_filled(&segment.retire());
    }
}
