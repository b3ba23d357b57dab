//! Finding out, after a start, what the pages that were in use hold.

use crate::error::Result;
use crate::state::Core;
use crate::structure::Structure;
use std::sync::atomic::Ordering;

impl<I: Structure> Core<I> {
    /// Counts what the newest confirmation reaches, unless that has been done. The caller holds the collector's
    /// lock.
    pub(crate) fn traverse(&self) -> Result<()> {
        let (hold, root, head, pending) = {
            let mut state = self.state.lock_behind();
            if state.is_traversed {
                return Ok(());
            }
            if let Some(damage) = &state.damage {
                return Err(damage.clone());
            }
            self.confirm(&mut state);
            (state.holds.add(u64::MAX), self.index.root(), state.head, state.pending.len())
        };
        let traversed = I::count_reachable(self, root, head, pending);
        let mut state = self.state.lock_behind();
        state.holds.remove(&hold);
        if state.is_traversed {
            return Ok(());
        }
        if let Err(damage) = traversed {
            state.damage = Some(damage.clone());
            return Err(damage);
        }
        state.pages.all_known();
        state.is_traversed = true;
        self.records.are_checked.store(true, Ordering::Relaxed);
        Ok(())
    }
}
