//! The engine, as an embedding program uses it: nine tables, and a session for each terminal.
//!
//! Transactions are at snapshot isolation, at which TPC-C is serializable. A row that is going to
//! be changed is locked and read in its newest version; if the transaction has an older snapshot,
//! that is a conflict.

use crate::database::{Conflict, Database, Tried};
use crate::keys::{self, LAST_NAME_BYTES, Name};
use crate::rows::{Customer, Order, Row, SECOND_KEY_MAX, TABLES};
use perdura_engine::{
    Config, Direction, Engine, Error, ErrorKind, IndexDefinition, IndexScan, Isolation, Key, Medium, ReadView, Rid,
    ScanBuffers, Session, Table,
};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A new pool is used after this long even if it is still mapping its log.
const MAPPED_WITHIN: Duration = Duration::from_secs(5);

/// Positions of the indexes in a table.
const PRIMARY: usize = 0;
const SECOND: usize = 1;

/// A pool with the tables.
pub struct Pool {
    engine: Engine,
    tables: [Arc<Table>; TABLES.len()],
}

impl Pool {
    /// Creates a pool with default settings, and empty tables.
    pub fn create(medium: Arc<dyn Medium>) -> Pool {
        let engine = Engine::open(medium, Config::default()).expect("the pool can be created");
        // A new pool maps its log first, on a core that the threads measured would share.
        let begun = Instant::now();
        while engine.counters().prefault_queued_bytes > 0 && begun.elapsed() < MAPPED_WITHIN {
            std::thread::sleep(Duration::from_millis(1));
        }
        let tables = std::array::from_fn(|number| {
            let indexes = indexes(number);
            engine.create_table_with(TABLES[number], b"", &indexes).expect("the pool is new")
        });
        Pool { engine, tables }
    }

    /// A terminal's session.
    pub fn open(&self) -> Own<'_> {
        let session = self.engine.session(Isolation::RepeatableRead);
        Own { pool: self, session, rids: Vec::new(), buffers: ScanBuffers::default() }
    }

    /// Ends the pool.
    pub fn close(self) {
        self.engine.close();
    }
}

/// The indexes of a table.
fn indexes(number: usize) -> Vec<IndexDefinition> {
    let of = |key_bytes| IndexDefinition { unique: true, key_bytes };
    let numbers = of(size_of::<u64>() as u16);
    match number {
        Customer::TABLE => vec![numbers, of(keys::NAME_BYTES as u16)],
        Order::TABLE => vec![numbers, numbers],
        crate::rows::History::TABLE => Vec::new(),
        _ => vec![numbers],
    }
}

/// A session, and memory that its transactions use again.
pub struct Own<'p> {
    pool: &'p Pool,
    session: Session,
    rids: Vec<Option<Rid>>,
    buffers: ScanBuffers,
}

/// The outcome of an engine call, of which only lost races are expected.
fn tried<T>(outcome: Result<T, Error>) -> Tried<T> {
    outcome.map_err(|error| match error.kind() {
        ErrorKind::Deadlock | ErrorKind::LockWaitTimeout | ErrorKind::RecordChanged | ErrorKind::NotFound => Conflict,
        _ => panic!("{error}"),
    })
}

impl<'p> Own<'p> {
    fn table<R: Row>(&self) -> &'p Arc<Table> {
        &self.pool.tables[R::TABLE]
    }

    fn find<R: Row>(&mut self, key: u64, view: ReadView) -> Tried<Option<Rid>> {
        let table = self.table::<R>();
        tried(self.session.index(table, PRIMARY).find(&key.to_be_bytes(), view))
    }

    /// Calls `visit` with each entry of an index from `from` up to, without, `to`, while it returns
    /// true. The entry is where the scan stands.
    fn walk<R: Row>(
        &mut self,
        index: usize,
        (from, to): (&[u8], &[u8]),
        mut visit: impl FnMut(&mut IndexScan) -> bool,
    ) -> Tried<()> {
        let (table, buffers) = (self.table::<R>(), std::mem::take(&mut self.buffers));
        let mut scan = self.session.index(table, index).scan_with(ReadView::Snapshot, buffers);
        tried(scan.seek(&self.session, Bound::Included(from), Direction::Forward))?;
        while tried(scan.forward(&self.session))? && scan.key() < to && visit(&mut scan) {}
        self.buffers = scan.into_buffers();
        Ok(())
    }

    /// Finds the rows of a range of primary keys.
    fn find_range<R: Row>(&mut self, from: u64, to: u64) -> Tried<Vec<Option<Rid>>> {
        let mut rids = std::mem::take(&mut self.rids);
        rids.clear();
        self.walk::<R>(PRIMARY, (&from.to_be_bytes(), &to.to_be_bytes()), |scan| {
            rids.push(scan.rid_to_read());
            true
        })?;
        Ok(rids)
    }

    /// Calls `visit` with each of the rows found, in one statement.
    fn visit<R: Row>(&mut self, rids: &[Option<Rid>], mut visit: impl FnMut(usize, Option<&R>)) -> Tried<()> {
        let table = self.table::<R>();
        let reader = self.session.reader();
        for (number, rid) in rids.iter().enumerate() {
            let row = match rid {
                Some(rid) => tried(reader.get(table, *rid))?,
                None => None,
            };
            visit(number, row.map(view));
        }
        Ok(())
    }

    /// Changes a row that was found.
    fn change_found<R: Row, T>(&mut self, rid: Rid, edit: impl FnOnce(&mut R) -> T) -> Tried<T> {
        let table = self.table::<R>();
        let mut row: R = *view(tried(self.session.get_for_update(table, rid))?.ok_or(Conflict)?);
        let outcome = edit(&mut row);
        tried(self.session.update(table, rid, row.as_bytes()))?;
        Ok(outcome)
    }
}

/// A row where it lies.
fn view<R: Row>(bytes: &[u8]) -> &R {
    R::ref_from_bytes(bytes).expect("all rows of a table are of one length")
}

impl Database for Own<'_> {
    const TAKES_BACK: bool = true;

    fn read<R: Row>(&mut self, keys: &[u64], visit: impl FnMut(usize, Option<&R>)) -> Tried<()> {
        let mut rids = std::mem::take(&mut self.rids);
        rids.clear();
        for key in keys {
            rids.push(self.find::<R>(*key, ReadView::Snapshot)?);
        }
        self.visit(&rids, visit)?;
        self.rids = rids;
        Ok(())
    }

    fn read_range<R: Row>(&mut self, from: u64, to: u64, mut visit: impl FnMut(&R)) -> Tried<()> {
        let rids = self.find_range::<R>(from, to)?;
        self.visit(&rids, |_, row| row.into_iter().for_each(&mut visit))?;
        self.rids = rids;
        Ok(())
    }

    fn each<R: Row>(&mut self, mut visit: impl FnMut(&R)) {
        let table = self.table::<R>();
        let reader = self.session.reader();
        for row in reader.scan(table).expect("the table can be read") {
            visit(view(row.expect("the table is sound").1));
        }
    }

    fn change<R: Row, T>(&mut self, key: u64, edit: impl FnOnce(&mut R) -> T) -> Tried<T> {
        let rid = self.find::<R>(key, ReadView::Newest)?.ok_or(Conflict)?;
        self.change_found(rid, edit)
    }

    fn change_range<R: Row>(&mut self, from: u64, to: u64, mut edit: impl FnMut(&mut R)) -> Tried<()> {
        let rids = self.find_range::<R>(from, to)?;
        for rid in rids.iter().flatten() {
            self.change_found(*rid, &mut edit)?;
        }
        self.rids = rids;
        Ok(())
    }

    fn insert<R: Row>(&mut self, row: R) -> Tried<()> {
        let table = self.table::<R>();
        if R::INDEXES == 0 {
            return tried(self.session.insert(table, row.as_bytes())).map(drop);
        }
        let (primary, mut second) = (row.key().to_be_bytes(), [0; SECOND_KEY_MAX]);
        let length = row.second_key(&mut second);
        let keys = [&primary[..], &second[..length]].map(|bytes| Key { bytes, may_repeat: false });
        tried(self.session.insert_with(table, row.as_bytes(), &keys[..R::INDEXES])).map(drop)
    }

    fn remove<R: Row>(&mut self, key: u64) -> Tried<()> {
        let rid = self.find::<R>(key, ReadView::Newest)?.ok_or(Conflict)?;
        let table = self.table::<R>();
        tried(self.session.delete_with(table, rid, &[&key.to_be_bytes()]))
    }

    fn first_key<R: Row>(&mut self, from: u64, to: u64) -> Tried<Option<u64>> {
        let mut first = None;
        self.walk::<R>(PRIMARY, (&from.to_be_bytes(), &to.to_be_bytes()), |scan| {
            first = scan.key().try_into().ok().map(u64::from_be_bytes);
            false
        })?;
        Ok(first)
    }

    fn named(&mut self, from: &Name, to: &Name, found: &mut Vec<u32>) -> Tried<()> {
        // A scan begins at a part of a key as well.
        self.walk::<Customer>(SECOND, (&from[..LAST_NAME_BYTES], to), |scan| {
            found.push(keys::named(scan.key()));
            true
        })
    }

    fn last_order(&mut self, from: u64, to: u64) -> Tried<Option<u32>> {
        let (table, buffers) = (self.table::<Order>(), std::mem::take(&mut self.buffers));
        let mut scan = self.session.index(table, SECOND).scan_with(ReadView::Snapshot, buffers);
        tried(scan.seek(&self.session, Bound::Excluded(&to.to_be_bytes()[..]), Direction::Backward))?;
        let found = tried(scan.backward(&self.session))?;
        let key = scan.key().try_into().map(u64::from_be_bytes).ok().filter(|key| found && *key >= from);
        self.buffers = scan.into_buffers();
        Ok(key.map(|key| key as u32))
    }

    fn commit(&mut self) -> Tried<()> {
        tried(self.session.commit()).map(drop)
    }

    fn roll_back(&mut self) {
        self.session.rollback().expect("a transaction that is not committed can be rolled back");
    }
}
