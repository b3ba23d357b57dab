//! A map's state in DRAM: what readers share, and what the writer's lock guards.

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

/// A map, shared by its handles, its readers and its background thread.
pub(crate) struct Core<I: Index> {
    pub(crate) layout: Layout,
    pub(crate) config: Config,
    pub(crate) records: Records,
    pub(crate) reader: <I::Store as Store>::Reader,
    pub(crate) pins: Pins,
    /// The newest published root.
    root: AtomicU64,
    /// The published mark of [`Timestamps::forgotten`]. It rises before a root without those versions is published.
    forgotten: AtomicU64,
    pub(crate) state: Mutex<State<I>>,
    /// Held for the length of a collection round.
    pub(crate) collector: Mutex<Collector>,
    /// Whether the background thread sleeps until a change wakes it.
    pub(crate) asleep: AtomicBool,
    pub(crate) wake: Wake,
    pub(crate) is_closing: AtomicBool,
}

/// What the collector remembers from round to round.
#[derive(Default)]
pub(crate) struct Collector {
    /// List: dead deletions, by offset, that no longer hide a linked version (see [`crate::list_collect`]).
    pub(crate) aged: FxHashSet<u64>,
}

/// What the writer's lock guards.
pub(crate) struct State<I: Index> {
    pub(crate) pages: Pages,
    pub(crate) store: I::Store,
    pub(crate) root: u64,
    /// Offset of the newest record.
    pub(crate) head: u64,
    pub(crate) times: Timestamps,
    pub(crate) pending: Pending,
    /// Count of the entries of the index.
    pub(crate) versions: u64,
    /// Changes since the last confirmation.
    pub(crate) changes: u32,
    /// Whether a confirmation would save anything.
    pub(crate) is_dirty: bool,
    /// Records that the index has dropped since the last confirmation.
    pub(crate) dead: Vec<Ref>,
    /// Records rolled back since the last confirmation.
    pub(crate) cut: Vec<Ref>,
    /// Pending records that a later change at the same key and timestamp replaced.
    pub(crate) orphans: FxHashSet<Ref>,
    /// List: dead deletions, by offset, found since the collector's last round and still linked.
    pub(crate) dead_deletions: Vec<u64>,
    /// A finished edit, kept for its memory.
    pub(crate) spare: Edit,
    /// Snapshots held, and one for a traversal under way ([`Core::traverse`]).
    pub(crate) snapshots: u64,
    pub(crate) is_loading: bool,
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
    /// Whether a snapshot or a load keeps the collector away.
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

    /// The newest root, for a reader that has pinned.
    #[inline]
    pub(crate) fn root(&self) -> u64 {
        self.root.load(Ordering::Acquire)
    }

    /// The newest root, for a reader of timestamp `at` that has pinned. Error: `Forgotten`.
    #[inline]
    pub(crate) fn root_at(&self, at: Ts) -> Result<u64> {
        // Check after the load, because the mark rises before the root that needs it; and before, because a loaded
        // snapshot may lower the mark once its root is published.
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

    /// Publishes a root: readers see it from here on.
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
