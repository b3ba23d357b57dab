//! Support of the log's tests: tiny pools, and transactions whose redo follows from their number.

#![allow(dead_code)]

pub mod oracle;

use perdura_log::{Csn, Log, LogConfig, PreparedTxn, Recovery, Result, SUPERBLOCK_NAME, SUPERBLOCK_NEW_NAME};
use perdura_pmem::sim::{Random, SimMedium};
use perdura_pmem::{Medium, Region};
use std::sync::Arc;

/// Lanes of the least size, two generations, growth up to `generations_max`.
pub fn tiny(lanes: u32, generations_max: u32) -> LogConfig {
    LogConfig { lanes, lane_bytes: 4096, generations: 2, generations_max, ..LogConfig::default() }
}

/// Creates a pool on `medium`.
pub fn create(medium: &Arc<dyn Medium>, config: &LogConfig, seed: u64) {
    let mut random = Random::new(seed);
    perdura_log::create(medium, config, [7; 8], &mut || random.next_u64()).expect("room for a pool");
    medium.rename(SUPERBLOCK_NEW_NAME, SUPERBLOCK_NAME).expect("it was just created");
    medium.sync_dir().expect("synced");
}

/// A new pool on an unlimited simulated medium.
pub fn pool(config: &LogConfig) -> Arc<dyn Medium> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    create(&medium, config, 1);
    medium
}

/// Recovers without redoing anything.
pub fn recover(medium: &Arc<dyn Medium>, config: &LogConfig) -> Result<(Log, Vec<PreparedTxn>)> {
    let mut random = Random::new(2);
    Recovery::open(medium.clone(), config)?.finish(&mut || random.next_u64())
}

/// A new pool, opened.
pub fn opened(config: &LogConfig) -> (Arc<dyn Medium>, Log) {
    let medium = pool(config);
    let (log, prepared) = recover(&medium, config).expect("a new pool recovers");
    assert!(prepared.is_empty());
    (medium, log)
}

/// Commits `body` in a transaction of its own, publishes and stores it.
pub fn commit(log: &Log, session: u64, body: &[u8]) -> Csn {
    let mut txn = log.begin(session);
    let reservation = txn.reserve(body.len()).expect("room");
    let csn = txn.commit(reservation, body);
    assert!(log.wait_durable(csn));
    settle(log, csn);
    csn
}

/// Reports that a commit is visible and stored.
pub fn settle(log: &Log, csn: Csn) {
    log.publish(csn);
    log.stored(csn);
}

/// All redo of a commit, joined.
pub fn redo(recovery: &Recovery, bodies: &[perdura_log::BodyRef]) -> Vec<u8> {
    bodies.iter().flat_map(|body| recovery.body(*body).to_vec()).collect()
}

/// CSN and redo of all commits found.
pub fn found(recovery: &Recovery) -> Vec<(Csn, Vec<u8>)> {
    recovery.committed.iter().map(|commit| (commit.csn, redo(recovery, &commit.bodies))).collect()
}

/// Overwrites bytes of a file.
pub fn damage(medium: &Arc<dyn Medium>, file: &str, offset: u64, change: impl FnOnce(&mut [u8; 8])) {
    let region: Region = medium.open(file).expect("it exists");
    let mut bytes = [0; 8];
    region.read(offset, &mut bytes);
    change(&mut bytes);
    region.write(offset, &bytes);
}
