//! A log of its own, without an engine: all of its lanes are faulted in before it is used.

use perdura_log::{Log, LogConfig, LogTxn, PathConfig, Recovery, SUPERBLOCK_NAME, SUPERBLOCK_NEW_NAME};
use perdura_pmem::Medium;
use perdura_pmem::split_mix::SplitMix64;
use std::sync::Arc;

/// A record's body. With its header a record takes three lines.
pub const BODY: [u8; 128] = [0x5a; 128];
/// Bytes that such a record takes in a lane: a header of 32 bytes before it, in whole lines.
pub const RECORD_BYTES: usize = 192;

/// Creates a log with default settings.
pub fn create(medium: Arc<dyn Medium>) -> Log {
    create_by(medium, PathConfig::default())
}

/// The same with another way of its records.
pub fn create_by(medium: Arc<dyn Medium>, path: PathConfig) -> Log {
    let config = LogConfig { path, ..LogConfig::default() };
    // Salts need not be secret here.
    let mut random = SplitMix64::new(1);
    let mut random = || random.next_u64();
    perdura_log::create(&medium, &config, [0; 8], &mut random).expect("the directory is empty");
    medium.rename(SUPERBLOCK_NEW_NAME, SUPERBLOCK_NAME).expect("it was just made");
    let recovery = Recovery::open(medium, &config).expect("the log is sound");
    let (log, _none_prepared) = recovery.finish(&mut random).expect("there is nothing to recover");
    log.set_prefault(Box::new(|region| region.advise_populate(0, region.len()).expect("memory can be mapped")));
    log
}

/// Appends a record as a transaction of `session`, and waits until it is durable. Returns its CSN,
/// and the transaction, which is over.
#[inline]
pub fn append(log: &Log, session: u64) -> (u64, LogTxn) {
    let mut txn = log.begin(session);
    let reservation = txn.reserve(BODY.len()).expect("there is room");
    let csn = txn.commit(reservation, &BODY);
    assert!(log.wait_durable(csn), "the log runs");
    (csn, txn)
}

/// Tells the log that it may forget the records of these CSNs.
pub fn forget(log: &Log, csns: &mut Vec<u64>) {
    for csn in csns.drain(..) {
        log.publish(csn);
        log.stored(csn);
    }
}
