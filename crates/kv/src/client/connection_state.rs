//! State of a connection across requests: a transaction, watched keys, a wait, a request of another
//! replica's client.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::command::Command;

/// Requests that wait for EXEC.
#[derive(Debug, Default)]
pub struct Transaction {
    pub requests: Vec<(&'static Command, Vec<Bytes>)>,
    /// Replies that another replica has given already, by the place of their requests.
    pub said: BTreeMap<usize, Bytes>,
    /// Bytes of the requests, and of what came between them.
    pub bytes: usize,
    /// Where in the connection's input it begins.
    pub begun_at: u64,
    /// Whether one of the requests was refused.
    pub is_spoilt: bool,
}

/// Keys that a connection watches.
#[derive(Debug, Default)]
pub struct Watched {
    /// Each with its version.
    pub keys: BTreeMap<Bytes, u64>,
    /// Bytes of the keys, and of what holds them.
    pub bytes: usize,
    /// The term in which the versions were noted.
    pub term: u64,
    /// Whether a key was watched in another term before.
    pub is_lost: bool,
}

impl Watched {
    /// Keys are watched from now on in a term.
    pub fn enter(&mut self, term: u64) {
        self.is_lost |= !self.keys.is_empty() && self.term != term;
        self.term = term;
    }

    /// Notes a key's version, unless the key is watched already. The key is copied: it must not
    /// keep all that came with it in memory.
    pub fn note(&mut self, key: &[u8], version: u64) {
        if !self.keys.contains_key(key) {
            self.bytes += key.len() + 40;
            self.keys.insert(Bytes::copy_from_slice(key), version);
        }
    }
}

/// Condition that a connection waits for.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub index: u64,
    /// The replica that the client is connected to.
    pub at: u64,
    pub here: bool,
    pub others: usize,
    /// When the answer is given in any case, in microseconds since 1970.
    pub until_us: u64,
    pub tells_here: bool,
}

/// Request that another replica has passed on. The connection is there for that alone, and nobody
/// is connected.
#[derive(Debug)]
pub struct ProxiedRequest {
    /// The connection to the other replica.
    pub peer_connection: u64,
    pub replica: u64,
    /// By which it is answered.
    pub number: u64,
    /// Keys of a WATCH, whose versions are wanted.
    pub watches: Vec<Bytes>,
    /// Bytes of its reply.
    pub bytes: usize,
}
