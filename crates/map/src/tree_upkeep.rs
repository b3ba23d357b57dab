//! Upkeep of the B+-tree: moving objects out of sparse pages, the traversal after a start, and the
//! audit of its nodes.
//!
//! The traversal reads all that is reachable, and so learns what the pages in use hold. It checks
//! each node and record on the way. Until it is done, pages that were in use at the start are not
//! collected, and readers check what they meet. It keeps the collector away like a snapshot, and
//! disturbs nothing else. Objects made since the start lie in other pages and are counted already.
//! Objects that end during the traversal are counted by it, and ended after it
//! ([`crate::pages::Pages::all_known`]).

use crate::config::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::error::{ErrorKind, Result};
use crate::format::{Ref, record_bytes};
use crate::pages::Urgency;
use crate::pending::Pending;
use crate::state::{Collector, Core, State};
use crate::structure::Structure;
use crate::tree_index::TreeIndex;
use rustc_hash::FxHashSet;
use std::sync::atomic::Ordering;

/// Objects counted in one step under the writer's lock.
const STEP_OBJECTS: usize = 256;
/// Bytes of the longest object.
const OBJECT_BYTES_MAX: u64 = record_bytes(KEY_BYTES_MAX as u64, VALUE_BYTES_MAX as u64);

struct Found {
    object: Ref,
    is_node: bool,
}

#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
impl Structure for TreeIndex {
    fn empty_pages(core: &Core<TreeIndex>, _: &mut Collector, victims: &FxHashSet<usize>) -> Result<()> {
        for page in victims {
            for (object, is_node) in core.objects_in(*page)? {
                let mut state = core.state.lock_behind();
                if core.gives_way(&state) {
                    return Ok(());
                }
                if is_node {
                    core.move_node(&mut state, object)?;
                } else {
                    core.copy_record(&mut state, object, 0)?;
                }
                if state.changes >= core.config.changes_max {
                    core.persist(&mut state);
                }
            }
        }
        Ok(())
    }

    fn count_reachable(core: &Core<TreeIndex>, root: u64, head: u64, pending: u64) -> Result<()> {
        let mut step = Vec::with_capacity(STEP_OBJECTS + core.layout.branching as usize + 1);
        let forgotten = core.state.lock_behind().times.forgotten;
        let mut deletions = Vec::new();
        // A node, and each record once: a chain of versions longer than that is a circle.
        let most = STEP_OBJECTS as u64 + 1 + core.records.geometry.records_max();
        let changes = core.read_pending_aside(head, pending)?;
        core.index.reader.for_each(root, &mut |link, node| {
            core.index.reader.check(link)?;
            step.push(Found { object: Ref(link), is_node: true });
            if node.level() == 0 {
                for index in 0..node.len() {
                    let (mut record, mut found) = (node.record(index), core.records.get(node.record(index))?);
                    if found.header.deletion && found.header.ts <= forgotten {
                        deletions.push(record);
                    }
                    step.push(Found { object: record, is_node: false });
                    while found.header.ts > forgotten
                        && let Some((older, content)) = core.records.older(record.offset(), &found)?
                    {
                        if step.len() as u64 > most {
                            let what = "the older version of a key is not one of it";
                            return Err(core.records.damaged(record.offset(), what));
                        }
                        (record, found) = (older, content);
                        step.push(Found { object: record, is_node: false });
                    }
                }
            }
            if step.len() >= STEP_OBJECTS { core.count(&mut step, true) } else { Ok(()) }
        })?;
        core.count(&mut step, true)?;
        // Tags are reachable only along the chain. The other rollback records are versions as well.
        step.extend(changes.into_iter().map(|object| Found { object, is_node: false }));
        core.count(&mut step, false)?;
        core.state.lock_behind().to_sweep.append(&mut deletions);
        Ok(())
    }

    fn check_index(core: &Core<TreeIndex>, root: u64, each: &mut dyn FnMut(Ref) -> Result<()>) -> Result<u64> {
        let mut bytes = 0;
        core.index.reader.for_each(root, &mut |link, node| {
            core.index.reader.check(link)?;
            bytes += Ref(link).len();
            node.check_heads(&core.records)
        })?;
        let mut walk = crate::index::Index::walk(&core.index, Some(root), &[])?;
        while let Some(record) = walk.next()? {
            each(record)?;
        }
        Ok(bytes)
    }
}

impl Core<TreeIndex> {
    /// Reads the rollback records without the writer's lock, so that no change has to, and hands
    /// them over. Returns them.
    fn read_pending_aside(&self, head: u64, pending: u64) -> Result<Vec<Ref>> {
        let mut read = Pending::unread(head, pending);
        // The mark may rise above some of them meanwhile: it was checked, or is, by who reads them
        // under the lock.
        read.read(&self.records, 0)?;
        let records = read.records().collect();
        self.state.lock_behind().pending.take_over(read);
        Ok(records)
    }

    fn count(&self, step: &mut Vec<Found>, once: bool) -> Result<()> {
        for part in step.chunks(STEP_OBJECTS) {
            let mut state = self.state.lock_behind();
            if self.is_closing.load(Ordering::Relaxed) {
                return Err(self.error(ErrorKind::ReadOnly, "the map is being closed".into()));
            }
            // The background thread is here, or waits for this to end: it persists no idle batch
            // meanwhile.
            self.persist(&mut state);
            for Found { object, is_node } in part {
                if state.pages.is_in_free_page(*object) {
                    let what = "something reachable lies in a page marked free";
                    return Err(self.records.damaged(object.offset(), what));
                }
                if !state.pages.is_unknown(object.offset()) {
                    continue;
                }
                if !state.pages.born(*object) && once {
                    return Err(self.records.damaged(object.offset(), "two references to one object"));
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
        let inside = pages.live.within(start, page_bytes);
        let mut found = Vec::new();
        for offset in before.into_iter().chain(inside) {
            let object = if is_node { self.index.reader.place(offset) } else { self.records.at(offset)?.0 };
            if object.offset() + object.len() > start {
                found.push((object, is_node));
            }
        }
        Ok(found)
    }

    fn move_node(&self, state: &mut State<TreeIndex>, object: Ref) -> Result<()> {
        if !state.pages.live.is_set(object.offset()) {
            return Ok(());
        }
        // The lock was released since the page was searched, so something else may lie there now. A
        // reader reports damage.
        let Ok(node) = self.index.reader.node(object.0, None) else { return Ok(()) };
        // A replaced node counts as live until its last reader has gone, but the records it refers
        // to may have ended before.
        let Ok(first) = self.records.get(node.record(0)) else { return Ok(()) };
        let level = node.level();
        let mut edit = state.editing(Urgency::Upkeep);
        if let Err(error) = self.index.relocate(&mut edit, first.key, (object.0, level)) {
            crate::index::Index::abort(&self.index, &mut state.writer, &mut state.pages);
            return Err(error);
        }
        self.moved(state);
        Ok(())
    }
}
