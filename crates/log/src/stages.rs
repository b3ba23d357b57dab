//! The time that transactions spend in each stage of their way through the log, for benchmarks. No
//! clock is read, and nothing is counted, until somebody has set one.
//!
//! A thread adds to a slot of its own, so that the counters cause none of the waits that they show.

use crossbeam_utils::CachePadded;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Slots that threads are spread over; more threads than these share them.
const SLOTS: usize = 64;
const STAGES: usize = LogStage::ALL.len();

/// A clock that counts nanoseconds from any moment on.
pub type StageClock = fn() -> u64;

/// A stage of a transaction on its way through the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStage {
    /// Its id is taken from a counter that all transactions share.
    Id,
    /// Space is reserved: a lane is pinned, and its tail moved. Waits for a switch count.
    Reserve,
    /// The CSN is taken from the central counter, and durable_csn read for the lag.
    Csn,
    /// The record is checksummed and copied into the lane.
    Copy,
    /// The record is fenced.
    Fence,
    /// The commit is marked as durable, and durable_csn moved over the marks behind it.
    Durable,
    /// durable_csn is waited for.
    DurableWait,
    /// The commit is marked as visible, and visible_csn moved over the marks behind it.
    Visible,
    /// visible_csn is waited for.
    VisibleWait,
    /// The commit is marked as stored, and stored_csn moved over the marks behind it.
    Stored,
    /// The lane's pin is released.
    Release,
}

impl LogStage {
    /// All stages, in the order in which a transaction comes to them.
    pub const ALL: [LogStage; 11] = [
        LogStage::Id,
        LogStage::Reserve,
        LogStage::Csn,
        LogStage::Copy,
        LogStage::Fence,
        LogStage::Durable,
        LogStage::DurableWait,
        LogStage::Visible,
        LogStage::VisibleWait,
        LogStage::Stored,
        LogStage::Release,
    ];
}

/// Nanoseconds spent in each stage, by all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes([u64; STAGES]);

impl StageTimes {
    /// Nanoseconds in `stage`.
    pub fn of(&self, stage: LogStage) -> u64 {
        self.0[stage as usize]
    }

    /// The times since `earlier`.
    pub fn since(&self, earlier: &StageTimes) -> StageTimes {
        StageTimes(std::array::from_fn(|stage| self.0[stage].wrapping_sub(earlier.0[stage])))
    }
}

type Slot = [AtomicU64; STAGES];

struct Running {
    clock: StageClock,
    slots: Box<[CachePadded<Slot>]>,
}

/// The times of a log's transactions.
#[derive(Default)]
pub(crate) struct Stages {
    running: OnceLock<Running>,
}

impl Stages {
    /// Counts from now on, with `clock`; a second call has no effect.
    pub(crate) fn start(&self, clock: StageClock) {
        self.running.get_or_init(|| Running { clock, slots: (0..SLOTS).map(|_| CachePadded::default()).collect() });
    }

    /// The times so far; none before [`Stages::start`].
    pub(crate) fn times(&self) -> StageTimes {
        let slots = self.running.get().map_or(&[][..], |running| &running.slots[..]);
        let sum = |stage: usize| slots.iter().fold(0u64, |sum, slot| sum.wrapping_add(slot[stage].load(Relaxed)));
        StageTimes(std::array::from_fn(sum))
    }

    /// Begins the stage that the first [`Watch::end`] names.
    #[inline]
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch(self.running.get().map(On::new))
    }
}

/// Times one stage after another of the calling thread's transaction.
pub(crate) struct Watch<'a>(Option<On<'a>>);

impl Watch<'_> {
    /// Ends `stage`, and begins the one that the next call names.
    #[inline]
    pub(crate) fn end(&mut self, stage: LogStage) {
        if let Some(on) = &mut self.0 {
            on.end(stage);
        }
    }
}

struct On<'a> {
    clock: StageClock,
    slot: &'a Slot,
    begun: u64,
}

impl<'a> On<'a> {
    #[cold]
    fn new(running: &'a Running) -> On<'a> {
        On { clock: running.clock, slot: &running.slots[thread_number() % SLOTS], begun: (running.clock)() }
    }

    #[cold]
    fn end(&mut self, stage: LogStage) {
        let now = (self.clock)();
        self.slot[stage as usize].fetch_add(now.wrapping_sub(self.begun), Relaxed);
        self.begun = now;
    }
}

/// A number of the calling thread's own.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Relaxed));
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

    /// A clock of the thread's own that moves on by 10 at each look.
    fn clock() -> u64 {
        NOW.set(NOW.get() + 10);
        NOW.get()
    }

    #[test]
    fn nothing_is_counted_without_a_clock() {
        let stages = Stages::default();
        stages.watch().end(LogStage::Csn);
        assert_eq!(stages.times(), StageTimes::default());
    }

    #[test]
    fn each_stage_gets_the_time_since_the_one_before_it() {
        let stages = Stages::default();
        stages.start(clock);
        let mut watch = stages.watch();
        watch.end(LogStage::Copy);
        clock();
        watch.end(LogStage::Csn);
        watch.end(LogStage::Copy);
        let times = stages.times();
        assert_eq!([LogStage::Copy, LogStage::Csn, LogStage::Fence].map(|stage| times.of(stage)), [20, 20, 0]);
        stages.watch().end(LogStage::Fence);
        let later = stages.times().since(&times);
        assert_eq!([LogStage::Copy, LogStage::Fence].map(|stage| later.of(stage)), [0, 10]);
    }

    /// More threads than slots lose nothing.
    #[test]
    fn the_times_of_all_threads_add_up() {
        const THREADS: u64 = 3 * SLOTS as u64;
        let stages = Stages::default();
        stages.start(clock);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..100).for_each(|_| stages.watch().end(LogStage::Fence)));
            }
        });
        assert_eq!(stages.times().of(LogStage::Fence), THREADS * 100 * 10);
    }

    #[test]
    fn every_stage_has_its_place() {
        let places: Vec<usize> = LogStage::ALL.iter().map(|stage| *stage as usize).collect();
        assert_eq!(places, (0..STAGES).collect::<Vec<_>>());
    }
}
