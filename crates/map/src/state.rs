//! What a map is in DRAM: what readers share, and what the writer's lock guards.

use crate::config::{Config, Layout};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Ref;
use crate::index::{Index, Store};
use crate::pages::Pages;
use crate::pending::Pending;
use crate::pin::Pins;
use crate::record::Records;
use crate::timestamps::{Timestamps, Ts};
use crate::tree::Edit;
use crate::wake::Wake;
use perdura_pmem::planted;
use perdura_pmem::sync::Mutex;
use rustc_hash::FxHashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A map, as its handles, its background thread and its readers share it.
pub(crate) struct Core<I: Index> {
    pub(crate) layout: Layout,
    pub(crate) config: Config,
    pub(crate) records: Records,
    pub(crate) reader: <I::Store as Store>::Reader,
    pub(crate) pins: Pins,
    /// The newest root published.
    root: AtomicU64,
    /// Stored before a root that does without what it forgets.
    forgotten: AtomicU64,
    pub(crate) state: Mutex<State<I>>,
    /// Held by who collects.
    pub(crate) collector: Mutex<Collector>,
    /// Whether the background thread sleeps until it is woken.
    pub(crate) asleep: AtomicBool,
    pub(crate) wake: Wake,
    pub(crate) is_closing: AtomicBool,
}

/// What the collector remembers from round to round.
#[derive(Default)]
pub(crate) struct Collector {
    /// List: dead deletions whose hidden versions are not linked any more (see [`crate::list_collect`]).
    pub(crate) aged: FxHashSet<u64>,
}

/// What changes take turns on.
pub(crate) struct State<I: Index> {
    pub(crate) pages: Pages,
    pub(crate) store: I::Store,
    pub(crate) root: u64,
    /// Offset of the newest record.
    pub(crate) head: u64,
    pub(crate) times: Timestamps,
    pub(crate) pending: Pending,
    /// Entries of the index.
    pub(crate) versions: u64,
    /// Since the last confirmation.
    pub(crate) changes: u32,
    /// Whether there is anything a confirmation would save.
    pub(crate) is_dirty: bool,
    /// Records the index does without since the last confirmation.
    pub(crate) dead: Vec<Ref>,
    /// Records rolled back since the last confirmation.
    pub(crate) cut: Vec<Ref>,
    /// Records whose (key, timestamp) was changed again while they are pending.
    pub(crate) orphans: FxHashSet<Ref>,
    /// List: deletions that are dead and linked still, found since the last round of the collector.
    pub(crate) dead_deletions: Vec<u64>,
    /// An edit that is over, for its memory.
    pub(crate) spare: Edit,
    /// Held snapshots, and the traversal after a start ([`Core::traverse`]).
    pub(crate) snapshots: u64,
    pub(crate) is_loading: bool,
    /// Bytes of garbage that the last round of the collector found nothing to free of.
    pub(crate) garbage_left: u64,
    /// B+-tree: whether all pages are known (docs/maps.md, Collection).
    pub(crate) is_traversed: bool,
    /// Why that could not be found out.
    pub(crate) damage: Option<Error>,
    /// Live bytes as of the start, for as long as pages are not known.
    pub(crate) saved_live: u64,
}

impl<I: Index> State<I> {
    /// Whether nothing may be collected now.
    pub(crate) fn is_held(&self) -> bool {
        // Planted: a snapshot does not hold off the collector.
        self.snapshots > 0 && !planted(126) || self.is_loading
    }
}

impl<I: Index> Core<I> {
    pub(crate) fn new(
        layout: Layout,
        config: Config,
        records: Records,
        reader: <I::Store as Store>::Reader,
        state: State<I>,
    ) -> Core<I> {
        Core {
            layout,
            config,
            records,
            reader,
            pins: Pins::new(),
            root: AtomicU64::new(state.root),
            forgotten: AtomicU64::new(state.times.forgotten),
            state: Mutex::new(state),
            collector: Mutex::new(Collector::default()),
            asleep: AtomicBool::new(false),
            wake: Wake::default(),
            is_closing: AtomicBool::new(false),
        }
    }

    /// The root for a reader that has pinned.
    #[inline]
    pub(crate) fn root(&self) -> u64 {
        self.root.load(Ordering::Acquire)
    }

    /// The root for a reader at a timestamp that has pinned. Error: `Forgotten`.
    #[inline]
    pub(crate) fn root_at(&self, at: Ts) -> Result<u64> {
        // After, because a root that does without something comes after the mark; before, because a loaded snapshot may
        // lower the mark once its root is there.
        self.check_readable(at)?;
        let root = self.root();
        self.check_readable(at)?;
        Ok(root)
    }

    #[inline]
    fn check_readable(&self, at: Ts) -> Result<()> {
        let forgotten = self.forgotten.load(Ordering::Acquire);
        if at >= forgotten {
            return Ok(());
        }
        Err(self.error(ErrorKind::Forgotten, format!("versions below {forgotten} are forgotten, read at {at}")))
    }

    pub(crate) fn publish_forgotten(&self, ts: Ts) {
        self.forgotten.store(ts, Ordering::Release);
    }

    /// Makes a root visible.
    pub(crate) fn publish(&self, state: &mut State<I>, root: u64) {
        state.root = root;
        self.root.store(root, Ordering::Release);
    }

    #[cold]
    pub(crate) fn error(&self, kind: ErrorKind, what: String) -> Error {
        let file = self.records.region.name();
        Error::new(kind, format!("{file}: {what}")).in_file(file)
    }

    /// Wakes the background thread if it sleeps.
    #[inline]
    pub(crate) fn stir(&self) {
        if self.asleep.load(Ordering::Relaxed) {
            self.wake.notify();
        }
    }
}
