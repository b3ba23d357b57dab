//! Clients: each does one thing at a time, at a replica that it believes to lead, and writes down what it was told.
//!
//! Keys are used for a while only, so that the search through what was seen of one stays short.

use std::collections::BTreeMap;

use bytes::Bytes;
use perdura_pmem::sim::Random;

use super::history::{Action, Operation, Value, is_linearizable};
use crate::machine::draft::{Draft, Source};
use crate::node::{Done, Fate, Node, NotNow};
use crate::store::{Moment, Result as StoreResult, View};

/// Operations on a key before another is used in its place.
const OPERATIONS_OF_KEY: usize = 24;
/// Keys in use.
const KEYS: u64 = 3;

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
    values: u64,
    /// The keys in use.
    keys: Vec<u64>,
    histories: BTreeMap<u64, Vec<Operation>>,
    /// Operations that were done, and those of an unknown outcome.
    pub(super) done: u64,
    pub(super) unknown: u64,
    /// Reads that were answered at once, as only a lease allows where there are several replicas.
    pub(super) leased_reads: u64,
    /// Of all that was told.
    pub(super) digest: u64,
    /// Of ten operations, those that are reads.
    reads_of_ten: u64,
    /// Values are shorter.
    value_bytes: u64,
    /// Requests that were refused for want of room.
    pub(super) refused: u64,
}

fn name(key: u64) -> Vec<u8> {
    format!("key{key}").into_bytes()
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).ok().and_then(|text| text.split('.').next()?.parse().ok()).unwrap_or(u64::MAX)
}

impl Clients {
    pub(super) fn new(count: usize, first: u64, (reads_of_ten, value_bytes): (u64, u64)) -> Self {
        Self {
            leaders: vec![first; count],
            pending: BTreeMap::new(),
            tickets: 0,
            values: 0,
            keys: (0..KEYS).collect(),
            histories: BTreeMap::new(),
            done: 0,
            unknown: 0,
            leased_reads: 0,
            digest: 0,
            reads_of_ten,
            value_bytes,
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

    /// A client calls a node: once, or with two requests of which the second does not wait for the first. `reads` says that it only
    /// reads.
    pub(super) fn call(
        &mut self,
        client: usize,
        step: u64,
        node: &mut Node,
        reads: bool,
        random: &mut Random,
    ) -> StoreResult<()> {
        let slot = random.below(KEYS) as usize;
        let used = self.histories.get(&self.keys[slot]).map_or(0, Vec::len)
            + self.pending.values().filter(|pending| pending.key == self.keys[slot]).count();
        if used >= OPERATIONS_OF_KEY {
            self.keys[slot] = self.keys.iter().max().map_or(0, |newest| newest + 1);
        }
        let key = self.keys[slot];
        if reads || random.below(10) < self.reads_of_ten {
            self.tickets += 1;
            let ticket = self.tickets;
            // It waits before it is asked: the answer may come at once.
            self.wait(ticket, client, step, node.id(), key, Action::Read(None));
            return node.read(ticket);
        }
        if random.below(7) < 4 {
            return self.write(client, step, node, key, random);
        }
        let expected = self.guess(key, random);
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

    /// A number that tells values apart, and a value with it, whose length is random.
    fn value(&mut self, random: &mut Random) -> (u64, Bytes) {
        self.values += 1;
        (self.values, Bytes::from(format!("{}.{}", self.values, "x".repeat(random.below(self.value_bytes) as usize))))
    }

    fn write(&mut self, client: usize, step: u64, node: &mut Node, key: u64, random: &mut Random) -> StoreResult<()> {
        self.tickets += 1;
        let (ticket, (new, value), place) = (self.tickets, self.value(random), name(key));
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
        let (ticket, (new, value), place) = (self.tickets, self.value(random), name(key));
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

    fn refused(&mut self, client: usize, why: NotNow) {
        self.refused += u64::from(why == NotNow::Full);
        if let NotNow::NotLeader { leader } = why
            && leader != 0
        {
            self.leaders[client] = leader;
        }
    }

    /// A value that the key may have.
    fn guess(&self, key: u64, random: &mut Random) -> Value {
        let history = self.histories.get(&key)?;
        let written = history.iter().rev().filter_map(|operation| match operation.action {
            Action::Write(new) | Action::Compare { new, matched: Some(true), .. } => Some(new),
            _ => None,
        });
        let latest: Vec<u64> = written.take(2).collect();
        if latest.is_empty() || random.one_in(6) {
            None
        } else {
            Some(latest[random.below(latest.len() as u64) as usize])
        }
    }

    /// A node has told what has become of a ticket.
    pub(super) fn told(&mut self, now: u64, done: Done, node: &Node) -> Result<(), String> {
        let Some(pending) = self.pending.remove(&done.ticket) else { return Ok(()) };
        let mut action = pending.action;
        match (done.fate, &mut action) {
            (Fate::Readable, Action::Read(seen)) => {
                let view = View::new(node.store(), Moment::Applied);
                let found = Draft::new(&view as &dyn Source, 0, 0).head(&name(pending.key));
                *seen = found.map_err(|error| error.to_string())?.map(|head| number(&head.value));
            }
            (Fate::Applied | Fate::Readable, _) => {}
            // Nothing has come of it.
            (Fate::Never, _) | (Fate::Unavailable, _) => return Ok(()),
            (Fate::Unknown, _) => {
                self.lose(pending);
                return Ok(());
            }
        }
        self.done += 1;
        self.leased_reads += u64::from(matches!(action, Action::Read(_)) && pending.called == now);
        let seen = match action {
            Action::Read(seen) => seen.unwrap_or(0),
            Action::Write(new) | Action::Compare { new, .. } => new,
        };
        self.digest = self.digest.rotate_left(5).wrapping_mul(31) ^ done.ticket ^ seen << 20 ^ now << 40;
        let operation = Operation { action, called: pending.called, returned: Some(now) };
        self.histories.entry(pending.key).or_default().push(operation);
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
        let mut action = pending.action;
        match &mut action {
            Action::Read(_) | Action::Compare { matched: Some(false), .. } => return,
            Action::Compare { matched, .. } => *matched = None,
            Action::Write(_) => {}
        }
        self.unknown += 1;
        self.histories.entry(pending.key).or_default().push(Operation {
            action,
            called: pending.called,
            returned: None,
        });
    }

    /// Nobody will be told anything any more.
    pub(super) fn end(&mut self) {
        for pending in std::mem::take(&mut self.pending).into_values() {
            self.lose(pending);
        }
    }

    /// Whether what was seen of each key is linearizable.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.histories.iter().find(|(_, history)| !is_linearizable(history)) {
            None => Ok(()),
            Some((key, history)) => {
                let mut lines: Vec<String> = history.iter().map(|operation| format!("{operation:?}")).collect();
                lines.sort();
                Err(format!("what was seen of key {key} is not linearizable:\n{}", lines.join("\n")))
            }
        }
    }
}
