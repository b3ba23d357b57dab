//! Clients: each does one thing at a time, at a replica that it believes to lead, and writes down
//! what it was told.

use std::collections::BTreeMap;

use perdura_kv::node::{Done, Draft, Node, Outcome, Rejection};
use perdura_kv::store::{ReadLevel, Result as StoreResult, View};
use perdura_pmem::sim::Random;

use super::history::{Action, Value};
use super::observed::{Observed, name, number};

struct Pending {
    client: usize,
    node: u64,
    key: u64,
    action: Action,
    called: u64,
}

/// All clients, and what they were told.
pub(super) struct Clients {
    /// Whom each believes to lead.
    leaders: Vec<u64>,
    pending: BTreeMap<u64, Pending>,
    tickets: u64,
    pub(super) observed: Observed,
    /// Reads that were answered at once, as only a lease allows where there are several replicas.
    pub(super) leased_reads: u64,
    /// Of all that was told.
    pub(super) digest: u64,
    /// Of ten operations, those that are reads.
    reads_of_ten: u64,
    /// Requests that were refused for want of room.
    pub(super) refused: u64,
}

/// Kinds of calls that a client may make at a replica.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    All,
    Reads,
    Comparisons,
}

impl Clients {
    pub(super) fn new(count: usize, first: u64, (reads_of_ten, value_bytes): (u64, u64)) -> Self {
        Self {
            leaders: vec![first; count],
            pending: BTreeMap::new(),
            tickets: 0,
            observed: Observed::new(value_bytes),
            leased_reads: 0,
            digest: 0,
            reads_of_ten,
            refused: 0,
        }
    }

    /// Clients that do nothing.
    pub(super) fn idle(&self) -> Vec<usize> {
        let is_idle = |client: &usize| self.pending.values().all(|pending| pending.client != *client);
        (0..self.leaders.len()).filter(is_idle).collect()
    }

    /// Whom a client asks next.
    pub(super) fn leader(&self, client: usize) -> u64 {
        self.leaders[client]
    }

    /// A client asks another replica from now on.
    pub(super) fn turn_to(&mut self, client: usize, node: u64) {
        self.leaders[client] = node;
    }

    /// A client calls a node: once, or with two requests of which the second does not wait for the
    /// first.
    pub(super) fn call(
        &mut self,
        client: usize,
        step: u64,
        node: &mut Node,
        calls: Calls,
        random: &mut Random,
    ) -> StoreResult<()> {
        let pending = &self.pending;
        let under_way = |key| pending.values().filter(|pending| pending.key == key).count();
        let key = self.observed.key(under_way, random);
        if calls == Calls::Reads || calls == Calls::All && random.below(10) < self.reads_of_ten {
            self.tickets += 1;
            let ticket = self.tickets;
            // It waits before it is asked: the answer may come at once.
            self.wait(ticket, client, step, node.id(), key, Action::Read(None));
            return node.read(ticket);
        }
        if calls == Calls::All && random.below(7) < 4 {
            return self.write(client, step, node, key, random);
        }
        let expected = self.observed.guess(key, random);
        self.compare(client, step, node, (key, expected), random)?;
        if random.one_in(3) {
            // Both cannot win.
            self.compare(client, step, node, (key, expected), random)?;
        }
        Ok(())
    }

    fn wait(&mut self, ticket: u64, client: usize, step: u64, node: u64, key: u64, action: Action) {
        self.pending.insert(ticket, Pending { client, node, key, action, called: step });
    }

    fn write(&mut self, client: usize, step: u64, node: &mut Node, key: u64, random: &mut Random) -> StoreResult<()> {
        self.tickets += 1;
        let (ticket, (new, value), place) = (self.tickets, self.observed.value(random), name(key));
        let write = |draft: &mut Draft<'_>| draft.put(&place, value, None).map_err(drop);
        match node.evaluate(ticket, write)? {
            Ok(()) => self.wait(ticket, client, step, node.id(), key, Action::Write(new)),
            Err(why) => self.refused(client, why),
        }
        Ok(())
    }

    fn compare(
        &mut self,
        client: usize,
        step: u64,
        node: &mut Node,
        (key, expected): (u64, Value),
        random: &mut Random,
    ) -> StoreResult<()> {
        self.tickets += 1;
        let (ticket, (new, value), place) = (self.tickets, self.observed.value(random), name(key));
        let compare = |draft: &mut Draft<'_>| {
            let found: Value = draft.head(&place).map_err(|_| false)?.map(|head| number(&head.value));
            if found != expected {
                return Err(false);
            }
            draft.put(&place, value, None).map_err(|_| false)?;
            Ok(true)
        };
        match node.evaluate(ticket, compare)? {
            Ok(matched) => {
                let action = Action::Compare { expected, new, matched: Some(matched) };
                self.wait(ticket, client, step, node.id(), key, action);
            }
            Err(why) => self.refused(client, why),
        }
        Ok(())
    }

    fn refused(&mut self, client: usize, why: Rejection) {
        self.refused += u64::from(why == Rejection::Full);
        if let Rejection::NotLeader { leader } = why
            && leader != 0
        {
            self.leaders[client] = leader;
        }
    }

    /// A node has told what has become of a ticket.
    pub(super) fn told(&mut self, now: u64, done: Done, node: &Node) -> Result<(), String> {
        let Some(pending) = self.pending.remove(&done.ticket) else { return Ok(()) };
        let mut action = pending.action;
        match (done.outcome, &mut action) {
            (Outcome::Readable, Action::Read(seen)) => {
                let view = View::new(node.store(), ReadLevel::Applied);
                let found = Draft::new(&view, 0, 0).head(&name(pending.key));
                *seen = found.map_err(|error| error.to_string())?.map(|head| number(&head.value));
            }
            (Outcome::Applied | Outcome::Readable, _) => {}
            // Nothing has come of it.
            (Outcome::Never, _) | (Outcome::Unavailable, _) => return Ok(()),
            (Outcome::Unknown, _) => {
                self.lose(pending);
                return Ok(());
            }
        }
        self.leased_reads += u64::from(matches!(action, Action::Read(_)) && pending.called == now);
        let seen = match action {
            Action::Read(seen) => seen.unwrap_or(0),
            Action::Write(new) | Action::Compare { new, .. } | Action::Expire(new) => new,
        };
        self.digest = self.digest.rotate_left(5).wrapping_mul(31) ^ done.ticket ^ seen << 20 ^ now << 40;
        self.observed.returned(pending.key, action, pending.called, now);
        Ok(())
    }

    /// A node is gone, and will tell nothing.
    pub(super) fn lost(&mut self, node: u64) {
        let tickets: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| pending.node == node).map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            if let Some(pending) = self.pending.remove(&ticket) {
                self.lose(pending);
            }
        }
    }

    fn lose(&mut self, pending: Pending) {
        self.observed.lost(pending.key, pending.action, pending.called);
    }

    /// Nobody will be told anything any more.
    pub(super) fn end(&mut self) {
        for pending in std::mem::take(&mut self.pending).into_values() {
            self.lose(pending);
        }
    }
}
