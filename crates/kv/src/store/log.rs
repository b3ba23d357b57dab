//! A store as Raft asks it: the `Storage` of the crate `raft`.
//!
//! Raft offers a snapshot by its metadata only. The snapshot itself is taken at that moment and
//! waits here until the node fetches it, so that both are of one index.

use std::cell::RefCell;

use raft::eraftpb::{Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use super::error::ErrorKind;
use super::{Outgoing, Store};

/// A snapshot that was offered to a replica.
pub(crate) struct Taken {
    /// The replica it is for.
    pub to: u64,
    /// The snapshot.
    pub snapshot: Box<dyn Outgoing>,
}

/// A store, or its place while it is elsewhere.
pub(crate) struct Log {
    store: Option<Box<dyn Store>>,
    chunk_bytes: usize,
    taken: RefCell<Vec<Taken>>,
}

const ELSEWHERE: &str = "the store is here while Raft is run";

impl Log {
    /// Raft's view of a store, whose snapshots come in chunks of about `chunk_bytes`.
    pub(crate) fn new(store: Box<dyn Store>, chunk_bytes: usize) -> Self {
        Self { store: Some(store), chunk_bytes, taken: RefCell::default() }
    }

    /// The store.
    pub(crate) fn store(&self) -> &dyn Store {
        &**self.store.as_ref().expect(ELSEWHERE)
    }

    /// The store, to change it.
    pub(crate) fn store_mut(&mut self) -> &mut dyn Store {
        &mut **self.store.as_mut().expect(ELSEWHERE)
    }

    /// Takes the store out. Raft must not be run any more.
    pub(crate) fn take_store(&mut self) -> Box<dyn Store> {
        self.taken.take();
        self.store.take().expect(ELSEWHERE)
    }

    /// The snapshots that were offered since the last call.
    pub(crate) fn taken(&self) -> Vec<Taken> {
        self.taken.take()
    }
}

fn refusal(error: super::Error) -> raft::Error {
    raft::Error::Store(match error.kind() {
        ErrorKind::Compacted => StorageError::Compacted,
        ErrorKind::Beyond => StorageError::Unavailable,
        _ => StorageError::Other(Box::new(error)),
    })
}

impl Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let (store, persistent_state) = (self.store(), self.store().persistent_state());
        let hard_state = HardState {
            term: persistent_state.term,
            vote: persistent_state.vote,
            commit: store.applied(),
            ..HardState::default()
        };
        Ok(RaftState::new(hard_state, persistent_state.members.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        self.store().entries(low, high, max_size.into().unwrap_or(u64::MAX)).map_err(refusal)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        self.store().term(index).map_err(refusal)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.store().first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.store().last())
    }

    /// A snapshot that cannot be taken now is asked for again.
    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        let unavailable = raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable);
        let Ok(snapshot) = self.store().snapshot(self.chunk_bytes) else { return Err(unavailable) };
        let metadata = snapshot.metadata().clone();
        if metadata.index < request_index || metadata.index == 0 {
            return Err(unavailable);
        }
        self.taken.borrow_mut().push(Taken { to, snapshot });
        Ok(Snapshot { metadata: Some(metadata).into(), ..Snapshot::default() })
    }
}
