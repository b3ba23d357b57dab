//! Requests of other replicas that are under way here, by the connection to each, and the answers
//! to them.

use std::collections::{BTreeMap, BTreeSet};

use super::forwards::UNDER_WAY_MAX;
use crate::wire::Forwarded;

/// Bytes of replies for one replica beyond which no other of its requests is looked at.
const REPLIES_BYTES_MAX: usize = 16 << 20;

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
pub struct PeerSessions {
    sessions: BTreeMap<u64, PeerSession>,
    answers: Vec<(u64, Forwarded)>,
}

impl PeerSessions {
    /// A request is under way, whose reply has so many bytes; `is_short` if it waits for room.
    pub fn add(&mut self, peer_connection: u64, token: u32, bytes: usize, is_short: bool) {
        let session = self.sessions.entry(peer_connection).or_default();
        session.tokens.insert(token);
        session.bytes += bytes;
        if is_short {
            // Those behind it may be of the same client: they come after it.
            session.short.insert(token);
        }
    }

    /// A request is answered.
    pub fn remove(&mut self, peer_connection: u64, token: u32, bytes: usize) {
        if let Some(session) = self.sessions.get_mut(&peer_connection) {
            session.tokens.remove(&token);
            session.short.remove(&token);
            session.bytes = session.bytes.saturating_sub(bytes);
        }
    }

    /// Whether so much is under way for a replica that nothing more should be read from it.
    /// `unsent` are bytes of answers to it that are not sent.
    pub fn is_busy(&self, peer_connection: u64, unsent: usize) -> bool {
        let session = self.sessions.get(&peer_connection);
        let (count, bytes) = session.map_or((0, 0), |session| (session.tokens.len(), session.bytes));
        count >= UNDER_WAY_MAX || bytes + unsent >= REPLIES_BYTES_MAX
    }

    /// Whether a request of a replica waits for room.
    pub fn is_short(&self, peer_connection: u64) -> bool {
        self.sessions.get(&peer_connection).is_some_and(|session| !session.short.is_empty())
    }

    /// Forgets replicas whose connections are gone. Returns the tokens of their requests.
    pub fn remove_gone(&mut self, is_there: impl Fn(u64) -> bool) -> Vec<u32> {
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
    pub fn answer(&mut self, peer_connection: u64, answer: Forwarded) {
        self.answers.push((peer_connection, answer));
    }

    /// The answers, with the connection that each is for.
    pub fn take_answers(&mut self) -> Vec<(u64, Forwarded)> {
        std::mem::take(&mut self.answers)
    }
}
