//! Admission of connections: none before the users are known, and each is judged again whenever
//! they change.
//!
//! The users are known when they come from a store that is whole and has caught up: a read that the
//! node was asked for after the start, or after the last snapshot, is answered, so all that was
//! acknowledged before is applied here. Until then all that is asked is answered `-LOADING`,
//! whoever asks. A replica that has just become leader may have entries of the one before that are
//! not applied: it does nothing for clients before the first entry of its own term is, and with it
//! all before.
//!
//! The users are read again as soon as an entry that changes them is applied, before anything else
//! is done. Who was logged in and is deleted or off is closed; who has shown no password is what a
//! new connection would be. Reads that wait are judged again.

use super::clients::Clients;
use super::connection::Connection;
use super::dispatch;
use super::notices::Notice;
use super::slots::State;
use super::tickets::Stub;
use super::verdict::{Verdict, judge, verdict};
use crate::acl::Acl;
use crate::node::{Node, Outcome};
use crate::store::{self, ReadLevel, View};
use crate::wire::Forward;
use perdura_pmem::Mutant;

impl Clients {
    /// Whether the users are known, so that clients can be let in.
    pub fn knows_users(&self) -> bool {
        self.shared.admission.is_open
    }

    /// Notices that the operator has not been told.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.shared.notices.take()
    }

    /// Number of users whose records cannot be read.
    pub fn users_disabled(&self) -> usize {
        self.shared.acl.disabled().len()
    }

    /// A moment has passed: asks the node whether this replica has caught up, if that is to be
    /// known.
    pub(super) fn tick_admission(&mut self, node: &mut Node) -> store::Result<()> {
        self.look_at_users(node);
        let admission = &mut self.shared.admission;
        if !admission.is_open && !admission.is_asking && !node.receives() {
            admission.is_asking = true;
            return node.read(Stub::Users.ticket());
        }
        Ok(())
    }

    /// The read is answered.
    pub(super) fn has_caught_up(&mut self, outcome: Outcome, node: &Node) {
        self.shared.admission.is_asking = false;
        if outcome == Outcome::Readable && !node.receives() && !self.shared.admission.is_open {
            self.shared.admission.is_open = true;
            self.read_users(node, true);
        }
    }

    /// Reads the users if they may have changed. To be called before anything is done that rests on
    /// them.
    pub(super) fn look_at_users(&mut self, node: &Node) {
        if node.receives() {
            // The users that are here are old, and nobody knows how old.
            if self.shared.admission.is_open {
                self.shared.admission.is_open = false;
                self.shared.acl = Acl::closed();
            }
            return;
        }
        // Planted: users that were changed are not read again.
        let is_changed =
            self.shared.admission.seen != node.store().applied() && !perdura_pmem::planted(Mutant::UsersNotReadAgain);
        if self.shared.admission.is_open && is_changed {
            self.read_users(node, false);
        }
    }

    fn read_users(&mut self, node: &Node, is_first: bool) {
        self.shared.admission.seen = node.store().applied();
        let view = View::new(node.store(), ReadLevel::Applied);
        let password = self.shared.settings.default_password.as_deref();
        match self.shared.acl.refresh(&view, password) {
            Ok(false) if !is_first => {}
            Ok(_) => {
                let disabled = self.shared.acl.disabled().iter();
                let notice = |(user, why): (&bytes::Bytes, &String)| {
                    let user = user.escape_ascii().to_string();
                    Notice::UserDisabled { user, why: why.clone() }
                };
                let all: Vec<Notice> = disabled.map(notice).collect();
                all.into_iter().for_each(|notice| self.shared.notices.add(notice));
                self.judge_all();
            }
            Err(error) => {
                // It is tried again at the next tick, from the beginning.
                self.shared.admission.is_open = false;
                self.shared.acl = Acl::closed();
                self.shared.notices.add(Notice::UsersUnreadable { why: error.to_string() });
            }
        }
    }

    /// Judges all connections again.
    fn judge_all(&mut self) {
        let tokens: Vec<u32> = self.table.iter().map(|connection| connection.token).collect();
        for token in tokens {
            let Some(mut connection) = self.table.take(token) else { continue };
            if !connection.is_over && !connection.is_killed {
                if matches!(verdict(&connection, &self.shared.acl), Verdict::Ends) {
                    end(&mut connection);
                } else {
                    judge(&mut self.shared, &mut connection);
                }
                if connection.is_known {
                    self.judge_reads(&mut connection);
                }
                self.wake(&mut connection);
            }
            self.table.put(connection);
        }
    }

    /// Refuses reads that wait and are not allowed any more.
    fn judge_reads(&mut self, connection: &mut Connection) {
        for number in connection.slots.reads() {
            let Some(State::Read { request, .. }) = connection.slots.get_mut(number) else { continue };
            let denied = dispatch::denial(&self.shared.acl, &connection.user, request);
            if let Some(reply) = denied {
                connection.slots.set(number, State::PeerFrame(reply));
            }
        }
    }

    /// Lets a connection wait if this replica has just become leader and may not know all yet.
    /// Returns whether it waits.
    pub(super) fn waits_to_lead(&mut self, connection: &mut Connection, node: &Node) -> bool {
        let admission = &mut self.shared.admission;
        let waits = admission.is_open && !admission.is_settled(node);
        if waits {
            connection.is_held = true;
            admission.waiting.insert(connection.token);
        }
        waits
    }

    /// Keeps what another replica has passed on until this one, which has just become leader, knows
    /// all, and until the store has made room for what came before from there. Gives it back if it
    /// need not wait.
    pub(super) fn wait_to_lead(
        &mut self,
        peer_connection: u64,
        replica: u64,
        forward: Forward,
        node: &Node,
    ) -> Option<Forward> {
        let is_short = self.peer_sessions.get(&peer_connection).is_some_and(|visit| !visit.short.is_empty());
        let admission = &mut self.shared.admission;
        let is_behind = is_short || admission.early.iter().any(|(of, ..)| *of == peer_connection);
        if is_behind || admission.is_open && !admission.is_settled(node) {
            admission.early.push_back((peer_connection, replica, forward));
            return None;
        }
        Some(forward)
    }

    /// Whether something that a replica has passed on waits. Then no more is taken from it.
    pub(super) fn has_early(&self, peer_connection: u64) -> bool {
        self.shared.admission.early.iter().any(|(of, ..)| *of == peer_connection)
    }

    /// Forgets what replicas have passed on whose connections are gone.
    pub(super) fn keep_early(&mut self, is_there: impl Fn(u64) -> bool) {
        self.shared.admission.early.retain(|(peer_connection, ..)| is_there(*peer_connection));
    }

    /// Goes on with what waited until this replica knows all that it leads with. Error: that of the
    /// store.
    pub(super) fn go_on_leading(&mut self, node: &mut Node, now_us: u64) -> store::Result<()> {
        let admission = &mut self.shared.admission;
        if admission.waiting.is_empty() && admission.early.is_empty() || !admission.is_settled(node) {
            return Ok(());
        }
        self.shared.held.extend(std::mem::take(&mut admission.waiting));
        for (peer_connection, replica, forward) in std::mem::take(&mut admission.early) {
            self.take_in(peer_connection, replica, forward, node, now_us)?;
        }
        Ok(())
    }
}

/// Ends a connection whose user is no more. One that has changed users itself is told so first.
fn end(connection: &mut Connection) {
    if connection.changes_users && !connection.slots.is_empty() {
        connection.is_over = true;
        (connection.parked, connection.transaction) = (None, None);
    } else {
        connection.kill();
    }
}
