//! redb: a copy-on-write B+-tree in a file, in Rust, with its own cache.
//!
//! Durable, every commit is written and synced (`Durability::Immediate`). Otherwise
//! (`Durability::None`) commits stay in the process's cache until a durable one at the end of a
//! phase, so even a process crash loses them. The reads of a phase share one read transaction.

use crate::keys::Key;
use crate::store::{Store, looked_at};
use redb::{Database, Durability, TableDefinition, WriteTransaction};
use std::path::Path;

const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("table");
/// Name of the file.
const FILE: &str = "redb";

/// A database.
pub struct Redb {
    database: Database,
    durable: bool,
}

impl Redb {
    /// Opens or creates the database in `directory`.
    pub fn open(directory: &Path, durable: bool) -> Redb {
        let database = Database::create(directory.join(FILE)).expect("the database can be opened");
        let redb = Redb { database, durable };
        let txn = redb.begin(true);
        txn.open_table(TABLE).expect("the table can be made");
        txn.commit().expect("it can commit");
        redb
    }

    fn begin(&self, durable: bool) -> WriteTransaction {
        let mut txn = self.database.begin_write().expect("a transaction can begin");
        txn.set_durability(if durable { Durability::Immediate } else { Durability::None });
        txn
    }

    /// Makes all earlier commits durable.
    fn close_phase(&self) {
        if !self.durable {
            self.begin(true).commit().expect("it can commit");
        }
    }
}

impl Store for Redb {
    fn insert(&mut self, keys: &[Key], value: &[u8], batch: usize) {
        for keys in keys.chunks(batch) {
            let txn = self.begin(self.durable);
            {
                let mut table = txn.open_table(TABLE).expect("the table is there");
                for key in keys {
                    table.insert(key.as_slice(), value).expect("there is room");
                }
            }
            txn.commit().expect("it can commit");
        }
        self.close_phase();
    }

    fn read(&self, keys: &[Key]) -> u64 {
        let txn = self.database.begin_read().expect("a transaction can begin");
        let table = txn.open_table(TABLE).expect("the table is there");
        let read = |key: &Key| {
            let value = table.get(key.as_slice()).expect("it can read").expect("the key is there");
            looked_at(value.value())
        };
        keys.iter().map(read).sum()
    }

    fn delete(&mut self, keys: &[Key], batch: usize) {
        for keys in keys.chunks(batch) {
            let txn = self.begin(self.durable);
            {
                let mut table = txn.open_table(TABLE).expect("the table is there");
                for key in keys {
                    assert!(table.remove(key.as_slice()).expect("there is room").is_some(), "the key is there");
                }
            }
            txn.commit().expect("it can commit");
        }
        self.close_phase();
    }
}
