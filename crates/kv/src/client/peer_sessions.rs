//! Requests of other replicas that are under way here, by the connection to each, and the answers
//! to them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::forwards::UNDER_WAY_MAX;
use crate::wire::Forwarded;

/// Bytes of replies for one replica beyond which no other of its requests is looked at.
const REPLIES_BYTES_MAX: usize = 16 << 20;

/// Request that another replica has passed on. The connection is there for that alone, and nobody
/// is connected.
#[derive(Debug)]
pub(super) struct ProxiedRequest {
    peer_connection: u64,
    replica: u64,
    number: u64,
    watches: Vec<Bytes>,
    bytes: usize,
}

impl ProxiedRequest {
    /// A request of a replica on a connection to it, which is answered by its number.
    pub(super) fn new(peer_connection: u64, replica: u64, number: u64) -> Self {
        Self { peer_connection, replica, number, watches: Vec::new(), bytes: 0 }
    }

    /// The replica that has passed it on.
    pub(super) fn replica(&self) -> u64 {
        self.replica
    }

    /// Notes the keys of a WATCH, whose versions are wanted.
    pub(super) fn set_watches(&mut self, keys: &[Bytes]) {
        self.watches = keys.to_vec();
    }

    /// Versions of the keys of its WATCH, of those that are watched.
    pub(super) fn versions(&self, watched: &BTreeMap<Bytes, u64>) -> Vec<u64> {
        self.watches.iter().map(|key| watched.get(key).copied().unwrap_or(0)).collect()
    }
}

/// Requests of one replica.
#[derive(Debug, Default)]
struct PeerSession {
    tokens: BTreeSet<u32>,
    /// Bytes of the replies.
    bytes: usize,
    /// Those that wait until the store has made room, and have not been answered since.
    short: BTreeSet<u32>,
}

/// The requests and answers.
#[derive(Debug, Default)]
pub(super) struct PeerSessions {
    sessions: BTreeMap<u64, PeerSession>,
    answers: Vec<(u64, Forwarded)>,
}

impl PeerSessions {
    /// A request is in flight, with the bytes of its reply so far; `is_short` if it waits for room.
    pub(super) fn add(&mut self, request: &mut ProxiedRequest, token: u32, bytes: usize, is_short: bool) {
        request.bytes = bytes;
        let session = self.sessions.entry(request.peer_connection).or_default();
        session.tokens.insert(token);
        session.bytes += bytes;
        if is_short {
            // Those behind it may be of the same client: they come after it.
            session.short.insert(token);
        }
    }

    /// Answers a request, with the newest entry that it rests on.
    pub(super) fn end(&mut self, request: &ProxiedRequest, token: u32, newest: u64, versions: Vec<u64>, reply: Bytes) {
        let ProxiedRequest { peer_connection, number, bytes, .. } = *request;
        self.answer(peer_connection, Forwarded { number, newest, versions, reply });
        if let Some(session) = self.sessions.get_mut(&peer_connection) {
            session.tokens.remove(&token);
            session.short.remove(&token);
            session.bytes = session.bytes.saturating_sub(bytes);
        }
    }

    /// Whether a replica has reached its bound of work in flight, so that nothing more is read from
    /// it. `unsent` are bytes of answers to it that are not sent.
    pub(super) fn is_busy(&self, peer_connection: u64, unsent: usize) -> bool {
        let session = self.sessions.get(&peer_connection);
        let (count, bytes) = session.map_or((0, 0), |session| (session.tokens.len(), session.bytes));
        count >= UNDER_WAY_MAX || bytes + unsent >= REPLIES_BYTES_MAX
    }

    /// Whether a request of a replica waits for room.
    pub(super) fn is_short(&self, peer_connection: u64) -> bool {
        self.sessions.get(&peer_connection).is_some_and(|session| !session.short.is_empty())
    }

    /// Forgets replicas whose connections are gone. Returns the tokens of their requests.
    pub(super) fn remove_gone(&mut self, is_there: impl Fn(u64) -> bool) -> Vec<u32> {
        let mut gone = Vec::new();
        self.sessions.retain(|peer_connection, session| {
            let stays = is_there(*peer_connection);
            if !stays {
                gone.extend(&session.tokens);
            }
            stays
        });
        gone
    }

    /// Answers over a connection.
    pub(super) fn answer(&mut self, peer_connection: u64, answer: Forwarded) {
        self.answers.push((peer_connection, answer));
    }

    /// The answers, with the connection that each is for.
    pub(super) fn take_answers(&mut self) -> Vec<(u64, Forwarded)> {
        std::mem::take(&mut self.answers)
    }
}
