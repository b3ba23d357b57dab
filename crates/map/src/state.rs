//! A map's state in DRAM: what readers share, and what the writer's lock guards.

use crate::config::{Config, Layout};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{NUMBER_MAX, Ref};
use crate::holds::Holds;
use crate::index::{Editing, Index};
use crate::milestones::Milestones;
use crate::pages::{Pages, Urgency};
use crate::pending::Pending;
use crate::pin::Pins;
use crate::record::Records;
use crate::timestamps::{Timestamps, Ts};
use crate::views::Views;
use crate::wake::Wake;
use perdura_pmem::planted;
use perdura_pmem::sync::{Mutex, PriorityMutex};
use rustc_hash::FxHashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Numbers of persists left from which on changes are refused. Half of them are for taking
/// back, applying and forgetting what was changed, the rest for persisting and for a snapshot.
const NUMBERS_KEPT: u64 = 1 << 20;

/// Rounds that are left out for a load that found one running: those of some seconds, for the
/// background thread comes once an interval.
pub(crate) const ROUNDS_LEFT_OUT: u32 = 256;

/// Records that are to be given up.
pub(crate) type Abandoned = Box<dyn Iterator<Item = Ref> + Send>;

/// A map, shared by its handles, its readers and its background thread.
pub(crate) struct Core<I: Index> {
    pub(crate) layout: Layout,
    pub(crate) config: Config,
    pub(crate) records: Records,
    pub(crate) index: I,
    pub(crate) pins: Pins,
    pub(crate) views: Views,
    /// Whether the content is not that of any moment, since a load that had emptied the map did not
    /// end.
    pub(crate) is_partial: AtomicBool,
    pub(crate) state: PriorityMutex<State<I>>,
    /// Held for the length of a collection round.
    pub(crate) collector: Mutex<Collector>,
    /// Whether the background thread sleeps until a change wakes it.
    pub(crate) asleep: AtomicBool,
    /// Whether the background thread was asked for a collection round that has not ended.
    pub(crate) asked: AtomicBool,
    /// Rounds that are not run, for a load that found one running begins first.
    pub(crate) rounds_left_out: AtomicU32,
    pub(crate) wake: Wake,
    pub(crate) is_closing: AtomicBool,
    /// Held while a load puts its content in force, for which closing waits. Taken before the
    /// writer's lock.
    pub(crate) finishing: Mutex<()>,
}

/// Memory of the collector from round to round.
#[derive(Default)]
pub(crate) struct Collector {
    /// List: dead deletions, by offset, that no longer hide a linked version (see
    /// [`crate::list_collect`]).
    pub(crate) aged: FxHashSet<u64>,
    pub(crate) milestones: Milestones,
    /// Records of the chain that the last round has looked at.
    #[cfg(test)]
    pub(crate) walked: usize,
}

/// A tag and its timestamp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tagged {
    pub(crate) ts: Ts,
    pub(crate) tag: Vec<u8>,
}

/// State under the writer's lock.
pub(crate) struct State<I: Index> {
    pub(crate) pages: Pages,
    pub(crate) writer: I::Writer,
    /// Offset of the newest record.
    pub(crate) head: u64,
    pub(crate) times: Timestamps,
    pub(crate) pending: Pending,
    /// Timestamp below which callers have asked to forget, while views hold it.
    pub(crate) forget_to: Ts,
    /// The newest forgotten tag.
    pub(crate) forgotten_tag: Tagged,
    pub(crate) meta: Vec<u8>,
    /// Count of the versions.
    pub(crate) versions: u64,
    /// Changes since the last persist.
    pub(crate) changes: u32,
    /// Whether a persist would save anything.
    pub(crate) is_dirty: bool,
    /// Records that are no longer needed since the last persist.
    pub(crate) dead: Vec<Ref>,
    /// Records rolled back since the last persist.
    pub(crate) cut: Vec<Ref>,
    /// Forgotten deletions whose entries the index may still have.
    pub(crate) to_sweep: Vec<Ref>,
    /// List: dead deletions, by offset, found since the collector's last round and still linked.
    pub(crate) dead_deletions: Vec<u64>,
    pub(crate) holds: Holds,
    /// The epoch in which a hold has ended by itself, until no reader is as old.
    pub(crate) ending: Option<u64>,
    pub(crate) is_loading: bool,
    /// Records of loads that were broken off, which are given up some in each persist.
    pub(crate) abandoned: Vec<Abandoned>,
    /// Garbage, in bytes, that the last round of the collector could not free.
    pub(crate) garbage_left: u64,
    /// B+-tree: whether the content of all pages is known (docs/maps.md, Collection).
    pub(crate) is_traversed: bool,
    /// Why the traversal failed.
    pub(crate) damage: Option<Error>,
    /// Live bytes as the root record had them at start, until all pages are known.
    pub(crate) saved_live: u64,
}

impl<I: Index> State<I> {
    /// Bytes of used pages that are not live. Until a B+-tree's pages are known, it relies on what
    /// the last persist before the start had counted.
    pub(crate) fn garbage(&self) -> u64 {
        let known = if self.is_traversed { 0 } else { self.saved_live.saturating_sub(self.pages.live_bytes()) };
        self.pages.garbage().saturating_sub(known)
    }

    /// Whether a snapshot or a load keeps the collector away.
    pub(crate) fn is_held(&self) -> bool {
        // Planted: a snapshot does not hold off the collector.
        self.holds.any() && !planted(126) || self.is_loading
    }

    /// Whether somebody may read what persists do not reach any more: under a snapshot, or
    /// under one that has ended.
    #[inline]
    pub(crate) fn keeps_garbage(&self) -> bool {
        self.holds.any() || self.ending.is_some()
    }

    /// Lends what changes the index.
    #[inline]
    pub(crate) fn editing(&mut self, urgency: Urgency) -> Editing<'_, I> {
        let State { pages, writer, dead, times, .. } = self;
        Editing { writer, pages, urgency, forgotten: times.forgotten, dead }
    }
}

impl<I: Index> Core<I> {
    pub(crate) fn new(layout: Layout, config: Config, records: Records, index: I, state: State<I>) -> Core<I> {
        Core {
            layout,
            config,
            records,
            index,
            pins: Pins::new(),
            views: Views::open(state.times.forgotten),
            is_partial: AtomicBool::new(false),
            state: PriorityMutex::new(state),
            collector: Mutex::new(Collector::default()),
            asleep: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            rounds_left_out: AtomicU32::new(0),
            wake: Wake::default(),
            is_closing: AtomicBool::new(false),
            finishing: Mutex::new(()),
        }
    }

    /// Checks that `at` may be read. Error: `Forgotten`, `Partial`.
    #[inline]
    pub(crate) fn check_readable(&self, at: Ts) -> Result<()> {
        let forgotten = self.views.forgotten();
        // With the content that a read has seen, it sees whether that is one (Acquire).
        if at >= forgotten && !self.is_partial.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(self.unreadable(at, forgotten))
    }

    #[cold]
    pub(crate) fn unreadable(&self, at: Ts, forgotten: Ts) -> Error {
        if self.is_partial.load(Ordering::Relaxed) {
            return self.partial();
        }
        self.error(ErrorKind::Forgotten, format!("versions below {forgotten} are forgotten, read at {at}"))
    }

    #[cold]
    fn partial(&self) -> Error {
        let what = "a load that had emptied the map did not end; load a snapshot";
        self.error(ErrorKind::Partial, what.into())
    }

    /// Checks that keys may be changed. Error: `ReadOnly`, `Partial`.
    pub(crate) fn check_writable(&self, state: &State<I>) -> Result<()> {
        self.check_content(state)?;
        self.check_numbers(state, NUMBERS_KEPT)
    }

    /// Checks that changes may be applied, taken back and forgotten. Error: `ReadOnly`, `Partial`.
    pub(crate) fn check_revisable(&self, state: &State<I>) -> Result<()> {
        self.check_content(state)?;
        self.check_last_numbers(state)
    }

    /// Checks that there is a content, and that no load is about to replace it. Error: `ReadOnly`,
    /// `Partial`.
    pub(crate) fn check_content(&self, state: &State<I>) -> Result<()> {
        if state.is_loading {
            return Err(self.error(ErrorKind::ReadOnly, "a snapshot is being loaded; wait until it is finished".into()));
        }
        if self.is_partial.load(Ordering::Relaxed) {
            return Err(self.partial());
        }
        Ok(())
    }

    /// Checks that not even the last numbers are used up, which a snapshot needs. Error:
    /// `ReadOnly`.
    pub(crate) fn check_last_numbers(&self, state: &State<I>) -> Result<()> {
        self.check_numbers(state, NUMBERS_KEPT / 2)
    }

    fn check_numbers(&self, state: &State<I>, kept: u64) -> Result<()> {
        if state.pages.number() < NUMBER_MAX - kept {
            return Ok(());
        }
        let what = "the numbers of persists are used up; copy the map to a new file by a snapshot";
        Err(self.error(ErrorKind::ReadOnly, what.into()))
    }

    #[cold]
    pub(crate) fn error(&self, kind: ErrorKind, what: String) -> Error {
        let file = self.records.region.name();
        Error::new(kind, format!("{file}: {what}")).in_file(file)
    }

    /// Ends the round that runs early, and leaves out the next ones.
    pub(crate) fn leave_rounds_out(&self) {
        self.rounds_left_out.store(ROUNDS_LEFT_OUT, Ordering::Relaxed);
    }

    /// Whether rounds are left out.
    pub(crate) fn leaves_rounds_out(&self) -> bool {
        self.rounds_left_out.load(Ordering::Relaxed) > 0
    }

    /// Whether a round ends early: a snapshot or a load keeps the collector away, or a load waits
    /// for it.
    pub(crate) fn gives_way(&self, state: &State<I>) -> bool {
        state.is_held() || self.leaves_rounds_out()
    }

    /// Wakes the background thread if it sleeps.
    #[inline]
    pub(crate) fn stir(&self) {
        if self.asleep.load(Ordering::Relaxed) {
            self.wake.notify();
        }
    }
}
