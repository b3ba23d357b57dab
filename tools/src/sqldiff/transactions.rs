//! BEGIN, COMMIT, savepoints and XA.
//!
//! Under REPEATABLE READ both engines take the transaction's snapshot at its first consistent read.
//! INSERT ... SELECT is one for Perdura only: InnoDB locks the rows of the source. So a transaction
//! that does not begin WITH CONSISTENT SNAPSHOT sends a read right after its first statement, and
//! no other session sends anything in between.

use rand::Rng;

use super::generate::{Generator, Planned};
use super::random::{chance, pick};
use super::step::{Kind, Step};

const SAVEPOINTS: [&str; 5] = ["a", "b", "c", "A", "`long name of a savepoint`"];

impl Generator {
    /// Opens a transaction and sends its first statements.
    pub fn begin(&mut self, session: usize) {
        if chance(&mut self.random, 35) {
            let repeatable = chance(&mut self.random, 50);
            let level = if repeatable { "REPEATABLE READ" } else { "READ COMMITTED" };
            let text = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
            self.plan(Step::new(session, Kind::Isolation { repeatable }, text));
        }
        let read_only = chance(&mut self.random, 4);
        if chance(&mut self.random, 50) {
            let only = if read_only { ", READ ONLY" } else { "" };
            let text = format!("START TRANSACTION WITH CONSISTENT SNAPSHOT{only}");
            self.plan(Step::new(session, Kind::Begin { snapshot: true }, text).engine_shows());
            return;
        }
        let text = if read_only { "START TRANSACTION READ ONLY" } else { "BEGIN" };
        self.plan(Step::new(session, Kind::Begin { snapshot: false }, text));
        self.open_with_read(session);
    }

    /// The first statement of a transaction, perhaps a change, and a read after which both engines
    /// have a snapshot.
    fn open_with_read(&mut self, session: usize) {
        let change = chance(&mut self.random, 60).then(|| self.change(session)).flatten();
        if let Some(step) = change {
            self.plan(step);
        }
        if let Some(index) = self.some_base_table() {
            let table = &self.tables[index];
            let step = Step::new(session, Kind::Query, table.select_all()).reading([&table.name]);
            self.plan(step);
        }
    }

    /// Ends the session's transaction.
    pub fn end(&mut self, session: usize) {
        match self.random.random_range(0..20) {
            0..12 => self.plan(Step::new(session, Kind::Commit, "COMMIT")),
            12 => {
                self.plan(Step::new(session, Kind::Commit, "COMMIT"));
                self.begin(session);
            }
            _ => self.plan(Step::new(session, Kind::Rollback, "ROLLBACK")),
        }
    }

    /// Sets a savepoint (perhaps again), rolls back to it or releases it. The savepoint need not
    /// exist.
    pub fn savepoint(&mut self, session: usize) -> Step {
        let name = pick(&mut self.random, &SAVEPOINTS);
        let text = match self.random.random_range(0..10) {
            0..5 => format!("SAVEPOINT {name}"),
            5..9 => format!("ROLLBACK TO SAVEPOINT {name}"),
            _ => format!("RELEASE SAVEPOINT {name}"),
        };
        Step::new(session, Kind::Savepoint, text)
    }

    /// A distributed transaction without interruption: no locks of others may end it.
    pub fn distributed(&mut self, session: usize) -> Option<()> {
        if self.tracker.any_open() {
            return None;
        }
        let name = format!("x{}", self.next_name);
        self.next_name += 1;
        self.plan(Step::new(session, Kind::Begin { snapshot: false }, format!("XA START '{name}'")));
        // InnoDB forgets a prepared transaction that has changed temporary tables only.
        let mut may_restart = self.may_restart();
        for _ in 0..self.random.random_range(1..4) {
            let Some(step) = self.change(session) else { continue };
            may_restart &= self.tables.iter().all(|table| table.owner.is_none() || !step.writes.contains(&table.name));
            self.plan(step);
        }
        self.plan(Step::new(session, Kind::Setting, format!("XA END '{name}'")));
        let end = if chance(&mut self.random, 70) { (Kind::Commit, "COMMIT") } else { (Kind::Rollback, "ROLLBACK") };
        match self.random.random_range(0..6) {
            0 if may_restart => {
                self.plan(Step::new(session, Kind::Setting, format!("XA PREPARE '{name}'")));
                self.plan(Step::new(session, Kind::Restart { kill: true }, "kill -9"));
                let written: Vec<String> = self.tables.iter().map(|table| table.name.clone()).collect();
                self.plan(Step::new(session, Kind::Setting, "XA RECOVER"));
                let step = Step::new(session, Kind::Definition, format!("XA {} '{name}'", end.1));
                self.plan(step.writing(&written));
            }
            1 => self.plan(Step::new(session, Kind::Rollback, format!("XA ROLLBACK '{name}'"))),
            2 => self.plan(Step::new(session, Kind::Commit, format!("XA COMMIT '{name}' ONE PHASE"))),
            _ => {
                self.plan(Step::new(session, Kind::Setting, format!("XA PREPARE '{name}'")));
                self.plan(Step::new(session, end.0, format!("XA {} '{name}'", end.1)));
            }
        }
        Some(())
    }

    /// A change that waits for nobody and for which nobody waits.
    pub fn guarded(&mut self, session: usize, step: Step) {
        let in_the_way = step.tables().any(|table| self.tracker.locked_by_others(session, table));
        if in_the_way && !self.tracker.session(session).is_open {
            let text = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
            self.plan(Step::new(session, Kind::Begin { snapshot: true }, text).engine_shows());
        }
        self.plan(step);
    }

    /// Appends a step without an effect on the model.
    pub fn plan(&mut self, step: impl Into<Planned>) {
        self.queue.push_back(step.into());
    }
}
