//! Work in steps: what is done for clients between two turns of the reactor is counted and bounded,
//! so that messages, ticks and other clients get their turn, whatever one client asks.
//!
//! A place is a key that is looked at; bytes of values and steps of patterns count as places by the
//! time that they take. Reads that may be done wait in order until there is a step for them;
//! requests that have come wait in their connections. One command or transaction is done whole,
//! within [`PLACES_MAX`](crate::command::PLACES_MAX); KEYS alone goes over several steps.

use super::clients::Clients;
use super::connection::Connection;
use super::slots::State;
use crate::command::Listing;
use crate::machine::draft::Draft;
use crate::node::{Node, Outcome};
use crate::resp::Reply;
use crate::store::{ReadLevel, View};

impl Clients {
    /// Another step begins: the reactor has looked at what has come.
    pub fn begin_step(&mut self) {
        self.shared.step.renew();
    }

    /// Whether there is something to do for which the last step had no time: [`Clients::turn`] goes
    /// on with it.
    pub fn has_work(&self) -> bool {
        self.batches.has_due() || !self.shared.held.is_empty()
    }

    /// Places that the longest step has looked at.
    pub fn longest_step(&self) -> usize {
        self.shared.step.longest()
    }

    /// Does reads that may be done, until the step is over.
    pub(super) fn read_due(&mut self, node: &Node) {
        while self.shared.step.left_for_reads() > 0
            && let Some((token, number)) = self.batches.next_due()
        {
            // A store that was emptied since has nothing to read.
            let outcome = if node.store().is_partial() { Outcome::Unavailable } else { Outcome::Readable };
            self.read(token, number, outcome, node);
        }
    }

    /// Goes on with a connection's KEYS on what is applied. `None` if there is more to do.
    pub(super) fn list(&mut self, connection: &mut Connection, number: u64, node: &Node) -> Option<Reply> {
        let begun = match (connection.listing.take(), connection.slots.get_mut(number)) {
            (Some(listing), _) => Ok(listing),
            (None, Some(State::Read { request, .. })) => Listing::begin(request),
            _ => return Some(Reply::Null),
        };
        let mut listing = match begun {
            Ok(listing) => listing,
            Err(refusal) => return Some(refusal.into_reply()),
        };
        let store = node.store();
        let view = View::new(store, ReadLevel::Applied);
        let draft = Draft::new(&view, store.clock_ms(ReadLevel::Applied), store.applied());
        let outcome = listing.step(&draft, self.shared.step.left_for_reads());
        self.shared.step.add_read(&draft);
        match outcome {
            Ok(None) => connection.listing = Some(listing),
            Ok(Some(reply)) => return Some(reply),
            Err(refusal) => return Some(refusal.into_reply()),
        }
        None
    }
}
