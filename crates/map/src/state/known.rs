//! Whether the content of all pages is known. A list finds it out at its start; a B+-tree by a
//! traversal later (docs/maps.md, Collection).
//!
//! Thread-safety: owned by the writer's lock.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::pages::Pages;

/// Knowledge of the pages' content.
pub(crate) struct Known {
    is_exact: bool,
    /// Cause of a failed traversal.
    damage: Option<Error>,
    /// Live bytes as the root record had them at start, until all pages are known.
    saved_live: u64,
}

impl Known {
    pub(crate) fn open(is_exact: bool, saved_live: u64) -> Known {
        Known { is_exact, damage: None, saved_live }
    }

    /// Whether the content of all pages is known.
    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Error: that of the last traversal.
    pub(crate) fn check(&self) -> Result<()> {
        self.damage.clone().map_or(Ok(()), Err)
    }

    /// Notes that the content of all pages is known.
    pub(crate) fn set_exact(&mut self) {
        (self.is_exact, self.damage) = (true, None);
    }

    /// Notes the end of a traversal. One that was broken off may be begun anew.
    pub(crate) fn note_end(&mut self, traversed: &Result<()>) {
        self.damage = traversed.as_ref().err().filter(|error| error.kind() == ErrorKind::Damaged).cloned();
    }

    /// Bytes of live objects; until all pages are known, what the last persist before the start had
    /// counted, if that is more.
    pub(crate) fn live(&self, pages: &Pages) -> u64 {
        if self.is_exact { pages.live_bytes() } else { self.saved_live.max(pages.live_bytes()) }
    }

    /// Bytes of used pages that are not live.
    pub(crate) fn garbage(&self, pages: &Pages) -> u64 {
        pages.garbage().saturating_sub(self.live(pages) - pages.live_bytes())
    }
}
