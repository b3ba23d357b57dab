//! Lifecycle of a connection: whether it is to be closed, whether the event loop looks at it, and
//! what it was last counted with.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Open,
    /// It is closed when all replies are written.
    Over,
    /// It is closed at once.
    Killed,
}

/// Lifecycle of a connection.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    phase: Phase,
    is_woken: bool,
    counted_bytes: usize,
}

impl Lifecycle {
    /// Whether further requests are looked at.
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the connection is closed at once.
    pub(super) fn is_killed(&self) -> bool {
        self.phase == Phase::Killed
    }

    /// The connection is to be closed when all replies are written.
    pub(super) fn end(&mut self) {
        self.phase = self.phase.max(Phase::Over);
    }

    /// The connection is to be closed at once.
    pub(super) fn kill(&mut self) {
        self.phase = Phase::Killed;
    }

    /// Has the event loop look at the connection. Returns whether it would not have.
    pub(super) fn wake(&mut self) -> bool {
        !std::mem::replace(&mut self.is_woken, true)
    }

    /// The event loop looks at the connection.
    pub(super) fn end_wake(&mut self) {
        self.is_woken = false;
    }

    /// Bytes that the connection had when they were counted last.
    pub(super) fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// Counts bytes. Returns those that were counted before.
    pub(super) fn count(&mut self, bytes: usize) -> usize {
        std::mem::replace(&mut self.counted_bytes, bytes)
    }
}
