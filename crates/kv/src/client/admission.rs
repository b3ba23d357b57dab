//! State of admission: the users, as far as they are known, and what waits until this replica may
//! lead.

use perdura_pmem::Mutant;
use std::collections::{BTreeSet, VecDeque};

use super::tickets::Stub;
use crate::acl::Acl;
use crate::machine::draft::Unreadable;
use crate::node::{Node, Role};
use crate::store::{self, ReadLevel, View};
use crate::wire::Forward;

/// The answer before the users are known.
pub(super) const LOADING: &str =
    "LOADING this replica catches up with its cluster and does not know its users yet: try again";

/// A request that another replica has passed on: the connection to it, its id, and the request.
pub(super) type Early = (u64, u64, Forward);

/// State of admission.
#[derive(Debug)]
pub(super) struct Admission {
    /// Users and their rights.
    acl: Acl,
    /// Whether they are known.
    is_open: bool,
    /// Whether the node was asked for a read.
    is_asking: bool,
    /// Index that was applied when they were looked at last.
    seen: u64,
    /// The newest term that this replica leads in and whose first entry is applied.
    led_term: u64,
    /// Connections that wait for that entry.
    waiting: BTreeSet<u32>,
    /// Requests that other replicas have passed on, and that wait for it.
    early: VecDeque<Early>,
}

impl Admission {
    /// No users are known.
    pub(super) fn new() -> Self {
        Self {
            acl: Acl::closed(),
            is_open: false,
            is_asking: false,
            seen: 0,
            led_term: 0,
            waiting: BTreeSet::new(),
            early: VecDeque::new(),
        }
    }

    /// Users and their rights.
    pub(super) fn acl(&self) -> &Acl {
        &self.acl
    }

    /// Whether the users are known, so that clients can be let in.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// A tick has passed: asks the node whether this replica has caught up, if that is to be known.
    pub(super) fn tick(&mut self, node: &mut Node) -> store::Result<()> {
        if !self.is_open && !self.is_asking && !node.receives() {
            self.is_asking = true;
            return node.read(Stub::Users.ticket());
        }
        Ok(())
    }

    /// The read is answered; `is_current` if this replica has caught up. Returns whether the users
    /// are known from now on.
    pub(super) fn caught_up(&mut self, is_current: bool, node: &Node) -> bool {
        self.is_asking = false;
        let opens = is_current && !node.receives() && !self.is_open;
        self.is_open |= opens;
        opens
    }

    /// Whether the users must be read again, for an entry may have changed them. They are unknown
    /// from now on if the replica receives a snapshot: those that are here are of an unknown age.
    pub(super) fn is_stale(&mut self, node: &Node) -> bool {
        if node.receives() {
            if self.is_open {
                self.close();
            }
            return false;
        }
        // Planted: users that were changed are not read again.
        let is_changed = self.seen != node.store().applied() && !perdura_pmem::planted(Mutant::UsersNotReadAgain);
        self.is_open && is_changed
    }

    /// Reads the users. Returns whether they are others than before. Error: they cannot be read,
    /// and are unknown from now on.
    pub(super) fn read(&mut self, node: &Node, default_password: Option<&str>) -> Result<bool, Unreadable> {
        self.seen = node.store().applied();
        let view = View::new(node.store(), ReadLevel::Applied);
        // It is tried again at the next tick, from the beginning.
        self.acl.refresh(&view, default_password).inspect_err(|_| self.close())
    }

    fn close(&mut self) {
        self.is_open = false;
        self.acl = Acl::closed();
    }

    /// Whether this replica does not lead, or has applied all that leaders before it have.
    fn is_settled(&mut self, node: &Node) -> bool {
        let status = node.status();
        if status.role == Role::Leader && self.led_term != status.term {
            let is_applied = node.store().term(status.applied).is_ok_and(|term| term == status.term);
            self.led_term = if is_applied { status.term } else { self.led_term };
            return is_applied;
        }
        true
    }

    /// Lets a connection wait if this replica has just become leader and may not know all yet.
    /// Returns whether it waits.
    pub(super) fn waits_to_lead(&mut self, token: u32, node: &Node) -> bool {
        let waits = self.is_open && !self.is_settled(node);
        if waits {
            self.waiting.insert(token);
        }
        waits
    }

    /// Keeps what another replica has passed on until this one, which has just become leader, knows
    /// all; `is_behind` if something before it waits anyway. Gives it back if it need not wait.
    pub(super) fn wait_to_lead(&mut self, early: Early, is_behind: bool, node: &Node) -> Option<Early> {
        if is_behind || self.has_early(early.0) || self.is_open && !self.is_settled(node) {
            self.early.push_back(early);
            return None;
        }
        Some(early)
    }

    /// Whether something that a replica has passed on waits. Then no more is taken from it.
    pub(super) fn has_early(&self, peer_connection: u64) -> bool {
        self.early.iter().any(|(of, ..)| *of == peer_connection)
    }

    /// Forgets what replicas have passed on whose connections are gone.
    pub(super) fn keep_early(&mut self, is_there: impl Fn(u64) -> bool) {
        self.early.retain(|(peer_connection, ..)| is_there(*peer_connection));
    }

    /// Connections and requests that need not wait any more, for this replica knows all that it
    /// leads with.
    pub(super) fn take_settled(&mut self, node: &Node) -> (BTreeSet<u32>, VecDeque<Early>) {
        if self.waiting.is_empty() && self.early.is_empty() || !self.is_settled(node) {
            return (BTreeSet::new(), VecDeque::new());
        }
        (std::mem::take(&mut self.waiting), std::mem::take(&mut self.early))
    }
}
