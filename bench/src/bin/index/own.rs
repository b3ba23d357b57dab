//! A table of the engine with one unique index, as an embedding program uses it.

use perdura_bench::own::medium;
use perdura_bench::peers::ordered::Key;
use perdura_engine::{Config, Direction, Engine, IndexDefinition, Isolation, ReadView, Session, Table};
use std::hint::black_box;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A new pool is used after this long even if it is still mapping its log.
const MAPPED_WITHIN: Duration = Duration::from_secs(5);
/// Rows in a transaction.
const BATCH: usize = 1000;

/// A pool with one table.
pub struct Own<const BYTES: usize> {
    engine: Engine,
    table: Arc<Table>,
}

impl<const BYTES: usize> Own<BYTES> {
    /// Creates a pool with default settings, and a table, with an index or without.
    pub fn create(directory: &Path, with_index: bool) -> Own<BYTES> {
        let engine = Engine::open(medium(directory), Config::default()).expect("the pool can be created");
        // A new pool maps its log first, on a core that the threads measured would share.
        let begun = Instant::now();
        while engine.counters().prefault_queued_bytes > 0 && begun.elapsed() < MAPPED_WITHIN {
            std::thread::sleep(Duration::from_millis(1));
        }
        let index = IndexDefinition { unique: true, key_bytes: BYTES as u16 };
        let indexes = if with_index { vec![index] } else { Vec::new() };
        let table = engine.create_table_with("index", b"", &indexes).expect("the pool is new");
        Own { engine, table }
    }

    fn session(&self) -> Session {
        self.engine.session(Isolation::RepeatableRead)
    }

    /// Inserts a row for each key, the key beside it if the table has an index, and commits every
    /// so many rows.
    pub fn insert(&self, keys: &[Key<BYTES>]) {
        let mut session = self.session();
        for batch in keys.chunks(BATCH) {
            for bytes in batch {
                let row = [0x5a; 16];
                let key = perdura_engine::Key { bytes, may_repeat: false };
                match self.table.indexes() {
                    0 => session.insert(&self.table, black_box(&row)),
                    _ => session.insert_with(&self.table, black_box(&row), &[key]),
                }
                .expect("there is room, and the key is new");
            }
            session.commit().expect("there is room");
        }
    }

    /// Looks each key up, all in one statement.
    pub fn find(&self, keys: &[Key<BYTES>]) {
        let mut session = self.session();
        session.start_statement();
        for key in keys {
            let found = session.index(&self.table, 0).find(key, ReadView::Snapshot).expect("the index is sound");
            black_box(found.expect("the key is there"));
        }
        session.end_statement();
    }

    /// Reads `length` entries from each of these keys on, all in one statement.
    pub fn ranges(&self, starts: &[Key<BYTES>], length: usize) {
        let mut session = self.session();
        session.start_statement();
        let mut scan = session.index(&self.table, 0).scan(ReadView::Snapshot);
        for start in starts {
            scan.seek(&session, Bound::Included(start), Direction::Forward).expect("the index is sound");
            let mut sum = 0u64;
            for _ in 0..length {
                let Some(rid) = scan.next(&session).expect("the index is sound") else { break };
                sum = sum.wrapping_add(rid.row());
            }
            black_box(sum);
        }
        session.end_statement();
    }

    /// Ends the pool.
    pub fn close(self) {
        self.engine.close();
    }
}
