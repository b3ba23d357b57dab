//! Generations and their lanes, as the running log has them.
//!
//! Invariants: a generation's salt and activation change only while it is inactive and nothing pins it (under the control
//! lock). A *pin* on a lane says that a transaction which has not ended has, or is about to put, a record there. Who pins
//! looks again whether the generation is still active, and pins and looks sequentially consistently, as does whoever
//! deactivates and then looks for pins: so either the pin is seen, or the one who pinned sees that it came too late.
//! An inactive generation without pins gets no new records, and `csn_max` of its lanes is final: a transaction raises it
//! before it lets go of its pin.

use crate::Csn;
use crate::config::GENERATIONS_MAX;
use crate::format::lane_name;
use crate::superblock::GenerationEntry;
use crossbeam_utils::CachePadded;
use perdura_pmem::{Medium, Region};
use smallvec::SmallVec;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// One of the parallel log files of a generation.
pub(crate) struct Lane {
    pub(crate) region: Region,
    /// Bytes reserved from the start.
    tail: AtomicU64,
    pins: AtomicU64,
    /// Highest CSN of the transactions that have a record here and have let go of their pin.
    csn_max: AtomicU64,
}

impl Lane {
    fn new(region: Region) -> Lane {
        Lane { region, tail: AtomicU64::new(0), pins: AtomicU64::new(0), csn_max: AtomicU64::new(0) }
    }

    /// Reserves `bytes` (whole granules) if there is room: the offset.
    #[inline]
    pub(crate) fn take(&self, bytes: u64) -> Option<u64> {
        let mut tail = self.tail.load(Relaxed);
        while bytes <= self.region.len() - tail {
            match self.tail.compare_exchange_weak(tail, tail + bytes, Relaxed, Relaxed) {
                Ok(offset) => return Some(offset),
                Err(moved) => tail = moved,
            }
        }
        None
    }

    /// Gives back the `bytes` at `offset`, into which nothing was stored, unless others have reserved behind them.
    pub(crate) fn give_back(&self, offset: u64, bytes: u64) {
        // Then the space is lost until the generation is armed again.
        let _ = self.tail.compare_exchange(offset + bytes, offset, Relaxed, Relaxed);
    }

    /// Whether `bytes` might be had.
    #[inline]
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.region.len() - self.tail.load(Relaxed)
    }

    /// Bytes reserved.
    pub(crate) fn filled(&self) -> u64 {
        self.tail.load(Relaxed)
    }

    pub(crate) fn pins(&self) -> u64 {
        self.pins.load(SeqCst)
    }

    #[inline]
    pub(crate) fn pin(&self) {
        self.pins.fetch_add(1, SeqCst);
    }

    /// Lets go of a pin; `csn` is that of the transaction, or 0 if it has none.
    #[inline]
    pub(crate) fn unpin(&self, csn: Csn) {
        if csn != 0 {
            self.csn_max.fetch_max(csn, Relaxed);
        }
        self.pins.fetch_sub(1, Release);
    }

    /// Sets what recovery found.
    pub(crate) fn restore(&self, csn_max: Csn) {
        self.csn_max.fetch_max(csn_max, Relaxed);
    }
}

/// A set of lanes.
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

    /// Salt of the records of the present activation. For who has it pinned.
    #[inline]
    pub(crate) fn salt(&self) -> u64 {
        self.salt.load(Acquire)
    }

    /// Whether nobody has, or will put, an unfinished transaction's record here. Only tells for an inactive generation.
    pub(crate) fn is_unpinned(&self) -> bool {
        self.lanes.iter().all(|lane| lane.pins() == 0)
    }

    /// Highest CSN recorded here. Final once inactive and unpinned.
    pub(crate) fn csn_max(&self) -> Csn {
        self.lanes.iter().map(|lane| lane.csn_max.load(Relaxed)).max().unwrap_or(0)
    }

    /// Begins a new activation, empty. The caller holds the control lock, and nobody can have it pinned to good effect.
    pub(crate) fn reset(&self, entry: GenerationEntry) {
        self.salt.store(entry.salt, Release);
        self.activation.store(entry.activation, Release);
        for lane in &self.lanes {
            lane.tail.store(0, Relaxed);
            lane.csn_max.store(0, Relaxed);
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

/// All generations by number. Grows, never shrinks.
pub(crate) struct Generations {
    slots: Box<[OnceLock<Generation>]>,
    count: AtomicUsize,
}

impl Generations {
    pub(crate) fn new(generations: Vec<Generation>) -> Generations {
        let all =
            Generations { slots: (0..GENERATIONS_MAX).map(|_| OnceLock::new()).collect(), count: AtomicUsize::new(0) };
        for generation in generations {
            all.push(generation);
        }
        all
    }

    /// Adds the next one. The caller holds the control lock.
    pub(crate) fn push(&self, generation: Generation) {
        let number = generation.number as usize;
        assert_eq!(number, self.count(), "generations are added in order");
        assert!(self.slots[number].set(generation).is_ok(), "a generation is added once");
        self.count.store(number + 1, Release);
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
        let created = medium.create(&name, lane_bytes).and_then(|region| {
            regions.push(region);
            regions[lane as usize].sync()
        });
        if let Err(error) = created {
            for region in &regions {
                // What cannot be removed either is removed by the next recovery.
                let _ = medium.remove(region.name());
            }
            return Err(error);
        }
    }
    Ok(regions)
}

/// Lanes a transaction has pinned.
pub(crate) type Pins = SmallVec<[Pin; 2]>;

/// A pinned lane.
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
