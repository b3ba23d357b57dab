//! Finding out, after a start, what the pages that were in use hold.

use crate::error::{ErrorKind, Result};
use crate::state::Core;
use crate::structure::Structure;
use std::sync::atomic::Ordering;

impl<I: Structure> Core<I> {
    /// Counts what the newest persist reaches, unless that has been done. The caller holds the
    /// collector's lock.
    pub(crate) fn traverse(&self) -> Result<()> {
        let (hold, root, head, pending) = {
            let mut state = self.state.lock_behind();
            if state.is_traversed {
                return Ok(());
            }
            if let Some(damage) = &state.damage {
                return Err(damage.clone());
            }
            self.persist(&mut state);
            (state.holds.add(u64::MAX), self.index.root(), state.head, state.pending.len())
        };
        let mut traversed = I::count_reachable(self, root, head, pending);
        let mut at = 0;
        loop {
            let mut state = self.state.lock_behind();
            // A load has put another content in place, all of which is known.
            if state.is_traversed {
                traversed = Ok(());
            } else if traversed.is_ok() {
                if state.pages.know_some(&mut at) {
                    continue;
                }
                state.is_traversed = true;
                self.records.are_checked.store(true, Ordering::Relaxed);
            }
            state.holds.remove(&hold);
            // Not if the map is being closed.
            state.damage = traversed.as_ref().err().filter(|error| error.kind() == ErrorKind::Damaged).cloned();
            return traversed;
        }
    }
}
