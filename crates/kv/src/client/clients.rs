//! Connections of clients: opened, read, advanced, and closed.

use perdura_pmem::Mutant;
use std::collections::BTreeMap;

use bytes::BytesMut;

use super::Clients;
use super::admission::LOADING;
use super::authentication::{caught_up, look_at_users};
use super::batches::Batches;
use super::connection::Connection;
use super::context::Context;
use super::dispatch;
use super::notices::Notice;
use super::peer_sessions::PeerSessions;
use super::profile::Peer;
use super::settings::{Name, Settings};
use super::shared::Shared;
use super::slots::State;
use super::statistics::Statistics;
use super::sweeper::Sweeper;
use super::table::Table;
use super::tickets::Stub;
use super::verdict::judge;
use super::wait;
use crate::node::{Done, Node, Outcome};
use crate::resp::{Limits, Reply};
use crate::store;

/// Bytes of a connection's reads that are not done, and of what came between them, beyond which no
/// further request is looked at.
const READ_BYTES_MAX: usize = 1 << 20;

impl Clients {
    /// No clients.
    pub fn new(settings: Settings) -> Self {
        Self {
            shared: Shared::new(settings),
            table: Table::default(),
            batches: Batches::default(),
            bytes: 0,
            peer_sessions: PeerSessions::default(),
            sweeper: Sweeper::default(),
        }
    }

    /// Sets the addresses at which clients reach the replicas, as far as they are known, in place
    /// of those set before.
    pub fn set_names(&mut self, names: BTreeMap<u64, Name>) {
        self.shared.names = names;
    }

    /// Whether the users are known, so that clients can be let in.
    pub fn knows_users(&self) -> bool {
        self.shared.admission.is_open()
    }

    /// Number of users whose records cannot be read.
    pub fn users_disabled(&self) -> usize {
        self.shared.admission.acl().disabled().len()
    }

    /// Notices that have not been logged yet.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.shared.notices.take()
    }

    /// Counters.
    pub fn statistics(&self) -> &Statistics {
        &self.shared.statistics
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// A client has connected. Returns its token, or `None` if there are too many.
    pub fn open(&mut self, peer: Peer, now_us: u64) -> Option<u32> {
        let token = self.table.open(peer, now_us, self.shared.settings.connections_max);
        if let Some(connection) = token.and_then(|token| self.table.get_mut(token)) {
            judge(&mut self.shared, connection);
        }
        let statistics = &mut self.shared.statistics;
        *if token.is_some() { &mut statistics.connections } else { &mut statistics.connections_refused } += 1;
        token
    }

    /// Bytes of requests and replies of all connections, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts what a connection has, and closes those that have most while all together have too
    /// much. So the memory of clients is bounded by that, and by what one connection is given
    /// before it is counted: one request or one reply. Requests of other replicas' clients are
    /// counted by themselves (proxied.rs): no client here is closed for them.
    pub(crate) fn count(&mut self, token: u32) {
        let counts = |one: &&mut Connection| !one.lifecycle.is_killed() && one.proxied.is_none();
        let Some(connection) = self.table.get_mut(token).filter(counts) else { return };
        let bytes = connection.bytes();
        let before = connection.lifecycle.count(bytes);
        self.bytes = (self.bytes + bytes).saturating_sub(before);
        while self.bytes > self.shared.settings.memory_bytes_max {
            let others = self.table.iter_mut().filter(|one| !one.lifecycle.is_killed());
            let most = others.max_by_key(|one| one.lifecycle.counted_bytes());
            let Some(most) = most.filter(|one| one.lifecycle.counted_bytes() > 0) else { return };
            most.kill();
            self.shared.queues.wake_killed(most.token());
            self.shared.statistics.evicted += 1;
            self.bytes = self.bytes.saturating_sub(most.lifecycle.count(0));
        }
    }

    /// Forgets a connection. What it has asked for may still be done.
    pub fn close(&mut self, token: u32) {
        let counted = self.table.get(token).map_or(0, |connection| connection.lifecycle.counted_bytes());
        self.bytes = self.bytes.saturating_sub(counted);
        self.table.close(token);
    }

    /// The buffer to which what was read from a connection is appended.
    ///
    /// # Panics
    /// If there is no such connection.
    pub fn input(&mut self, token: u32) -> &mut BytesMut {
        self.connection(token).input.buffer()
    }

    /// The buffer from whose front is taken what is written to a connection.
    ///
    /// # Panics
    /// If there is no such connection.
    pub fn output(&mut self, token: u32) -> &mut BytesMut {
        self.connection(token).output.buffer_mut()
    }

    /// Whether the connection should be read from.
    pub fn wants_input(&self, token: u32) -> bool {
        self.table.get(token).is_some_and(|one| !one.input.is_held() && one.lifecycle.is_open())
    }

    /// Whether the connection is to be closed when its output is written.
    pub fn is_over(&self, token: u32) -> bool {
        self.table
            .get(token)
            .is_none_or(|one| one.lifecycle.is_killed() || !one.lifecycle.is_open() && one.slots.is_empty())
    }

    /// Whether the connection is to be closed though it has output.
    pub fn is_killed(&self, token: u32) -> bool {
        self.table.get(token).is_none_or(|connection| connection.lifecycle.is_killed())
    }

    /// The connections with something to write, or whose wish for input or for an end may have
    /// changed, since the last call.
    pub fn take_woken(&mut self) -> Vec<u32> {
        let woken = self.shared.queues.take_woken();
        for token in &woken {
            if let Some(connection) = self.table.get_mut(*token) {
                connection.lifecycle.end_wake();
            }
        }
        woken
    }

    /// Does the requests that have come whole from a connection. Error: that of the store, which is
    /// to be closed then.
    pub fn advance(&mut self, token: u32, node: &mut Node, now_us: u64) -> store::Result<()> {
        look_at_users(&mut self.shared, &mut self.table, node);
        let Some(mut connection) = self.table.take(token) else { return Ok(()) };
        let (before, written) = (connection.input.buffer().len(), connection.output.buffer().len());
        let outcome = self.advance_taken(&mut connection, node, now_us);
        self.shared.statistics.input_bytes += before.saturating_sub(connection.input.buffer().len()) as u64;
        self.shared.queues.wake(&mut connection);
        self.shared.statistics.output_bytes += (connection.output.buffer().len() - written) as u64;
        self.table.put(connection);
        self.count(token);
        outcome
    }

    fn advance_taken(&mut self, connection: &mut Connection, node: &mut Node, now_us: u64) -> store::Result<()> {
        connection.input.set_held(false);
        self.ask_again(connection);
        if self.shared.admission.waits_to_lead(connection.token(), node) {
            connection.input.set_held(true);
            return Ok(());
        }
        while connection.lifecycle.is_open() {
            if self.holds_up(connection) {
                connection.input.set_held(true);
                return Ok(());
            }
            let limits = self.limits(connection);
            let request = match connection.input.next(&limits) {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(()),
                Err(malformed) => {
                    // It may be as long as it is because its sender will be known.
                    let is_loading = !self.shared.admission.is_open();
                    let reply =
                        if is_loading { Reply::Error(LOADING.to_owned()) } else { Reply::error(malformed.to_string()) };
                    connection.say(reply);
                    connection.lifecycle.end();
                    return Ok(());
                }
            };
            connection.profile.touch(now_us);
            let (shared, batches) = (&mut self.shared, &mut self.batches);
            let mut context = Context { shared, batches, table: &mut self.table, node, now_us };
            dispatch::request(&mut context, connection, request)?;
        }
        Ok(())
    }

    /// Whether no further request of a connection is looked at now. If so, it is noted in the list
    /// of those that go on, unless its own replies or input let it.
    fn holds_up(&mut self, connection: &Connection) -> bool {
        let (token, is_full) = (connection.token(), self.is_full(connection));
        let Shared { queues, step, forwards, .. } = &mut self.shared;
        if connection.input.waits_for_room() {
            queues.wait_for_room(token);
        } else if step.left() == 0 {
            queues.hold([token]);
        } else if is_full && !forwards.has_room() {
            forwards.wait(token);
        } else {
            return is_full;
        }
        true
    }

    /// Whether the connection has reached its bound of work in flight, so that no further request
    /// is read.
    fn is_full(&self, connection: &Connection) -> bool {
        let settings = &self.shared.settings;
        connection.blocking.is_under_way()
            || connection.input.is_parked() && !(connection.slots.is_empty() && self.shared.forwards.has_room())
            || connection.slots.len() >= settings.requests_max
            || connection.reply_bytes() >= settings.output_bytes_max
            || connection.slots.read_bytes() >= READ_BYTES_MAX
            || connection.slots.kept_bytes(connection.input.taken()) >= READ_BYTES_MAX
    }

    fn limits(&self, connection: &Connection) -> Limits {
        let limits = if connection.login.is_known() { Limits::USUAL } else { Limits::UNAUTHENTICATED };
        let argument_bytes_max = limits.argument_bytes_max.min(self.shared.settings.value_bytes_max);
        Limits { argument_bytes_max, ..limits }
    }

    /// Puts reads into the next batch that were left out of an earlier one because too much had to
    /// be written.
    fn ask_again(&mut self, connection: &mut Connection) {
        if !connection.slots.has_reads() || self.is_full(connection) && !connection.output.buffer().is_empty() {
            return;
        }
        for number in connection.slots.reads() {
            if let Some(State::Read { is_asked, .. }) = connection.slots.get_mut(number)
                && !std::mem::replace(is_asked, true)
            {
                self.batches.add((connection.token(), number));
            }
        }
    }

    /// Goes on where connections were held up, and asks the node for the reads. To be called when
    /// all input is in, and when the node has answered. Error: that of the store.
    pub fn step(&mut self, node: &mut Node, now_us: u64) -> store::Result<()> {
        look_at_users(&mut self.shared, &mut self.table, node);
        self.go_on_leading(node, now_us)?;
        self.go_on_waiting(node);
        self.shared.queues.hold(self.shared.forwards.take_waiting());
        self.read_due(node);
        for token in self.shared.queues.take_held() {
            self.advance(token, node, now_us)?;
        }
        match self.batches.close() {
            Some(ticket) => node.read(ticket),
            None => Ok(()),
        }
    }

    /// A moment has passed. Error: that of the store.
    pub fn tick(&mut self, node: &mut Node) -> store::Result<()> {
        look_at_users(&mut self.shared, &mut self.table, node);
        self.shared.admission.tick(node)?;
        self.sweeper.tick(node, &mut self.shared.statistics)?;
        self.go_on_waiting(node);
        if !node.collects() {
            self.go_on_with_room();
        }
        Ok(())
    }

    /// The store has made room, or this replica leads no more: requests that waited for it are
    /// done.
    fn go_on_with_room(&mut self) {
        for token in self.shared.queues.take_short() {
            if let Some(connection) = self.table.get_mut(token) {
                connection.input.end_wait_for_room();
                self.shared.queues.hold([token]);
            }
        }
    }

    fn go_on_waiting(&mut self, node: &Node) {
        for token in self.shared.queues.take_waiting() {
            let Some(connection) = self.table.get_mut(token) else { continue };
            wait::go_on(&mut self.shared, connection, node);
            if connection.blocking.wait().is_some() {
                self.shared.queues.wait(token);
            } else {
                self.shared.answered(connection);
            }
        }
    }

    /// A ticket of the node is done. Foreign tickets are left alone. Error: that of the
    /// store.
    pub fn done(&mut self, done: Done, node: &mut Node) -> store::Result<()> {
        // Users that an entry has changed take effect before the reply.
        look_at_users(&mut self.shared, &mut self.table, node);
        match Stub::of(done.ticket) {
            Stub::Place { token, number } => self.placed(token, number, done.outcome, node),
            Stub::Batch(number) => {
                for (token, number) in self.batches.take(number) {
                    match done.outcome {
                        Outcome::Readable => self.batches.add_due((token, number)),
                        outcome => self.read(token, number, outcome, node),
                    }
                }
            }
            Stub::Upkeep => self.sweeper.done(),
            Stub::Users => caught_up(&mut self.shared, &mut self.table, done.outcome, node),
            Stub::Foreign => {}
        }
        Ok(())
    }

    fn placed(&mut self, token: u32, number: u64, outcome: Outcome, node: &Node) {
        let Some(connection) = self.table.get_mut(token) else { return };
        if let Some(State::Passed { said, .. }) = connection.slots.get_mut(number) {
            // The leader has done it, whatever has become of the wait.
            if let Some(reply) = said.take() {
                connection.slots.set(number, State::Answered(reply));
            }
            self.shared.answered(connection);
        } else if let Some(State::Held { slot, .. }) = connection.slots.get_mut(number) {
            let slot = *slot;
            match outcome {
                Outcome::Applied | Outcome::Readable => connection.slots.say(number),
                Outcome::Never | Outcome::Unavailable => {
                    connection.slots.set(number, State::Answered(self.shared.again(slot, node)));
                }
                // Planted: a change of unknown outcome is called undone.
                Outcome::Unknown if perdura_pmem::planted(Mutant::UnknownCalledUndone) => {
                    connection.slots.set(number, State::Answered(self.shared.again(slot, node)));
                }
                Outcome::Unknown => connection.slots.set(number, State::Answered(self.shared.unknown())),
            }
            self.shared.answered(connection);
        }
        self.count(token);
    }

    /// Another step begins: the event loop has looked at what has come.
    pub fn begin_step(&mut self) {
        self.shared.step.renew();
    }

    /// Whether there is something to do for which the last step had no time: [`Clients::step`] goes
    /// on with it.
    pub fn has_work(&self) -> bool {
        self.batches.has_due() || self.shared.queues.has_held()
    }

    /// Places that the longest step has looked at.
    pub fn longest_step(&self) -> usize {
        self.shared.step.longest()
    }

    fn connection(&mut self, token: u32) -> &mut Connection {
        self.table.get_mut(token).expect("a token of an open connection")
    }
}
