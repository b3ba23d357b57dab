//! State that a request may touch.

use super::batches::Batches;
use super::shared::Shared;
use super::table::Table;
use crate::node::{Node, Role};
use crate::store::Room;

/// State that a request may touch.
pub(super) struct Context<'a> {
    pub shared: &'a mut Shared,
    pub batches: &'a mut Batches,
    /// The other connections.
    pub table: &'a mut Table,
    pub node: &'a mut Node,
    /// This replica's time of day, in microseconds since 1970.
    pub now_us: u64,
}

impl Context<'_> {
    /// How much room this replica's store has; none while it receives its data.
    pub(super) fn room(&self) -> Room {
        self.node.room()
    }

    /// Whether this replica believes to lead.
    pub(super) fn leads(&self) -> bool {
        self.node.status().role == Role::Leader
    }
}
