//! An offer of a snapshot that the store cannot begin to receive yet: it collects garbage, or
//! another replica reads a snapshot of it. Nothing blocks on that: each tick tries again, until the
//! sender drops the snapshot.

use raft::eraftpb::Message;

use crate::store::{self, ErrorKind, Store};

/// An offer that is tried again.
#[derive(Debug)]
pub(super) struct Postponed {
    /// Raft's message.
    pub(super) message: Message,
    /// Whether the store is to be emptied for it.
    pub(super) empties: bool,
    /// Ticks that it has waited.
    ticks: usize,
}

impl Postponed {
    pub(super) fn new(message: Message, empties: bool) -> Self {
        Self { message, empties, ticks: 0 }
    }

    /// A tick has passed, and it waits again. `None` if it has waited for `ticks_max`.
    pub(super) fn again(self, ticks_max: usize) -> Option<Self> {
        let ticks = self.ticks + 1;
        (ticks < ticks_max).then_some(Self { ticks, ..self })
    }
}

/// Whether a store has begun to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    Now,
    /// It clears garbage away, or another reads a snapshot of it: it may be able to soon.
    Later,
    /// It has no room to: another snapshot is offered later.
    NoRoom,
}

/// Has a store begin to receive, without waiting for anything.
pub(super) fn begin(store: &mut dyn Store, empties: bool) -> store::Result<Begun> {
    match store.try_receive(empties) {
        Ok(true) => Ok(Begun::Now),
        Ok(false) => Ok(Begun::Later),
        Err(error) if error.kind() == ErrorKind::Unready => Ok(Begun::Later),
        Err(error) if error.kind() == ErrorKind::Full => Ok(Begun::NoRoom),
        Err(error) => Err(error),
    }
}
