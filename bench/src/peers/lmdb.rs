//! LMDB through heed: a copy-on-write B+-tree in a mapped file, with one writer.
//!
//! Synced, a commit writes its pages by pwrite and syncs the file, which on tmpfs costs only the
//! calls. Not synced, it stores into a writable map, and the kernel writes back when it likes: a
//! process crash loses nothing, a power loss may lose anything. The reads of a phase share one read
//! transaction and see the values without a copy.

use crate::keys::Key;
use crate::store::{Store, looked_at};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

/// Address space. The file grows as needed.
const MAP_BYTES: usize = 32 << 30;

/// An environment and its unnamed database.
pub struct Lmdb {
    env: Env,
    database: Database<Bytes, Bytes>,
}

impl Lmdb {
    /// Opens or creates the environment in `directory`.
    pub fn open(directory: &Path, synced: bool) -> Lmdb {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        if !synced {
            // SAFETY: no power loss is part of the benchmark, and nobody else opens the file.
            unsafe { options.flags(EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC) };
        }
        // SAFETY: only this process uses the directory, and it opens it once at a time.
        let env = unsafe { options.open(directory) }.expect("the environment can be opened");
        let mut txn = env.write_txn().expect("a transaction can begin");
        let database = env.create_database(&mut txn, None).expect("the database can be made");
        txn.commit().expect("it can commit");
        Lmdb { env, database }
    }

    /// Closes the environment, so that it can be opened again.
    pub fn close(self) {
        self.env.prepare_for_closing().wait();
    }
}

impl Store for Lmdb {
    fn insert(&mut self, keys: &[Key], value: &[u8], batch: usize) {
        for keys in keys.chunks(batch) {
            let mut txn = self.env.write_txn().expect("a transaction can begin");
            for key in keys {
                self.database.put(&mut txn, key, value).expect("there is room");
            }
            txn.commit().expect("it can commit");
        }
    }

    fn read(&self, keys: &[Key]) -> u64 {
        let txn = self.env.read_txn().expect("a transaction can begin");
        let read = |key: &Key| looked_at(self.database.get(&txn, key).expect("it can read").expect("the key is there"));
        keys.iter().map(read).sum()
    }

    fn delete(&mut self, keys: &[Key], batch: usize) {
        for keys in keys.chunks(batch) {
            let mut txn = self.env.write_txn().expect("a transaction can begin");
            for key in keys {
                assert!(self.database.delete(&mut txn, key).expect("there is room"), "the key is there");
            }
            txn.commit().expect("it can commit");
        }
    }
}
