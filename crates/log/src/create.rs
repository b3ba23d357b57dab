//! Creating the log of a new pool.

use crate::config::{LogConfig, check_sectors};
use crate::error::Result;
use crate::generation::create_lanes;
use crate::superblock::{Device, GenerationEntry, SUPERBLOCK_NEW_NAME, Superblock};
use crate::superfile::SuperFile;
use perdura_pmem::Medium;
use std::sync::Arc;

/// Creates the log files, then the superblock as `super.new`. Once the rest of the pool is durable,
/// the caller renames it to `super` and syncs the directory. The superblock keeps `geometry` for
/// the layer above; `random` supplies the pool's id.
///
/// # Errors
/// Configuration, DeviceFull, Medium. The caller removes what was created, as after a crash.
pub fn create(
    medium: &Arc<dyn Medium>,
    config: &LogConfig,
    geometry: [u64; 8],
    random: &mut dyn FnMut() -> u64,
) -> Result<Superblock> {
    config.check()?;
    let info = medium.info();
    let lane_count = config.lanes_on(info.log.as_ref().map_or(info.mode, |log| log.mode));
    for generation in 0..config.generations {
        let lanes = create_lanes(&**medium, generation, lane_count, config.lane_bytes)?;
        lanes.iter().try_for_each(|lane| check_sectors(config.lane_bytes, lane.write_granule()))?;
    }
    let mut pool = [0; 16];
    pool[..8].copy_from_slice(&random().to_le_bytes());
    pool[8..].copy_from_slice(&random().to_le_bytes());
    let superblock = Superblock {
        sequence: 0,
        pool,
        geometry,
        lanes: lane_count,
        lane_bytes: config.lane_bytes,
        epoch: 0,
        horizon: 0,
        checkpoint_csn: 0,
        txid_limit: 1,
        activation_next: 1,
        device: info.modules.as_ref().map(Device::of),
        generations: vec![GenerationEntry::FREE; config.generations as usize],
    };
    let file = SuperFile::create(&**medium, SUPERBLOCK_NEW_NAME, superblock)?;
    medium.sync_dir()?;
    Ok(file.current().clone())
}
