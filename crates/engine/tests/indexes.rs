//! Hazard: an index and its table part ways. Two writers, whose transactions interleave, change
//! rows with keys of every kind, in statements and savepoints that are rolled back at times, beside
//! old snapshots, checkpoints, purge and restarts. A model in DRAM says what every scan, search and
//! unique check must find.

use crate::common::keyed::{Fields, KINDS, Keyed, Kind, Rows, config, roomy};
use crate::common::seeds;
use crate::common::walk::Walk;
use perdura_engine::{Config, Engine, Error, ErrorKind, Isolation, ReadView, Rid, Savepoint, Session};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Rows that a transaction would leave; `None` for those it deletes.
type Pending = BTreeMap<Rid, Option<Vec<u8>>>;
/// An index and a key in it.
type KeyOf = (usize, Vec<u8>);

/// A transaction under way.
struct Writer {
    txn: Session,
    pending: Pending,
    /// Rows that it has locked.
    locks: BTreeSet<Rid>,
    /// Keys that it has ever inserted or deleted.
    touched: BTreeSet<KeyOf>,
    savepoints: Vec<(Savepoint, Pending)>,
}

impl Writer {
    fn new(engine: &Engine) -> Writer {
        let mut txn = engine.session(Isolation::ReadCommitted);
        txn.set_lock_wait_timeout(Duration::ZERO);
        let (pending, locks, touched) = Default::default();
        Writer { txn, pending, locks, touched, savepoints: Vec::new() }
    }

    /// The rows that it sees.
    fn rows(&self, committed: &Rows) -> Rows {
        let mut rows = committed.clone();
        for (rid, row) in &self.pending {
            match row {
                Some(row) => rows.insert(*rid, row.clone()),
                None => rows.remove(rid),
            };
        }
        rows
    }

    fn forget(&mut self) {
        self.pending.clear();
        self.locks.clear();
        self.touched.clear();
        self.savepoints.clear();
    }
}

/// Allowed outcomes of a write.
#[derive(Debug, Default)]
struct Outcomes {
    duplicate: BTreeSet<(usize, Rid)>,
    /// It must wait, unless it is a duplicate.
    waits: bool,
    /// It may wait, for a transaction that has taken back what it did.
    may_wait: bool,
}

struct Run {
    medium: Arc<SimMedium>,
    engine: Engine,
    keyed: Keyed,
    committed: Rows,
    writers: [Writer; 2],
    old: Vec<(Session, Rows)>,
    random: Random,
    bound: u64,
    hint: String,
}

fn open(medium: &Arc<SimMedium>, kinds: &[Kind]) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    let config = if kinds.contains(&Kind::Longest) { roomy() } else { config() };
    // With two indexes or four the log carries what small transactions write.
    let config = Config { by_value: Some(kinds.len().is_multiple_of(2)), ..config };
    Engine::open(shared, config).unwrap_or_else(|error| panic!("{error}"))
}

impl Run {
    fn new(seed: u64, kinds: &[Kind]) -> Run {
        let mut random = Random::new(seed);
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium, kinds);
        let keyed = Keyed::create(&engine, "t", kinds);
        let writers = [Writer::new(&engine), Writer::new(&engine)];
        let bound = 20 + random.below(400);
        let (committed, old) = (Rows::new(), Vec::new());
        Run { medium, engine, keyed, committed, writers, old, random, bound, hint: format!("seed {seed}") }
    }

    /// Allowed outcomes of giving `rid` (or a new row) the keys of `row`.
    fn outcomes(&self, writer: usize, rid: Option<Rid>, row: &[u8]) -> Outcomes {
        let (own, other) = (&self.writers[writer], &self.writers[1 - writer]);
        let visible = own.rows(&self.committed);
        let mut outcomes = Outcomes::default();
        for (index, kind) in self.keyed.kinds.iter().enumerate() {
            let (key, may_repeat) = kind.of_row(row);
            let keeps = rid.and_then(|rid| visible.get(&rid)).is_some_and(|row| kind.of_row(row).0 == key);
            if may_repeat || keeps {
                continue;
            }
            let has_key = |row: &[u8]| kind.of_row(row).0 == key;
            for (holder, _) in visible.iter().filter(|(holder, row)| Some(**holder) != rid && has_key(row)) {
                // The other writer is about to take the key from a row that is committed.
                let is_going = match other.pending.get(holder) {
                    Some(Some(row)) => !has_key(row),
                    Some(None) => true,
                    None => false,
                };
                if is_going {
                    outcomes.waits = true;
                } else {
                    outcomes.duplicate.insert((index, *holder));
                }
            }
            let is_coming = |row: &Option<Vec<u8>>| row.as_deref().is_some_and(has_key);
            let comes = |(holder, row): (&Rid, &Option<Vec<u8>>)| {
                is_coming(row) && !self.committed.get(holder).is_some_and(|row| has_key(row))
            };
            outcomes.waits |= other.pending.iter().any(comes);
            outcomes.may_wait |= other.touched.contains(&(index, key));
        }
        outcomes
    }

    /// Writes a row, and compares what comes of it with what may.
    fn write(&mut self, writer: usize, rid: Option<Rid>, row: Option<Vec<u8>>) {
        let hint = self.hint.clone();
        // A row that the other has inserted and taken back may be another one by now.
        let other = &self.writers[1 - writer];
        let may_be_locked = rid.is_some_and(|rid| other.locks.contains(&rid));
        let locked = rid.is_some_and(|rid| other.pending.contains_key(&rid));
        let outcomes = match &row {
            Some(row) if !locked => self.outcomes(writer, rid, row),
            _ => Outcomes::default(),
        };
        let before = rid.and_then(|rid| self.writers[writer].rows(&self.committed).get(&rid).cloned());
        let own = &mut self.writers[writer];
        match self.keyed.put(&mut own.txn, rid, row.as_deref()) {
            Ok(written) => {
                let fine = outcomes.duplicate.is_empty() && !outcomes.waits && !locked;
                assert!(fine, "{hint}: a write that must not succeed: {outcomes:?}, locked {locked}");
                let written = written.expect("it was a row");
                for row in before.iter().chain(&row) {
                    let keys = self.keyed.kinds.iter().enumerate().map(|(index, kind)| (index, kind.of_row(row).0));
                    own.touched.extend(keys);
                }
                own.locks.insert(written);
                own.pending.insert(written, row);
            }
            Err(error) => {
                own.locks.extend(rid.filter(|_| !locked));
                refused(&own.txn, &outcomes, may_be_locked, &error, &hint);
                if error.kind() != ErrorKind::DuplicateKey {
                    own.txn.rollback_statement();
                    let (_, pending) = own.savepoints.last().expect("the statement's");
                    own.pending = pending.clone();
                }
            }
        }
    }

    fn some_row(&mut self, writer: usize) -> Option<Rid> {
        let rows = self.writers[writer].rows(&self.committed);
        rows.keys().nth(self.random.below(rows.len().max(1) as u64) as usize).copied()
    }

    /// A statement of some writes, rolled back at times.
    fn statement(&mut self, writer: usize) {
        let own = &mut self.writers[writer];
        own.txn.start_statement();
        let mark = (own.txn.savepoint(), own.pending.clone());
        own.savepoints.push(mark);
        for _ in 0..1 + self.random.below(3) {
            let fields = Fields::random(&mut self.random, self.bound);
            let (crowded, known) = (self.committed.len() > 160, self.some_row(writer));
            match (self.random.below(6), known) {
                (0, Some(rid)) => self.write(writer, Some(rid), None),
                (1, Some(rid)) if crowded => self.write(writer, Some(rid), None),
                (2, Some(rid)) => self.write(writer, Some(rid), Some(fields.row())),
                (3, Some(rid)) => {
                    // One key changes.
                    let rows = self.writers[writer].rows(&self.committed);
                    let mut new = Fields::of_row(&rows[&rid]);
                    match self.random.below(4) {
                        0 => new.number = fields.number,
                        1 => new.group = fields.group,
                        2 => new.name = fields.name,
                        _ => new.long = fields.long,
                    }
                    self.write(writer, Some(rid), Some(new.row()));
                }
                _ => self.write(writer, None, Some(fields.row())),
            }
        }
        let hint = format!("{}, own", self.hint);
        if self.random.one_in(4) {
            let own = &mut self.writers[writer];
            let rows = own.rows(&self.committed);
            self.keyed.check_against(&mut own.txn, &rows, ReadView::Snapshot, &hint);
            self.keyed.check_against(&mut own.txn, &rows, ReadView::Newest, &hint);
        }
        let own = &mut self.writers[writer];
        if self.random.one_in(5) {
            own.txn.rollback_statement();
            let (_, pending) = own.savepoints.last().expect("the statement's");
            own.pending = pending.clone();
        }
        own.txn.end_statement();
    }

    fn end(&mut self, writer: usize) {
        let own = &mut self.writers[writer];
        match self.random.below(6) {
            0 => own.txn.rollback().unwrap(),
            1 if !own.savepoints.is_empty() => {
                let place = self.random.below(own.savepoints.len() as u64) as usize;
                let (savepoint, pending) = &own.savepoints[place];
                own.txn.rollback_to(savepoint).unwrap();
                own.pending = pending.clone();
                own.savepoints.truncate(place + 1);
                return;
            }
            _ => {
                own.txn.commit().unwrap_or_else(|error| panic!("{}: {error}", self.hint));
                self.committed = own.rows(&self.committed);
            }
        }
        own.forget();
        self.check();
    }

    /// Compares the committed state with the model.
    fn check(&mut self) {
        let hint = format!("{}, committed", self.hint);
        let mut txn = self.engine.session(Isolation::ReadCommitted);
        txn.start_statement();
        self.keyed.check_against(&mut txn, &self.committed, ReadView::Snapshot, &hint);
        if self.random.one_in(4) {
            self.keyed.find_all(&mut txn, &self.committed, ReadView::Newest, &hint);
        }
        for (index, kind) in self.keyed.kinds.clone().into_iter().enumerate() {
            let scan = txn.index(&self.keyed.table, index).scan(ReadView::Snapshot);
            let entries = self.keyed.expected(index, &self.committed);
            let mut walk = Walk::new(scan, entries, format!("{hint}, index {index}"));
            for _ in 0..6 {
                walk.seek_any(&txn, kind, &mut self.random, self.bound);
                walk.stroll(&txn, &mut self.random, 12);
            }
            let fields = Fields::random(&mut self.random, self.bound);
            let key = kind.key(&fields);
            let expected = self.keyed.expected(index, &self.committed).into_iter().find(|(other, _)| *other == key);
            let found = txn.index(&self.keyed.table, index).find(&key, ReadView::Snapshot).unwrap();
            assert_eq!(found, expected.map(|(_, rid)| rid), "{hint}, index {index}");
        }
        txn.end_statement();
    }

    /// A scan that began before a statement's writes goes on after them.
    fn scan_beside_own_writes(&mut self, writer: usize) {
        let (index, view) = (
            self.random.below(self.keyed.kinds.len() as u64) as usize,
            if self.random.one_in(2) { ReadView::Snapshot } else { ReadView::Newest },
        );
        let rows = self.writers[writer].rows(&self.committed);
        self.writers[writer].txn.start_statement();
        let scan = self.writers[writer].txn.index(&self.keyed.table, index).scan(view);
        let hint = format!("{}, own writes behind the scan, {view:?}", self.hint);
        let mut walk = Walk::new(scan, self.keyed.expected(index, &rows), hint);
        walk.seek_any(&self.writers[writer].txn, self.keyed.kinds[index], &mut self.random, self.bound);
        let mark = (self.writers[writer].txn.savepoint(), self.writers[writer].pending.clone());
        self.writers[writer].savepoints.push(mark);
        for _ in 0..8 {
            walk.stroll(&self.writers[writer].txn, &mut self.random, 4);
            let fields = Fields::random(&mut self.random, self.bound);
            let known = self.some_row(writer).filter(|rid| !self.writers[1 - writer].locks.contains(rid));
            match (self.random.below(3), known) {
                (0, Some(rid)) => self.try_write(writer, Some(rid), None),
                (1, Some(rid)) => self.try_write(writer, Some(rid), Some(fields.row())),
                _ => self.try_write(writer, None, Some(fields.row())),
            }
            if self.random.one_in(3) {
                walk.seek_any(&self.writers[writer].txn, self.keyed.kinds[index], &mut self.random, self.bound);
            }
        }
        self.writers[writer].txn.end_statement();
    }

    /// A write that is left out if it may wait, since its statement must not be rolled back.
    fn try_write(&mut self, writer: usize, rid: Option<Rid>, row: Option<Vec<u8>>) {
        let waits = row.as_ref().is_some_and(|row| {
            let outcomes = self.outcomes(writer, rid, row);
            outcomes.waits || outcomes.may_wait
        });
        if !waits {
            self.write(writer, rid, row);
        }
    }

    fn look_back(&mut self) {
        match self.random.below(3) {
            0 if self.old.len() < 4 => {
                let mut txn = self.engine.session(Isolation::RepeatableRead);
                txn.start_statement();
                let hint = format!("{}, new snapshot", self.hint);
                self.keyed.check_against(&mut txn, &self.committed, ReadView::Snapshot, &hint);
                txn.end_statement();
                self.old.push((txn, self.committed.clone()));
            }
            1 if !self.old.is_empty() => {
                let place = self.random.below(self.old.len() as u64) as usize;
                self.old.swap_remove(place);
            }
            _ => {
                for (txn, rows) in &mut self.old {
                    txn.start_statement();
                    let hint = format!("{}, old snapshot", self.hint);
                    self.keyed.check_against(txn, rows, ReadView::Snapshot, &hint);
                    txn.end_statement();
                }
            }
        }
    }

    /// Ends all sessions and opens the pool again.
    fn restart(self) -> Run {
        let Run { medium, engine, keyed, committed, writers, old, mut random, bound, hint } = self;
        let kinds = keyed.kinds.clone();
        drop((writers, old, keyed));
        if random.one_in(2) {
            engine.close();
        }
        drop(engine);
        let engine = open(&medium, &kinds);
        let keyed = Keyed::open(&engine, "t", &kinds);
        let writers = [Writer::new(&engine), Writer::new(&engine)];
        if random.one_in(2) {
            engine.sweep().unwrap();
        }
        let mut run = Run { medium, engine, keyed, committed, writers, old: Vec::new(), random, bound, hint };
        run.check();
        run
    }
}

/// Asserts that a write was refused for a reason.
fn refused(txn: &Session, outcomes: &Outcomes, locked: bool, error: &Error, hint: &str) {
    match error.kind() {
        ErrorKind::DuplicateKey => {
            let duplicate = txn.duplicate().unwrap_or_else(|| panic!("{hint}: which key?"));
            assert!(outcomes.duplicate.contains(&duplicate), "{hint}: {duplicate:?} is none of {outcomes:?}");
        }
        ErrorKind::LockWaitTimeout => {
            assert!(locked || outcomes.waits || outcomes.may_wait, "{hint}: nobody is to be waited for: {error}")
        }
        _ => panic!("{hint}: {error}"),
    }
}

fn run(seed: u64, kinds: &[Kind], steps: u32) {
    let mut run = Run::new(seed, kinds);
    for _ in 0..steps {
        let writer = run.random.below(2) as usize;
        match run.random.below(40) {
            0..20 => run.statement(writer),
            20..23 => run.scan_beside_own_writes(writer),
            23..32 => run.end(writer),
            32..35 => run.look_back(),
            35 => drop(run.engine.checkpoint().unwrap()),
            36..39 => {
                run.engine.checkpoint().unwrap();
                run.engine.purge();
            }
            _ if run.random.one_in(3) => run = run.restart(),
            _ => run.engine.sweep().unwrap(),
        }
    }
    for writer in 0..2 {
        run.writers[writer].txn.rollback().unwrap();
        run.writers[writer].forget();
    }
    run.old.clear();
    run.engine.sweep().unwrap();
    for _ in 0..2 {
        run.engine.checkpoint().unwrap();
        run.engine.purge();
    }
    run.check();
    assert_eq!(run.keyed.check(&run.engine), run.committed);
    run.keyed.table.audit().unwrap_or_else(|error| panic!("{}: {error}", run.hint));
    let mut run = run.restart();
    run.check();
}

#[test]
fn all_kinds_of_keys() {
    seeds(6).for_each(|seed| run(seed, &KINDS, 250));
}

#[test]
fn short_keys() {
    seeds(12).for_each(|seed| run(100 + seed, &[Kind::Number, Kind::Group], 400));
}

#[test]
fn names_alone() {
    seeds(8).for_each(|seed| run(200 + seed, &[Kind::Name], 400));
}

#[test]
fn long_keys() {
    seeds(5).for_each(|seed| run(300 + seed, &[Kind::Long], 250));
    seeds(2).for_each(|seed| run(350 + seed, &[Kind::Longest], 150));
}

#[test]
fn many_rows_of_one_group() {
    seeds(8).for_each(|seed| run(400 + seed, &[Kind::Group], 500));
}
