//! The collector: frees pages that nothing reachable uses, and empties sparse pages by moving out what is live in them.
//!
//! Pages that hold nothing are freed by confirmations (docs/maps.md). A round chooses sparse pages, the emptiest first,
//! until freeing them would leave garbage below a quarter of the live bytes. It copies what is live in them elsewhere,
//! one object per turn of the writer's lock; the confirmation after that frees the pages.

use crate::config::Kind;
use crate::error::{ErrorKind, Result};
use crate::format::Ref;
use crate::index::{Index, Store};
use crate::pages::{Filling, Pages, Urgency};
use crate::record::Target;
use crate::space::Space;
use crate::state::{Core, State};
use crate::tree::{self, Edit, ReadNodes};
use perdura_pmem::planted;

/// A page with this many sixteenths of live bytes or more is left alone.
const FULL_SIXTEENTHS: u64 = 14;
/// Slack, in pages: less garbage than this never starts a round.
const GARBAGE_PAGES_MIN: u64 = 64;

impl<I: Index> Core<I> {
    /// Whether there is so much garbage, or so little room, that a round pays.
    pub(crate) fn wants_collection(&self, state: &State<I>) -> bool {
        if state.is_held() || !state.is_traversed {
            return false;
        }
        let space = space_of(state);
        let slack = GARBAGE_PAGES_MIN * state.pages.geometry.page_bytes;
        // Garbage that the last round could not free does not start another.
        let new = space.garbage.saturating_sub(state.garbage_left);
        let much = space.garbage > space.live / 2 + slack && new > space.live / 8 + slack / 4;
        much || is_tight(&space) && new > space.live / 16 + slack
    }

    /// Runs one round. Returns the bytes freed by it and by what had ended before.
    pub(crate) fn collect(&self) -> Result<u64> {
        let mut collector = self.collector.lock();
        if self.state.lock().is_held() {
            return Ok(0);
        }
        self.traverse()?;
        let before = self.state.lock().pages.free_pages();
        let victims = self.choose();
        let round = match I::KIND {
            Kind::BTree => self.move_out_of(&victims),
            Kind::List => self.collect_list(&mut collector, &victims),
        };
        let mut state = self.state.lock();
        self.confirm(&mut state);
        state.is_dirty = true;
        self.confirm(&mut state);
        let freed = state.pages.free_pages().saturating_sub(before) as u64 * state.pages.geometry.page_bytes;
        state.garbage_left = if freed == 0 { space_of(&state).garbage } else { 0 };
        match round {
            // Objects that found no room elsewhere stay where they are.
            Err(error) if error.kind() != ErrorKind::Full => Err(error),
            _ => Ok(freed),
        }
    }

    /// Confirms, then chooses the pages to be emptied.
    fn choose(&self) -> Vec<usize> {
        let mut state = self.state.lock();
        self.confirm(&mut state);
        state.pages.end_runs();
        state.is_dirty = true;
        self.confirm(&mut state);
        let space = space_of(&state);
        let pages = &mut state.pages;
        let page_bytes = pages.geometry.page_bytes;
        // When room is short, every page that is not full is worth emptying.
        let is_tight = is_tight(&space);
        let mut surplus = if is_tight { space.garbage } else { space.garbage.saturating_sub(space.live / 4) };
        let full = if is_tight { page_bytes } else { page_bytes * FULL_SIXTEENTHS / 16 };
        let mut sparse: Vec<(u64, usize)> = (0..pages.len())
            .filter(|page| pages.is_settled(*page))
            .map(|page| (pages.live_in(page), page))
            .filter(|(live, _)| *live < full)
            .collect();
        sparse.sort_unstable();
        // Copies take room before their originals give any back.
        let mut room = space.free / 2;
        let mut victims = Vec::new();
        for (live, page) in sparse {
            if surplus == 0 || room < live {
                break;
            }
            room -= live;
            surplus = surplus.saturating_sub(page_bytes - live);
            victims.push(page);
            if pages.holds_nodes(page) {
                pages.retire_nodes(page);
            }
        }
        let State { pages, store, .. } = &mut *state;
        store.leave_retired(pages, &self.pins);
        victims
    }

    /// B+-tree: moves the live objects of the chosen pages elsewhere.
    fn move_out_of(&self, victims: &[usize]) -> Result<()> {
        self.read_pending(&mut self.state.lock())?;
        for page in victims {
            for (object, is_node) in self.objects_in(*page)? {
                let mut state = self.state.lock();
                if state.is_held() {
                    return Ok(());
                }
                if is_node {
                    self.move_node(&mut state, object)?
                } else {
                    self.move_record(&mut state, object)?
                }
                if state.changes >= self.config.changes_max {
                    self.confirm(&mut state);
                }
            }
        }
        Ok(())
    }

    /// The live objects that lie in a page, wholly or in part, each with whether it is a node.
    fn objects_in(&self, page: usize) -> Result<Vec<(Ref, bool)>> {
        let state = self.state.lock();
        let pages = &state.pages;
        let (start, page_bytes) = (pages.geometry.page_at(page), pages.geometry.page_bytes);
        let is_node = pages.holds_nodes(page);
        // An object that begins in an earlier page of the same use may reach into this one.
        let mut first = start;
        for before in (0..page).rev() {
            if !pages.is_settled(before) || pages.holds_nodes(before) != is_node {
                break;
            }
            first = pages.geometry.page_at(before);
            if pages.live_in(before) < page_bytes || pages.live.within(first, page_bytes).next().is_some() {
                break;
            }
        }
        let mut found = Vec::new();
        for offset in pages.live.within(first, start + page_bytes - first) {
            let object = match is_node {
                true => I::Store::place(&self.reader, offset)?,
                false => self.records.at(offset)?.0,
            };
            if object.offset() + object.len() > start {
                found.push((object, is_node));
            }
        }
        Ok(found)
    }

    fn move_node(&self, state: &mut State<I>, object: Ref) -> Result<()> {
        if !state.pages.live.is_set(object.offset()) {
            return Ok(());
        }
        // The lock was released since the page was searched, so something else may lie there now. A reader reports
        // damage.
        let Ok(node) = self.reader.node(object.0, None) else { return Ok(()) };
        // A replaced node counts as live until its last reader has gone, but the records it refers to may have ended
        // before.
        let Ok(first) = self.records.get(node.record(0)) else { return Ok(()) };
        let level = node.level();
        let target = Target::new(first.key, first.header.ts);
        let (is_moved, edit) = self.edit(state, Urgency::Freeing, |nodes, root, edit| {
            tree::relocate(nodes, &self.records, root, &target, (object.0, level), edit)
        })?;
        if is_moved {
            self.end_move(state, edit);
        }
        Ok(())
    }

    fn move_record(&self, state: &mut State<I>, object: Ref) -> Result<()> {
        if let Some(copy) = self.copy_record(state, object, 0)? {
            debug_assert_ne!(copy, object);
        }
        Ok(())
    }

    /// Copies a live record elsewhere, links the copy to `next` and makes the index name it. Returns none if the record
    /// is no longer live or must stay. Rollback records stay: the caller has read them. When room ran out, some of them
    /// belong to forgotten changes.
    pub(crate) fn copy_record(&self, state: &mut State<I>, object: Ref, next: u64) -> Result<Option<Ref>> {
        if !state.pages.live.is_set(object.offset()) {
            return Ok(None);
        }
        let _span = perdura_pmem::trace::span("map_copy");
        // As in move_node().
        let Ok(found) = self.records.get(object) else { return Ok(None) };
        let ts = found.header.ts;
        // Planted: records that may be rolled back are moved.
        if state.pending.oldest().is_some_and(|oldest| ts >= oldest.ts) && !planted(127) {
            return Ok(None);
        }
        let value = (!found.header.deletion).then_some(found.value);
        let copy = self.append(&mut state.pages, Filling::Moved, (ts, found.key, value), next, Urgency::Freeing)?;
        let target = Target::new(found.key, ts);
        let moved = self.edit(state, Urgency::Freeing, |nodes, root, edit| {
            tree::replace(nodes, &self.records, root, &target, (object, copy), edit)
        });
        match moved {
            Ok((true, edit)) => {
                self.end_move(state, edit);
                state.dead.push(object);
                Ok(Some(copy))
            }
            other => {
                state.pages.cut(copy);
                other.map(|_| None)
            }
        }
    }

    fn end_move(&self, state: &mut State<I>, edit: Edit) {
        self.complete(state, edit);
        state.changes += 1;
        state.store.recycle(&mut state.pages, &self.pins, state.snapshots);
    }

    pub(crate) fn space(&self) -> Space {
        let state = self.state.lock();
        let run = state.pages.longest_free_run() as u64 * state.pages.geometry.page_bytes;
        Space { free_run_max: run, ..space_of(&state) }
    }
}

fn is_tight(space: &Space) -> bool {
    space.free < space.total / 8
}

/// The use of the region, without the longest free run, whose search is linear.
fn space_of<I: Index>(state: &State<I>) -> Space {
    let Pages { geometry, .. } = &state.pages;
    let total = geometry.pages * geometry.page_bytes;
    let free = state.pages.free_pages() as u64 * geometry.page_bytes;
    let reserved = state.pages.reserved_pages() as u64 * geometry.page_bytes;
    let used = total - free;
    let live =
        if state.is_traversed { state.pages.live_bytes() } else { state.saved_live.max(state.pages.live_bytes()) };
    let live = live.min(used);
    Space { total, used, free, live, garbage: used - live, free_run_max: 0, reserved, exact: state.is_traversed }
}
