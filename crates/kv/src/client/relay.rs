//! Where requests go on to the leader and its answers come back: what the server does with them at
//! the replica that asks.

use super::Clients;
use super::authentication::look_at_users;
use super::forwards::{ForwardKind, UnderWay};
use super::slots::State;
use super::tickets::Stub;
use crate::node::Node;
use crate::resp::Reply;
use crate::store;
use crate::wire::{Forward, Forwarded};
use perdura_pmem::Mutant;

impl Clients {
    /// Says to which leader, of which term, requests can be passed on now.
    pub fn open_forwards(&mut self, to: Option<(u64, u64)>) {
        self.shared.forwards.open(to);
    }

    /// Whether there is something to be sent to the leader.
    pub fn has_forwards(&self) -> bool {
        self.shared.forwards.has_out()
    }

    /// Requests to be sent to the leader, in this order.
    pub fn take_forwards(&mut self) -> Vec<Forward> {
        self.shared.forwards.take_out()
    }

    /// The leader has answered. Returns whether it was asked. Error: that of the store.
    pub fn forwarded(&mut self, answer: Forwarded, node: &mut Node) -> store::Result<bool> {
        look_at_users(&mut self.shared, &mut self.table, node);
        let Some(under_way) = self.shared.forwards.take(answer.number) else { return Ok(false) };
        let UnderWay { token, place, term, kind, .. } = under_way;
        let Some(connection) = self.table.get_mut(token) else { return Ok(true) };
        let mut outcome = Ok(());
        if let Some(State::Passed { slot, .. }) = connection.slots.get_mut(place) {
            let (slot, is_refused) = (*slot, answer.reply.starts_with(b"-"));
            connection.newest = connection.newest.max(answer.newest);
            let reply = Reply::Written(answer.reply);
            connection.blocking.end_ask(kind.holds());
            match kind {
                ForwardKind::Users if !is_refused => {
                    // The client may go on once the change has taken effect here too.
                    connection.slots.set(place, State::Passed { slot, bytes: 0, said: Some(reply) });
                    outcome = node.read(Stub::Place { token, number: place }.ticket());
                }
                ForwardKind::Watch(keys) => {
                    let watched = &mut connection.watched;
                    watched.lose_if(is_refused || answer.versions.len() != keys.len());
                    watched.enter(term);
                    keys.iter().zip(answer.versions).for_each(|(key, version)| watched.note(key, version));
                    connection.slots.set(place, State::Answered(reply));
                }
                _ => connection.slots.set(place, State::Answered(reply)),
            }
            self.shared.answered(connection);
        }
        self.count(token);
        outcome.map(|()| true)
    }

    /// The connection to the leader has ended, or another leads. `unsent` is the number of the
    /// first request that was not sent whole: it and those behind it were not done, and will not
    /// be. The outcome of the others is unknown.
    pub fn forwards_lost(&mut self, unsent: u64, node: &Node) {
        for (under_way, may_have_come) in self.shared.forwards.take_all(unsent) {
            let Some(connection) = self.table.get_mut(under_way.token) else { continue };
            if let Some(State::Passed { slot, .. }) = connection.slots.get_mut(under_way.place) {
                let slot = *slot;
                let reply = match under_way.kind {
                    // Planted: a change that may have come to the leader is called undone.
                    ForwardKind::Change | ForwardKind::Users
                        if may_have_come && !perdura_pmem::planted(Mutant::SentChangeCalledUndone) =>
                    {
                        self.shared.unknown()
                    }
                    _ => self.shared.again(slot, node),
                };
                connection.blocking.end_ask(under_way.kind.holds());
                connection.watched.lose_if(matches!(under_way.kind, ForwardKind::Watch(_)));
                connection.slots.set(under_way.place, State::Answered(reply));
                self.shared.answered(connection);
            }
            self.count(under_way.token);
        }
    }
}
