//! When the state is written out, and how one that was received takes its place (checkpoint.rs).

use raft::eraftpb::SnapshotMetadata;

use super::super::error::{Error, ErrorKind, Result};
use super::super::ring::{Base, Ring};
use super::checkpoint::{Checkpoint, Taking, UNFINISHED};
use super::disk::Disk;
use super::item::Item;
use super::pairs::Pairs;
use super::tail::{Tail, log_name};
use super::versions::Versions;
use super::{PersistentState, WalStore};

/// Pairs of a state that was given up which one call lets go.
const PAIRS_LET_GO: usize = 1000;

impl WalStore {
    /// Begins to write the state out if the log is long, or goes on with it. Returns whether there
    /// is more to do.
    pub(super) fn step(&mut self) -> Result<bool> {
        if self.is_partial || self.taking.is_some() {
            return Ok(false);
        }
        let Some(checkpoint) = &mut self.checkpoint else {
            if self.rests > 0 {
                self.rests -= 1;
                return Ok(false);
            }
            let is_long = self.tail.at >= self.config.log_bytes && self.has_room_for_state()?;
            if !is_long && !self.wants_state()? {
                return Ok(false);
            }
            self.begin_checkpoint()?;
            return Ok(true);
        };
        if !checkpoint.step(&self.versions.applied().present(), self.config.step_bytes)? {
            return Ok(true);
        }
        // The log must have all of the state before it is current.
        self.persist_tail()?;
        if let Some(checkpoint) = self.checkpoint.take() {
            checkpoint.end(&self.disk, self.applied)?;
        }
        Ok(false)
    }

    fn begin_checkpoint(&mut self) -> Result<()> {
        self.persist_tail()?;
        let (index, of) = (self.applied, self.tail.seal.of + 1);
        let base = Base { index, term: self.ring.term(index)?, clock_ms: self.ring.clock_ms(index) };
        // The applied index is written again: if the end of the log before were lost, nothing
        // else would show it.
        let mut first =
            vec![Item::PersistentState(Box::new(self.persistent_state.clone())), Item::Base(base), Item::Commit(index)];
        let pending = self.ring.entries(index + 1, self.ring.last() + 1, u64::MAX)?;
        first.extend(pending.into_iter().map(Item::Entry));
        let checkpoint = Checkpoint::begin(&self.disk, of, base)?;
        self.tail = self.begin_log(of, &first)?;
        self.checkpoint = Some(checkpoint);
        Ok(())
    }

    /// Makes the log that follows the present one. Error: `Full`, after which there is none.
    pub(super) fn begin_log(&self, of: u64, first: &[Item]) -> Result<Tail> {
        let begun = Tail::begin(&self.disk, of, first, self.config.extent_bytes);
        begun.or_else(|error| self.remove_log(of).and(Err(error)))
    }

    /// Removes a log that was begun, durably: the one before goes on, and what it says then would
    /// be taken back by one that follows it.
    pub(super) fn remove_log(&self, of: u64) -> Result<()> {
        let name = log_name(of);
        let failed = |error: std::io::Error| Error::new(ErrorKind::Medium, format!("{name}: removing it: {error}"));
        match self.disk.remove(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        self.disk.sync().map_err(failed)
    }

    /// Notes that log and state are given up, durably. Error: `Full`, after which they are not.
    pub(super) fn reset(&mut self) -> Result<()> {
        let settled = self.settle();
        self.watch(settled)?;
        let before = self.tail.items.len();
        Item::Reset.put(&mut self.tail.items);
        let persisted = self.persist_tail();
        if persisted.is_err() {
            self.tail.items.truncate(before);
        }
        self.watch(persisted)
    }

    /// Gives up to write the state out. It is tried again when the log has become longer.
    pub(super) fn give_up_checkpoint(&mut self) {
        self.checkpoint = None;
        // It is removed before the next, too.
        let _ = self.disk.remove(UNFINISHED);
    }

    /// Begins to install what was received.
    pub(super) fn begin_taking(&mut self, metadata: &SnapshotMetadata) -> Result<Taking> {
        let Some(parser) = self.receiving.take() else { return Err(Error::refused("none is being received")) };
        let (base, pairs, bytes) = parser.finish().map_err(Error::refused)?;
        if (base.index, base.term) != (metadata.index, metadata.term) {
            return Err(Error::refused(format!("it is of index {}, term {}", base.index, base.term)));
        }
        self.persistent_state.received(metadata)?;
        self.give_up_checkpoint();
        let checkpoint = Checkpoint::begin(&self.disk, self.tail.seal.of + 1, base)?;
        Ok(Taking { checkpoint, base, pairs, bytes })
    }

    /// Goes on with it. Returns whether it is installed. Error: `Full`, after which all is as it
    /// was.
    pub(super) fn take(&mut self, mut taking: Taking, metadata: &SnapshotMetadata) -> Result<bool> {
        if !taking.checkpoint.step(&taking.pairs, self.config.step_bytes)? {
            self.taking = Some(taking);
            return Ok(false);
        }
        let Taking { checkpoint, base, pairs, bytes } = taking;
        let persistent_state = self.persistent_state.received(metadata)?;
        self.persist_tail()?;
        let of = self.tail.seal.of + 1;
        let tail =
            self.begin_log(of, &[Item::PersistentState(Box::new(persistent_state.clone())), Item::Base(base)])?;
        if let Err(error) = checkpoint.end(&self.disk, base.index) {
            if error.kind() == ErrorKind::Full {
                self.remove_log(of)?;
            }
            return Err(error);
        }
        self.tail = tail;
        self.put_in_memory(persistent_state, base, Versions::of(pairs, bytes));
        Ok(true)
    }

    fn put_in_memory(&mut self, persistent_state: PersistentState, base: Base, versions: Versions) {
        (self.persistent_state, self.applied, self.is_partial) = (persistent_state, base.index, false);
        self.ring = Ring::new(base, self.config.ring_bytes);
        self.let_go_later(versions);
    }

    /// Replaces the state in DRAM. To let go of a large one takes long.
    pub(super) fn let_go_later(&mut self, versions: Versions) {
        let old = std::mem::replace(&mut self.versions, versions);
        self.let_go.push(old.into_applied());
    }

    /// Lets go of a part of what was given up, and of what was kept for snapshots that have ended.
    /// Returns whether there is more.
    pub(super) fn let_some_go(&mut self) -> bool {
        let has_more = self.versions.applied().let_some_go(PAIRS_LET_GO);
        // One that a snapshot shares waits for its end.
        let Some(at) = self.let_go.iter().position(|pairs| !pairs.are_shared()) else { return has_more };
        if self.let_go[at].give_some_up(PAIRS_LET_GO) {
            self.let_go.swap_remove(at);
        }
        has_more || self.let_go.iter().any(|pairs| !pairs.are_shared())
    }

    /// Waits for no snapshot any more.
    pub(super) fn end_receiving(&mut self) {
        // To let go of millions of pairs takes long.
        self.let_go.extend(self.receiving.take().map(|parser| Pairs::of(parser.into_pairs())));
        if let Some(taking) = self.taking.take() {
            self.let_go.push(Pairs::of(taking.pairs));
            self.give_up_checkpoint();
        }
    }
}
