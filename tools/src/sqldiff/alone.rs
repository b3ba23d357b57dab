//! Transactions that run alone: no other one is open from their beginning to their end.

use rand::Rng;

use super::generate::Generator;
use super::random::{chance, pick};
use super::schema::Table;
use super::step::{Kind, SESSIONS, Step};
use super::tracker::Alone;

/// Nobody else holds a lock then, and nobody has changed a table since the snapshot. So the way to
/// the rows decides nothing, and the statements take every way there is, also over what the
/// transaction itself has inserted, changed, deleted or rolled back.
///
/// Tables with a unique key that the server hashes are touched only by such a transaction, or while
/// none is open: the server looks for duplicates by a read, which does not wait in InnoDB for rows
/// of others, and in Perdura does.
impl Generator {
    /// Ends all transactions and begins one that runs alone.
    pub fn go_alone(&mut self, session: usize) {
        for other in (0..SESSIONS).filter(|&other| self.tracker.session(other).is_open).collect::<Vec<_>>() {
            self.plan(Step::new(other, Kind::Commit, "COMMIT"));
        }
        let repeatable = chance(&mut self.random, 50);
        let level = if repeatable { "REPEATABLE READ" } else { "READ COMMITTED" };
        let text = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
        self.plan(Step::new(session, Kind::Isolation { repeatable }, text));
        if chance(&mut self.random, 30) {
            let text = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
            self.plan(Step::new(session, Kind::Begin { snapshot: true }, text).engine_shows());
        } else {
            self.plan(Step::new(session, Kind::Begin { snapshot: false }, "BEGIN"));
        }
        self.alone = Some(Alone { session, left: self.random.random_range(5..40) });
    }

    /// Whether the session's transaction runs alone.
    pub fn is_alone(&self, session: usize) -> bool {
        self.alone.is_some_and(|alone| alone.session == session)
    }

    /// Plans the next statement of the transaction that runs alone. False if there is none.
    pub fn compose_alone(&mut self) -> bool {
        let Some(Alone { session, left }) = self.alone else { return false };
        if left == 0 || !self.tracker.session(session).is_open {
            self.alone = None;
            self.end(session);
            return true;
        }
        self.alone = Some(Alone { session, left: left - 1 });
        let step = match self.random.random_range(0..100) {
            0..62 => self.change(session),
            62..84 => self.query(session),
            _ => Some(self.savepoint(session)),
        };
        if let Some(step) = step {
            self.plan(step);
        }
        true
    }

    /// Whether statements of the session may use a table: one with a key that the server hashes,
    /// only while nobody else is in a transaction.
    pub fn may_touch(&self, session: usize, table: &Table) -> bool {
        !table.has_hashed_key() || self.is_alone(session) || !self.tracker.any_open()
    }

    /// A hint, with a space before it, for one of a table's keys or against it, or none.
    pub fn some_way(&mut self, table: &Table) -> String {
        let names: Vec<&str> = table.sought_keys().map(|key| key.name.as_str()).collect();
        if names.is_empty() || chance(&mut self.random, 50) {
            return String::new();
        }
        let hint = *pick(&mut self.random, &["FORCE", "FORCE", "IGNORE"]);
        format!(" {hint} INDEX ({})", pick(&mut self.random, &names))
    }
}
