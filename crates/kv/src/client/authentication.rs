//! Admission of connections: none before the users are known, and each is judged again whenever
//! they change.
//!
//! The users are known when they come from a store that is whole and has caught up: a read that the
//! node was asked for after the start, or after the last snapshot, is answered, so all that was
//! acknowledged before is applied here. Until then every request is answered `-LOADING`. A replica
//! that has just become leader may have entries of the one before that are not applied: it does
//! nothing for clients before the first entry of its own term is, and with it all before.
//!
//! The users are read again as soon as an entry that changes them is applied, before anything else
//! is done. A connection whose user is deleted or off is closed; one that has shown no password is
//! what a new connection would be. Reads that wait are judged again.

use super::connection::Connection;
use super::dispatch;
use super::notices::Notice;
use super::shared::Shared;
use super::slots::State;
use super::table::Table;
use super::verdict::{Verdict, judge, verdict};
use crate::node::{Node, Outcome};

/// Reads the users if they may have changed. To be called before anything is done that rests on
/// them.
pub(super) fn look_at_users(shared: &mut Shared, table: &mut Table, node: &Node) {
    if shared.admission.is_stale(node) {
        read_users(shared, table, node, false);
    }
}

/// The read is answered by which this replica knows whether it has caught up.
pub(super) fn caught_up(shared: &mut Shared, table: &mut Table, outcome: Outcome, node: &Node) {
    if shared.admission.caught_up(outcome == Outcome::Readable, node) {
        read_users(shared, table, node, true);
    }
}

fn read_users(shared: &mut Shared, table: &mut Table, node: &Node, is_first: bool) {
    match shared.admission.read(node, shared.settings.default_password.as_deref()) {
        Ok(false) if !is_first => {}
        Ok(_) => {
            for (user, why) in shared.admission.acl().disabled() {
                let user = user.escape_ascii().to_string();
                shared.notices.add(Notice::UserDisabled { user, why: why.clone() });
            }
            judge_all(shared, table);
        }
        Err(error) => shared.notices.add(Notice::UsersUnreadable { why: error.to_string() }),
    }
}

/// Judges all connections again.
fn judge_all(shared: &mut Shared, table: &mut Table) {
    for connection in table.iter_mut().filter(|one| one.lifecycle.is_open()) {
        if matches!(verdict(connection, shared.admission.acl()), Verdict::Ends) {
            end(connection);
        } else {
            judge(shared, connection);
        }
        if connection.login.is_known() {
            judge_reads(shared, connection);
        }
        shared.queues.wake(connection);
    }
}

/// Refuses reads that wait and are not allowed any more.
fn judge_reads(shared: &Shared, connection: &mut Connection) {
    for number in connection.slots.reads() {
        let Some(State::Read { request, .. }) = connection.slots.get_mut(number) else { continue };
        if let Some(reply) = dispatch::denial(shared.admission.acl(), connection.login.user(), request) {
            connection.slots.set(number, State::Answered(reply));
        }
    }
}

/// Ends a connection whose user is no more. One that has changed users itself has its reply first.
fn end(connection: &mut Connection) {
    if connection.login.changes_users() && !connection.slots.is_empty() {
        connection.lifecycle.end();
        connection.input.drop_parked();
        connection.transaction = None;
    } else {
        connection.kill();
    }
}
