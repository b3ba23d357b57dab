//! Snapshots that others fetch. Each is held until its receiver has said that it has it, or is silent for too long.

use raft::{Progress, ProgressState, SnapshotStatus, StateRole};

use super::given::Given;
use super::{Node, Part};
use crate::wire::{Chunk, Fetch, Letter};

impl Node {
    /// A replica asks for a chunk. Returns whether there is one for it.
    pub(super) fn give(&mut self, fetch: Fetch) -> bool {
        let Fetch { from, to, index, term, number } = fetch;
        let Some(giving) = self.giving.get_mut(&from) else { return false };
        let metadata = giving.snapshot.metadata();
        if (metadata.index, metadata.term) != (index, term) {
            return false;
        }
        giving.idle_ticks = 0;
        // Who asks for more than it is sent asks again.
        let is_for_it = |letter: &Letter| matches!(letter, Letter::Chunk(chunk) if chunk.to == from);
        if self.output.letters.iter().any(is_for_it) {
            return false;
        }
        let Ok((bytes, is_last)) = giving.snapshot.chunk(number) else {
            // It has expired. Raft offers another.
            self.let_go(from);
            return false;
        };
        self.output.letters.push(Letter::Chunk(Chunk { from: to, to: from, index, term, number, is_last, bytes }));
        true
    }

    /// A replica has the log up to an index.
    pub(super) fn has_come_to(&mut self, from: u64, index: u64) {
        if self.giving.get(&from).is_some_and(|giving| giving.snapshot.metadata().index <= index) {
            self.giving.remove(&from);
        }
    }

    pub(super) fn tick_giving(&mut self) {
        self.giving.values_mut().for_each(|giving| giving.idle_ticks += 1);
        let is_idle = |giving: &Given| giving.idle_ticks >= self.settings.snapshot_idle_ticks;
        let idle: Vec<u64> = self.giving.iter().filter(|(_, giving)| is_idle(giving)).map(|(to, _)| *to).collect();
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
        for to in waiting.into_iter().filter(|to| !self.giving.contains_key(to)) {
            raw.report_snapshot(to, SnapshotStatus::Failure);
        }
    }

    pub(super) fn let_go(&mut self, to: u64) {
        self.giving.remove(&to);
        if let Part::Member(raw) = &mut self.part {
            raw.report_snapshot(to, SnapshotStatus::Failure);
        }
    }
}
