//! Parts of a replica.

use std::collections::BTreeMap;

use raft::RawNode;

use super::lease::{Lease, Promise};
use super::log_time::LogTime;
use super::output::Output;
use super::postponed::Postponed;
use super::proposals::Proposals;
use super::reads::Reads;
use super::settings::Settings;
use super::snapshot_receiver::{Offer, Receiver};
use super::snapshot_transfer::SnapshotTransfer;
use super::stalled::Stalled;
use super::unpersisted::Unpersisted;
use crate::store::Log;

/// A replica.
pub struct Node {
    pub(super) id: u64,
    pub(super) settings: Settings,
    pub(super) part: Part,
    pub(super) proposals: Proposals,
    pub(super) reads: Reads,
    pub(super) lease: Option<Lease>,
    pub(super) promise: Promise,
    pub(super) time: LogTime,
    /// A snapshot that is fetched while the replica takes part in Raft.
    pub(super) incoming: Option<Offer>,
    /// An offer of a snapshot whose content cannot be received yet.
    pub(super) postponed: Option<Postponed>,
    /// Snapshots that others fetch, by replica.
    pub(super) snapshot_senders: BTreeMap<u64, SnapshotTransfer>,
    pub(super) unpersisted: Unpersisted,
    pub(super) stalled: Option<Stalled>,
    /// An entry of the leader's that another version of the program has made.
    pub(super) unread: Option<u64>,
    pub(super) output: Output,
    /// Counts the elections that it has begun, so that each waits for another time.
    pub(super) elections: u64,
    /// The last index of its log at the last tick.
    pub(super) last_at_tick: u64,
}

/// Part that a replica takes in the cluster.
pub(super) enum Part {
    /// Raft.
    Member(Box<RawNode<Log>>),
    /// Nothing, until it has received a snapshot.
    Receiver(Box<Receiver>),
}
