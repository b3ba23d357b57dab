//! A store that had no room for the last entries that came.

/// Since when, as far as that matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stalled {
    /// Ticks in which no leader is heard, for it would send the same again at once.
    pub(super) ticks_left: usize,
    /// Whether the store clears garbage away: when that has ended the leader is heard at once.
    pub(super) collects: bool,
}
