//! What the threads of a scenario do: seeded transactions of every kind, written down for the oracle before they commit.
//!
//! Each thread writes rows of its own and changes a few shared ones, so that locks are waited for and conflicts happen. Labels
//! (spans) tell the explorer which hazards a crash point belongs to.

use super::oracle::{Change, History, Key, Step, key_of};
use perdura_engine::{Engine, Isolation, Rid, Table, Txn};
use perdura_pmem::sim::Random;
use perdura_pmem::trace;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Kinds of transactions, and how often each is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix {
    /// A few single rows.
    pub insert: u32,
    /// So many rows that pages and segments of its own are used.
    pub bulk: u32,
    /// Changes of own and shared rows.
    pub update: u32,
    /// Changes of so many own rows that the redo comes in chunks over several generations.
    pub huge: u32,
    /// Deletions of own rows.
    pub delete: u32,
    /// Writes of all kinds, some of them taken back to a savepoint.
    pub savepoint: u32,
    /// Writes of all kinds, all taken back.
    pub rollback: u32,
    /// Prepared, then committed or rolled back.
    pub prepare: u32,
    /// Prepared in a session of its own, and decided only at the next such action.
    pub hold: u32,
    /// Create, rename, truncate, drop.
    pub ddl: u32,
    /// A row larger than a segment.
    pub large: u32,
    /// Checkpoint.
    pub checkpoint: u32,
    /// Checkpoint and purge.
    pub purge: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Insert,
    Bulk,
    Update,
    Huge,
    Delete,
    Savepoint,
    Rollback,
    Prepare,
    Hold,
    Ddl,
    Large,
    Checkpoint,
    Purge,
}

impl Mix {
    fn choose(&self, random: &mut Random) -> Action {
        let weights = [
            (Action::Insert, self.insert),
            (Action::Bulk, self.bulk),
            (Action::Update, self.update),
            (Action::Huge, self.huge),
            (Action::Delete, self.delete),
            (Action::Savepoint, self.savepoint),
            (Action::Rollback, self.rollback),
            (Action::Prepare, self.prepare),
            (Action::Hold, self.hold),
            (Action::Ddl, self.ddl),
            (Action::Large, self.large),
            (Action::Checkpoint, self.checkpoint),
            (Action::Purge, self.purge),
        ];
        let mut pick = random.below(weights.iter().map(|(_, weight)| u64::from(*weight)).sum());
        for (action, weight) in weights {
            if pick < u64::from(weight) {
                return action;
            }
            pick -= u64::from(weight);
        }
        unreachable!("the pick is below the sum of the weights")
    }
}

/// One thread of a scenario.
pub struct Worker<'a> {
    engine: Engine,
    history: &'a History,
    random: Random,
    thread: u64,
    next_key: u64,
    /// The session in use.
    txn: Box<Txn>,
    /// Others, so that threads meet in each shard of a table.
    spare: Vec<Txn>,
    /// A prepared transaction, its number and the rows it inserts.
    held: Option<(Box<Txn>, usize)>,
    table: Arc<Table>,
    rows: BTreeMap<Key, Rid>,
    shared: Vec<(Key, Rid)>,
    purged: bool,
    own_tables: Vec<String>,
    tables_made: u32,
    /// The rows as the transaction under way would leave them, and its changes.
    changes: BTreeMap<Key, Option<Vec<u8>>>,
    rids: BTreeMap<Key, Rid>,
}

/// Name of the table all threads write to.
pub const TABLE: &str = "main";
/// Number of shared rows.
pub const SHARED: u64 = 3;

/// Creates the table and the shared rows; returns them.
pub fn prelude(engine: &Engine, history: &History) -> Vec<(Key, Rid)> {
    let create = history.add(vec![Change::Create(TABLE.into())]);
    trace::mark(Step::Begin.mark(create));
    let table = engine.create_table(TABLE, b"definition").expect("the table is new");
    trace::ack(Step::Committed.mark(create));
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let rows: Vec<Vec<u8>> = (0..SHARED).map(|key| [&key.to_le_bytes()[..], b"shared"].concat()).collect();
    let shared = rows.iter().map(|row| (key_of(row), txn.insert(&table, row).expect("there is room"))).collect();
    let fill = history.add(rows.into_iter().map(|row| Change::Put(TABLE.into(), row)).collect());
    trace::mark(Step::Begin.mark(fill));
    txn.commit().expect("there is room");
    trace::ack(Step::Committed.mark(fill));
    shared
}

impl<'a> Worker<'a> {
    /// A worker; `thread` distinguishes its rows.
    pub fn new(engine: &Engine, history: &'a History, shared: Vec<(Key, Rid)>, thread: u64, seed: u64) -> Worker<'a> {
        let mut random = Random::new(seed ^ (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let isolation = if random.one_in(2) { Isolation::ReadCommitted } else { Isolation::RepeatableRead };
        Worker {
            txn: engine.begin(isolation),
            spare: (0..3).map(|_| *engine.begin(isolation)).collect(),
            held: None,
            table: engine.table(TABLE).expect("the prelude made it"),
            engine: engine.clone(),
            history,
            random,
            thread,
            next_key: 0,
            rows: BTreeMap::new(),
            shared,
            purged: false,
            own_tables: Vec::new(),
            tables_made: 0,
            changes: BTreeMap::new(),
            rids: BTreeMap::new(),
        }
    }

    /// Runs `count` transactions of `mix`.
    pub fn run(&mut self, mix: &Mix, count: u32) {
        for _ in 0..count {
            let action = mix.choose(&mut self.random);
            let session = self.random.below(self.spare.len() as u64) as usize;
            std::mem::swap(&mut *self.txn, &mut self.spare[session]);
            self.act(action);
        }
        self.decide_held();
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Insert => self.transaction("insert", |worker| worker.insert_some(1, 3)),
            Action::Bulk => self.transaction("bulk_insert", |worker| worker.insert_some(70, 130)),
            Action::Update => self.transaction("update", |worker| worker.update_some(3)),
            Action::Huge => self.transaction("large_transaction", Worker::update_all),
            Action::Delete => self.transaction("delete", |worker| worker.delete_some(3)),
            Action::Savepoint => self.transaction("savepoint", Worker::write_with_savepoint),
            Action::Large => self.transaction("large_row", |worker| worker.insert_large()),
            Action::Rollback => self.roll_back(),
            Action::Prepare => self.prepare(),
            Action::Hold => self.hold(),
            Action::Ddl => self.ddl(),
            Action::Checkpoint => {
                self.engine.checkpoint().expect("simulated memory takes it");
            }
            Action::Purge => {
                self.engine.checkpoint().expect("simulated memory takes it");
                self.purged |= self.engine.purge() > 0;
            }
        }
    }

    /// Runs `write`, then commits. A lock conflict rolls everything back.
    fn transaction(&mut self, label: &'static str, write: impl FnOnce(&mut Self) -> bool) {
        let _label = trace::span(label);
        let _reuse = self.purged.then(|| trace::span("reuse"));
        self.txn.start_statement();
        if !write(self) {
            return self.give_up();
        }
        let number = self.write_down();
        trace::mark(Step::Begin.mark(number));
        self.txn.commit().expect("there is room");
        trace::ack(Step::Committed.mark(number));
        self.settle();
    }

    fn write_down(&mut self) -> usize {
        let changes = self.changes.iter().map(|(key, row)| match row {
            Some(row) => Change::Put(TABLE.into(), row.clone()),
            None => Change::Remove(TABLE.into(), *key),
        });
        self.history.add(changes.collect())
    }

    /// After a commit: what was pending is so.
    fn settle(&mut self) {
        for (key, row) in std::mem::take(&mut self.changes) {
            if key < SHARED {
                continue;
            }
            match (row, self.rids.get(&key)) {
                (Some(_), Some(rid)) => {
                    self.rows.insert(key, *rid);
                }
                (Some(_), None) => {}
                (None, _) => {
                    self.rows.remove(&key);
                }
            }
        }
        self.rids.clear();
    }

    fn give_up(&mut self) {
        self.txn.rollback().expect("nothing is ordered");
        self.changes.clear();
        self.rids.clear();
    }

    fn row(&mut self, key: Key, bytes: u64) -> Vec<u8> {
        let mut row = key.to_le_bytes().to_vec();
        let fill = self.random.next_u64() as u8;
        row.extend((0..bytes).map(|position| fill.wrapping_add(position as u8)));
        row
    }

    fn insert_one(&mut self, bytes: u64) {
        self.next_key += 1;
        let key = (self.thread + 1) << 32 | self.next_key;
        let row = self.row(key, bytes);
        let rid = self.txn.insert(&self.table, &row).expect("there is room");
        self.changes.insert(key, Some(row));
        self.rids.insert(key, rid);
    }

    fn insert_some(&mut self, least: u64, spread: u64) -> bool {
        for _ in 0..least + self.random.below(spread) {
            let bytes = if self.random.one_in(120) { 5000 } else { self.random.below(60) };
            self.insert_one(bytes);
        }
        true
    }

    fn insert_large(&mut self) -> bool {
        let bytes = 4000 + self.random.below(9000);
        self.insert_one(bytes);
        true
    }

    /// A row of its own, as the transaction under way sees it.
    fn own_row(&mut self) -> Option<(Key, Rid)> {
        let deleted = |key: &Key| self.changes.get(key).is_some_and(Option::is_none);
        let rows: Vec<(Key, Rid)> = self
            .rows
            .iter()
            .chain(&self.rids)
            .filter(|(key, _)| !deleted(key))
            .map(|(key, rid)| (*key, *rid))
            .collect();
        (!rows.is_empty()).then(|| rows[self.random.below(rows.len() as u64) as usize])
    }

    fn update_some(&mut self, most: u64) -> bool {
        for _ in 0..1 + self.random.below(most) {
            let target = if self.random.one_in(4) {
                let position = self.random.below(self.shared.len() as u64) as usize;
                Some(self.shared[position])
            } else {
                self.own_row()
            };
            let Some((key, rid)) = target else { continue };
            let bytes = self.random.below(90);
            let row = self.row(key, bytes);
            if self.txn.update(&self.table, rid, &row).is_err() {
                return false;
            }
            self.changes.insert(key, Some(row));
        }
        true
    }

    fn update_all(&mut self) -> bool {
        const MOST: usize = 400;
        let rows: Vec<(Key, Rid)> = self.rows.iter().take(MOST).map(|(key, rid)| (*key, *rid)).collect();
        for (key, rid) in rows {
            let row = self.row(key, 8);
            if self.txn.update(&self.table, rid, &row).is_err() {
                return false;
            }
            self.changes.insert(key, Some(row));
        }
        true
    }

    fn delete_some(&mut self, most: u64) -> bool {
        for _ in 0..1 + self.random.below(most) {
            let Some((key, rid)) = self.own_row() else { return true };
            if self.txn.delete(&self.table, rid).is_err() {
                return false;
            }
            self.changes.insert(key, None);
        }
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
        let savepoint = self.txn.savepoint();
        let (changes, rids) = (self.changes.clone(), self.rids.clone());
        going = going && self.write_anything() && self.write_anything();
        self.txn.rollback_to(&savepoint);
        (self.changes, self.rids) = (changes, rids);
        going && self.write_anything()
    }

    fn roll_back(&mut self) {
        let _label = trace::span("rollback");
        self.txn.start_statement();
        let _ = self.write_anything() && self.write_anything();
        self.give_up();
    }

    fn prepare(&mut self) {
        let _label = trace::span("prepared");
        self.txn.start_statement();
        if !self.write_anything() || self.changes.is_empty() {
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
            self.txn.commit_ordered();
            self.txn.commit().expect("a prepared transaction commits");
            trace::ack(Step::Committed.mark(number));
            self.settle();
        } else {
            trace::mark(Step::Undoing.mark(number));
            self.give_up();
            trace::ack(Step::Undone.mark(number));
        }
    }

    /// Prepares a transaction that inserts rows, and leaves it so for a while.
    fn hold(&mut self) {
        let _label = trace::span("prepared");
        self.decide_held();
        let mut txn = self.engine.begin(Isolation::ReadCommitted);
        std::mem::swap(&mut self.txn, &mut txn);
        let many = self.random.one_in(3);
        self.insert_some(1, if many { 90 } else { 3 });
        let number = self.write_down();
        self.changes.clear();
        self.rids.clear();
        trace::mark(Step::Begin.mark(number));
        self.txn.prepare(&(number as u64).to_le_bytes()).expect("there is room");
        trace::ack(Step::Prepared.mark(number));
        std::mem::swap(&mut self.txn, &mut txn);
        self.held = Some((txn, number));
    }

    fn decide_held(&mut self) {
        let Some((mut txn, number)) = self.held.take() else { return };
        if self.random.one_in(2) {
            trace::mark(Step::Deciding.mark(number));
            txn.commit().expect("a prepared transaction commits");
            trace::ack(Step::Committed.mark(number));
        } else {
            trace::mark(Step::Undoing.mark(number));
            txn.rollback().expect("nothing is ordered");
            trace::ack(Step::Undone.mark(number));
        }
    }

    fn ddl(&mut self) {
        let _label = trace::span("ddl");
        let pick = self.random.below(self.own_tables.len() as u64 + 1) as usize;
        match self.own_tables.get(pick).cloned() {
            None => self.create_table(),
            Some(name) => match self.random.below(3) {
                0 => self.definition_change(Change::Drop(name.clone()), |engine| engine.drop_table(&name)),
                1 => self.definition_change(Change::Truncate(name.clone()), |engine| {
                    engine.truncate_table(&name).map(|_| ())
                }),
                _ => {
                    let to = format!("{name}x");
                    self.definition_change(Change::Rename(name.clone(), to.clone()), |engine| {
                        engine.rename_table(&name, &to)
                    });
                }
            },
        }
    }

    fn create_table(&mut self) {
        self.tables_made += 1;
        let name = format!("t{}_{}", self.thread, self.tables_made);
        self.definition_change(Change::Create(name.clone()), |engine| {
            engine.create_table(&name, b"of a thread").map(|_| ())
        });
        let table = self.engine.table(&name).expect("just made");
        let rows: Vec<Vec<u8>> = (0..1 + self.random.below(3)).map(|key| self.row(key, 20)).collect();
        self.txn.start_statement();
        for row in &rows {
            self.txn.insert(&table, row).expect("there is room");
        }
        let number = self.history.add(rows.into_iter().map(|row| Change::Put(name.clone(), row)).collect());
        trace::mark(Step::Begin.mark(number));
        self.txn.commit().expect("there is room");
        trace::ack(Step::Committed.mark(number));
    }

    fn definition_change(&mut self, change: Change, run: impl FnOnce(&Engine) -> perdura_engine::Result<()>) {
        match &change {
            Change::Create(name) => self.own_tables.push(name.clone()),
            Change::Drop(name) => self.own_tables.retain(|own| own != name),
            Change::Rename(from, to) => {
                self.own_tables.retain(|own| own != from);
                self.own_tables.push(to.clone());
            }
            _ => {}
        }
        let number = self.history.add(vec![change]);
        trace::mark(Step::Begin.mark(number));
        run(&self.engine).expect("there is room and the table is the thread's own");
        trace::ack(Step::Committed.mark(number));
    }
}
