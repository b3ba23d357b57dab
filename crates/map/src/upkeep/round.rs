//! The collector: frees pages that nothing reachable uses, and empties sparse pages by moving out
//! what is live in them.
//!
//! Pages that hold nothing are freed by persists (docs/maps.md). A round takes forgotten
//! deletions out of the index, and chooses sparse pages, the emptiest first, until freeing them
//! leaves as little garbage as it aims at. It copies what is live in them elsewhere, one object per
//! step under the writer's lock; the persist after that frees the pages.

use crate::error::Result;
use crate::index::Index;
use crate::memory::free_map::RunSearch;
use crate::space::Space;
use crate::state::State;
use crate::state::closing::Closing;
use crate::state::collector::{Collector, Memory};
use crate::state::core::Core;
use crate::state::shared::Shared;
use perdura_pmem::sync::{MutexGuard, PriorityMutex};
use rustc_hash::FxHashSet;

/// Pages chosen in one step under the writer's lock.
pub(crate) const STEP_PAGES: usize = 128;
/// Less garbage than this share of the region never starts a round, unless room is short.
const REGION_PER_SLACK: u64 = 64;
/// Bounds of that slack, in pages. More would make a small list in a large region slow to open.
const SLACK_PAGES: (u64, u64) = (64, 6144);

/// Garbage that a round leaves.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    /// A quarter of the live bytes: the caller wants the room.
    Thorough,
    /// Half of what starts a round. The emptiest pages cost the fewest moves, and those that would
    /// come next go on emptying until the next round.
    Sparing,
}

impl Aim {
    fn garbage_left(self, space: &Space, page_bytes: u64) -> u64 {
        match self {
            Aim::Thorough => space.live / 4,
            Aim::Sparing => garbage_that_pays(space, page_bytes) / 2,
        }
    }
}

/// Less garbage than this starts no round, unless room is short.
fn garbage_that_pays(space: &Space, page_bytes: u64) -> u64 {
    space.live / 2 + slack(space, page_bytes)
}

fn slack(space: &Space, page_bytes: u64) -> u64 {
    (space.total / REGION_PER_SLACK).clamp(SLACK_PAGES.0 * page_bytes, SLACK_PAGES.1 * page_bytes)
}

/// A collection round, or other upkeep that rounds wait for. It holds the collector's lock.
pub(crate) struct Round<'c, I: Index> {
    pub(super) shared: &'c Shared<I>,
    pub(super) state: &'c PriorityMutex<State<I>>,
    pub(super) collector: &'c Collector,
    pub(super) closing: &'c Closing,
    pub(super) memory: MutexGuard<'c, Memory>,
}

impl<'c, I: Index> Round<'c, I> {
    /// Waits for the round that runs.
    pub(crate) fn begin(core: &'c Core<I>) -> Round<'c, I> {
        let Core { shared, state, collector, closing } = core;
        Round { shared, state, collector, closing, memory: collector.lock() }
    }

    /// Whether the round ends early: a snapshot or a load keeps the collector away, a load waits
    /// for it, or the map is being closed.
    pub(super) fn gives_way(&self, state: &State<I>) -> bool {
        state.holds.keep_collector_away() || self.collector.leaves_rounds_out() || self.closing.has_begun()
    }

    /// Renews the spare run, of which deletions, rollbacks and compactions take.
    pub(super) fn renew_spare(&self) {
        let mut search = RunSearch::default();
        while self.state.lock_behind().pages.search_spare(&mut search) {}
        self.state.lock_behind().pages.renew_spare(&search);
    }

    /// Lists pages again that were to be emptied and still hold something.
    pub(super) fn list_again(&self, pages: &[usize]) {
        for step in pages.chunks(STEP_PAGES) {
            let mut state = self.state.lock_behind();
            step.iter().for_each(|page| state.pages.list_again(*page));
        }
    }

    /// Whether any of these pages is free.
    pub(super) fn is_any_free(&self, pages: &[usize]) -> bool {
        pages.chunks(STEP_PAGES).any(|step| {
            let state = self.state.lock_behind();
            step.iter().any(|page| state.pages.is_free(*page))
        })
    }

    /// Persists, then chooses the pages to be emptied: the sparsest, some in each step under the
    /// writer's lock.
    pub(super) fn choose(&self, aim: Aim) -> FxHashSet<usize> {
        let shared = self.shared;
        let mut victims = FxHashSet::default();
        let (mut surplus, mut room, full) = {
            let mut state = self.state.lock_behind();
            state.persist(shared);
            state.pages.end_runs();
            state.persist_part(shared);
            let (space, page_bytes) = (state.space(), state.pages.geometry.page_bytes);
            // When room is short, every page that is not full is worth emptying.
            let is_tight = is_tight(&space);
            let left = if is_tight { 0 } else { aim.garbage_left(&space, page_bytes) };
            let surplus = space.garbage.saturating_sub(left);
            // Copies take room before their originals give any back.
            (surplus, space.free / 2, if is_tight { page_bytes } else { page_bytes * 7 / 8 })
        };
        let (mut is_over, mut chosen) = (false, Vec::with_capacity(STEP_PAGES));
        while !is_over && !self.collector.leaves_rounds_out() {
            // The set grows while no writer waits.
            victims.extend(chosen.drain(..));
            let mut state = self.state.lock_behind();
            let page_bytes = state.pages.geometry.page_bytes;
            for _ in 0..STEP_PAGES {
                let Some((page, live)) = state.pages.next_sparse() else {
                    is_over = true;
                    break;
                };
                if surplus == 0 || room < live || live >= full {
                    state.pages.list_again(page);
                    is_over = true;
                    break;
                }
                room -= live;
                surplus = surplus.saturating_sub(page_bytes - live);
                if state.pages.holds_nodes(page) {
                    state.pages.retire_nodes(page);
                }
                chosen.push(page);
            }
            let State { writer, pages, .. } = &mut *state;
            I::leave_retired(writer, pages, &shared.pins);
        }
        victims.extend(chosen);
        victims
    }
}

/// Whether a round pays: there is enough garbage, or little room.
pub(crate) fn pays<I: Index>(state: &State<I>, collector: &Collector) -> bool {
    if state.holds.keep_collector_away() || !state.known.is_exact() {
        return false;
    }
    let (space, page_bytes) = (state.space(), state.pages.geometry.page_bytes);
    // Garbage that the last round could not free does not start another.
    let new = space.garbage.saturating_sub(collector.garbage_left());
    let pays = garbage_that_pays(&space, page_bytes);
    let much = space.garbage > pays && new > pays / 4;
    much || is_tight(&space) && new > space.live / 16 + SLACK_PAGES.0 * page_bytes
}

/// Takes forgotten deletions out of the index. Without room for that they stay.
pub(crate) fn sweep<I: Index>(
    shared: &Shared<I>,
    state: &PriorityMutex<State<I>>,
    collector: &Collector,
) -> Result<()> {
    while state.lock_behind().sweep_some(shared)? && !collector.leaves_rounds_out() {}
    Ok(())
}

pub(crate) fn is_tight(space: &Space) -> bool {
    space.free < space.total / 8
}
