//! Reads that may be done, in steps: work for clients between two polls of the event loop is
//! counted and bounded, so that messages, ticks and other clients are not held up, whatever one
//! client asks.
//!
//! A place is a key that is looked at; bytes of values and steps of patterns count as places by the
//! time that they take. Reads that may be done wait in order until there is a step for them;
//! requests that have come wait in their connections. One command or transaction is done whole,
//! within [`PLACES_MAX`](crate::command::PLACES_MAX); KEYS alone goes over several steps.

use bytes::Bytes;

use super::Clients;
use super::connection::Connection;
use super::evaluate::{read_applied, slot_of};
use super::lookup::lookup;
use super::performance::front;
use super::profile::Profile;
use super::slots::State;
use super::step::Step;
use crate::command::{self, Listing};
use crate::machine::draft::Draft;
use crate::node::{Node, Outcome};
use crate::resp::Reply;
use crate::store::{ReadLevel, View};

impl Clients {
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
    fn list(&mut self, connection: &mut Connection, number: u64, node: &Node) -> Option<Reply> {
        let begun = match (connection.blocking.take_listing(), connection.slots.get_mut(number)) {
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
            Ok(None) => connection.blocking.put_listing(listing),
            Ok(Some(reply)) => return Some(reply),
            Err(refusal) => return Some(refusal.into_reply()),
        }
        None
    }

    /// Does a read of a batch, or a step of it.
    pub(super) fn read(&mut self, token: u32, number: u64, outcome: Outcome, node: &Node) {
        let Some(mut connection) = self.table.take(token) else { return };
        let is_full = connection.reply_bytes() >= self.shared.settings.output_bytes_max;
        if let Some(State::Read { is_asked, .. }) = connection.slots.get_mut(number) {
            if outcome == Outcome::Readable && is_full {
                *is_asked = false;
                connection.input.set_held(true);
            } else if outcome == Outcome::Readable && connection.blocking.is_listing() {
                let begun_us = self.shared.steady_us();
                let listed = self.list(&mut connection, number, node);
                let us = self.shared.steady_us().saturating_sub(begun_us);
                connection.blocking.add_listing_us(us);
                match listed {
                    None => self.batches.add_due((token, number)),
                    Some(reply) => {
                        self.shared.performance.set_outcome(&reply);
                        let us = connection.blocking.end_listing();
                        let request = connection.slots.take_read(number).unwrap_or_default();
                        self.note(&connection.profile, &request, us);
                        connection.slots.set(number, State::Answered(reply));
                    }
                }
            } else {
                connection.blocking.end_listing();
                let request = connection.slots.take_read(number).unwrap_or_default();
                let reply = match outcome {
                    Outcome::Readable => {
                        let begun_us = self.shared.steady_us();
                        let reply =
                            read_applied(&mut self.shared, (connection.login.user(), &request), node, Step::add_read);
                        let us = self.shared.steady_us().saturating_sub(begun_us);
                        self.note(&connection.profile, &request, us);
                        reply
                    }
                    _ => self
                        .shared
                        .again(command::find(&request[0]).map_or(0, |command| slot_of(command, &request)), node),
                };
                connection.slots.set(number, State::Answered(reply));
            }
            self.shared.answered(&mut connection);
        }
        self.table.put(connection);
        self.count(token);
    }

    /// Notes how long a read took.
    fn note(&mut self, profile: &Profile, request: &[Bytes], us: u64) {
        let Ok(command) = lookup(request) else { return };
        self.shared.note(profile, (command, &front(request), request.len()), us, profile.active_us());
    }
}
