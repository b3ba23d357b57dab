//! SERIALIZABLE transactions.
//!
//! Perdura locks the tables that such a transaction reads, InnoDB the rows and gaps. Neither set
//! contains the other, so no other transaction is open meanwhile. Of the statements of others only
//! those come whose outcome is the same: a read, and an INSERT into a table that the transaction
//! has read as a whole.

use rand::Rng;

use super::generate::Generator;
use super::random::chance;
use super::schema::Table;
use super::step::{Kind, SESSIONS, Step};

impl Generator {
    /// A SERIALIZABLE transaction from its beginning to its end.
    pub fn serializable(&mut self, session: usize) -> Option<()> {
        for other in (0..SESSIONS).filter(|&other| self.tracker.session(other).is_open).collect::<Vec<_>>() {
            self.plan(Step::new(other, Kind::Commit, "COMMIT"));
        }
        self.plan(Step::new(session, Kind::Setting, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"));
        self.plan(Step::new(session, Kind::Begin { snapshot: false }, "BEGIN"));
        for _ in 0..self.random.random_range(1..4) {
            let step = if chance(&mut self.random, 50) { self.change(session) } else { self.query(session) };
            if let Some(step) = step.map(as_locking) {
                self.plan(step);
            }
            self.intrude(session);
        }
        let end = if chance(&mut self.random, 70) { (Kind::Commit, "COMMIT") } else { (Kind::Rollback, "ROLLBACK") };
        self.plan(Step::new(session, end.0, end.1));
        Some(())
    }

    /// The session reads a table; another one reads it too, and fails to insert into it.
    fn intrude(&mut self, session: usize) {
        let Some(index) = self.some_base_table() else { return };
        let other = (session + self.random.random_range(1..SESSIONS)) % SESSIONS;
        let table = self.tables[index].clone();
        if table.has_hashed_key() {
            return;
        }
        let look = |session, kind| Step::new(session, kind, table.select_all()).reading([&table.name]);
        self.plan(look(session, Kind::LockingQuery));
        self.plan(look(other, Kind::Query));
        if table.unique && !table.is_order_sensitive() && table.triggers.is_empty() {
            let text = insert_of_new_id(&mut self.tables[index]);
            self.plan(Step::new(other, Kind::Change, text).writing([&table.name]).in_order(true));
        }
    }
}

/// A plain read locks here.
fn as_locking(step: Step) -> Step {
    let kind = if step.kind == Kind::Query { Kind::LockingQuery } else { step.kind };
    Step { kind, ..step }
}

fn insert_of_new_id(table: &mut Table) -> String {
    table.next_id += 1;
    format!("INSERT INTO {} (id) VALUES ({})", table.name, table.next_id - 1)
}
