//! Accounts in persistent memory and transfers between them, each of which happens wholly or not at
//! all.
//!
//! `transfer DIRECTORY` makes a hundred transfers; kill it and start it again as often as you like,
//! the sum stays the same. The accounts are words of a region, changed in place after the redo of a
//! transfer is durable.

use perdura_log::{Log, LogConfig, Recovery, Result, SUPERBLOCK_NAME, SUPERBLOCK_NEW_NAME};
use perdura_pmem::{FileMedium, Medium, Options, Region};
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// Accounts of a bank.
pub const ACCOUNTS: u64 = 8;
/// Opening balance of each account.
pub const OPENING_BALANCE: u64 = 1000;

const FILE: &str = "accounts";

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: transfer DIRECTORY")?;
    let medium = Arc::new(FileMedium::open(directory.as_ref(), Options { emulate: true, create_dir: true })?);
    let mut source = File::open("/dev/urandom")?;
    let mut random = move || {
        let mut bytes = [0; 8];
        source.read_exact(&mut bytes).expect("the system's random source never ends");
        u64::from_le_bytes(bytes)
    };
    let bank = Bank::open(medium, &mut random)?;
    println!("the accounts hold {} in all", bank.sum());
    for number in 0..100 {
        bank.transfer(number % ACCOUNTS, (number * 5 + 1) % ACCOUNTS, number)?;
    }
    println!("the accounts hold {} in all", bank.sum());
    Ok(())
}

/// The accounts, and the log that keeps them whole.
pub struct Bank {
    accounts: Region,
    log: Log,
}

impl Bank {
    /// Opens the bank on a medium, recovering it; makes it if there is none.
    pub fn open(medium: Arc<dyn Medium>, random: &mut dyn FnMut() -> u64) -> Result<Bank> {
        let config = LogConfig { lanes: 1, lane_bytes: 4096, ..LogConfig::default() };
        if !medium.list()?.iter().any(|(name, _)| name == SUPERBLOCK_NAME) {
            create(&medium, &config, random)?;
        }
        let recovery = Recovery::open(medium.clone(), &config)?;
        let accounts = medium.open(FILE)?;
        for commit in &recovery.committed {
            commit.bodies.iter().for_each(|body| apply(&accounts, recovery.body(*body)));
        }
        // The redo is durable before the log forgets it.
        accounts.fence();
        let (log, _none_prepared) = recovery.finish(random)?;
        Ok(Bank { accounts, log })
    }

    /// Balance of an account.
    pub fn balance(&self, account: u64) -> u64 {
        self.accounts.load(8 * account)
    }

    /// Sum of all balances.
    pub fn sum(&self) -> u64 {
        (0..ACCOUNTS).map(|account| self.balance(account)).sum()
    }

    /// Moves money, as far as there is any. One thread at a time.
    pub fn transfer(&self, source: u64, target: u64, amount: u64) -> Result<()> {
        let amount = if source == target { 0 } else { amount.min(self.balance(source)) };
        let changes = [(source, self.balance(source) - amount), (target, self.balance(target) + amount)];
        let redo: Vec<u8> = changes
            .iter()
            .flat_map(|(account, balance)| [account.to_le_bytes(), balance.to_le_bytes()])
            .flatten()
            .collect();
        let mut txn = self.log.begin(0);
        let reservation = txn.reserve(redo.len())?;
        let csn = txn.commit(reservation, &redo);
        if !self.log.wait_durable(csn) {
            // The pool has failed stop: its next recovery decides. What reserves next gets the
            // error.
            return Ok(());
        }
        apply(&self.accounts, &redo);
        self.accounts.fence();
        // From here on the log may forget the record.
        self.log.publish(csn);
        self.log.stored(csn);
        Ok(())
    }
}

/// Makes the accounts, then the log, whose superblock gets its name last: without it a creation was
/// cut off and begins anew.
fn create(medium: &Arc<dyn Medium>, config: &LogConfig, random: &mut dyn FnMut() -> u64) -> Result<()> {
    for (leftover, _) in medium.list()? {
        medium.remove(&leftover)?;
    }
    let accounts = medium.create(FILE, 8 * ACCOUNTS)?;
    (0..ACCOUNTS).for_each(|account| accounts.store(8 * account, OPENING_BALANCE));
    accounts.persist(0, 8 * ACCOUNTS);
    accounts.sync()?;
    perdura_log::create(medium, config, [0; 8], random)?;
    medium.rename(SUPERBLOCK_NEW_NAME, SUPERBLOCK_NAME)?;
    Ok(medium.sync_dir()?)
}

/// Stores the balances of a record and flushes them. Doing it again changes nothing.
fn apply(accounts: &Region, redo: &[u8]) {
    for change in redo.chunks_exact(16) {
        let word = |at: usize| u64::from_le_bytes(change[at..at + 8].try_into().expect("eight bytes"));
        accounts.store(8 * word(0), word(8));
        accounts.flush(8 * word(0), 8);
    }
}
