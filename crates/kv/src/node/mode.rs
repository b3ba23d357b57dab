//! Mode of a replica: it takes part in Raft, or only receives a snapshot.

use raft::{RawNode, StateRole};

use super::snapshot_receiver::Receiver;
use crate::store::{Log, Store};

/// Mode of a replica.
pub(super) enum Mode {
    /// It takes part in Raft.
    Member(Box<RawNode<Log>>),
    /// It takes part in nothing until it has received a snapshot.
    Receiver(Box<Receiver>),
}

impl Mode {
    pub(super) fn store(&self) -> &dyn Store {
        match self {
            Mode::Member(raw) => raw.store().store(),
            Mode::Receiver(receiver) => receiver.store(),
        }
    }

    pub(super) fn take_store(&mut self) -> Box<dyn Store> {
        match self {
            Mode::Member(raw) => raw.mut_store().take_store(),
            Mode::Receiver(receiver) => receiver.take_store(),
        }
    }

    /// Raft, if this is the leader.
    pub(super) fn leading(&self) -> Option<&RawNode<Log>> {
        match self {
            Mode::Member(raw) if raw.raft.state == StateRole::Leader => Some(raw),
            _ => None,
        }
    }
}
