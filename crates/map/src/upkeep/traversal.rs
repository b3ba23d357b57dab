//! Traversal after a start: what the pages that were in use hold.

use crate::error::Result;
use crate::upkeep::round::Round;
use crate::upkeep::structure::Structure;

impl<I: Structure> Round<'_, I> {
    /// Counts what the newest persist reaches, unless that has been done.
    pub(crate) fn traverse(&self) -> Result<()> {
        let (hold, persisted) = {
            let mut state = self.state.lock_behind();
            if state.known.is_exact() {
                return Ok(());
            }
            state.known.check()?;
            state.persist(self.shared);
            (state.holds.add(u64::MAX), state.persisted(self.shared))
        };
        let mut traversed = I::count_reachable(self, &persisted);
        let mut at = 0;
        loop {
            let mut state = self.state.lock_behind();
            // A load has put another content in place, all of which is known.
            if state.known.is_exact() {
                traversed = Ok(());
            } else if traversed.is_ok() {
                if state.pages.know_some(&mut at) {
                    continue;
                }
                state.known.set_exact();
                self.shared.records.all_checked();
            }
            state.holds.remove(&hold);
            state.known.note_end(&traversed);
            return traversed;
        }
    }
}
