//! The invariants of Raft, checked on all replicas after each step.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use perdura_kv::entry::WriteBatch;
use perdura_kv::node::{Node, Role};
use perdura_kv::store::{FOUNDING, ReadLevel, Store, changes_of};
use raft::eraftpb::{Entry, EntryType};

use super::times::Times;

type State = BTreeMap<Bytes, Bytes>;

/// Observations of all replicas so far.
#[derive(Default)]
pub(super) struct Checks {
    /// The leader of each term.
    leaders: BTreeMap<u64, u64>,
    /// Entry applied at each index, from the first after the founding entry on.
    applied: Vec<Entry>,
    /// The clock of the last entry that has one.
    clock_ms: u64,
    pub(super) times: Times,
    /// The index up to which each replica was compared.
    compared: BTreeMap<u64, u64>,
    /// Counts the times that a replica has come by its state otherwise than by entries.
    pub(super) snapshots: u64,
}

impl Checks {
    /// The last index that any replica has applied.
    pub(super) fn applied(&self) -> u64 {
        FOUNDING + self.applied.len() as u64
    }

    /// A replica that was restarted may apply again.
    pub(super) fn restarted(&mut self, id: u64) {
        self.compared.remove(&id);
        self.times.restarted(id);
    }

    /// One leader a term; the same entry at each index that is applied.
    pub(super) fn look(&mut self, node: &Node) -> Result<(), String> {
        let (id, status) = (node.id(), node.status());
        self.times.look(node)?;
        if status.role == Role::Leader {
            let leader = *self.leaders.entry(status.term).or_insert(id);
            if leader != id {
                return Err(format!("{leader} and {id} lead in term {}", status.term));
            }
        }
        if status.role == Role::Receiving {
            self.compared.insert(id, 0);
            return Ok(());
        }
        let store = node.store();
        self.snapshots += u64::from(self.compared.get(&id).is_some_and(|compared| store.first() > compared + 1));
        let from = self.compared.get(&id).copied().unwrap_or(FOUNDING).max(store.first() - 1) + 1;
        for index in from..=store.applied() {
            let entry = self.one(store, index)?;
            match self.applied.get((index - FOUNDING - 1) as usize) {
                Some(known) if *known == entry => {}
                Some(known) => return Err(format!("{id} applies at {index}: {entry:?}, another: {known:?}")),
                None if index == self.applied() + 1 => self.push(entry)?,
                None => return Err(format!("{id} applies at {index}, others only up to {}", self.applied())),
            }
        }
        self.compared.insert(id, store.applied());
        Ok(())
    }

    /// The entry that is applied next, whose clock is not behind, nor ahead of what it may be.
    fn push(&mut self, entry: Entry) -> Result<(), String> {
        if let Some(clock_ms) = clock_of(&entry)? {
            if clock_ms < self.clock_ms {
                return Err(format!("the clock goes back from {} to {clock_ms} at {}", self.clock_ms, entry.index));
            }
            self.times.applied(clock_ms)?;
            self.clock_ms = clock_ms;
        }
        self.applied.push(entry);
        Ok(())
    }

    fn one(&self, store: &dyn Store, index: u64) -> Result<Entry, String> {
        let entries = store.entries(index, index + 1, u64::MAX).map_err(|error| error.to_string())?;
        entries.into_iter().next().ok_or_else(|| format!("no entry at {index}"))
    }

    /// Compares the applied state with the one that the entries up to there make.
    pub(super) fn compare_state(&self, node: &Node) -> Result<(), String> {
        let store = node.store();
        if store.is_partial() {
            return Ok(());
        }
        let mut wanted = State::new();
        let count = (store.applied() - FOUNDING.min(store.applied())) as usize;
        for entry in self.applied.iter().take(count) {
            for change in changes_of(entry).map_err(|error| error.to_string())? {
                match change.value {
                    Some(value) => wanted.insert(change.key, value),
                    None => wanted.remove(&change.key),
                };
            }
        }
        let mut found = State::new();
        let each = &mut |key: &[u8], value: &[u8]| {
            found.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
            true
        };
        store.scan(ReadLevel::Applied, b"", Bound::Unbounded, each).map_err(|error| error.to_string())?;
        if found == wanted {
            return Ok(());
        }
        Err(format!("{} at {} has the state {found:?}, the entries make {wanted:?}", node.id(), store.applied()))
    }
}

/// The time that an entry carries, if it has one of its own.
fn clock_of(entry: &Entry) -> Result<Option<u64>, String> {
    if entry.entry_type == EntryType::EntryNormal && !entry.data.is_empty() {
        let batch = WriteBatch::from_bytes(entry.data.clone()).map_err(|malformed| malformed.to_string())?;
        return Ok(Some(batch.clock_ms));
    }
    // A change of members has it before the change.
    Ok(entry.context.first_chunk().map(|clock| u64::from_le_bytes(*clock)))
}

/// If two logs have an entry of the same index and term, they are the same up to there.
pub(super) fn logs_match(left: &Node, right: &Node) -> Result<(), String> {
    let (one, other) = (left.store(), right.store());
    if one.is_partial() || other.is_partial() {
        return Ok(());
    }
    let from = one.first().max(other.first());
    let to = one.last().min(other.last());
    let mut matches = None;
    for index in (from..=to).rev() {
        let entries = |store: &dyn Store| store.entries(index, index + 1, u64::MAX).map_err(|error| error.to_string());
        let (mine, its) = (entries(one)?, entries(other)?);
        if mine[0].term == its[0].term {
            matches = matches.or(Some(index));
        }
        if matches.is_some() && mine != its {
            let at = format!("{} and {} at {index}, which have the same at {matches:?}", left.id(), right.id());
            return Err(format!("{at}: {mine:?}, {its:?}"));
        }
    }
    Ok(())
}
