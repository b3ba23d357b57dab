//! Snapshots that others fetch. Each is held until its receiver has said that it has it, or is
//! silent for too long.

use std::collections::BTreeMap;

use raft::{Progress, ProgressState, RawNode, SnapshotStatus, StateRole};

use super::output::Output;
use crate::store::{Log, Outgoing};
use crate::wire::{Chunk, Fetch, PeerMessage};

/// A snapshot that is fetched.
struct Transfer {
    snapshot: Box<dyn Outgoing>,
    idle_ticks: usize,
}

/// The snapshots, by the replica that fetches each.
#[derive(Default)]
pub(super) struct SnapshotSenders {
    transfers: BTreeMap<u64, Transfer>,
}

impl SnapshotSenders {
    /// Number of snapshots.
    pub(super) fn len(&self) -> usize {
        self.transfers.len()
    }

    /// Whether nobody fetches one.
    pub(super) fn is_empty(&self) -> bool {
        self.transfers.is_empty()
    }

    /// Holds a snapshot for a replica.
    pub(super) fn insert(&mut self, to: u64, snapshot: Box<dyn Outgoing>) {
        self.transfers.insert(to, Transfer { snapshot, idle_ticks: 0 });
    }

    /// Sends a chunk that a replica asks for. Returns whether there is one for it.
    pub(super) fn send(&mut self, fetch: Fetch, raw: &mut RawNode<Log>, output: &mut Output) -> bool {
        let Fetch { from, to, index, term, number } = fetch;
        let Some(transfer) = self.transfers.get_mut(&from) else { return false };
        let metadata = transfer.snapshot.metadata();
        if (metadata.index, metadata.term) != (index, term) {
            return false;
        }
        transfer.idle_ticks = 0;
        // A replica that asks for more than it is sent asks again.
        let is_for_it = |message: &PeerMessage| matches!(message, PeerMessage::Chunk(chunk) if chunk.to == from);
        if output.messages.iter().any(is_for_it) {
            return false;
        }
        let Ok((bytes, is_last)) = transfer.snapshot.chunk(number) else {
            // It has expired. Raft offers another.
            self.end(from, raw);
            return false;
        };
        let chunk = Chunk { from: to, to: from, index, term, number, is_last, bytes };
        output.messages.push(PeerMessage::Chunk(chunk));
        true
    }

    /// A replica has the log up to an index.
    pub(super) fn acknowledge(&mut self, from: u64, index: u64) {
        if self.transfers.get(&from).is_some_and(|transfer| transfer.snapshot.metadata().index <= index) {
            self.transfers.remove(&from);
        }
    }

    /// A tick has passed. Ends those that nobody has fetched for `idle_ticks`, and has Raft wait
    /// for no snapshot that is not sent any more.
    pub(super) fn tick(&mut self, idle_ticks: usize, raw: &mut RawNode<Log>) {
        self.transfers.values_mut().for_each(|transfer| transfer.idle_ticks += 1);
        let is_idle = |(_, transfer): &(&u64, &Transfer)| transfer.idle_ticks >= idle_ticks;
        let idle: Vec<u64> = self.transfers.iter().filter(is_idle).map(|(to, _)| *to).collect();
        idle.into_iter().for_each(|to| self.end(to, raw));
        if raw.raft.state != StateRole::Leader {
            return;
        }
        let waits = |(id, progress): (&u64, &Progress)| (progress.state == ProgressState::Snapshot).then_some(*id);
        let waiting: Vec<u64> = raw.raft.prs().iter().filter_map(waits).collect();
        for to in waiting.into_iter().filter(|to| !self.transfers.contains_key(to)) {
            raw.report_snapshot(to, SnapshotStatus::Failure);
        }
    }

    /// Ends all transfers, and reports that to Raft.
    pub(super) fn end_all(&mut self, raw: &mut RawNode<Log>) {
        let all: Vec<u64> = self.transfers.keys().copied().collect();
        all.into_iter().for_each(|to| self.end(to, raw));
    }

    fn end(&mut self, to: u64, raw: &mut RawNode<Log>) {
        self.transfers.remove(&to);
        raw.report_snapshot(to, SnapshotStatus::Failure);
    }

    /// Ends all, for nobody may hold a snapshot of a store that is about to be replaced or emptied.
    pub(super) fn clear(&mut self) {
        self.transfers.clear();
    }
}
