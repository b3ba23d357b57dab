//! The collector: frees pages that nothing reachable uses, and empties sparse pages by moving out
//! what is live in them.
//!
//! Pages that hold nothing are freed by persists (docs/maps.md). A round takes forgotten
//! deletions out of the index, and chooses sparse pages, the emptiest first, until freeing them
//! leaves as little garbage as it aims at. It copies what is live in them elsewhere, one object per
//! step under the writer's lock; the persist after that frees the pages.

use crate::append::New;
use crate::error::{ErrorKind, Result};
use crate::format::Ref;
use crate::free_map::RunSearch;
use crate::index::Index;
use crate::pages::{Filling, Pages, Urgency};
use crate::space::Space;
use crate::state::{Core, State};
use crate::structure::Structure;
use perdura_pmem::planted;
use rustc_hash::FxHashSet;
use std::sync::atomic::Ordering;

/// Pages chosen in one step under the writer's lock.
pub(crate) const STEP_PAGES: usize = 128;
/// Less garbage than this share of the region never starts a round, unless room is short.
const REGION_PER_SLACK: u64 = 64;
/// Bounds of that slack, in pages. More would make a small list in a large region slow to open.
const SLACK_PAGES: (u64, u64) = (64, 6144);

/// How much garbage a round leaves.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    /// A quarter of the live bytes: who asks wants the room.
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

impl<I: Structure> Core<I> {
    /// Whether there is so much garbage, or so little room, that a round pays.
    pub(crate) fn wants_collection(&self, state: &State<I>) -> bool {
        if state.is_held() || !state.is_traversed {
            return false;
        }
        let (space, page_bytes) = (space_of(state), state.pages.geometry.page_bytes);
        // Garbage that the last round could not free does not start another.
        let new = space.garbage.saturating_sub(state.garbage_left);
        let pays = garbage_that_pays(&space, page_bytes);
        let much = space.garbage > pays && new > pays / 4;
        much || is_tight(&space) && new > space.live / 16 + SLACK_PAGES.0 * page_bytes
    }

    /// Runs a thorough round.
    pub(crate) fn collect(&self) -> Result<u64> {
        self.collect_to(Aim::Thorough)
    }

    /// Runs one round. Returns the bytes freed by it and by what had ended before.
    pub(crate) fn collect_to(&self, aim: Aim) -> Result<u64> {
        let mut collector = self.collector.lock();
        // A load that is not begun after all holds rounds off no longer than that.
        let left_out = &self.rounds_left_out;
        if left_out.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |rounds| rounds.checked_sub(1)).is_ok() {
            return Ok(0);
        }
        while self.free_what_left(&mut self.state.lock_behind()) && !self.leaves_rounds_out() {}
        self.sweep()?;
        if self.gives_way(&self.state.lock_behind()) {
            return Ok(0);
        }
        self.traverse()?;
        let before = self.state.lock_behind().pages.free_pages();
        let victims = self.choose(aim);
        let round = I::empty_pages(self, &mut collector, &victims);
        self.persist(&mut self.state.lock_behind());
        while self.make_room(&mut self.state.lock_behind()) {}
        let victims: Vec<usize> = victims.into_iter().collect();
        for step in victims.chunks(STEP_PAGES) {
            let mut state = self.state.lock_behind();
            step.iter().for_each(|page| state.pages.list_again(*page));
        }
        let mut state = self.state.lock_behind();
        let freed = state.pages.free_pages().saturating_sub(before) as u64 * state.pages.geometry.page_bytes;
        // Garbage that a round has not come to does not count as garbage that cannot be freed.
        state.garbage_left = if freed == 0 && !self.leaves_rounds_out() { space_of(&state).garbage } else { 0 };
        match round {
            // Objects that found no room elsewhere stay where they are.
            Err(error) if error.kind() != ErrorKind::Full => Err(error),
            _ => Ok(freed),
        }
    }

    /// Persists, then chooses the pages to be emptied: the sparsest, some in each step of the
    /// writer's lock.
    fn choose(&self, aim: Aim) -> FxHashSet<usize> {
        let mut victims = FxHashSet::default();
        let (mut surplus, mut room, full) = {
            let mut state = self.state.lock_behind();
            self.persist(&mut state);
            state.pages.end_runs();
            state.is_dirty = true;
            self.persist(&mut state);
            let (space, page_bytes) = (space_of(&state), state.pages.geometry.page_bytes);
            // When room is short, every page that is not full is worth emptying.
            let is_tight = is_tight(&space);
            let left = if is_tight { 0 } else { aim.garbage_left(&space, page_bytes) };
            let surplus = space.garbage.saturating_sub(left);
            // Copies take room before their originals give any back.
            (surplus, space.free / 2, if is_tight { page_bytes } else { page_bytes * 7 / 8 })
        };
        let (mut is_over, mut chosen) = (false, Vec::with_capacity(STEP_PAGES));
        while !is_over && !self.leaves_rounds_out() {
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
            if let Some(nodes) = I::nodes(writer) {
                nodes.leave_retired(pages, &self.pins);
            }
        }
        victims.extend(chosen);
        victims
    }

    /// Copies a live record elsewhere, links the copy to `next` and makes the index name it.
    /// Returns none if the record is no longer live or must stay: what may be rolled back, and what
    /// is about to die, being no longer its key's newest.
    pub(crate) fn copy_record(&self, state: &mut State<I>, object: Ref, next: u64) -> Result<Option<Ref>> {
        if !state.pages.live.is_set(object.offset()) {
            return Ok(None);
        }
        let _span = perdura_pmem::trace::span("map_copy");
        // The lock was released since the record was found, so something else may lie there now. A
        // reader reports damage.
        let Ok(found) = self.records.get(object) else { return Ok(None) };
        let ts = found.header.ts;
        // Planted: records that may be rolled back are moved.
        if found.header.tag || found.header.ts > state.times.forgotten && !planted(127) {
            return Ok(None);
        }
        if found.header.deletion {
            // It is forgotten: sweeping ends it.
            state.to_sweep.push(object);
            return Ok(None);
        }
        let (place, newest) = self.index.locate(&state.writer, found.key)?;
        if newest.is_none_or(|(newest, _)| newest.offset() != object.offset()) {
            return Ok(None);
        }
        let new = New { ts, key: found.key, value: Some(found.value), tag: false, next, older: 0 };
        let copy = self.append(&mut state.pages, Filling::Moved, &new, Urgency::Upkeep)?;
        let edit = &mut state.editing(Urgency::Upkeep);
        if let Err(error) = self.index.put(edit, &place, found.key, Some(copy)) {
            self.index.abort(&mut state.writer, &mut state.pages);
            state.pages.end(copy);
            return Err(error);
        }
        state.dead.push(object);
        self.moved(state);
        Ok(Some(copy))
    }

    /// Counts an object that was moved.
    pub(crate) fn moved(&self, state: &mut State<I>) {
        self.index.publish(&mut state.writer);
        state.changes += 1;
        state.is_dirty = true;
        self.recycle(state);
    }

    pub(crate) fn space(&self) -> Space {
        let mut search = RunSearch::default();
        loop {
            // The other figures are those of the last window.
            let state = self.state.lock_behind();
            if !state.pages.search_free_runs(&mut search) {
                let run = search.longest as u64 * state.pages.geometry.page_bytes;
                return Space { free_run_max: run, ..space_of(&state) };
            }
        }
    }

    pub(crate) fn usage(&self) -> Space {
        space_of(&self.state.lock())
    }

    pub(crate) fn has_run(&self, bytes: u64) -> bool {
        self.state.lock().pages.has_run(bytes)
    }
}

pub(crate) fn is_tight(space: &Space) -> bool {
    space.free < space.total / 8
}

/// The use of the region, without the longest free run, whose search is linear.
pub(crate) fn space_of<I: Index>(state: &State<I>) -> Space {
    let Pages { geometry, .. } = &state.pages;
    let total = geometry.pages * geometry.page_bytes;
    let free = state.pages.free_pages() as u64 * geometry.page_bytes;
    let reserved = state.pages.reserved_pages() as u64 * geometry.page_bytes;
    let used = total - free;
    let live =
        if state.is_traversed { state.pages.live_bytes() } else { state.saved_live.max(state.pages.live_bytes()) };
    let live = live.min(used);
    let (garbage, exact, held) = (used - live, state.is_traversed, state.is_held());
    Space { total, used, free, live, garbage, free_run_max: 0, reserved, exact, held }
}
