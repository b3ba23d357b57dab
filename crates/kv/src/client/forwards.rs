//! Requests that are passed on to the leader: those that are to be sent, and those that are not
//! answered.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::wire::Forward;

/// Most requests of all clients that are passed on and not answered, and bytes of them beyond which
/// no other is.
pub(super) const UNDER_WAY_MAX: usize = 1 << 15;
const BYTES_MAX: usize = 64 << 20;

/// Kind of a request, as far as it matters to the connection that waits for the answer.
#[derive(Debug)]
pub(super) enum ForwardKind {
    /// It changes nothing: WAIT.
    Look,
    /// It may change keys.
    Change,
    /// It changes users, which the next requests of the connection rest on.
    Users,
    /// The versions of these keys, to be watched.
    Watch(Vec<Bytes>),
}

impl ForwardKind {
    /// Whether the connection does nothing more until it is answered.
    pub(super) fn holds(&self) -> bool {
        matches!(self, ForwardKind::Look | ForwardKind::Watch(_))
    }
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct UnderWay {
    /// Its connection, and the place of the reply.
    pub token: u32,
    pub place: u64,
    pub bytes: usize,
    /// The term of the leader that was asked.
    pub term: u64,
    pub kind: ForwardKind,
}

/// The requests.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    /// The leader that they can be passed on to now, and its term.
    to: Option<(u64, u64)>,
    /// Connections that wait until there is room.
    waiting: BTreeSet<u32>,
    last: u64,
    out: Vec<Forward>,
    under_way: BTreeMap<u64, UnderWay>,
    bytes: usize,
}

impl Forwards {
    /// The leader that they can be passed on to now, and its term.
    pub(super) fn to(&self) -> Option<(u64, u64)> {
        self.to
    }

    /// They can be passed on to a leader of a term from now on, or to none.
    pub(super) fn open(&mut self, to: Option<(u64, u64)>) {
        self.to = to;
    }

    /// A connection waits until there is room.
    pub(super) fn wait(&mut self, token: u32) {
        self.waiting.insert(token);
    }

    /// Connections that have waited until there is room, once there is.
    pub(super) fn take_waiting(&mut self) -> BTreeSet<u32> {
        if self.has_room() { std::mem::take(&mut self.waiting) } else { BTreeSet::new() }
    }

    /// Whether another may be added.
    pub(super) fn has_room(&self) -> bool {
        self.under_way.len() < UNDER_WAY_MAX && self.bytes < BYTES_MAX
    }

    /// Adds a request, which gets a number of its own.
    pub(super) fn add(&mut self, forward: Forward, under_way: UnderWay) {
        self.last += 1;
        self.bytes += under_way.bytes;
        self.under_way.insert(self.last, under_way);
        self.out.push(Forward { number: self.last, ..forward });
    }

    /// Whether there are requests to be sent.
    pub(super) fn has_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// Those that are to be sent, in their order.
    pub(super) fn take_out(&mut self) -> Vec<Forward> {
        std::mem::take(&mut self.out)
    }

    /// The request of a number, which is answered.
    pub(super) fn take(&mut self, number: u64) -> Option<UnderWay> {
        let found = self.under_way.remove(&number)?;
        self.bytes -= found.bytes;
        Some(found)
    }

    /// All requests, for no answer comes any more, and whether each may have come to the leader.
    /// `unsent` is the first of those that the connection has not sent.
    pub(super) fn take_all(&mut self, unsent: u64) -> Vec<(UnderWay, bool)> {
        self.to = None;
        let first = self.out.first().map_or(unsent, |forward| forward.number.min(unsent));
        self.out.clear();
        self.bytes = 0;
        let all = std::mem::take(&mut self.under_way);
        all.into_iter().map(|(number, under_way)| (under_way, number < first)).collect()
    }
}
