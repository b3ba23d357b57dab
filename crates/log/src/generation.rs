//! Generations and their lanes, as the running log keeps them.

use crate::Csn;
use crate::config::GENERATIONS_MAX;
use crate::format::{GRANULE_BYTES, lane_name};
use crate::group_commit::GroupCommit;
use crate::lane_pins::LanePins;
use crate::superblock::GenerationEntry;
use crossbeam_utils::CachePadded;
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Content, Medium, Region};
use smallvec::SmallVec;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Most ranges of sectors that a lane keeps for those who reserve next.
const SPARE_MAX: usize = 256;

/// One of the parallel log files of a generation.
pub(crate) struct Lane {
    bytes: u64,
    /// Bytes reserved from the start.
    tail: AtomicU64,
    /// Number of ranges in `spare`.
    spare_count: AtomicUsize,
    /// Sectors below the tail that were reserved, and neither stored to nor needed.
    spare: Mutex<Vec<Range<u64>>>,
    pub(crate) pins: LanePins,
    /// Of records that end together, on a disk.
    pub(crate) group: GroupCommit,
    /// `None` while there is no file.
    region: UnsafeCell<Option<Region>>,
}

// SAFETY: all fields but `region` are atomics or never change. `region` is written by `map` and
// `unmap` only, whose callers see to it that nobody else uses it, and a Region can be shared.
unsafe impl Sync for Lane {}

impl Lane {
    fn new(region: Region) -> Lane {
        let (bytes, region) = (region.len(), UnsafeCell::new(Some(region)));
        Lane {
            bytes,
            tail: AtomicU64::new(0),
            spare_count: AtomicUsize::new(0),
            spare: Mutex::new(Vec::new()),
            pins: LanePins::new(),
            group: GroupCommit::new(),
            region,
        }
    }

    /// The file.
    ///
    /// # Safety
    /// While the result is used the caller pins the lane, having found its generation active; or
    /// holds the control lock; or no log runs yet.
    #[inline]
    pub(crate) unsafe fn region(&self) -> &Region {
        // SAFETY: `map` and `unmap` need the control lock and an unpinned lane.
        unsafe { &*self.region.get() }.as_ref().expect("a lane in use has a file")
    }

    /// Gives the lane a file that was made anew.
    ///
    /// # Safety
    /// The caller holds the control lock, and the lane has been without a file since `unmap`.
    unsafe fn map(&self, region: Region) {
        assert_eq!(region.len(), self.bytes, "all lanes are of one size");
        // SAFETY: only threads with a pin or the control lock look.
        unsafe { *self.region.get() = Some(region) };
    }

    /// Takes the file away.
    ///
    /// # Safety
    /// The caller holds the control lock and has found the generation inactive, then the lane
    /// unpinned.
    unsafe fn unmap(&self) -> Option<Region> {
        // SAFETY: only threads with a pin or the control lock look.
        unsafe { (*self.region.get()).take() }
    }

    /// Begins anew: nobody needs what the file holds.
    ///
    /// # Safety
    /// The caller holds the control lock, or no log runs yet.
    unsafe fn reset(&self) {
        self.tail.store(0, Relaxed);
        self.spare.lock().clear();
        self.spare_count.store(0, Relaxed);
        self.pins.reset();
        // SAFETY: as the caller vouches for.
        unsafe { &*self.region.get() }.as_ref().inspect(|region| region.forget());
    }

    /// Reserves `bytes` (whole granules, or sectors) if there is room: the offset.
    #[inline]
    pub(crate) fn take(&self, bytes: u64) -> Option<u64> {
        if self.spare_count.load(Relaxed) > 0
            && let Some(offset) = self.take_spare(bytes)
        {
            return Some(offset);
        }
        let mut tail = self.tail.load(Relaxed);
        while bytes <= self.bytes - tail {
            match self.tail.compare_exchange_weak(tail, tail + bytes, Relaxed, Relaxed) {
                Ok(offset) => return Some(offset),
                Err(moved) => tail = moved,
            }
        }
        None
    }

    #[cold]
    fn take_spare(&self, bytes: u64) -> Option<u64> {
        let mut spare = self.spare.lock();
        let index = spare.iter().position(|range| bytes <= range.end - range.start)?;
        let offset = spare[index].start;
        spare[index].start += bytes;
        if spare[index].is_empty() {
            spare.swap_remove(index);
        }
        self.spare_count.store(spare.len(), Relaxed);
        Some(offset)
    }

    /// Returns the unused `bytes` at `offset`, unless others have reserved space behind them;
    /// whether that is so. If not the space is lost until the generation is re-armed.
    pub(crate) fn give_back(&self, offset: u64, bytes: u64) -> bool {
        self.tail.compare_exchange(offset + bytes, offset, Relaxed, Relaxed).is_ok()
    }

    /// Returns unused sectors, to which nobody has stored since the generation was armed, for who
    /// reserves next.
    pub(crate) fn give_back_sectors(&self, sectors: Range<u64>) {
        if self.give_back(sectors.start, sectors.end - sectors.start) {
            return;
        }
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_MAX {
            spare.push(sectors);
            self.spare_count.store(spare.len(), Relaxed);
        }
    }

    /// Whether `bytes` may still fit.
    #[inline]
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.bytes - self.tail.load(Relaxed) || self.spare_count.load(Relaxed) > 0
    }

    /// Bytes reserved.
    pub(crate) fn filled(&self) -> u64 {
        self.tail.load(Relaxed)
    }
}

/// A set of lanes.
///
/// Invariants: a generation's salt, activation and mappings change only while it is inactive and
/// nothing pins it (under the control lock). An inactive generation without pins receives no more
/// records, and the highest CSN of its lanes is final; `lane_pins.rs` says why.
///
/// A [`Generation`] lives as long as the log, since a thread may still be about to pin one that was
/// removed; what goes with the files is their mapping. Only a thread whose pin came in time touches
/// that: it pinned the lane, and then found the generation active. A thread that was late finds
/// another activation, and withdraws having used no more than the counters.
pub(crate) struct Generation {
    pub(crate) number: u32,
    pub(crate) lanes: Box<[CachePadded<Lane>]>,
    salt: AtomicU64,
    activation: AtomicU64,
}

impl Generation {
    pub(crate) fn new(number: u32, entry: GenerationEntry, regions: Vec<Region>) -> Generation {
        let lanes = regions.into_iter().map(|region| CachePadded::new(Lane::new(region))).collect();
        Generation { number, lanes, salt: AtomicU64::new(entry.salt), activation: AtomicU64::new(entry.activation) }
    }

    /// Number of its present activation, 0 if it holds no valid record.
    pub(crate) fn activation(&self) -> u64 {
        self.activation.load(Acquire)
    }

    /// Salt of the present activation's records. Stable while the caller pins the generation.
    #[inline]
    pub(crate) fn salt(&self) -> u64 {
        self.salt.load(Acquire)
    }

    /// Highest CSN recorded in an inactive generation, final; `None` while an unfinished
    /// transaction pins it (I9).
    pub(crate) fn csn_max_if_unpinned(&self) -> Option<Csn> {
        self.lanes.iter().try_fold(0, |csn_max, lane| Some(lane.pins.csn_max_if_unpinned()?.max(csn_max)))
    }

    /// Begins a new, empty activation. The caller holds the control lock; a pin taken now came too
    /// late and will be withdrawn.
    pub(crate) fn reset(&self, entry: GenerationEntry) {
        self.salt.store(entry.salt, Release);
        self.activation.store(entry.activation, Release);
        for lane in &self.lanes {
            // SAFETY: the caller holds the control lock.
            unsafe { lane.reset() };
        }
    }
}

/// The active generation as one word: activation and number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Active(u64);

impl Active {
    /// While recovery has not armed any.
    pub(crate) const NONE: Active = Active(u64::MAX);

    pub(crate) fn new(activation: u64, number: u32) -> Active {
        Active(activation << 8 | u64::from(number))
    }

    /// As it is stored.
    pub(crate) fn to_word(self) -> u64 {
        self.0
    }

    pub(crate) fn from_word(word: u64) -> Active {
        Active(word)
    }

    #[inline]
    pub(crate) fn number(self) -> u32 {
        (self.0 & 0xff) as u32
    }

    #[inline]
    pub(crate) fn activation(self) -> u64 {
        self.0 >> 8
    }
}

/// All generations by number. Those that were removed are among the slots still, beyond the count.
pub(crate) struct Generations {
    slots: Box<[OnceLock<Generation>]>,
    count: AtomicUsize,
}

impl Generations {
    pub(crate) fn new(generations: Vec<Generation>) -> Generations {
        let all =
            Generations { slots: (0..GENERATIONS_MAX).map(|_| OnceLock::new()).collect(), count: AtomicUsize::new(0) };
        for (number, generation) in generations.into_iter().enumerate() {
            assert_eq!(generation.number as usize, number, "generations are in order");
            assert!(all.slots[number].set(generation).is_ok(), "a generation is added once");
            all.count.store(number + 1, Release);
        }
        all
    }

    /// Adds the next one, free. The caller holds the control lock.
    pub(crate) fn push(&self, regions: Vec<Region>) {
        let number = self.count();
        match self.slots[number].get() {
            None => {
                let fresh = Generation::new(number as u32, GenerationEntry::FREE, regions);
                assert!(self.slots[number].set(fresh).is_ok(), "the control lock lets one in");
            }
            Some(gone) => {
                for (lane, region) in gone.lanes.iter().zip(regions) {
                    // SAFETY: the caller holds the control lock, and what lies beyond the count was
                    // popped.
                    unsafe { lane.map(region) };
                }
            }
        }
        self.count.store(number + 1, Release);
    }

    /// Takes the files of the last one away.
    ///
    /// # Safety
    /// The caller holds the control lock and has found the generation inactive, then unpinned.
    pub(crate) unsafe fn pop(&self) -> Vec<Region> {
        let number = self.count() - 1;
        let last = self.get(number as u32);
        last.reset(GenerationEntry::FREE);
        self.count.store(number, Release);
        // SAFETY: as the caller vouches for.
        last.lanes.iter().filter_map(|lane| unsafe { lane.unmap() }).collect()
    }

    /// Bytes that a write of a lane may tear.
    pub(crate) fn sector(&self) -> u64 {
        let lanes = self.iter().flat_map(|generation| generation.lanes.iter());
        // SAFETY: the log is made of these generations, so none runs yet.
        let sectors = lanes.map(|lane| unsafe { lane.region() }.write_granule());
        sectors.max().unwrap_or(GRANULE_BYTES)
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &Generation {
        self.slots[number as usize].get().expect("only generations that exist are named")
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Acquire)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Generation> {
        self.slots[..self.count()].iter().filter_map(OnceLock::get)
    }
}

/// Creates and syncs the lanes of a generation. On an error none of the files is left.
pub(crate) fn create_lanes(
    medium: &dyn Medium,
    generation: u32,
    lanes: u32,
    lane_bytes: u64,
) -> perdura_pmem::Result<Vec<Region>> {
    let mut regions = Vec::with_capacity(lanes as usize);
    for lane in 0..lanes {
        let name = lane_name(generation, lane);
        let created = medium.create_log(&name, lane_bytes).and_then(|region| {
            regions.push(region.holding(Content::Log));
            regions[lane as usize].sync()
        });
        if let Err(error) = created {
            for region in &regions {
                // A file that cannot be removed either is left to the next recovery.
                let _ = medium.remove(region.name());
            }
            return Err(error);
        }
    }
    Ok(regions)
}

/// Lanes a transaction has pinned.
pub(crate) type Pins = SmallVec<[Pin; 2]>;

/// A pin that a transaction holds, by the lane it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) generation: u32,
    pub(crate) lane: u32,
}

/// Where a group lies, or will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) generation: u32,
    pub(crate) lane: u32,
    pub(crate) offset: u64,
}
