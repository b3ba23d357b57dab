//! Timestamps, and where a map stands among them.

/// A timestamp: in a replicated log, the index of the entry. 0 is before every change.
pub type Ts = u64;

/// Where a map stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// Of the newest change (after a rollback: at most the one before it).
    pub last: Ts,
    /// Of the newest change that can no longer be rolled back.
    pub applied: Ts,
    /// Up to here old versions may be gone; reads below it fail.
    pub forgotten: Ts,
    /// `last` as of the newest confirmation.
    pub confirmed: Ts,
}
