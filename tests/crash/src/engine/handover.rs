//! Transactions that change threads between two statements, as in a server that serves many
//! connections with few threads. The thread that commits has flushed none of what it commits. Tests
//! (I3).

use super::history::Writes;
use perdura_engine::Session;
use perdura_pmem::sync::Mutex;

/// The place at which one thread leaves a session to another.
#[derive(Default)]
pub struct Handover {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    /// Nobody has left a session.
    #[default]
    Free,
    /// A session within a transaction, and the rows as it would leave them.
    Left(Box<(Session, Writes)>),
    /// Another thread has taken the session, and its transaction goes on.
    Taken,
}

impl Handover {
    pub(super) fn leave(&self, session: Session, writes: Writes) {
        *self.state.lock() = State::Left(Box::new((session, writes)));
    }

    pub(super) fn take(&self) -> Option<(Session, Writes)> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Left(left) => Some(*left),
            before => {
                *state = before;
                None
            }
        }
    }

    pub(super) fn end(&self) {
        *self.state.lock() = State::Free;
    }

    pub(super) fn is_free(&self) -> bool {
        matches!(*self.state.lock(), State::Free)
    }
}
