//! fjall: a log-structured merge tree in Rust. Every batch is one synced write to its journal and
//! goes into a skip list in DRAM; background threads write sorted files. A deletion does not check
//! that the key exists.

use crate::keys::Key;
use crate::store::{Store, looked_at};
use fjall::{Config, Keyspace, PartitionCreateOptions, PartitionHandle, PersistMode};
use std::path::Path;

/// A keyspace of one partition.
pub struct Fjall {
    keyspace: Keyspace,
    partition: PartitionHandle,
}

impl Fjall {
    /// Opens or creates the keyspace in `directory`.
    pub fn open(directory: &Path) -> Fjall {
        let keyspace = Config::new(directory).open().expect("the keyspace can be opened");
        let partition =
            keyspace.open_partition("table", PartitionCreateOptions::default()).expect("the partition can be opened");
        Fjall { keyspace, partition }
    }

    fn batches(&self, keys: &[Key], batch: usize, change: impl Fn(&mut fjall::Batch, &Key)) {
        for keys in keys.chunks(batch) {
            let mut batch = self.keyspace.batch().durability(Some(PersistMode::SyncData));
            for key in keys {
                change(&mut batch, key);
            }
            batch.commit().expect("it can commit");
        }
    }
}

impl Store for Fjall {
    fn insert(&mut self, keys: &[Key], value: &[u8], batch: usize) {
        self.batches(keys, batch, |batch, key| batch.insert(&self.partition, key, value));
    }

    fn read(&self, keys: &[Key]) -> u64 {
        let read = |key: &Key| looked_at(&self.partition.get(key).expect("it can read").expect("the key is there"));
        keys.iter().map(read).sum()
    }

    fn delete(&mut self, keys: &[Key], batch: usize) {
        self.batches(keys, batch, |batch, key| batch.remove(&self.partition, key.as_slice()));
    }
}
