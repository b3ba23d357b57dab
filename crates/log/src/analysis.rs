//! Analysis: merges the valid groups of all lanes into committed and prepared transactions.

use crate::error::{Error, Result};
use crate::format::{HEADER_BYTES, Header, Kind, LAG_UNKNOWN, lane_name, parse_prepare_body};
use crate::generation::Placed;
use crate::{Csn, TxnId};
use perdura_pmem::Mutant;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A piece of a transaction's redo in the lanes: the body of a group, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRef {
    pub(crate) generation: u8,
    pub(crate) lane: u8,
    pub(crate) len: u32,
    pub(crate) offset: u32,
}

/// A transaction's bodies in the order they were written.
pub type Bodies = SmallVec<[BodyRef; 1]>;

/// A transaction to be redone.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its place in the order of replay.
    pub csn: Csn,
    /// The transaction id that its records carry.
    pub txid: TxnId,
    /// Its redo in pieces, to be replayed in this order.
    pub bodies: Bodies,
}

/// A transaction found prepared, with neither commit nor rollback.
#[derive(Clone, Debug)]
pub struct InDoubt {
    /// The transaction id that its records carry, and its ending will.
    pub txid: TxnId,
    /// The name it was prepared under.
    pub xid: Vec<u8>,
    /// Its redo in pieces, to be replayed in this order when it commits.
    pub bodies: Bodies,
    /// Its groups: chunks in order, then PREPARE.
    pub(crate) records: Vec<Placed>,
    /// Oldest activation with a PREPARE record of it.
    pub(crate) since: u64,
    pub(crate) chunks: u32,
    pub(crate) chained: u32,
}

/// The transactions that the groups of all lanes add up to.
///
/// Recovery replays commits in CSN order from the checkpoint up to the first missing one. A commit
/// that lacks a chunk or its PREPARE record counts as missing. A transaction is prepared iff a
/// PREPARE record of it is valid with all its chunks, no ROLLBACK of it is valid, and no
/// COMMIT_PREPARED up to the horizon is. A transaction that was copied forward may appear twice.
/// Both copies say the same; analysis takes the one in the generation armed first, so that the
/// other generation is not needed. Keeps (I6).
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) horizon: Csn,
    pub(crate) committed: Vec<Committed>,
    pub(crate) prepared: Vec<InDoubt>,
    /// Highest CSN that a valid record proves to have been durable.
    pub(crate) proven: Csn,
    /// By generation: highest CSN up to the horizon, and oldest activation with a PREPARE record
    /// that ends here.
    pub(crate) generations: BTreeMap<u32, GenerationUse>,
}

/// Reasons for which a generation's records are needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GenerationUse {
    pub(crate) csn_max: Csn,
    pub(crate) ends_since: u64,
}

/// A group and where it was found.
#[derive(Clone, Copy, Debug)]
struct Group {
    placed: Placed,
    header: Header,
    activation: u64,
}

impl Group {
    fn body(&self) -> BodyRef {
        self.part(0)
    }

    /// The body from `skip` on.
    fn part(&self, skip: usize) -> BodyRef {
        BodyRef {
            generation: self.placed.generation as u8,
            lane: self.placed.lane as u8,
            offset: (self.placed.offset + (HEADER_BYTES + skip) as u64) as u32,
            len: self.header.body_bytes() as u32 - skip as u32,
        }
    }
}

/// Collects the groups of all lanes, then resolves them into transactions.
#[derive(Default)]
pub(crate) struct Analysis {
    checkpoint: Csn,
    proven: Csn,
    /// Commits above the checkpoint.
    commits: Vec<Group>,
    chunks: FxHashMap<TxnId, Vec<Group>>,
    /// PREPARE groups, copies in the order of their activations.
    prepares: FxHashMap<TxnId, SmallVec<[Group; 1]>>,
    /// ROLLBACK and COMMIT_PREPARED groups.
    endings: Vec<Group>,
}

impl Analysis {
    pub(crate) fn new(checkpoint: Csn) -> Analysis {
        Analysis { checkpoint, proven: checkpoint, ..Analysis::default() }
    }

    /// Adds a valid group, found in a generation of this activation.
    pub(crate) fn add(&mut self, placed: Placed, activation: u64, header: &Header) {
        let group = Group { placed, activation, header: *header };
        match header.kind {
            Kind::Chunk => self.chunks.entry(header.txid).or_default().push(group),
            Kind::Prepare => {
                let copies = self.prepares.entry(header.txid).or_default();
                let after = copies.iter().take_while(|copy| copy.activation <= activation).count();
                copies.insert(after, group);
            }
            Kind::Rollback => self.endings.push(group),
            Kind::Commit | Kind::CommitPrepared => {
                if header.lag != LAG_UNKNOWN {
                    self.proven = self.proven.max(header.csn.saturating_sub(header.lag.into()));
                }
                if header.kind == Kind::CommitPrepared {
                    self.endings.push(group);
                }
                if header.csn > self.checkpoint {
                    self.commits.push(group);
                }
            }
        }
    }

    /// Resolves the groups into transactions; `body` reads a group's body. Error: Damaged, if two
    /// records share a CSN.
    pub(crate) fn conclude<'a>(mut self, body: &dyn Fn(BodyRef) -> &'a [u8]) -> Result<Outcome> {
        self.commits.sort_by_key(|group| group.header.csn);
        if let Some([first, second]) = self.commits.windows(2).find(|pair| pair[0].header.csn == pair[1].header.csn) {
            let Placed { generation, lane, offset } = second.placed;
            let what = format!(
                "CSN {} is also that of the record in {} at offset {}; restore the pool from a backup",
                second.header.csn,
                lane_name(first.placed.generation, first.placed.lane),
                first.placed.offset
            );
            return Err(Error::damaged(lane_name(generation, lane), offset, what));
        }
        for chunks in self.chunks.values_mut() {
            chunks.sort_by_key(|group| (group.header.chunks, group.activation));
            chunks.dedup_by_key(|group| group.header.chunks);
        }
        let mut outcome = Outcome { horizon: self.checkpoint, proven: self.proven, ..Outcome::default() };
        for group in &self.commits {
            // Planted: replay goes on beyond the first missing CSN.
            if group.header.csn != outcome.horizon + 1 && !perdura_pmem::planted(Mutant::ReplayPastMissingCsn) {
                break;
            }
            let Some(bodies) = self.redo_of(group, body) else { break };
            outcome.horizon = group.header.csn;
            outcome.committed.push(Committed { csn: group.header.csn, txid: group.header.txid, bodies });
        }
        self.find_prepared(&mut outcome, body);
        self.find_uses(&mut outcome);
        Ok(outcome)
    }

    /// A committed transaction's redo, if it is complete.
    fn redo_of<'a>(&self, commit: &Group, body: &dyn Fn(BodyRef) -> &'a [u8]) -> Option<Bodies> {
        // Planted: a commit counts even if chunks are missing.
        let there = || self.chunks.get(&commit.header.txid).map_or(&[][..], |chunks| chunks);
        let chunks = if perdura_pmem::planted(Mutant::CommitWithMissingChunks) {
            there()
        } else {
            self.chunks_of(&commit.header)?
        };
        let mut bodies: Bodies = chunks.iter().map(Group::body).collect();
        if commit.header.kind == Kind::CommitPrepared {
            let prepare = self.prepares.get(&commit.header.txid)?.first()?;
            let (_, redo_at) = parse_prepare_body(body(prepare.body()))?;
            bodies.push(prepare.part(redo_at));
        } else {
            bodies.push(commit.body());
        }
        Some(bodies)
    }

    /// The chunks that a commit or PREPARE names, if they are all there.
    fn chunks_of(&self, header: &Header) -> Option<&[Group]> {
        if header.chunks == 0 {
            return Some(&[]);
        }
        let chunks = self.chunks.get(&header.txid)?.get(..header.chunks as usize)?;
        // Distinct and ascending: complete iff the last has the last number.
        let last = chunks.last()?;
        (last.header.chunks + 1 == header.chunks && last.header.chained == header.chained).then_some(chunks)
    }

    fn find_prepared<'a>(&self, outcome: &mut Outcome, body: &dyn Fn(BodyRef) -> &'a [u8]) {
        // Planted: a COMMIT_PREPARED above the horizon ends its transaction too.
        let counts = |ending: &&Group| {
            ending.header.csn <= outcome.horizon || perdura_pmem::planted(Mutant::EndingAboveHorizonCounts)
        };
        let ended = self.endings.iter().filter(counts);
        let mut ended: Vec<TxnId> = ended.map(|ending| ending.header.txid).collect();
        ended.sort_unstable();
        let alive = self.prepares.iter().filter(|(txid, _)| ended.binary_search(txid).is_err());
        for (txid, copies) in alive {
            let prepare = copies[0];
            let Some(chunks) = self.chunks_of(&prepare.header) else { continue };
            let Some((xid, redo_at)) = parse_prepare_body(body(prepare.body())) else { continue };
            let mut bodies: Bodies = chunks.iter().map(Group::body).collect();
            bodies.push(prepare.part(redo_at));
            outcome.prepared.push(InDoubt {
                txid: *txid,
                xid: xid.to_vec(),
                bodies,
                records: chunks.iter().chain([&prepare]).map(|group| group.placed).collect(),
                since: prepare.activation,
                chunks: prepare.header.chunks,
                chained: prepare.header.chained,
            });
        }
        outcome.prepared.sort_by_key(|prepared| prepared.txid);
    }

    fn find_uses(&self, outcome: &mut Outcome) {
        let mut uses = std::mem::take(&mut outcome.generations);
        let free = GenerationUse { csn_max: 0, ends_since: u64::MAX };
        for group in self.commits.iter().filter(|group| group.header.csn <= outcome.horizon) {
            let used = uses.entry(group.placed.generation).or_insert(free);
            used.csn_max = used.csn_max.max(group.header.csn);
        }
        for ending in &self.endings {
            let Some(copies) = self.prepares.get(&ending.header.txid) else { continue };
            let used = uses.entry(ending.placed.generation).or_insert(free);
            used.ends_since = used.ends_since.min(copies[0].activation);
        }
        outcome.generations = uses;
    }
}
