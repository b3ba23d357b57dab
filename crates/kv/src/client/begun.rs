//! What a connection has begun and not ended: a transaction, keys that it watches, a wait.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::command::Command;

/// Requests that wait for EXEC.
#[derive(Debug, Default)]
pub struct Transaction {
    pub requests: Vec<(&'static Command, Vec<Bytes>)>,
    pub bytes: usize,
    /// Whether one of the requests was refused.
    pub is_spoilt: bool,
}

/// Keys that a connection watches.
#[derive(Debug, Default)]
pub struct Watched {
    /// Each with its version.
    pub keys: BTreeMap<Bytes, u64>,
    /// The term in which the versions were noted.
    pub term: u64,
    /// Whether a key was watched in another term before.
    pub is_lost: bool,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub index: u64,
    pub here: bool,
    pub others: usize,
    /// When the answer is given in any case, in microseconds since 1970.
    pub until_us: u64,
    pub tells_here: bool,
}
