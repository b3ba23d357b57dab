//! Recovery: analysis, then the caller's redo, then the superblock write that ends it.

use crate::analysis::{Analysis, BodyRef, Committed, InDoubt, Outcome};
use crate::config::{GENERATIONS_MAX, LaneChoice, LogConfig};
use crate::control::Control;
use crate::copy_forward::{copy_arming, pin_all};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{GRANULE_BYTES, lane_name, parse_lane_name};
use crate::generation::{Generation, Generations, Lane, Placed};
use crate::ledger::Ledger;
use crate::log::Log;
use crate::need::Need;
use crate::path::PathConfig;
use crate::prepared::{Prepared, State};
use crate::scan::scan;
use crate::shared::{Shared, Start};
use crate::superblock::{Device, SUPERBLOCK_NAME, Superblock};
use crate::superfile::SuperFile;
use crate::txn::LogTxn;
use crate::{Csn, TxnId};
use perdura_pmem::sync::Mutex;
use perdura_pmem::trace::span;
use perdura_pmem::{Content, Medium, Region};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Result of analysis, ready for redo.
///
/// Nothing is written before [`Recovery::finish`], which the caller calls with its redo fenced. It
/// copies prepared transactions into generations whose records nobody needs; each of these is armed
/// by a superblock write of its own, which moves the checkpoint to the horizon. It fences the
/// copies and voids all other records with one superblock write (I7). After a crash before that
/// write, the next recovery finds what this one found, perhaps with copies beside the originals.
pub struct Recovery {
    /// The superblock as it was found.
    pub superblock: Superblock,
    /// Last CSN to be redone; later ones are void.
    pub horizon: Csn,
    /// Transactions to be redone, in CSN order.
    pub committed: Vec<Committed>,
    /// Transactions to be resurrected, by id.
    pub prepared: Vec<InDoubt>,
    /// Count of valid groups found.
    pub groups: u64,
    medium: Arc<dyn Medium>,
    superfile: SuperFile,
    generations: Vec<Generation>,
    uses: BTreeMap<u32, crate::analysis::GenerationUse>,
    need: Need,
    generations_least: u32,
    generations_max: u32,
    lane_choice: LaneChoice,
    path: PathConfig,
}

/// A prepared transaction, resurrected.
pub struct PreparedTxn {
    /// The transaction id that its records carry, and its ending will.
    pub txid: TxnId,
    /// The name it was prepared under.
    pub xid: Vec<u8>,
    /// Its redo in the pieces it was written in, to be replayed in this order when it commits.
    pub bodies: Vec<Vec<u8>>,
    /// To commit or roll it back.
    pub log: LogTxn,
}

impl Recovery {
    /// Analyses the pool on `medium`. Of `config` only `generations`, to which the log may shrink,
    /// `generations_max`, `shrink_after`, `lane_choice` and `path` count. Stores nothing.
    ///
    /// # Errors
    /// Configuration (the path), NotAPool, NewerFormat, Damaged (which names the first lost commit
    /// if a durable one is missing), Medium.
    pub fn open(medium: Arc<dyn Medium>, config: &LogConfig) -> Result<Recovery> {
        let (recovery, proven) = Recovery::analyse(medium, config)?;
        if recovery.horizon < proven {
            let seen = format!(
                "the log: commit {} was acknowledged, as a record of a later one proves, but its own record is missing or does not \
                 match its checksum; restore the pool from a backup",
                recovery.horizon + 1
            );
            return Err(Error::new(ErrorKind::Damaged, seen));
        }
        Ok(recovery)
    }

    /// As [`Recovery::open`], but accepts the loss of commits above the horizon that were durable
    /// once.
    pub fn open_accepting_loss(medium: Arc<dyn Medium>, config: &LogConfig) -> Result<Recovery> {
        Ok(Recovery::analyse(medium, config)?.0)
    }

    /// Refuses a pool whose device has counted dirty shutdowns since it was last opened. One that
    /// was moved from another device, or whose device does not count, is taken as it is.
    ///
    /// # Errors
    /// UnsafeShutdown.
    pub fn check_shutdowns(&self) -> Result<()> {
        let found = self.medium.info().modules;
        let (Some(found), Some(known)) = (found, self.superblock.device) else { return Ok(()) };
        let now = Device::of(&found);
        // A count wraps, so one that is lower has changed as well.
        if now.modules != known.modules || now.unsafe_shutdowns == known.unsafe_shutdowns {
            return Ok(());
        }
        let seen = format!(
            "the persistent memory of this pool (modules {}) counts {} dirty shutdowns where it had counted {} when the pool was \
             last opened: data that were acknowledged may be lost; run `perdura check` on the pool, and if it is sound open it once \
             with perdura_accept_unsafe_shutdown",
            found.ids, now.unsafe_shutdowns, known.unsafe_shutdowns
        );
        Err(Error::new(ErrorKind::UnsafeShutdown, seen).in_file(SUPERBLOCK_NAME))
    }

    fn analyse(medium: Arc<dyn Medium>, config: &LogConfig) -> Result<(Recovery, Csn)> {
        let _span = span("recovery");
        config.path.check()?;
        let superfile = SuperFile::open(&*medium, SUPERBLOCK_NAME)?;
        let superblock = superfile.current().clone();
        let generations = open_generations(&*medium, &superblock)?;
        let mut analysis = Analysis::new(superblock.checkpoint_csn);
        let mut groups = 0;
        for generation in generations.iter().filter(|generation| generation.activation() != 0) {
            for (lane, file) in (0u32..).zip(&generation.lanes) {
                let mut relied_on = Vec::new();
                scan(whole(file), generation.salt(), lane, superblock.txid_limit, |offset, header| {
                    groups += 1;
                    if !header.kind.is_commit() || header.csn > superblock.checkpoint_csn {
                        relied_on.push((offset, header.length.into()));
                    }
                    analysis.add(
                        Placed { generation: generation.number, lane, offset },
                        generation.activation(),
                        header,
                    );
                });
                reclaim(file, relied_on);
            }
        }
        let outcome = analysis.conclude(&|body| body_in(&generations, body))?;
        let Outcome { horizon, committed, prepared, proven, generations: uses } = outcome;
        let need = Need::new(generations.len() as u32, config.shrink_after);
        let recovery = Recovery {
            superblock,
            horizon,
            committed,
            prepared,
            groups,
            medium,
            superfile,
            generations,
            uses,
            need,
            generations_least: config.generations.clamp(2, GENERATIONS_MAX),
            generations_max: config.generations_max.clamp(2, GENERATIONS_MAX),
            lane_choice: config.lane_choice,
            path: config.path.clone(),
        };
        Ok((recovery, proven))
    }

    /// Reads a piece of redo where it lies in its lane.
    pub fn body(&self, body: BodyRef) -> &[u8] {
        body_in(&self.generations, body)
    }

    /// Calls `each` with the bytes of each body, in order, until it fails.
    pub fn for_each_body<E>(
        &self,
        bodies: &[BodyRef],
        each: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        bodies.iter().try_for_each(|body| each(self.body(*body)))
    }

    /// Has [`Recovery::finish`] store other words of the engine, together with the end of the
    /// recovery: no record of this run is written before they are durable.
    pub fn set_geometry(&mut self, words: [u64; 8]) {
        self.superfile.note_geometry(words);
        self.superblock.geometry = words;
    }

    /// Ends the recovery once the caller has fenced its redo. Returns the running log and the
    /// prepared transactions. From here on every older record above the horizon is void (I7). A
    /// crash inside leaves a pool that recovers to the same state.
    ///
    /// # Errors
    /// LogFull, if there is no room to copy prepared transactions; Medium; FailStop.
    pub fn finish(mut self, random: &mut dyn FnMut() -> u64) -> Result<(Log, Vec<PreparedTxn>)> {
        let _span = span("recovery");
        self.superfile.note_device(self.medium.info().modules.as_ref().map(Device::of));
        remove_leftovers(&*self.medium, self.generations.len() as u32)?;
        let read = |prepared: &InDoubt| prepared.bodies.iter().map(|body| self.body(*body).to_vec()).collect();
        let bodies: Vec<Vec<Vec<u8>>> = self.prepared.iter().map(read).collect();
        let mut ledger = Ledger::new(self.superfile, random(), self.need);
        for (number, used) in &self.uses {
            self.generations[*number as usize].lanes[0].pins.restore(used.csn_max);
            ledger.note_ending(*number, used.ends_since);
        }
        let log = Arc::new(Shared::new(Start {
            lanes: self.superblock.lanes,
            lane_bytes: self.superblock.lane_bytes,
            generations_least: self.generations_least,
            generations_max: self.generations_max,
            generations: Generations::new(self.generations),
            horizon: self.horizon,
            checkpoint_csn: self.superblock.checkpoint_csn,
            txid_limit: self.superblock.txid_limit,
            ledger,
            medium: self.medium,
            path: self.path,
        }));
        let kept: Vec<_> = self.prepared.iter().map(|prepared| Arc::new(keep(&log, prepared))).collect();
        let fresh = copy_prepared(&log, &kept)?;
        Control::lock(&log).finish(self.horizon, &fresh)?;
        let log = Log::new(log, self.lane_choice);
        let resurrect = |((prepared, bodies), kept): ((InDoubt, Vec<Vec<u8>>), Arc<Prepared>)| PreparedTxn {
            txid: prepared.txid,
            xid: prepared.xid,
            bodies,
            log: log.resurrect(kept),
        };
        let prepared = self.prepared.into_iter().zip(bodies).zip(kept).map(resurrect).collect();
        Ok((log, prepared))
    }
}

/// A prepared transaction as the running log keeps it, its records still where analysis found them.
fn keep(log: &Shared, found: &InDoubt) -> Prepared {
    let state = State {
        pins: pin_all(log, &found.records),
        records: found.records.clone(),
        ending: None,
        since: found.since,
        chunks: found.chunks,
        chained: found.chained,
        ended: false,
    };
    Prepared { txid: found.txid, state: Mutex::new(state) }
}

/// Copies all prepared transactions into freshly armed generations, fenced. Returns the numbers of
/// these generations.
fn copy_prepared(log: &Shared, all: &[Arc<Prepared>]) -> Result<Vec<u32>> {
    let mut control = Control::lock(log);
    let first = control.ledger.superblock().activation_next;
    for prepared in all {
        if !copy_arming(&mut control, &mut prepared.state.lock())? {
            let seen = format!("there is no room to copy prepared transaction {}", prepared.txid);
            return Err(log.full(seen));
        }
    }
    let fresh = log.generations.iter().filter(|generation| generation.activation() >= first);
    Ok(fresh.map(|generation| generation.number).collect())
}

/// Removes log files that the superblock does not name: what a growth or a removal that was cut off
/// has left.
fn remove_leftovers(medium: &dyn Medium, generations: u32) -> Result<()> {
    for (name, _) in medium.list()? {
        if parse_lane_name(&name).is_some_and(|(generation, _)| generation >= generations) {
            medium.remove(&name)?;
        }
    }
    Ok(())
}

fn open_generations(medium: &dyn Medium, superblock: &Superblock) -> Result<Vec<Generation>> {
    let mut generations = Vec::new();
    for (number, entry) in (0..).zip(&superblock.generations) {
        let open = |lane| open_lane(medium, &lane_name(number, lane), superblock.lane_bytes);
        let regions = (0..superblock.lanes).map(open).collect::<Result<Vec<Region>>>()?;
        generations.push(Generation::new(number, *entry, regions));
    }
    Ok(generations)
}

fn open_lane(medium: &dyn Medium, name: &str, lane_bytes: u64) -> Result<Region> {
    let region = match medium.open_log(name) {
        Ok(region) => region.holding(Content::Log),
        Err(error) if error.kind() == perdura_pmem::ErrorKind::NotFound => {
            let seen = "the log file is missing; restore it, or the pool from a backup";
            return Err(Error::damaged(name, 0, seen).caused_by(error));
        }
        Err(error) => return Err(error.into()),
    };
    if region.len() != lane_bytes {
        let seen = format!(
            "the log file has {} bytes where {lane_bytes} must be; restore it, or the pool from a backup",
            region.len()
        );
        return Err(Error::damaged(name, region.len().min(lane_bytes), seen));
    }
    Ok(region)
}

/// Makes groups durable on which the redo is going to rely. A log writer writes them through a
/// cache, so a process that was killed may have left some there: they are read, and a loss of power
/// in the middle of their redo would leave a part of it without them.
fn reclaim(lane: &Lane, groups: Vec<(u64, u64)>) {
    // SAFETY: no log runs before the recovery is finished.
    let region = unsafe { lane.region() };
    // A file that is written in sectors was made durable when it was opened.
    if region.write_granule() <= GRANULE_BYTES && !groups.is_empty() {
        region.reclaim_all(groups);
    }
}

fn whole(lane: &Lane) -> &[u8] {
    // SAFETY: no log runs before the recovery is finished: nobody takes the file away or stores to
    // it. No slice outlives the recovery.
    unsafe { lane.region().slice(0, lane.region().len()) }
}

fn body_in(generations: &[Generation], body: BodyRef) -> &[u8] {
    let lane = &generations[usize::from(body.generation)].lanes[usize::from(body.lane)];
    &whole(lane)[body.offset as usize..][..body.len as usize]
}
