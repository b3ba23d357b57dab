//! Accounts and transfers between them. Whatever runs at the same time, the sum of all balances
//! never changes.

use super::try_rows;
use perdura_engine::{Engine, Error, ErrorKind, Isolation, ReadView, Rid, Session, Table};
use perdura_pmem::sim::Random;
use std::sync::Arc;

/// First balance of every account.
pub const START: i64 = 1000;

/// A table of accounts.
#[derive(Clone)]
pub struct Bank {
    /// The table of the accounts.
    pub table: Arc<Table>,
    /// RIDs of the accounts.
    pub accounts: Vec<Rid>,
}

/// The row of an account: its balance, then padding, so that versions differ in size.
pub fn account(balance: i64, padding: usize) -> Vec<u8> {
    let mut row = balance.to_le_bytes().to_vec();
    row.resize(8 + padding, 0x5a);
    row
}

/// The balance in the row of an account. Panics if the row is torn.
pub fn balance(row: &[u8]) -> i64 {
    assert!(row[8..].iter().all(|byte| *byte == 0x5a), "a torn row: {row:?}");
    i64::from_le_bytes(row[..8].try_into().expect("a balance"))
}

impl Bank {
    /// Opens `count` accounts in a new table.
    pub fn create(engine: &Engine, name: &str, count: u32) -> Bank {
        let table = engine.create_table(name, b"bank").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        let accounts = (0..count).map(|n| txn.insert(&table, &account(START, n as usize * 3)).unwrap()).collect();
        txn.commit().unwrap();
        Bank { table, accounts }
    }

    /// The sum that all snapshots must see.
    pub fn total(&self) -> i64 {
        self.accounts.len() as i64 * START
    }

    /// The sum of all balances that the transaction sees in one scan.
    pub fn sum(&self, txn: &mut Session) -> Result<i64, Error> {
        Ok(try_rows(txn, &self.table)?.iter().map(|(_, row)| balance(row)).sum())
    }

    /// Moves money between two accounts in one statement, at times with a change in between that a
    /// savepoint takes back. The caller commits.
    pub fn transfer(&self, txn: &mut Session, random: &mut Random) -> Result<(), Error> {
        txn.start_statement();
        let amount = random.below(50) as i64;
        let from = self.pick(random);
        let to = self.pick(random);
        self.add(txn, from, -amount, random)?;
        if random.one_in(4) {
            let savepoint = txn.savepoint();
            self.add(txn, self.pick(random), amount * 3, random)?;
            txn.rollback_to(&savepoint).unwrap();
        }
        self.add(txn, to, amount, random)?;
        txn.end_statement();
        Ok(())
    }

    fn pick(&self, random: &mut Random) -> Rid {
        self.accounts[random.below(self.accounts.len() as u64) as usize]
    }

    /// Locks an account and adds `amount` to its balance.
    pub fn add(&self, txn: &mut Session, rid: Rid, amount: i64, random: &mut Random) -> Result<(), Error> {
        txn.locks().lock_row(&self.table, rid, perdura_engine::LockMode::Exclusive)?;
        let view = match txn.isolation() {
            // If somebody has changed the row since this snapshot, the update fails with
            // RecordChanged.
            Isolation::RepeatableRead => ReadView::Snapshot,
            Isolation::ReadCommitted | Isolation::ConsistentReads | Isolation::Serializable => ReadView::Newest,
        };
        let row = txn.read(&self.table, rid, view)?.expect("an account is there");
        // SAFETY: the statement has not ended.
        let before = balance(unsafe { row.bytes() });
        txn.update(&self.table, rid, &account(before + amount, random.below(90) as usize))
    }

    /// Makes `count` transfers, each in its own transaction, some of them rolled back. Retries a
    /// transaction that met a conflict, and returns the number of retries.
    pub fn transfer_often(&self, txn: &mut Session, count: u32, random: &mut Random) -> u32 {
        let mut retries = 0;
        for _ in 0..count {
            loop {
                let outcome = self.transfer(txn, random);
                if outcome.is_ok() && random.one_in(10) {
                    txn.rollback().unwrap();
                    break;
                }
                match outcome.and_then(|()| txn.commit().map(|_| ())) {
                    Ok(()) => break,
                    Err(error) => {
                        let expected = [ErrorKind::Deadlock, ErrorKind::RecordChanged, ErrorKind::LockWaitTimeout]
                            .contains(&error.kind());
                        assert!(expected, "{:?}: {error}", error.kind());
                        txn.rollback().unwrap();
                        retries += 1;
                    }
                }
            }
        }
        retries
    }
}
