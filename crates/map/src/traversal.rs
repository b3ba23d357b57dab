//! The traversal after the start of a B+-tree: reads all that is reachable, and so learns what the pages in use hold.
//!
//! It checks each node and record on the way. Until it is done, pages that were in use at the start are not collected,
//! and readers check what they meet. It keeps the collector away like a snapshot, and disturbs nothing else.
//!
//! Objects made since the start lie in other pages and are counted already. Objects that end during the traversal are
//! counted by it, and ended after it ([`Pages::all_known`]).

use crate::error::{ErrorKind, Result};
use crate::format::Ref;
use crate::index::{Index, Store, for_each_node};
use crate::pending::Pending;
use crate::state::Core;
use std::sync::atomic::Ordering;

/// Objects counted in one turn of the writer's lock.
const TURN_OBJECTS: usize = 1024;

struct Found {
    object: Ref,
    is_node: bool,
}

impl<I: Index> Core<I> {
    /// Traverses what the newest confirmation reaches, unless that has been done. The caller holds the collector's
    /// lock.
    pub(crate) fn traverse(&self) -> Result<()> {
        let (root, head, pending) = {
            let mut state = self.state.lock();
            if state.is_traversed {
                return Ok(());
            }
            if let Some(damage) = &state.damage {
                return Err(damage.clone());
            }
            self.confirm(&mut state);
            state.snapshots += 1;
            (state.root, state.head, state.pending.len())
        };
        let traversed = self.count_reachable(root, head, pending);
        let mut state = self.state.lock();
        state.snapshots -= 1;
        if let Err(damage) = traversed {
            state.damage = Some(damage.clone());
            return Err(damage);
        }
        state.pages.all_known();
        state.is_traversed = true;
        Ok(())
    }

    fn count_reachable(&self, root: u64, head: u64, pending: u64) -> Result<()> {
        let mut turn = Vec::with_capacity(TURN_OBJECTS + self.layout.branching as usize + 1);
        for_each_node(&self.reader, root, &mut |link, node| {
            I::Store::verify(&self.reader, link)?;
            turn.push(Found { object: Ref(link), is_node: true });
            if node.level() == 0 {
                for index in 0..node.len() {
                    self.records.get(node.record(index))?;
                    turn.push(Found { object: node.record(index), is_node: false });
                }
            }
            if turn.len() >= TURN_OBJECTS { self.count(&mut turn, true) } else { Ok(()) }
        })?;
        self.count(&mut turn, true)?;
        // Rollback records are reachable too. Most of them are entries as well.
        Pending::unread(head, pending).read(&self.records, |change| {
            turn.push(Found { object: change.record, is_node: false });
            Ok(())
        })?;
        self.count(&mut turn, false)
    }

    fn count(&self, turn: &mut Vec<Found>, once: bool) -> Result<()> {
        let mut state = self.state.lock();
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(self.error(ErrorKind::ReadOnly, "the map is being closed".into()));
        }
        // The background thread is here, or waits for this to end: it confirms no idle batch meanwhile.
        self.confirm(&mut state);
        for Found { object, is_node } in turn.drain(..) {
            if state.pages.is_in_free_page(object) {
                return Err(self.records.damaged(object.offset(), "something reachable lies in a page marked free"));
            }
            if !state.pages.is_unknown(object.offset()) {
                continue;
            }
            if !state.pages.born(object) && once {
                return Err(self.records.damaged(object.offset(), "two references to one object"));
            }
            if is_node {
                state.pages.note_nodes(object);
            }
        }
        Ok(())
    }
}
