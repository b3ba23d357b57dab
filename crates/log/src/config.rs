//! Settings of the log.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{GRANULE_BYTES, HEADER_BYTES};
use crate::path::PathConfig;
use perdura_pmem::Mode;

/// Most lanes a generation can have.
pub const LANES_MAX: u32 = 64;
/// Most generations a pool can have.
pub const GENERATIONS_MAX: u32 = 64;
/// Fewest bytes of a lane.
pub const LANE_BYTES_MIN: u64 = 4 << 10;
/// Fewest sectors of a lane.
const LANE_SECTORS_MIN: u64 = 4;
/// Most bytes of a lane.
pub const LANE_BYTES_MAX: u64 = 2 << 30;

/// Property of a transaction that decides its home lane, where its records go while the lane has
/// room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneChoice {
    /// Its session, by a hash: small transactions of one session follow one another in a lane.
    #[default]
    Session,
    /// Its own id, by a hash (Matsuura, NVMSA 2021, V.B).
    Transaction,
    /// The processor on which it comes to the log.
    Core,
}

/// Settings of the log. The pool keeps those marked *at creation*; opening it again ignores them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Lanes of a generation, 1 to 64, or 0 for as many as the medium is best written by: 4, on a
    /// disk 1 (*at creation*).
    pub lanes: u32,
    /// Bytes of a lane, a multiple of 64 from 4 KiB to 2 GiB (*at creation*).
    pub lane_bytes: u64,
    /// Generations a new pool starts with, and to which the log of any pool shrinks back, 2 to 64.
    pub generations: u32,
    /// Generations the log may grow to, `generations` to 64.
    pub generations_max: u32,
    /// Checkpoints during which a generation beyond `generations` goes unneeded before it is
    /// removed; doubled each time it was needed again after all. At least 1.
    pub shrink_after: u32,
    /// How a transaction comes by its home lane.
    pub lane_choice: LaneChoice,
    /// The way of records to the medium.
    pub path: PathConfig,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            lanes: 0,
            lane_bytes: 16 << 20,
            generations: 2,
            generations_max: 16,
            shrink_after: 200,
            lane_choice: LaneChoice::default(),
            path: PathConfig::default(),
        }
    }
}

impl LogConfig {
    /// Lanes of a new pool's log on a medium of this mode. Writes of several files of a disk each
    /// end with a flush of its cache: one file has all that can be had, and shares most writes.
    pub(crate) fn lanes_on(&self, mode: Mode) -> u32 {
        match (self.lanes, mode) {
            (0, Mode::Page) => 1,
            (0, _) => 4,
            (lanes, _) => lanes,
        }
    }

    /// Checks ranges. Error: `Configuration`.
    pub fn check(&self) -> Result<()> {
        range("log_lanes", self.lanes.into(), 0, LANES_MAX.into())?;
        range("log_generations", self.generations.into(), 2, GENERATIONS_MAX.into())?;
        range("log_generations_max", self.generations_max.into(), self.generations.into(), GENERATIONS_MAX.into())?;
        range("shrink_after", self.shrink_after.into(), 1, u32::MAX.into())?;
        self.path.check()?;
        check_lane_bytes(self.lane_bytes)
    }
}

fn range(name: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let what = format!("{name}: {value} is not from {low} to {high}; choose a value in that range");
    Err(Error::new(ErrorKind::Configuration, what))
}

/// Whether a lane can have this size.
pub(crate) fn check_lane_bytes(lane_bytes: u64) -> Result<()> {
    range("log_lane_size", lane_bytes, LANE_BYTES_MIN, LANE_BYTES_MAX)?;
    if lane_bytes.is_multiple_of(GRANULE_BYTES) {
        return Ok(());
    }
    let what = format!("log_lane_size: {lane_bytes} is not a multiple of {GRANULE_BYTES} bytes; round it");
    Err(Error::new(ErrorKind::Configuration, what))
}

/// Whether a lane has a place for the longest things that are reserved as one, on a medium that
/// writes sectors of so many bytes.
pub(crate) fn check_sectors(lane_bytes: u64, sector: u64) -> Result<()> {
    if lane_bytes >= LANE_SECTORS_MIN * sector {
        return Ok(());
    }
    let what = format!(
        "log_lane_size: {lane_bytes} is too small for this disk, which writes sectors of {sector} bytes; choose {} at least",
        LANE_SECTORS_MIN * sector
    );
    Err(Error::new(ErrorKind::Configuration, what))
}

/// Longest body of a group in a lane of `lane_bytes`.
pub(crate) fn body_bytes_max(lane_bytes: u64) -> u64 {
    lane_bytes - HEADER_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        LogConfig::default().check().expect("the defaults are good");
        let least = LogConfig { lanes: 1, lane_bytes: 4096, generations: 2, generations_max: 2, ..Default::default() };
        let good = LogConfig { shrink_after: 1, ..least };
        good.check().expect("the least is good");
        let lanes = [Mode::Dax, Mode::Emulated, Mode::Page].map(|mode| LogConfig::default().lanes_on(mode));
        assert_eq!((lanes, good.lanes_on(Mode::Dax)), ([4, 4, 1], 1));
        let bad = [
            LogConfig { lanes: 65, ..good.clone() },
            LogConfig { lane_bytes: 4095, ..good.clone() },
            LogConfig { lane_bytes: 4100, ..good.clone() },
            LogConfig { lane_bytes: 4 << 30, ..good.clone() },
            LogConfig { generations: 1, ..good.clone() },
            LogConfig { generations: 3, ..good.clone() },
            LogConfig { generations_max: 65, ..good.clone() },
            LogConfig { shrink_after: 0, ..good.clone() },
        ];
        for config in bad {
            let error = config.check().expect_err("out of range");
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        }
    }
}
