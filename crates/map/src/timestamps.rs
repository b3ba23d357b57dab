//! Timestamps, and the marks that a map keeps among them.

/// A timestamp, such as the index of an entry in a replicated log. 0 is before every change.
pub type Ts = u64;

/// The marks of a map. They never fall, except `last` by a rollback, `persisted` by a rollback or
/// another change at it, and all of them by loading a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// Timestamp of the newest change. After a rollback from `t` it is below `t`.
    pub last: Ts,
    /// Changes up to this timestamp can no longer be rolled back.
    pub applied: Ts,
    /// Old versions up to this timestamp may be gone: reads below it fail.
    pub forgotten: Ts,
    /// All changes up to this timestamp are durable. It falls when changes above it are rolled
    /// back, and when another change is made at it.
    pub persisted: Ts,
}
