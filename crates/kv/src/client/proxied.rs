//! Requests that other replicas pass on to the leader. Each gets a connection of its own for as
//! long as it takes, with the rights of the user that it is of, and is done as if a client of this
//! replica had sent it.

use bytes::{Bytes, BytesMut};
use perdura_pmem::Mutant;

use super::Clients;
use super::authentication::look_at_users;
use super::connection::Connection;
use super::context::Context;
use super::evaluate::slot_of;
use super::lookup::lookup;
use super::peer_sessions::ProxiedRequest;
use super::profile::Peer;
use super::transaction_state::{Transaction, Watched};
use super::{dispatch, forward, transaction};
use crate::command;
use crate::node::{Node, Rejection, Role};
use crate::resp::{Protocol, Reply};
use crate::store;
use crate::wire::{Forward, Forwarded, ForwardedCommand, REPLY_BYTES_MAX};

impl Clients {
    /// Does what another replica has passed on over a connection to it, which is known by
    /// `peer_connection`. It is answered by [`Clients::take_answers`]. Error: that of the store.
    pub fn take_in(
        &mut self,
        peer_connection: u64,
        replica: u64,
        forward: Forward,
        node: &mut Node,
        now_us: u64,
    ) -> store::Result<()> {
        look_at_users(&mut self.shared, &mut self.table, node);
        let is_short = self.peer_sessions.is_short(peer_connection);
        let early = (peer_connection, replica, forward);
        let Some((.., forward)) = self.shared.admission.wait_to_lead(early, is_short, node) else { return Ok(()) };
        let peer = Peer { address: format!("replica-{replica:x}:0"), ..Peer::default() };
        let number = forward.number;
        let proxied = ProxiedRequest::new(peer_connection, replica, number);
        let Some(token) = self.table.open_proxied(proxied, peer, now_us) else {
            let mut reply = BytesMut::new();
            self.shared.refusal(Rejection::Busy, 0).write(Protocol::Resp2, &mut reply);
            let answer = Forwarded { number, newest: 0, versions: Vec::new(), reply: reply.freeze() };
            self.peer_sessions.answer(peer_connection, answer);
            return Ok(());
        };
        let Some(mut connection) = self.table.take(token) else { return Ok(()) };
        let shared = &mut self.shared;
        let mut context = Context { shared, batches: &mut self.batches, table: &mut self.table, node, now_us };
        let outcome = serve(&mut context, &mut connection, forward);
        let (bytes, is_short) = (connection.reply_bytes(), connection.input.waits_for_room());
        if let Some(proxied) = &mut connection.proxied {
            self.peer_sessions.add(proxied, token, bytes, is_short);
        }
        if is_short {
            self.shared.queues.wait_for_room(token);
        }
        self.shared.queues.wake(&mut connection);
        self.table.put(connection);
        outcome
    }

    /// Whether a replica has reached its bound of work in flight, so that nothing more is read from
    /// it. `unsent` are bytes of answers to it that are not sent.
    pub(crate) fn is_busy_with(&self, peer_connection: u64, unsent: usize) -> bool {
        self.peer_sessions.is_busy(peer_connection, unsent) || self.shared.admission.has_early(peer_connection)
    }

    /// Goes on with requests that waited until this replica knows all that it leads with. Error:
    /// that of the store.
    pub(super) fn go_on_leading(&mut self, node: &mut Node, now_us: u64) -> store::Result<()> {
        let (waiting, early) = self.shared.admission.take_settled(node);
        self.shared.queues.hold(waiting);
        for (peer_connection, replica, forward) in early {
            self.take_in(peer_connection, replica, forward, node, now_us)?;
        }
        Ok(())
    }

    /// The answers that are known now, with the connection that each is for.
    pub fn take_answers(&mut self) -> Vec<(u64, Forwarded)> {
        for token in self.shared.queues.take_served() {
            let Some(connection) = self.table.get_mut(token) else { continue };
            let Some(proxied) = &connection.proxied else { continue };
            connection.lifecycle.end_wake();
            let is_waiting = connection.blocking.wait().is_some() || connection.input.is_parked();
            if is_waiting || !connection.slots.is_empty() {
                continue;
            }
            let (newest, versions) = (connection.newest, proxied.versions(connection.watched.keys()));
            let reply = connection.output.buffer_mut().split().freeze();
            let reply = if reply.len() <= REPLY_BYTES_MAX { reply } else { too_long(reply.len()) };
            self.peer_sessions.end(proxied, token, newest, versions, reply);
            self.close(token);
        }
        self.peer_sessions.take_answers()
    }

    /// Forgets the requests of replicas whose connections are gone. What they have asked for may
    /// still be done.
    pub fn keep_peer_sessions(&mut self, is_there: impl Fn(u64) -> bool) {
        self.shared.admission.keep_early(&is_there);
        for token in self.peer_sessions.remove_gone(is_there) {
            self.close(token);
        }
    }
}

fn too_long(bytes: usize) -> Bytes {
    Bytes::from(format!(
        "-ERR the command was done, but its reply of {bytes} bytes is too long to be passed on: {REPLY_BYTES_MAX} at most\r\n"
    ))
}

/// Does what was passed on, or says why not.
fn serve(context: &mut Context<'_>, connection: &mut Connection, forward: Forward) -> store::Result<()> {
    connection.output.set_protocol(if forward.is_resp3 { Protocol::Resp3 } else { Protocol::Resp2 });
    let status = context.node.status();
    if status.role != Role::Leader || status.term != forward.term {
        let first = forward.requests.first().map(|asked| &asked.request);
        let slot = first.and_then(|first| Some(slot_of(command::find(&first[0])?, first))).unwrap_or(0);
        connection.say(context.shared.refusal(Rejection::NotLeader { leader: status.leader }, slot));
        return Ok(());
    }
    if forward.user.is_empty() {
        // As it would be if it had connected here.
        connection.login.set_known(context.shared.admission.acl().is_open());
    } else {
        // Planted: a forwarded request has the rights of the user `default`.
        let user = if perdura_pmem::planted(Mutant::ForwardAsDefaultUser) { b"default" } else { &forward.user[..] };
        connection.login.log_in(user);
    }
    connection.newest = forward.newest;
    connection.watched = Watched::noted(forward.term, forward.watched);
    let request = if forward.is_transaction {
        queued(forward.requests).map(|transaction| {
            connection.transaction = Some(transaction);
            vec![Bytes::from_static(b"EXEC")]
        })
    } else {
        single(forward.requests)
    };
    match request {
        Ok(request) => {
            if let (Some(proxied), true) = (&mut connection.proxied, request[0].eq_ignore_ascii_case(b"watch")) {
                proxied.set_watches(&request[1..]);
            }
            dispatch::request(context, connection, request)
        }
        Err(reply) => {
            connection.say(reply);
            Ok(())
        }
    }
}

fn not_taken() -> Reply {
    Reply::error("the command is not one that a replica passes on")
}

fn single(requests: Vec<ForwardedCommand>) -> Result<Vec<Bytes>, Reply> {
    let Some(ForwardedCommand { request, said: None }) = requests.into_iter().next() else { return Err(not_taken()) };
    if forward::is_taken(lookup(&request)?) { Ok(request) } else { Err(not_taken()) }
}

fn queued(requests: Vec<ForwardedCommand>) -> Result<Transaction, Reply> {
    let mut queued = Transaction::default();
    for ForwardedCommand { request, said } in requests {
        let command = lookup(&request)?;
        if !transaction::takes(command) || transaction::is_own(command) || command.is_on_draft() == said.is_some() {
            return Err(not_taken());
        }
        queued.add(command, request, said);
    }
    Ok(queued)
}
