//! A thread that reads beside the workers. What it sees must be the state of one moment, and must
//! survive any crash.

use super::history::{Ledger, Observation, Rows, hash_of, key_of};
use super::keys;
use super::oracle::Step;
use super::workload::TABLE;
use perdura_engine::{Engine, Isolation, ReadView, Rid, Session, Table};
use perdura_pmem::sim::Random;
use perdura_pmem::{sync, trace};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Scans the table until no writer is left, at most `scans` times.
pub fn read(engine: &Engine, ledger: &Ledger, writers: &AtomicU64, scans: u32, seed: u64) {
    let mut random = Random::new(seed ^ 0x7ead_e700);
    let table = engine.table(TABLE).expect("the prelude made it");
    let (mut told, mut seen) = (BTreeSet::new(), Vec::new());
    for _ in 0..scans {
        for _ in 0..random.below(40) {
            sync::yield_now();
        }
        if writers.load(Ordering::Relaxed) == 0 {
            break;
        }
        let at_least = ledger.acknowledged();
        let rows = snapshot(engine, &table, &mut random);
        tell(ledger, &rows, &mut told);
        seen.push(Observation { rows: hash_of(&rows), at_least });
    }
    ledger.saw(seen);
}

/// All rows as one transaction sees them.
fn snapshot(engine: &Engine, table: &Arc<Table>, random: &mut Random) -> Rows {
    let repeatable = random.one_in(2);
    let mut txn = engine.session(if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted });
    txn.start_statement();
    if random.one_in(3) {
        txn.take_snapshot();
    }
    let found = scan(&mut txn, table);
    if repeatable {
        txn.end_statement();
        // Meanwhile others replace the rows, and purge would free what this snapshot still reads.
        for _ in 0..random.below(80) {
            sync::yield_now();
        }
        assert!(found == scan(&mut txn, table), "a snapshot moved");
    }
    if let Some((rid, row)) = found.get(random.below(found.len().max(1) as u64) as usize) {
        let again = txn.read(table, *rid, ReadView::Snapshot).expect("a row that was scanned is read");
        // SAFETY: the statement is not over.
        let again = again.map(|row| unsafe { row.bytes() }.to_vec());
        assert!(again.as_ref() == Some(row), "row {:#x} is not what the scan saw", rid.to_u64());
    }
    let mut rows = Rows::new();
    for (_, row) in found {
        assert!(rows.insert(key_of(&row), row).is_none(), "a key twice in one snapshot");
    }
    rows
}

fn scan(txn: &mut Session, table: &Arc<Table>) -> Vec<(Rid, Vec<u8>)> {
    let mut scan = txn.scan(table);
    let mut rows = Vec::new();
    while let Some((rid, row)) = scan.next(txn).unwrap_or_else(|error| panic!("a reader's scan: {error}")) {
        // SAFETY: the statement is not over.
        rows.push((rid, unsafe { row.bytes() }.to_vec()));
    }
    keys::compare(txn, table, &rows).unwrap_or_else(|what| panic!("a reader: {what}"));
    rows
}

/// Marks for the oracle the transactions that a reader has seen for the first time.
fn tell(ledger: &Ledger, rows: &Rows, told: &mut BTreeSet<usize>) {
    for row in rows.values() {
        let writer = ledger.writer_of(row).expect("nobody sees a row whose commit has not begun");
        if told.insert(writer) {
            trace::ack(Step::Seen.mark(writer));
        }
    }
}
