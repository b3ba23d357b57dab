//! Upkeep of the B+-tree: moving objects out of sparse pages, the traversal after a start, and the
//! audit of its nodes.
//!
//! The traversal reads all that is reachable, and so learns the content of the pages in use. It
//! checks each node and record on the way. Until it is done, pages that were in use at the start
//! are not collected, and readers check what they meet. It keeps the collector away like a
//! snapshot, and disturbs nothing else. Objects made since the start lie in other pages and are
//! counted already. Objects that end during the traversal are counted by it, and ended after it
//! ([`crate::memory::pages::Pages::all_known`]).

use crate::config::{KEY_BYTES_MAX, TAG_BYTES_MAX, VALUE_BYTES_MAX};
use crate::error::{ErrorKind, Result};
use crate::index::Index;
use crate::index::tree::TreeIndex;
use crate::memory::format::{Ref, record_bytes};
use crate::memory::pages::Urgency;
use crate::state::State;
use crate::state::pending::Pending;
use crate::state::persist::Persisted;
use crate::state::shared::Shared;
use crate::upkeep::round::Round;
use crate::upkeep::structure::Structure;
use rustc_hash::FxHashSet;

/// Objects counted in one step under the writer's lock.
const STEP_OBJECTS: usize = 256;
/// Bytes of the longest object.
const OBJECT_BYTES_MAX: u64 = record_bytes(KEY_BYTES_MAX as u64, VALUE_BYTES_MAX as u64, TAG_BYTES_MAX as u64);

struct Found {
    object: Ref,
    is_node: bool,
}

#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
impl Structure for TreeIndex {
    fn empty_pages(round: &mut Round<'_, TreeIndex>, victims: &FxHashSet<usize>) -> Result<()> {
        let shared = round.shared;
        // Ascending: pages emptied before room runs out are adjacent.
        let mut pages: Vec<usize> = victims.iter().copied().collect();
        pages.sort_unstable();
        for page in pages {
            for (object, is_node) in round.objects_in(page)? {
                let mut state = round.state.lock_behind();
                if round.gives_way(&state) {
                    return Ok(());
                }
                if is_node {
                    move_node(shared, &mut state, object)?;
                } else {
                    state.copy_record(shared, object, 0)?;
                }
                if !state.persist_full(shared, 0) && state.ended.are_many() {
                    state.persist(shared);
                }
            }
        }
        Ok(())
    }

    fn count_reachable(round: &Round<'_, TreeIndex>, persisted: &Persisted) -> Result<()> {
        let Shared { records, index, .. } = round.shared;
        let mut step = Vec::with_capacity(STEP_OBJECTS + index.reader.branching() + 1);
        let forgotten = round.state.lock_behind().history.times().forgotten;
        let mut deletions = Vec::new();
        // A node, and each record once: a chain of versions longer than that is a circle.
        let most = STEP_OBJECTS as u64 + 1 + records.geometry.records_max();
        let changes = round.read_aside(persisted)?;
        index.reader.for_each(persisted.root, &mut |link, node| {
            index.reader.check(link)?;
            step.push(Found { object: Ref(link), is_node: true });
            if node.level() == 0 {
                for entry in 0..node.len() {
                    let (mut record, mut found) = (node.record(entry), records.get(node.record(entry))?);
                    if found.header.deletion && found.header.ts <= forgotten {
                        deletions.push(record);
                    }
                    step.push(Found { object: record, is_node: false });
                    while found.header.ts > forgotten
                        && let Some((older, content)) = records.older(record.offset(), &found)?
                    {
                        if step.len() as u64 > most {
                            let what = "the older version of a key is not one of it";
                            return Err(records.damaged(record.offset(), what));
                        }
                        (record, found) = (older, content);
                        step.push(Found { object: record, is_node: false });
                    }
                }
            }
            if step.len() >= STEP_OBJECTS { round.count(&mut step, true) } else { Ok(()) }
        })?;
        round.count(&mut step, true)?;
        // Tags are reachable only along the chain. The other rollback records are versions as well.
        step.extend(changes.into_iter().map(|object| Found { object, is_node: false }));
        round.count(&mut step, false)?;
        let mut state = round.state.lock_behind();
        deletions.into_iter().for_each(|deletion| state.ended.sweep_later(deletion));
        Ok(())
    }

    fn check_index(shared: &Shared<TreeIndex>, root: u64, each: &mut dyn FnMut(Ref) -> Result<()>) -> Result<u64> {
        let Shared { records, index, .. } = shared;
        let mut bytes = 0;
        index.reader.for_each(root, &mut |link, node| {
            index.reader.check(link)?;
            bytes += Ref(link).len();
            node.check_heads(records)
        })?;
        let mut walk = index.walk(Some(root), &[])?;
        while let Some(record) = walk.next()? {
            each(record)?;
        }
        Ok(bytes)
    }
}

impl Round<'_, TreeIndex> {
    /// Reads the changes without the writer's lock, so that no change has to, and hands them over.
    /// Returns their records.
    fn read_aside(&self, persisted: &Persisted) -> Result<Vec<Ref>> {
        let mut changes = Pending::unread(persisted.head, persisted.pending);
        // The mark may rise above some of them meanwhile: it was checked, or is, by the reader of
        // them under the lock.
        changes.read(&self.shared.records, 0)?;
        let records = changes.records().collect();
        self.state.lock_behind().history.take_over(changes);
        Ok(records)
    }

    fn count(&self, step: &mut Vec<Found>, once: bool) -> Result<()> {
        let Shared { records, .. } = self.shared;
        for part in step.chunks(STEP_OBJECTS) {
            let mut state = self.state.lock_behind();
            if self.closing.has_begun() {
                return Err(records.error(ErrorKind::ReadOnly, "the map is being closed".into()));
            }
            // The background thread is here, or waits for this to end: it persists no idle batch
            // meanwhile.
            state.persist(self.shared);
            for Found { object, is_node } in part {
                if state.pages.is_in_free_page(*object) {
                    let what = "something reachable lies in a page marked free";
                    return Err(records.damaged(object.offset(), what));
                }
                if !state.pages.is_unknown(object.offset()) {
                    continue;
                }
                if !state.pages.born(*object) && once {
                    return Err(records.damaged(object.offset(), "two references to one object"));
                }
                if *is_node {
                    state.pages.note_nodes(*object);
                }
            }
        }
        step.clear();
        Ok(())
    }

    /// The live objects that lie in a page, wholly or in part, each with whether it is a node.
    fn objects_in(&self, page: usize) -> Result<Vec<(Ref, bool)>> {
        let Shared { records, index, .. } = self.shared;
        let state = self.state.lock_behind();
        let pages = &state.pages;
        let (start, page_bytes) = (pages.geometry.page_at(page), pages.geometry.page_bytes);
        let is_node = pages.holds_nodes(page);
        // An object that begins in an earlier page of the same use may reach into this one.
        let follows = page > 0 && pages.is_settled(page - 1) && pages.holds_nodes(page - 1) == is_node;
        let before = if follows {
            pages.live.last_within(start - OBJECT_BYTES_MAX.min(start - pages.geometry.page_at(0)), start)
        } else {
            None
        };
        // With nothing live in the page before, the last object may be one of another use.
        let before = before.filter(|at| pages.holds_nodes(pages.geometry.page_of(*at)) == is_node);
        let inside = pages.live.within(start, page_bytes);
        let mut found = Vec::new();
        for offset in before.into_iter().chain(inside) {
            let object = if is_node { index.reader.place(offset) } else { records.at(offset)?.0 };
            if object.offset() + object.len() > start {
                found.push((object, is_node));
            }
        }
        Ok(found)
    }
}

fn move_node(shared: &Shared<TreeIndex>, state: &mut State<TreeIndex>, object: Ref) -> Result<()> {
    if !state.pages.live.is_set(object.offset()) {
        return Ok(());
    }
    // The lock was released since the page was searched, so something else may lie there now. A
    // reader reports damage.
    let Ok(node) = shared.index.reader.node(object.0, None) else { return Ok(()) };
    // A replaced node counts as live until its last reader has gone, but the records it refers to
    // may have ended before.
    let Ok(first) = shared.records.get(node.record(0)) else { return Ok(()) };
    let level = node.level();
    let moved = shared.index.relocate(&mut state.editing(Urgency::Upkeep), first.key, (object.0, level));
    if let Err(error) = moved {
        state.abort(shared);
        return Err(error);
    }
    state.moved(shared);
    Ok(())
}
