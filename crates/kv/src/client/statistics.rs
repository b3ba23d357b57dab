//! Counters, for INFO and for operators.

/// Counters since the process was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were refused: there were too many, or they came from another machine and
    /// `default` had no password.
    pub connections_refused: u64,
    /// Connections that were closed because they have sent a request of HTTP.
    pub http: u64,
    /// Connections that were closed because all together had too much in memory.
    pub evicted: u64,
    /// Requests that were answered.
    pub commands: u64,
    /// Replies that were errors.
    pub errors: u64,
    /// Requests that were sent to another replica.
    pub moved: u64,
    /// Requests that were passed on to the leader.
    pub forwarded: u64,
    /// Requests that were refused because too much was under way.
    pub busy: u64,
    /// Requests that were refused because the leader's store has no room.
    pub full: u64,
    /// Requests whose outcome is not known.
    pub unknown: u64,
    /// Bytes that came in.
    pub input_bytes: u64,
    /// Bytes that went out.
    pub output_bytes: u64,
    /// Reads of a single key that found it.
    pub hits: u64,
    /// Reads of a single key that found none.
    pub misses: u64,
    /// Keys that were deleted because their time had come.
    pub expired: u64,
}
