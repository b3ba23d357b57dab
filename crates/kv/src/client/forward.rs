//! Forwarding of requests that only the leader can do, by a follower.
//!
//! Requests of a connection reach the leader in their order, over one connection of the two
//! replicas, and are evaluated there as they come. Reads are done here, by ReadIndex: one behind a
//! request that was passed on waits until that is answered, and one that is to be passed on behind
//! reads waits for these. So a connection sees its own writes, and none before its time.

use bytes::Bytes;

use super::connection::Connection;
use super::context::Context;
use super::evaluate::slot_of;
use super::forwards::{ForwardKind, UnderWay};
use super::hash_slot;
use super::once;
use super::slots::State;
use crate::command::{Access, Command};
use crate::node::Role;
use crate::resp::{Protocol, Reply};
use crate::wire::{FORWARD_BYTES_MAX, Forward, ForwardedCommand};

/// Whether a command alone is one that the leader must do: not EXEC and WATCH, which come with what
/// the connection has begun.
fn is_for_leader(command: &Command) -> bool {
    command.access == Access::Write || matches!(command.name, "wait" | "waitaof" | "acl|setuser" | "acl|deluser")
}

/// Whether the leader takes a command from another replica, EXEC aside.
pub(super) fn is_taken(command: &Command) -> bool {
    is_for_leader(command) || command.name == "watch"
}

/// Whether requests of a connection are passed on now.
pub(super) fn is_open(context: &Context<'_>, connection: &Connection) -> bool {
    let Some(to) = context.shared.forwards.to() else { return false };
    let status = context.node.status();
    // A request is passed on once: after a change of leaders it stays where it is.
    connection.proxied.is_none() && status.role != Role::Leader && (status.leader, status.term) == to
}

/// Whether a request must wait until those before it are answered, or until there is room for it.
pub(super) fn waits(context: &Context<'_>, connection: &Connection, command: &Command) -> bool {
    if command.access == Access::Read {
        return connection.slots.has_passed();
    }
    let is_held_up = connection.slots.has_reads() || !context.shared.forwards.has_room();
    is_held_up && (is_taken(command) || command.name == "exec") && is_open(context, connection)
}

/// Passes a request on, if that is for the leader. Else gives it back.
pub(super) fn one(
    context: &mut Context<'_>,
    connection: &mut Connection,
    command: &Command,
    request: Vec<Bytes>,
) -> Option<Vec<Bytes>> {
    if context.shared.forwards.to().is_none() || !is_for_leader(command) || !is_open(context, connection) {
        return Some(request);
    }
    let (command, kind) = match (command.name, once::inner(command, &request)) {
        (_, Some((inner, request))) => ((inner, request), ForwardKind::Change),
        ("wait" | "waitaof", _) => ((command, &request[..]), ForwardKind::Look),
        ("acl|setuser" | "acl|deluser", _) => ((command, &request[..]), ForwardKind::Users),
        _ => ((command, &request[..]), ForwardKind::Change),
    };
    if matches!(kind, ForwardKind::Users) {
        connection.login.set_changes_users(true);
    }
    let slot = slot_of(command.0, command.1);
    let forward = forward(context, connection, false, vec![ForwardedCommand { request, said: None }]);
    pass(context, connection, forward, kind, slot);
    None
}

/// Passes WATCH on.
pub(super) fn watch(context: &mut Context<'_>, connection: &mut Connection, request: &[Bytes]) {
    // Copied: they must not keep all that came with them in memory.
    let keys: Vec<Bytes> = request[1..].iter().map(|key| Bytes::copy_from_slice(key)).collect();
    let slot = hash_slot::of(&keys[0]);
    let forward = forward(context, connection, false, vec![ForwardedCommand { request: request.to_vec(), said: None }]);
    pass(context, connection, forward, ForwardKind::Watch(keys), slot);
}

/// Passes a transaction on as one, with the rights of the user who has sent EXEC: it may have an
/// AUTH. Replies to requests that are no business of keys are given already.
pub(super) fn transaction(
    context: &mut Context<'_>,
    connection: &mut Connection,
    user: Option<Bytes>,
    requests: Vec<Vec<Bytes>>,
    answered: Vec<Option<Reply>>,
    watched: impl IntoIterator<Item = (Bytes, u64)>,
    slot: u16,
) {
    let protocol = connection.output.protocol();
    let said = answered.into_iter().map(|reply| reply.map(|reply| reply.written(protocol)));
    let requests = requests.into_iter().zip(said).map(|(request, said)| ForwardedCommand { request, said }).collect();
    let mut forward = forward(context, connection, true, requests);
    (forward.user, forward.watched) = (user.unwrap_or_default(), watched.into_iter().collect());
    pass(context, connection, forward, ForwardKind::Change, slot);
}

fn forward(
    context: &Context<'_>,
    connection: &Connection,
    is_transaction: bool,
    requests: Vec<ForwardedCommand>,
) -> Forward {
    let is_resp3 = connection.output.protocol() == Protocol::Resp3;
    // A client that has shown no password is the leader's `default` only as long as that needs none
    // there.
    let user = connection.login.shown_user().cloned().unwrap_or_default();
    let (newest, term) = (connection.newest, context.node.status().term);
    Forward { number: 0, term, newest, is_resp3, is_transaction, user, watched: Vec::new(), requests }
}

/// A request that is too large for that is redirected: the client sends it to the leader itself.
fn pass(context: &mut Context<'_>, connection: &mut Connection, forward: Forward, kind: ForwardKind, slot: u16) {
    let bytes = forward.bytes();
    if bytes > FORWARD_BYTES_MAX {
        connection.say(context.shared.again(slot, context.node));
        return;
    }
    connection.blocking.ask(kind.holds());
    let place = connection.push(State::Passed { slot, bytes, said: None });
    let under_way = UnderWay { token: connection.token(), place, bytes, term: forward.term, kind };
    context.shared.forwards.add(forward, under_way);
    context.shared.statistics.forwarded += 1;
}
