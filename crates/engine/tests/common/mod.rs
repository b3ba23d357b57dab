//! Support of the engine's tests: a small pool in simulated memory, rows, seeds.
#![allow(dead_code, reason = "each test uses a part")]

pub mod altering;
pub mod bank;
pub mod counting;
pub mod damage;
pub mod exchange;
pub mod key_raid;
pub mod keyed;
pub mod raid;
pub mod simulated;
pub mod threads;
pub mod values;
pub mod walk;

use perdura_engine::{Config, Engine, Error, Isolation, LogConfig, Rid, Session, Table};
use perdura_pmem::{FileMedium, Medium, Options, SimMedium};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Settings small enough that a few hundred rows grow files, switch generations and fill pages.
pub fn small() -> Config {
    Config {
        log: LogConfig { lanes: 2, lane_bytes: 8 << 10, generations: 2, generations_max: 4, ..LogConfig::default() },
        data_file_bytes: 128 << 10,
        first_file_bytes: 64 << 10,
        segment_bytes: 4 << 10,
        page_words: 32,
        prefault: false,
        lock_wait_timeout: Duration::from_millis(200),
        background: false,
        seed: Some(1),
        ..Config::default()
    }
}

/// Creates a pool in simulated memory.
pub fn pool() -> (Arc<SimMedium>, Engine) {
    let medium = Arc::new(SimMedium::new());
    let engine = reopen(&medium);
    (medium, engine)
}

/// Opens the pool on `medium`, or creates it.
pub fn reopen(medium: &Arc<SimMedium>) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, small()).expect("the pool opens")
}

/// A directory for files, in memory if possible.
pub fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory for files")
}

/// The files in a directory as a medium.
pub fn files(directory: &TempDir) -> Arc<FileMedium> {
    let options = Options { emulate: true, ..Options::default() };
    Arc::new(FileMedium::open(directory.path(), options).expect("the directory opens"))
}

/// Makes a checkpoint and purges, as the background thread does.
pub fn settle(engine: &Engine) {
    engine.checkpoint().unwrap();
    engine.purge();
}

/// The seeds from 0 up to `count`, or up to `count` times the factor in the environment variable
/// `PERDURA_SOAK`.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let factor = std::env::var("PERDURA_SOAK").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    0..count * factor
}

/// A row of 11 bytes or more, whose length depends on `number`.
pub fn row_bytes(number: u32) -> Vec<u8> {
    format!("row {number:06} {}", "x".repeat((number % 37) as usize)).into_bytes()
}

/// All rows that a transaction sees, in scan order.
pub fn rows(txn: &mut Session, table: &Arc<Table>) -> Vec<(Rid, Vec<u8>)> {
    try_rows(txn, table).expect("the scan reads")
}

/// All rows that a transaction sees, in scan order, or the error that ended the scan.
pub fn try_rows(txn: &mut Session, table: &Arc<Table>) -> Result<Vec<(Rid, Vec<u8>)>, Error> {
    let mut scan = txn.scan(table);
    let mut rows = Vec::new();
    while let Some((rid, row)) = scan.next(txn)? {
        // SAFETY: the statement has not ended.
        rows.push((rid, unsafe { row.bytes() }.to_vec()));
    }
    Ok(rows)
}

/// All committed rows, sorted by their bytes.
pub fn committed(engine: &Engine, table: &Arc<Table>) -> Vec<Vec<u8>> {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut rows: Vec<_> = rows(&mut txn, table).into_iter().map(|(_, row)| row).collect();
    rows.sort();
    rows
}
