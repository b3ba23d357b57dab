//! Workload of the threads of a scenario: seeded transactions of every kind, each recorded for the
//! oracle before it commits.
//!
//! All threads change and delete each other's rows, so they wait for locks and meet conflicts. They
//! also read deleted rows by their RIDs, since nobody may find another row under an old RID. Labels
//! (spans) tell the explorer which hazards a crash point belongs to.

use super::history::{Change, Key, Ledger, key_of, stamp_of};
use super::keys;
use super::mix::{Action, Mix, choose};
use super::old_snapshot::OldSnapshot;
use super::oracle::Step;
use super::slot::Slot;
use perdura_engine::{Engine, Error, ErrorKind, Isolation, LockMode, ReadView, Rid, Session, Table};
use perdura_pmem::sim::Random;
use perdura_pmem::{sync, trace};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// One thread of a scenario.
pub struct Worker<'a> {
    pub(super) engine: Engine,
    pub(super) ledger: &'a Ledger,
    /// Sessions that change threads, and the rows as they would leave them.
    pub(super) handover: &'a Slot<(Session, Writes)>,
    pub(super) random: Random,
    pub(super) thread: u64,
    next_key: u64,
    /// The session in use.
    pub(super) txn: Session,
    /// Further sessions, so that threads meet in each shard of a table.
    spare: Vec<Session>,
    /// A prepared transaction and the changes it would commit.
    held: Option<(Session, usize, Writes)>,
    /// A snapshot held over several transactions.
    pub(super) old: Option<OldSnapshot>,
    pub(super) table: Arc<Table>,
    purged: bool,
    pub(super) own_tables: Vec<String>,
    pub(super) tables_made: u32,
    /// The rows as the current transaction would leave them.
    pub(super) writes: Writes,
    /// An insert met a conflict of keys: the transaction cannot go on.
    pub(super) refused: bool,
}

/// Rows a transaction changes, and the RIDs of those it inserts.
#[derive(Clone, Default)]
pub(super) struct Writes {
    pub(super) rows: BTreeMap<Key, Option<Vec<u8>>>,
    pub(super) inserted: BTreeMap<Key, Rid>,
}

/// Name of the table that all threads write to.
pub const TABLE: &str = "main";
/// Rows in the table when the threads begin.
const FIRST_ROWS: u64 = 3;

/// Creates the table, with indexes if it is to have some, and its first rows.
pub fn prelude(engine: &Engine, ledger: &Ledger, keyed: bool) {
    let create = ledger.add(vec![Change::Create(TABLE.into())]);
    trace::mark(Step::Begin.mark(create));
    let indexes = if keyed { &keys::INDEXES[..] } else { &[] };
    let table = engine.create_table_with(TABLE, b"definition", indexes).expect("the table is new");
    trace::ack(Step::Committed.mark(create));
    let mut txn = engine.session(Isolation::ReadCommitted);
    let row = |key: u64| [&key.to_le_bytes()[..], &ledger.next_stamp().to_le_bytes(), b"first"].concat();
    let rows: Vec<Vec<u8>> = (0..FIRST_ROWS).map(row).collect();
    let rids: Vec<_> =
        rows.iter().map(|row| (key_of(row), keys::insert(&mut txn, &table, row).expect("there is room"))).collect();
    let put = |row: Vec<u8>| Change::Put(TABLE.into(), key_of(&row), row);
    let fill = ledger.add(rows.into_iter().map(put).collect());
    trace::mark(Step::Begin.mark(fill));
    ledger.committed(fill, txn.commit().expect("there is room"));
    trace::ack(Step::Committed.mark(fill));
    ledger.settle(rids, []);
}

/// Whether concurrent transactions may cause this error. The transaction that meets it is rolled
/// back.
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Deadlock | ErrorKind::LockWaitTimeout | ErrorKind::RecordChanged)
}

/// Whether a key may be refused with this error: a conflict, or the row has had the key so often
/// that its leaf is full of it, as long as snapshots hold what came and went.
pub(super) fn is_refusal(error: &Error) -> bool {
    is_conflict(error) || error.kind() == ErrorKind::TableFull
}

impl Drop for Worker<'_> {
    /// A run that is given up must end: a session that has ordered its commit waits for those
    /// before it, even as it is dropped, and their threads may be gone. A planted error may have
    /// left what a session cannot roll back: a second panic ends with that session.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.engine.fail_stop("the run is given up");
        let unused = self.engine.session(Isolation::ReadCommitted);
        let mut sessions = vec![std::mem::replace(&mut self.txn, unused)];
        sessions.append(&mut self.spare);
        sessions.extend(self.held.take().map(|(session, ..)| session));
        for session in sessions {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(session)));
        }
    }
}

impl<'a> Worker<'a> {
    /// A worker; `thread` distinguishes the rows it inserts.
    pub(super) fn new(
        engine: &Engine,
        ledger: &'a Ledger,
        handover: &'a Slot<(Session, Writes)>,
        thread: u64,
        seed: u64,
    ) -> Worker<'a> {
        let mut random = Random::new(seed ^ (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let isolation = if random.one_in(2) { Isolation::ReadCommitted } else { Isolation::RepeatableRead };
        Worker {
            txn: engine.session(isolation),
            spare: (0..3).map(|_| engine.session(isolation)).collect(),
            held: None,
            old: None,
            table: engine.table(TABLE).expect("the prelude made it"),
            engine: engine.clone(),
            ledger,
            handover,
            random,
            thread,
            next_key: 0,
            purged: false,
            own_tables: Vec::new(),
            tables_made: 0,
            writes: Writes::default(),
            refused: false,
        }
    }

    /// Runs `count` transactions of `mix`.
    pub fn run(&mut self, mix: Mix, count: u32) {
        for _ in 0..count {
            let action = choose(mix, &mut self.random);
            let session = self.random.below(self.spare.len() as u64) as usize;
            std::mem::swap(&mut self.txn, &mut self.spare[session]);
            self.act(action);
            if self.random.one_in(4) {
                self.look_for_gone();
            }
        }
        self.decide_held();
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Insert => self.transaction("insert", |worker| worker.insert_some(1, 3)),
            Action::Bulk => self.transaction("bulk_insert", |worker| worker.insert_some(70, 130)),
            Action::EditedBulk => self.transaction("edited_bulk", Worker::insert_and_edit),
            Action::VainBulk => self.transaction("vain_bulk", Worker::insert_in_vain),
            Action::Update => self.transaction("update", |worker| worker.update_some(3)),
            Action::Huge => self.transaction("large_transaction", Worker::update_all),
            Action::Delete => self.transaction("delete", |worker| worker.delete_some(3)),
            Action::Wipe => self.transaction("wipe", Worker::delete_all),
            Action::Savepoint => self.transaction("savepoint", Worker::write_with_savepoint),
            Action::Cram => self.transaction("full_device", Worker::fill_device),
            Action::Large => self.transaction("large_row", |worker| worker.insert_large()),
            Action::Walk if self.is_keyed() && self.random.one_in(2) => {
                self.transaction("walk", Worker::change_while_walking);
            }
            Action::Walk => self.transaction("walk", Worker::change_while_scanning),
            Action::MoveKeys => self.transaction("moved_keys", Worker::move_keys),
            Action::Lock => self.lock_some(),
            Action::Watch => self.watch(),
            Action::Rollback => self.roll_back(),
            Action::Prepare => self.prepare(),
            Action::Hold => self.hold(Worker::write_little),
            Action::HoldLarge => self.hold(Worker::update_all),
            Action::Order => self.order(),
            Action::Ddl => self.ddl(),
            Action::Alter => self.alter(),
            Action::Checkpoint => self.checkpoint(),
            Action::Thin => {
                self.transaction("fill", Worker::fill_segments);
                self.transaction("thin", Worker::delete_most);
            }
            Action::Compact => self.compact(),
            Action::Sweep => self.engine.sweep().unwrap_or_else(|error| panic!("a sweep beside others: {error}")),
            Action::GrowAhead => self.engine.grow_ahead(),
            Action::Purge => self.purge(),
        }
    }

    pub(super) fn checkpoint(&self) {
        self.engine.checkpoint().expect("simulated memory takes it");
    }

    pub(super) fn purge(&mut self) {
        self.purged |= self.engine.purge() > 0;
    }

    /// Runs `write`, then commits. A conflict rolls everything back.
    pub(super) fn transaction(&mut self, label: &'static str, write: impl FnOnce(&mut Self) -> bool) {
        let _label = trace::span(label);
        let _reuse = self.purged.then(|| trace::span("reuse"));
        self.txn.start_statement();
        if !write(self) || self.refused || self.txn.is_read_only() {
            return self.give_up();
        }
        let number = self.write_down();
        trace::mark(Step::Begin.mark(number));
        match self.txn.commit() {
            Ok(csn) => self.settle(number, csn),
            // The engine has rolled it back: large transactions of other threads hold the whole
            // log.
            Err(error) if error.kind() == ErrorKind::LogFull => self.refused(number),
            Err(error) => panic!("a commit: {error}"),
        }
    }

    /// A recorded transaction found no room in the log.
    fn refused(&mut self, number: usize) {
        self.ledger.undone(number);
        // Nobody needs the bytes it wrote ahead, so they stay unfenced.
        trace::mark(Step::Undone.mark(number));
        self.give_up();
    }

    fn write_down(&mut self) -> usize {
        let changes = self.writes.rows.iter().map(|(key, row)| match row {
            Some(row) => Change::Put(TABLE.into(), *key, row.clone()),
            None => Change::Remove(TABLE.into(), *key),
        });
        self.ledger.add(changes.collect())
    }

    /// After a commit: adopts the pending rows.
    fn settle(&mut self, number: usize, csn: u64) {
        let writes = std::mem::take(&mut self.writes);
        self.ledger.committed(number, csn);
        trace::ack(Step::Committed.mark(number));
        let is_there = |key: &Key| writes.rows.get(key).is_some_and(Option::is_some);
        let inserted = writes.inserted.iter().filter(|(key, _)| is_there(key)).map(|(key, rid)| (*key, *rid));
        let removed = writes.rows.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| *key);
        self.ledger.settle(inserted, removed);
    }

    pub(super) fn give_up(&mut self) {
        self.txn.rollback().expect("nothing is ordered");
        self.writes = Writes::default();
        self.refused = false;
    }

    /// Whether the table has indexes.
    pub(super) fn is_keyed(&self) -> bool {
        self.table.indexes() > 0
    }

    pub(super) fn row(&mut self, key: Key, bytes: u64) -> Vec<u8> {
        self.row_after(key, 0, bytes)
    }

    /// An image of a row that replaces the one with the stamp `replaced`; 0 if that is not known.
    fn row_after(&mut self, key: Key, replaced: u64, bytes: u64) -> Vec<u8> {
        let mut row = [key, self.ledger.next_stamp(), replaced].map(u64::to_le_bytes).concat();
        let fill = self.random.next_u64() as u8;
        row.extend((0..bytes).map(|position| fill.wrapping_add(position as u8)));
        row
    }

    fn own_keys(&self) -> Range<Key> {
        (self.thread + 1) << 32..(self.thread + 2) << 32
    }

    /// A key that no row has had.
    pub(super) fn next_key(&mut self) -> Key {
        self.next_key += 1;
        self.own_keys().start | self.next_key
    }

    /// An image of a new row whose unique key is that of so many.
    pub(super) fn numbered_row(&mut self, key: Key, number: u64) -> Vec<u8> {
        let stamp = loop {
            let stamp = self.ledger.next_stamp();
            if stamp & 3 == number & 3 {
                break stamp;
            }
        };
        let mut row = [key, stamp, 0].map(u64::to_le_bytes).concat();
        row.extend((0..8 + self.random.below(40)).map(|position| ((number >> 2) as u8).wrapping_add(position as u8)));
        row
    }

    /// Inserts a row, unless its key is taken. Returns whether the device had room for it and the
    /// transaction can go on.
    fn insert_one(&mut self, bytes: u64) -> bool {
        if self.refused {
            return false;
        }
        let key = self.next_key();
        let row = self.row(key, bytes);
        match keys::insert(&mut self.txn, &self.table, &row) {
            Ok(rid) => {
                self.writes.rows.insert(key, Some(row));
                self.writes.inserted.insert(key, rid);
                true
            }
            Err(error) if error.kind() == ErrorKind::DeviceFull => false,
            Err(error) if error.kind() == ErrorKind::DuplicateKey => true,
            Err(error) if self.is_keyed() && is_refusal(&error) => {
                self.refused = true;
                false
            }
            Err(error) => panic!("an insert: {error}"),
        }
    }

    pub(super) fn insert_some(&mut self, least: u64, spread: u64) -> bool {
        for _ in 0..least + self.random.below(spread) {
            let bytes = if self.random.one_in(120) { 5000 } else { self.random.below(60) };
            self.insert_one(bytes);
        }
        !self.refused
    }

    pub(super) fn insert_large(&mut self) -> bool {
        // Some end within a segment, so that the next one begins there.
        let bytes = if self.random.one_in(2) { 600 + self.random.below(2400) } else { 4000 + self.random.below(9000) };
        self.insert_one(bytes);
        true
    }

    /// A row as the current transaction sees it: one it inserted itself, one of this thread's or
    /// one of any thread's.
    pub(super) fn any_row(&mut self) -> Option<(Key, Rid)> {
        let (new, pick) = (self.writes.inserted.len() as u64, self.random.next_u64());
        let found = if new > 0 && self.random.one_in(2) {
            self.writes.inserted.iter().nth((pick % new) as usize).map(|(key, rid)| (*key, *rid))
        } else {
            let keys = if self.random.one_in(2) { self.own_keys() } else { 0..Key::MAX };
            let count = self.ledger.count(keys.clone());
            self.ledger.row(keys, pick % count.max(1))
        };
        found.filter(|(key, _)| self.writes.rows.get(key).is_none_or(Option::is_some))
    }

    /// One of the last rows that a scan finds, perhaps from a commit that has not returned yet.
    pub(super) fn newest_row(&mut self) -> Option<(Key, Rid)> {
        let rows = self.seen_rows();
        let last = &rows[rows.len().saturating_sub(8)..];
        let found = last.get(self.random.below(last.len().max(1) as u64) as usize);
        let found = found.map(|(rid, row)| (key_of(row), *rid));
        found.filter(|(key, _)| self.writes.rows.get(key).is_none_or(Option::is_some))
    }

    /// All rows that the statement sees, in scan order.
    pub(super) fn seen_rows(&mut self) -> Vec<(Rid, Vec<u8>)> {
        let mut rows = Vec::new();
        let mut scan = self.txn.scan(&self.table);
        while let Some((rid, row)) = scan.next(&self.txn).unwrap_or_else(|error| panic!("a scan: {error}")) {
            // SAFETY: the statement is not over.
            rows.push((rid, unsafe { row.bytes() }.to_vec()));
        }
        rows
    }

    /// Changes or deletes a row of any thread. Returns whether the transaction can go on.
    pub(super) fn change(&mut self, key: Key, rid: Rid, row: Option<Vec<u8>>) -> bool {
        let outcome = match &row {
            Some(row) => keys::update(&mut self.txn, &self.table, rid, row),
            None => keys::delete(&mut self.txn, &self.table, rid),
        };
        match outcome {
            Ok(()) => {
                self.writes.rows.insert(key, row);
                true
            }
            // The row stays as it is.
            Err(error) if [ErrorKind::DuplicateKey, ErrorKind::DeviceFull].contains(&error.kind()) => true,
            // Another thread has deleted it.
            Err(error) if error.kind() == ErrorKind::NotFound => !self.writes.rows.contains_key(&key),
            Err(error) if is_conflict(&error) || self.is_keyed() && is_refusal(&error) => false,
            Err(error) => panic!("a change of row {:#x}: {error}", rid.to_u64()),
        }
    }

    /// Reads a row in order to compute its successor, under a shared lock, which the change then
    /// upgrades. Returns the row's stamp, or 0 if the row is missing or this writer does not look;
    /// `None` if the transaction cannot go on.
    fn look_at(&mut self, key: Key, rid: Rid) -> Option<u64> {
        if self.random.one_in(2) || self.writes.rows.contains_key(&key) {
            return Some(0);
        }
        let view = match self.txn.isolation() {
            // The change itself finds out whether somebody has changed the row since this snapshot.
            Isolation::RepeatableRead => ReadView::Snapshot,
            Isolation::ReadCommitted | Isolation::ConsistentReads | Isolation::Serializable => ReadView::Newest,
        };
        match self.txn.locks().lock_row(&self.table, rid, LockMode::Shared) {
            Ok(_) => {}
            Err(error) if is_conflict(&error) => return None,
            Err(error) => panic!("a shared lock of row {:#x}: {error}", rid.to_u64()),
        }
        sync::yield_now();
        let found = self.txn.read(&self.table, rid, view);
        let found = found.unwrap_or_else(|error| panic!("row {:#x} is read under its lock: {error}", rid.to_u64()));
        // SAFETY: the statement is not over.
        Some(found.map_or(0, |row| stamp_of(unsafe { row.bytes() })))
    }

    pub(super) fn update_some(&mut self, most: u64) -> bool {
        for _ in 0..1 + self.random.below(most) {
            let Some((key, rid)) = self.any_row() else { continue };
            let Some(replaced) = self.look_at(key, rid) else { return false };
            let bytes = self.random.below(90);
            let row = self.row_after(key, replaced, bytes);
            if !self.change(key, rid, Some(row)) {
                return false;
            }
        }
        true
    }

    pub(super) fn update_all(&mut self) -> bool {
        const MOST: u64 = 400;
        for place in 0..self.ledger.count(self.own_keys()).min(MOST) {
            let Some((key, rid)) = self.ledger.row(self.own_keys(), place) else { break };
            let row = self.row(key, 8);
            if !self.change(key, rid, Some(row)) {
                return false;
            }
        }
        true
    }

    pub(super) fn delete_some(&mut self, most: u64) -> bool {
        for _ in 0..1 + self.random.below(most) {
            let found = if self.random.one_in(4) { self.newest_row() } else { self.any_row() };
            let Some((key, rid)) = found else { return true };
            if !self.change(key, rid, None) {
                return false;
            }
        }
        true
    }

    pub(super) fn delete_all(&mut self) -> bool {
        for place in 0..self.ledger.count(self.own_keys()) {
            let Some((key, rid)) = self.ledger.row(self.own_keys(), place) else { break };
            if !self.change(key, rid, None) {
                return false;
            }
        }
        true
    }

    fn delete_most(&mut self) -> bool {
        for place in 0..self.ledger.count(self.own_keys()) {
            let Some((key, rid)) = self.ledger.row(self.own_keys(), place) else { break };
            if !self.random.one_in(8) && !self.change(key, rid, None) {
                return false;
            }
        }
        true
    }

    fn fill_segments(&mut self) -> bool {
        (0..110 + self.random.below(80)).all(|_| self.insert_one(200))
    }

    fn fill_device(&mut self) -> bool {
        const MOST: u32 = 2000;
        let bytes = 150 + self.random.below(250);
        assert!(!(0..MOST).all(|_| self.insert_one(bytes)), "the device has room without end");
        true
    }

    fn write_anything(&mut self) -> bool {
        match self.random.below(5) {
            0 => self.insert_some(1, 3),
            1 => self.insert_some(66, 40),
            2 => self.delete_some(3),
            _ => self.update_some(3),
        }
    }

    fn write_with_savepoint(&mut self) -> bool {
        let mut going = self.write_anything();
        let (savepoint, writes) = (self.txn.savepoint(), self.writes.clone());
        going = going && self.write_anything();
        // A savepoint outlives statements.
        if self.random.one_in(2) {
            self.txn.end_statement();
            self.txn.start_statement();
        }
        going = going && self.write_anything();
        self.txn.rollback_to(&savepoint).expect("set in this transaction");
        self.writes = writes;
        going && self.write_anything()
    }

    fn insert_and_edit(&mut self) -> bool {
        self.insert_some(70, 30);
        let (savepoint, writes) = (self.txn.savepoint(), self.writes.clone());
        self.insert_some(1, 12);
        if self.random.one_in(2) {
            self.txn.rollback_to(&savepoint).expect("set in this transaction");
            self.writes = writes;
        }
        self.delete_some(3) && self.update_some(3) && self.insert_some(1, 3)
    }

    fn insert_in_vain(&mut self) -> bool {
        self.insert_some(70, 60);
        let kept = self.random.below(70) as usize;
        let last: Vec<_> = self.writes.inserted.iter().skip(kept).map(|(key, rid)| (*key, *rid)).collect();
        last.into_iter().all(|(key, rid)| self.change(key, rid, None))
    }

    fn roll_back(&mut self) {
        let _label = trace::span("rollback");
        self.txn.start_statement();
        let _ = self.write_anything() && self.write_anything();
        self.give_up();
    }

    /// Changes a row of any thread, and takes it back.
    pub(super) fn change_in_vain(&mut self) {
        let _label = trace::span("rollback");
        self.txn.start_statement();
        let count = self.ledger.count(0..Key::MAX);
        if let Some((key, rid)) = self.ledger.row(0..Key::MAX, self.random.below(count.max(1))) {
            let row = self.row(key, 20);
            self.change(key, rid, Some(row));
        }
        self.give_up();
    }

    /// Moves rows out of what has become sparse by now.
    fn compact(&mut self) {
        if !self.random.one_in(4) {
            self.engine.checkpoint().expect("simulated memory takes it");
            self.engine.purge();
        }
        self.purged |= self.engine.compact() > 0;
    }

    /// Reads deleted rows by their RIDs, which must lead nowhere even if the RIDs are in use again,
    /// perhaps by this transaction.
    fn look_for_gone(&mut self) {
        // The snapshot is taken after these. To know them takes no draw and no step of the
        // scheduler.
        let before = self.ledger.deletions();
        self.txn.start_statement();
        if self.random.one_in(3) {
            self.insert_some(1, 4);
        }
        for _ in 0..1 + self.random.below(6) {
            let Some((number, key, rid)) = self.ledger.gone(24, self.random.next_u64()) else { break };
            self.look_at_gone(key, rid, number < before);
        }
        self.give_up();
    }

    /// Reads a deleted row and tries to change it; the snapshot may see it unless it was
    /// `gone_before`.
    fn look_at_gone(&mut self, key: Key, rid: Rid, gone_before: bool) {
        let found = self.txn.read(&self.table, rid, ReadView::Snapshot);
        let found = found.unwrap_or_else(|error| panic!("reading a deleted row: {error}"));
        if let Some(row) = found {
            // SAFETY: the statement is not over.
            let there = key_of(unsafe { row.bytes() });
            assert!(!gone_before, "row {:#x} of key {key:#x} is deleted and leads to key {there:#x}", rid.to_u64());
            assert!(there == key, "row {:#x} leads to key {there:#x} instead of {key:#x}", rid.to_u64());
        }
        if self.random.one_in(2) {
            let row = self.row(key, 10);
            match self.txn.update(&self.table, rid, &row) {
                Ok(()) => panic!("row {:#x} is deleted and was changed", rid.to_u64()),
                Err(error) if [ErrorKind::NotFound, ErrorKind::DeviceFull].contains(&error.kind()) => {}
                Err(error) if is_conflict(&error) => {}
                Err(error) => panic!("changing a deleted row: {error}"),
            }
        }
    }
}

impl Worker<'_> {
    fn toss(&mut self) {
        let _label = trace::span("prepared");
        self.txn.start_statement();
        if !self.update_all() || self.txn.is_read_only() {
            return self.give_up();
        }
        let number = self.write_down();
        self.ledger.undone(number);
        trace::mark(Step::Begin.mark(number));
        if let Err(error) = self.txn.prepare(&(number as u64).to_le_bytes()) {
            assert!(error.kind() == ErrorKind::LogFull, "{error}");
            return self.refused(number);
        }
        trace::ack(Step::Prepared.mark(number));
        trace::mark(Step::Undoing.mark(number));
        self.give_up();
        trace::ack(Step::Undone.mark(number));
    }

    /// Orders a prepared transaction, as the leader of a group does, and makes it visible or leaves
    /// that to its own thread.
    fn commit_ordered(&mut self) {
        self.txn.commit_ordered();
        if self.random.one_in(2) {
            self.txn.show_ordered();
        }
    }

    /// Orders a commit and leaves its words unstored while the log wraps around: first past a held
    /// transaction, which is copied forward and then rolled back, and on to the generation that
    /// holds its ending.
    fn order(&mut self) {
        self.hold(Worker::write_little);
        let mut txn = self.engine.session(Isolation::ReadCommitted);
        std::mem::swap(&mut self.txn, &mut txn);
        self.insert_some(1, 3);
        let number = self.write_down();
        let writes = std::mem::take(&mut self.writes);
        trace::mark(Step::Begin.mark(number));
        self.txn.prepare(&(number as u64).to_le_bytes()).expect("there is room");
        trace::ack(Step::Prepared.mark(number));
        trace::mark(Step::Deciding.mark(number));
        self.commit_ordered();
        std::mem::swap(&mut self.txn, &mut txn);
        let (rounds, decides) = (8 + self.random.below(8), 3 + self.random.below(6));
        for round in 0..rounds {
            if round == decides {
                self.undo_held();
            }
            self.toss();
        }
        self.undo_held();
        std::mem::swap(&mut self.txn, &mut txn);
        let csn = self.txn.commit().expect("a prepared transaction commits");
        self.writes = writes;
        self.settle(number, csn);
        std::mem::swap(&mut self.txn, &mut txn);
    }

    /// Prepares a transaction and decides it. Other threads may run before its commit is published.
    fn prepare(&mut self) {
        let _label = trace::span("prepared");
        self.txn.start_statement();
        if !self.write_anything() || self.refused || self.txn.is_read_only() {
            return self.give_up();
        }
        let number = self.write_down();
        let commit = !self.random.one_in(3);
        trace::mark(Step::Begin.mark(number));
        self.txn.prepare(&(number as u64).to_le_bytes()).expect("there is room");
        trace::ack(Step::Prepared.mark(number));
        if self.random.one_in(2) {
            self.engine.checkpoint().expect("simulated memory takes it");
        }
        if commit {
            trace::mark(Step::Deciding.mark(number));
            self.commit_ordered();
            // As in a group commit, others get far before this one is published.
            for _ in 0..self.random.below(300) {
                sync::yield_now();
            }
            let csn = self.txn.commit().expect("a prepared transaction commits");
            self.settle(number, csn);
        } else {
            trace::mark(Step::Undoing.mark(number));
            self.ledger.undone(number);
            self.give_up();
            trace::ack(Step::Undone.mark(number));
        }
    }

    /// Prepares a transaction and leaves it prepared for a while.
    pub(super) fn hold(&mut self, write: impl FnOnce(&mut Self) -> bool) {
        let _label = trace::span("prepared");
        self.decide_held();
        let mut txn = self.engine.session(Isolation::ReadCommitted);
        std::mem::swap(&mut self.txn, &mut txn);
        let going = write(self) && !self.txn.is_read_only();
        if going {
            let number = self.write_down();
            trace::mark(Step::Begin.mark(number));
            if let Err(error) = self.txn.prepare(&(number as u64).to_le_bytes()) {
                assert!(error.kind() == ErrorKind::LogFull, "{error}");
                self.refused(number);
                return std::mem::swap(&mut self.txn, &mut txn);
            }
            trace::ack(Step::Prepared.mark(number));
            std::mem::swap(&mut self.txn, &mut txn);
            self.held = Some((txn, number, std::mem::take(&mut self.writes)));
        } else {
            self.give_up();
            std::mem::swap(&mut self.txn, &mut txn);
        }
    }

    fn write_little(&mut self) -> bool {
        let many = self.random.one_in(3);
        let inserted = self.insert_some(1, if many { 90 } else { 3 });
        inserted && (!self.random.one_in(3) || self.update_some(1) && self.delete_some(1))
    }

    pub(super) fn decide_held(&mut self) {
        if self.random.one_in(2) {
            let Some((mut txn, number, writes)) = self.held.take() else { return };
            trace::mark(Step::Deciding.mark(number));
            let csn = txn.commit().expect("a prepared transaction commits");
            self.writes = writes;
            self.settle(number, csn);
        } else {
            self.undo_held();
        }
    }

    pub(super) fn undo_held(&mut self) {
        let Some((mut txn, number, _)) = self.held.take() else { return };
        trace::mark(Step::Undoing.mark(number));
        self.ledger.undone(number);
        txn.rollback().expect("nothing is ordered");
        trace::ack(Step::Undone.mark(number));
    }
}
