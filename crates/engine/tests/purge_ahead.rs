//! Hazard: a load of updates outruns purge, and a table grows by all the versions that wait for it.

use crate::common::{settle, small};
use perdura_engine::{Config, Engine, Isolation, LogConfig, Medium, ReadView, Rid, Session, Table};
use perdura_pmem::SimMedium;
use std::sync::Arc;

const ROWS: usize = 30_000;
/// Parts of the table that one transaction each updates.
const PARTS: usize = 10;

/// A pool that nobody purges in the background, with a log for large transactions.
fn pool() -> Engine {
    let log = LogConfig { lanes: 2, lane_bytes: 4 << 20, generations: 2, generations_max: 4, ..LogConfig::default() };
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    Engine::open(medium, Config { log, ..small() }).unwrap_or_else(|error| panic!("{error}"))
}

fn row(round: usize, number: usize) -> Vec<u8> {
    format!("{round:04} {number:08} {}", "-".repeat(90)).into_bytes()
}

fn table(engine: &Engine) -> (Arc<Table>, Vec<Rid>) {
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids = (0..ROWS).map(|number| txn.insert(&table, &row(0, number)).unwrap()).collect();
    txn.commit().unwrap();
    settle(engine);
    (table, rids)
}

fn update_part(txn: &mut Session, table: &Arc<Table>, rids: &[Rid], part: usize, round: usize) {
    for (number, rid) in rids.iter().enumerate().skip(part).step_by(PARTS) {
        txn.update(table, *rid, &row(round, number)).unwrap();
    }
    txn.commit().unwrap();
}

fn used(table: &Table) -> u64 {
    table.data_bytes() - table.free_bytes()
}

/// Nobody else purges: the transactions do so themselves, each what the one before has left.
#[test]
fn mass_updates_take_the_room_of_old_versions() {
    let engine = pool();
    let (table, rids) = table(&engine);
    let before = used(&table);
    let mut txn = engine.session(Isolation::ReadCommitted);
    for round in 1..4 {
        for part in 0..PARTS {
            update_part(&mut txn, &table, &rids, part, round);
        }
    }
    // A part of the table is written twice until its transaction is over, and cells come free here
    // and there.
    assert!(used(&table) * 100 <= before * 120, "{} bytes of {before}", used(&table));
    drop(txn);
    settle(&engine);
    table.audit().unwrap();
}

/// Versions of an older snapshot stay, and hold nobody up.
#[test]
fn old_snapshots_keep_their_rows() {
    let engine = pool();
    let (table, rids) = table(&engine);
    let mut reader = engine.session(Isolation::RepeatableRead);
    let read = |reader: &mut Session, number: usize| {
        let found = reader.read(&table, rids[number], ReadView::Snapshot).unwrap().unwrap();
        // SAFETY: the snapshot keeps the version.
        unsafe { found.bytes() }.to_vec()
    };
    assert_eq!(read(&mut reader, 17), row(0, 17));
    let mut txn = engine.session(Isolation::ReadCommitted);
    for part in 0..PARTS {
        update_part(&mut txn, &table, &rids, part, 1);
    }
    for number in (0..ROWS).step_by(97) {
        assert_eq!(read(&mut reader, number), row(0, number));
    }
    reader.commit().unwrap();
    drop((reader, txn));
    settle(&engine);
    table.audit().unwrap();
}
