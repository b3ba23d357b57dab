//! Room of the disk between two questions to the system.

/// The room of the disk, as it was found last.
#[derive(Debug, Default)]
pub(super) struct KnownRoom {
    pub(super) free: u64,
    /// Bytes that had been written when it was asked; none if it was not.
    pub(super) asked_at: Option<u64>,
    /// Whether the last write had no room.
    pub(super) is_blocked: bool,
    /// Calls that are left until the state is written out again, which had no room.
    pub(super) rests: u32,
}
