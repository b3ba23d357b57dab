//! A snapshot held over many commits of others, and what it must go on seeing.

use super::keys;
use perdura_engine::{Engine, Isolation, ReadView, Rid, Session, Table};
use perdura_pmem::sim::Random;
use std::sync::Arc;

/// A snapshot that a worker holds while others commit, and what it saw.
pub struct OldSnapshot {
    txn: Session,
    rows: Vec<(Rid, Vec<u8>)>,
}

impl OldSnapshot {
    /// A snapshot of the table as it is now.
    pub fn take(engine: &Engine, table: &Arc<Table>) -> OldSnapshot {
        let mut txn = engine.session(Isolation::RepeatableRead);
        txn.start_statement();
        let rows = rows_of(&mut txn, table);
        OldSnapshot { txn, rows }
    }

    /// Panics if the snapshot sees anything else than at first, in a scan or row by row.
    pub fn look_again(&mut self, table: &Arc<Table>, random: &mut Random) {
        self.txn.end_statement();
        self.txn.start_statement();
        if let Some((rid, row)) = self.rows.get(random.below(self.rows.len().max(1) as u64) as usize) {
            let again = self.txn.read(table, *rid, ReadView::Snapshot);
            let again = again.unwrap_or_else(|error| panic!("row {:#x} at an old snapshot: {error}", rid.to_u64()));
            // SAFETY: the statement is not over.
            let again = again.map(|row| unsafe { row.bytes() });
            assert!(again == Some(row), "row {:#x} has moved under an old snapshot", rid.to_u64());
        }
        assert!(rows_of(&mut self.txn, table) == self.rows, "an old snapshot moved");
    }
}

fn rows_of(txn: &mut Session, table: &Arc<Table>) -> Vec<(Rid, Vec<u8>)> {
    let mut scan = txn.scan(table);
    let mut rows = Vec::new();
    while let Some((rid, row)) = scan.next(txn).unwrap_or_else(|error| panic!("a scan: {error}")) {
        // SAFETY: the statement is not over.
        rows.push((rid, unsafe { row.bytes() }.to_vec()));
    }
    keys::compare(txn, table, &rows).unwrap_or_else(|what| panic!("an old snapshot: {what}"));
    rows
}
