//! When the state is written out, and how one that was received takes its place.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::error::{Error, Result};
use super::super::ring::{Base, Ring};
use super::checkpoint::{Checkpoint, UNFINISHED};
use super::disk::Disk;
use super::item::Item;
use super::tail::{Tail, log_name};
use super::versions::Versions;
use super::{Standing, WalStore};

impl WalStore {
    /// Begins to write the state out if the log is long, or goes on with it. Returns whether there is more to do.
    pub(super) fn step(&mut self) -> Result<bool> {
        if self.is_partial {
            return Ok(false);
        }
        let Some(checkpoint) = &mut self.checkpoint else {
            let is_long = self.tail.at >= self.config.log_bytes && self.has_room_for_state()?;
            if !is_long && !self.wants_state()? {
                return Ok(false);
            }
            self.begin_checkpoint()?;
            return Ok(true);
        };
        if !checkpoint.step(self.versions.applied(), self.config.step_bytes)? {
            return Ok(true);
        }
        // What the state has must be in the log before it is in force.
        self.tail.persist(self.config.extent_bytes)?;
        if let Some(checkpoint) = self.checkpoint.take() {
            checkpoint.end(&self.disk, self.applied)?;
        }
        Ok(false)
    }

    fn begin_checkpoint(&mut self) -> Result<()> {
        self.tail.persist(self.config.extent_bytes)?;
        let (index, of) = (self.applied, self.tail.seal.of + 1);
        let base = Base { index, term: self.ring.term(index)?, clock_ms: self.ring.clock_ms(index) };
        // What was applied is said again: if the end of the log before were lost, nothing else would show it.
        let mut first = vec![Item::Standing(Box::new(self.standing.clone())), Item::Base(base), Item::Commit(index)];
        let pending = self.ring.entries(index + 1, self.ring.last() + 1, u64::MAX)?;
        first.extend(pending.into_iter().map(Item::Entry));
        let checkpoint = Checkpoint::begin(&self.disk, of, base)?;
        match Tail::begin(&self.disk, of, &first, self.config.extent_bytes) {
            Ok(tail) => self.tail = tail,
            Err(error) => {
                // The log before goes on, and none may follow it.
                let name = log_name(of);
                self.disk.remove(&name).map_err(|error| Error::io(&name, "removing it", error))?;
                return Err(error);
            }
        }
        self.checkpoint = Some(checkpoint);
        Ok(())
    }

    /// Gives up to write the state out. It is tried again when the log has become longer.
    pub(super) fn give_up_checkpoint(&mut self) {
        self.checkpoint = None;
        // It is removed before the next, too.
        let _ = self.disk.remove(UNFINISHED);
    }

    /// Replaces all by a state that was received.
    pub(super) fn replace(&mut self, standing: Standing, base: Base, pairs: BTreeMap<Bytes, Bytes>) -> Result<()> {
        self.checkpoint = None;
        self.tail.persist(self.config.extent_bytes)?;
        let of = self.tail.seal.of + 1;
        let first = [Item::Standing(Box::new(standing.clone())), Item::Base(base)];
        self.tail = Tail::begin(&self.disk, of, &first, self.config.extent_bytes)?;
        let mut checkpoint = Checkpoint::begin(&self.disk, of, base)?;
        while !checkpoint.step(&pairs, self.config.step_bytes)? {}
        checkpoint.end(&self.disk, base.index)?;
        (self.standing, self.applied, self.is_partial) = (standing, base.index, false);
        self.versions = Versions::of(pairs);
        self.ring = Ring::new(base, self.config.ring_bytes);
        Ok(())
    }
}
