//! State of admission: whether the users are known, and what waits until this replica may lead.

use std::collections::{BTreeSet, VecDeque};

use crate::node::{Node, Role};
use crate::wire::Forward;

/// The answer before the users are known.
pub const LOADING: &str = "LOADING this replica catches up with its cluster and does not know its users yet: try again";

/// State of the users, as far as it is known.
#[derive(Debug, Default)]
pub struct Admission {
    /// Whether they are known.
    pub is_open: bool,
    /// Whether the node was asked for a read.
    pub is_asking: bool,
    /// Index that was applied when they were looked at last.
    pub seen: u64,
    /// The newest term that this replica leads in and whose first entry is applied.
    led_term: u64,
    /// Connections that wait for that entry.
    pub waiting: BTreeSet<u32>,
    /// Requests that other replicas have passed on, and that wait for it.
    pub early: VecDeque<(u64, u64, Forward)>,
}

impl Admission {
    /// Whether this replica does not lead, or has applied all that leaders before it have.
    pub fn is_settled(&mut self, node: &Node) -> bool {
        let status = node.status();
        if status.role == Role::Leader && self.led_term != status.term {
            let is_applied = node.store().term(status.applied).is_ok_and(|term| term == status.term);
            self.led_term = if is_applied { status.term } else { self.led_term };
            return is_applied;
        }
        true
    }
}
