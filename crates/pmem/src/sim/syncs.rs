//! The syncs of a simulated page medium, and the one that fails.

use crate::error::Result;
use crate::health::{Failure, Health};
use parking_lot::Mutex;
use std::sync::Arc;

/// Shared by a medium and its regions.
pub(crate) struct Syncs {
    failure: Arc<Failure>,
    state: Mutex<State>,
}

struct State {
    count: u64,
    /// Number of the one that fails.
    fails_at: u64,
}

impl Syncs {
    pub(crate) fn new() -> Syncs {
        let failure = Arc::new(Failure::none("the simulated medium".to_owned()));
        Syncs { failure, state: Mutex::new(State { count: 0, fails_at: u64::MAX }) }
    }

    pub(crate) fn health(&self) -> Health {
        Health::of(self.failure.clone())
    }

    /// Whether nothing reaches the medium any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_noted()
    }

    pub(crate) fn count(&self) -> u64 {
        self.state.lock().count
    }

    /// Lets a sync fail, after `count` more that do what they are to.
    pub(crate) fn fail_after(&self, count: u64) {
        let mut state = self.state.lock();
        state.fails_at = state.count + count + 1;
    }

    /// Counts a sync of `what`. Fails if it is the one that does, and from then on.
    pub(crate) fn sync(&self, what: &str, action: &str) -> Result<()> {
        let mut state = self.state.lock();
        if self.has_failed() {
            return Err(self.failure.error());
        }
        state.count += 1;
        if state.count == state.fails_at {
            return Err(self.failure.note(what, action, std::io::Error::from_raw_os_error(libc::EIO)));
        }
        Ok(())
    }
}
