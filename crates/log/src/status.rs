//! The log's state, for monitoring.

use crate::Csn;
use crate::control::Control;
use crate::format::GRANULE_BYTES;
use crate::generation::Active;
use crate::path::PathStatus;
use crate::shared::Shared;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// Whether a generation takes records, must be kept or can be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationState {
    /// New records go here.
    Active,
    /// Recovery may need its records: of some the transaction has not ended or is not stored.
    Needed,
    /// The next switch may arm it and so void its records.
    Reusable,
}

impl fmt::Display for GenerationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GenerationState::Active => "active",
            GenerationState::Needed => "needed",
            GenerationState::Reusable => "reusable",
        })
    }
}

/// How full a generation is, and what keeps it from being reused.
#[derive(Clone, Debug)]
pub struct GenerationStatus {
    /// Its number, GGG in the names of its files `log.GGG.LL`.
    pub number: u32,
    /// Whether it takes records, must be kept or can be reused.
    pub state: GenerationState,
    /// Number of its present activation, 0 if it holds no records.
    pub activation: u64,
    /// Bytes reserved in each lane.
    pub filled: Vec<u64>,
    /// Pins that unfinished transactions hold on its lanes.
    pub pins: u64,
}

/// How far the log is, and how full its generations are.
#[derive(Clone, Debug)]
pub struct LogStatus {
    /// Lanes of a generation.
    pub lanes: u32,
    /// Bytes of a lane.
    pub lane_bytes: u64,
    /// Bytes that are written at least: 64, or those of a disk's sector or of a block of the path.
    pub sector_bytes: u64,
    /// Bytes that were written with records, to fill their sectors or blocks, since start.
    pub padding_bytes: u64,
    /// The way that records take; `None` if it is the direct one.
    pub path: Option<PathStatus>,
    /// Generations the log may grow to.
    pub generations_max: u32,
    /// The generations, by number.
    pub generations: Vec<GenerationStatus>,
    /// Last CSN taken.
    pub last_csn: Csn,
    /// Every commit up to it is durable.
    pub durable_csn: Csn,
    /// Every commit up to it is published.
    pub visible_csn: Csn,
    /// Every commit up to it is published, and its words are stored.
    pub stored_csn: Csn,
    /// CSN behind which the next redo begins.
    pub checkpoint_csn: Csn,
    /// Recoveries the pool has been through.
    pub epoch: u64,
    /// Generation switches since start.
    pub switches: u64,
    /// Generations added since start.
    pub grown: u64,
    /// Generations removed since start.
    pub shrunk: u64,
    /// Count of transactions that are prepared and have not ended.
    pub prepared: usize,
    /// Whether the pool has failed stop.
    pub failed: bool,
}

impl LogStatus {
    /// Whether a transaction that finds the active generation full would get another one without
    /// waiting.
    pub fn can_switch(&self) -> bool {
        let is_reusable = |generation: &GenerationStatus| generation.state == GenerationState::Reusable;
        self.generations.len() < self.generations_max as usize || self.generations.iter().any(is_reusable)
    }

    pub(crate) fn of(log: &Shared) -> LogStatus {
        let control = Control::lock(log);
        let (active, stored_csn) = (log.active(), log.stored.load());
        let path = log.stream.as_ref().map(|stream| stream.status());
        let generations = log.generations.iter().map(|generation| GenerationStatus {
            number: generation.number,
            state: if active != Active::NONE && generation.number == active.number() {
                GenerationState::Active
            } else if control.is_reusable(generation, stored_csn) {
                GenerationState::Reusable
            } else {
                GenerationState::Needed
            },
            activation: generation.activation(),
            filled: generation.lanes.iter().map(|lane| lane.filled()).collect(),
            pins: generation.lanes.iter().map(|lane| lane.pins.count()).sum(),
        });
        LogStatus {
            lanes: log.lanes,
            lane_bytes: log.lane_bytes,
            sector_bytes: log.sector,
            padding_bytes: log.padding.load(Relaxed) + path.as_ref().map_or(0, |path| path.padding_bytes),
            path,
            generations_max: log.generations_max,
            generations: generations.collect(),
            last_csn: log.last_csn(),
            durable_csn: log.durable.load(),
            visible_csn: log.visible.load(),
            stored_csn,
            checkpoint_csn: control.ledger.superblock().checkpoint_csn,
            epoch: control.ledger.superblock().epoch,
            switches: control.ledger.switches,
            grown: control.ledger.need.grown(),
            shrunk: control.ledger.need.shrunk(),
            prepared: log.prepared.count(),
            failed: log.is_failed(),
        }
    }
}

impl fmt::Display for LogStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  CSN: last {}, durable {}, visible {}, stored {}, checkpoint {}; epoch {}",
            self.last_csn, self.durable_csn, self.visible_csn, self.stored_csn, self.checkpoint_csn, self.epoch
        )?;
        writeln!(
            f,
            "  {} lanes of {} KiB; {} generations of at most {}; {} switches, {} added, {} removed since start; {} prepared transactions",
            self.lanes,
            self.lane_bytes >> 10,
            self.generations.len(),
            self.generations_max,
            self.switches,
            self.grown,
            self.shrunk,
            self.prepared
        )?;
        if self.sector_bytes > GRANULE_BYTES {
            writeln!(
                f,
                "  sectors of {} bytes, {} bytes of padding since start",
                self.sector_bytes, self.padding_bytes
            )?;
        }
        if let Some(path) = &self.path {
            writeln!(f, "  {path}")?;
        }
        for generation in &self.generations {
            let filled: u64 = generation.filled.iter().sum();
            let percent = filled * 100 / (self.lane_bytes * u64::from(self.lanes)).max(1);
            write!(
                f,
                "  generation {:3}: {:8} activation {}, {percent}% full",
                generation.number, generation.state, generation.activation
            )?;
            writeln!(f, " ({} bytes), {} pins", filled, generation.pins)?;
        }
        if self.failed {
            writeln!(f, "  failed stop")?;
        }
        Ok(())
    }
}
