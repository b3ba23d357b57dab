//! Snapshots that others fetch. Each is held until its receiver has said that it has it, or is
//! silent for too long.

use raft::{Progress, ProgressState, SnapshotStatus, StateRole};

use super::snapshot_transfer::SnapshotTransfer;
use super::{Node, Part};
use crate::wire::{Chunk, Fetch, PeerMessage};

impl Node {
    /// A replica asks for a chunk. Returns whether there is one for it.
    pub(super) fn give(&mut self, fetch: Fetch) -> bool {
        let Fetch { from, to, index, term, number } = fetch;
        let Some(snapshot_senders) = self.snapshot_senders.get_mut(&from) else { return false };
        let metadata = snapshot_senders.snapshot.metadata();
        if (metadata.index, metadata.term) != (index, term) {
            return false;
        }
        snapshot_senders.idle_ticks = 0;
        // A follower that asks for more than it is sent asks again.
        let is_for_it = |message: &PeerMessage| matches!(message, PeerMessage::Chunk(chunk) if chunk.to == from);
        if self.output.messages.iter().any(is_for_it) {
            return false;
        }
        let Ok((bytes, is_last)) = snapshot_senders.snapshot.chunk(number) else {
            // It has expired. Raft offers another.
            self.let_go(from);
            return false;
        };
        self.output.messages.push(PeerMessage::Chunk(Chunk {
            from: to,
            to: from,
            index,
            term,
            number,
            is_last,
            bytes,
        }));
        true
    }

    /// A replica has the log up to an index.
    pub(super) fn has_come_to(&mut self, from: u64, index: u64) {
        if self
            .snapshot_senders
            .get(&from)
            .is_some_and(|snapshot_senders| snapshot_senders.snapshot.metadata().index <= index)
        {
            self.snapshot_senders.remove(&from);
        }
    }

    pub(super) fn tick_snapshot_senders(&mut self) {
        self.snapshot_senders.values_mut().for_each(|snapshot_senders| snapshot_senders.idle_ticks += 1);
        let is_idle =
            |snapshot_senders: &SnapshotTransfer| snapshot_senders.idle_ticks >= self.settings.snapshot_idle_ticks;
        let idle: Vec<u64> = self
            .snapshot_senders
            .iter()
            .filter(|(_, snapshot_senders)| is_idle(snapshot_senders))
            .map(|(to, _)| *to)
            .collect();
        idle.into_iter().for_each(|to| self.let_go(to));
        self.report_lost();
    }

    /// Raft waits for no snapshot that is not given any more.
    fn report_lost(&mut self) {
        let Part::Member(raw) = &mut self.part else { return };
        if raw.raft.state != StateRole::Leader {
            return;
        }
        let waits = |(id, progress): (&u64, &Progress)| (progress.state == ProgressState::Snapshot).then_some(*id);
        let waiting: Vec<u64> = raw.raft.prs().iter().filter_map(waits).collect();
        for to in waiting.into_iter().filter(|to| !self.snapshot_senders.contains_key(to)) {
            raw.report_snapshot(to, SnapshotStatus::Failure);
        }
    }

    pub(super) fn let_go(&mut self, to: u64) {
        self.snapshot_senders.remove(&to);
        if let Part::Member(raw) = &mut self.part {
            raw.report_snapshot(to, SnapshotStatus::Failure);
        }
    }
}
