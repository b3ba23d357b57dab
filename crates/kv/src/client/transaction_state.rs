//! State of a connection's transaction: requests that wait for EXEC, and watched keys.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::command::{Access, Command};
use crate::machine::draft::PLACES_MAX;
use crate::resp::{Protocol, Reply};

/// Most requests of a transaction, of which each looks at something, and most bytes of them.
const REQUESTS_MAX: usize = PLACES_MAX;
const BYTES_MAX: usize = 64 << 20;

/// Requests that wait for EXEC.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    requests: Vec<(&'static Command, Vec<Bytes>)>,
    /// Replies that another replica has given already, by the place of their requests.
    said: BTreeMap<usize, Bytes>,
    /// Bytes of the requests, and of what came between them.
    bytes: usize,
    /// Where in the connection's input it begins.
    begun_at: u64,
    is_spoilt: bool,
}

impl Transaction {
    /// MULTI at a place in the connection's input.
    pub(super) fn begin(begun_at: u64) -> Self {
        Self { begun_at, ..Self::default() }
    }

    /// Adds a request, up to a place in the connection's input. What is discarded anyway is not
    /// kept.
    pub(super) fn queue(&mut self, taken: u64, command: &'static Command, request: Vec<Bytes>) -> Reply {
        if !self.is_spoilt {
            self.bytes += request.iter().map(|argument| argument.len() + 40).sum::<usize>();
            // The requests share the memory of all that came with them, also of what is no request.
            self.bytes = self.bytes.max((taken - self.begun_at) as usize);
            if self.requests.len() >= REQUESTS_MAX || self.bytes > BYTES_MAX {
                *self = Self { is_spoilt: true, ..Self::default() };
                let most = format!("{REQUESTS_MAX} commands or {BYTES_MAX} bytes");
                return Reply::error(format!("the transaction has more than {most}"));
            }
            self.requests.push((command, request));
        }
        Reply::Status("QUEUED")
    }

    /// Adds a request of another replica, with the reply that it has given already.
    pub(super) fn add(&mut self, command: &'static Command, request: Vec<Bytes>, said: Option<Bytes>) {
        self.said.extend(said.map(|said| (self.requests.len(), said)));
        self.requests.push((command, request));
    }

    /// The requests, each with its command.
    pub(super) fn requests(&self) -> &[(&'static Command, Vec<Bytes>)] {
        &self.requests
    }

    /// The first request about keys.
    pub(super) fn first_on_keys(&self) -> Option<&(&'static Command, Vec<Bytes>)> {
        self.requests.iter().find(|(command, _)| command.access != Access::None)
    }

    /// The requests alone.
    pub(super) fn into_requests(self) -> Vec<Vec<Bytes>> {
        self.requests.into_iter().map(|(_, request)| request).collect()
    }

    /// The reply that a request has been given already, by its place.
    pub(super) fn said(&self, place: usize) -> Option<Reply> {
        self.said.get(&place).cloned().map(Reply::Written)
    }

    /// Keeps replies to requests that are not done again.
    pub(super) fn keep(&mut self, replies: Vec<Option<Reply>>, protocol: Protocol) {
        let replies = replies.into_iter().enumerate();
        self.said.extend(replies.filter_map(|(place, reply)| Some((place, reply?.written(protocol)))));
    }

    /// Bytes of the requests, and of what came between them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether one of the requests was refused, so that EXEC does nothing.
    pub(super) fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// A request was refused.
    pub(super) fn spoil(&mut self) {
        self.is_spoilt = true;
    }
}

/// Keys that a connection watches.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Each with its version.
    keys: BTreeMap<Bytes, u64>,
    /// Bytes of the keys, and of what holds them.
    bytes: usize,
    /// The term in which the versions were noted.
    term: u64,
    is_lost: bool,
}

impl Watched {
    /// Keys and versions that another replica has noted in a term.
    pub(super) fn noted(term: u64, keys: Vec<(Bytes, u64)>) -> Self {
        Self { keys: keys.into_iter().collect(), term, ..Self::default() }
    }

    /// Keys are watched from now on in a term. What was watched in another is lost.
    pub(super) fn enter(&mut self, term: u64) {
        self.lose_if(!self.keys.is_empty() && self.term != term);
        self.term = term;
    }

    /// Notes a key's version, unless the key is watched already. The key is copied: it must not
    /// keep all that came with it in memory.
    pub(super) fn note(&mut self, key: &[u8], version: u64) {
        if !self.keys.contains_key(key) {
            self.bytes += key.len() + 40;
            self.keys.insert(Bytes::copy_from_slice(key), version);
        }
    }

    /// The keys with their versions.
    pub(super) fn keys(&self) -> &BTreeMap<Bytes, u64> {
        &self.keys
    }

    /// Bytes of the keys, and of what holds them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes whether a key may have changed unseen: EXEC does nothing then.
    pub(super) fn lose_if(&mut self, is_lost: bool) {
        self.is_lost |= is_lost;
    }

    /// Whether the versions may be compared with those of a term.
    pub(super) fn holds_in(&self, term: u64) -> bool {
        !self.is_lost && (self.keys.is_empty() || self.term == term)
    }
}
