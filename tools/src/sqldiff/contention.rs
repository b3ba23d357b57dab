//! Statements whose locks stay, or meet those of others.

use super::generate::Generator;
use super::outcome::{LOCK_WAIT, Outcome, is_of_row};
use super::random::chance;
use super::schema::Table;
use super::step::{Kind, Step};

/// In a transaction, and on tables of which other sessions hold row locks, the outcome depends on
/// the way to the rows. InnoDB locks what it meets on that way, Perdura what the statement uses.
/// InnoDB finds out in the clustered index that a row has changed since the snapshot; along a
/// secondary key it passes by deleted rows, and with the columns in that key it reads new ones,
/// without a conflict. What a statement changes nothing of it takes from the newest rows, Perdura
/// from the snapshot. So a statement of this kind goes through the whole table, or reads one row by
/// its primary key: then InnoDB meets all that Perdura meets, and it is known which engine may
/// refuse alone (tracker.rs). And it reads beside its own table no table that others have changed.
/// A transaction that runs alone (alone.rs) takes any way.
impl Generator {
    /// Whether the way to the rows of a table decides the outcome of a statement of the session
    /// that locks them.
    pub fn is_contended(&self, session: usize, table: &Table) -> bool {
        let keeps_locks = self.tracker.session(session).is_open;
        !self.is_alone(session)
            && !table.keys.is_empty()
            && (keeps_locks || self.tracker.locked_by_others(session, &table.name))
    }

    /// The condition of an UPDATE and the hint behind its table: for such a statement one row by
    /// the primary key, or past all keys; for others any.
    pub fn settled(&mut self, session: usize, table: &Table, condition: String) -> (String, String) {
        if self.is_contended(session, table) && table.has_primary_id() && chance(&mut self.random, 50) {
            return (format!("id = {}", table.some_id(&mut self.random)), String::new());
        }
        let hint =
            if self.is_contended(session, table) { self.past_keys(session, table) } else { self.some_way(table) };
        (condition, hint)
    }

    /// The condition of a DELETE, which takes no hint: no key answers it.
    pub fn settled_delete(&mut self, session: usize, table: &Table, condition: String) -> String {
        if !self.is_contended(session, table) {
            return condition;
        }
        let (condition, hint) = self.settled(session, table, condition);
        if hint.is_empty() { condition } else { format!("({condition}) IS TRUE") }
    }

    /// A hint, with a space before it, that keeps such a statement from the table's keys.
    pub fn past_keys(&self, session: usize, table: &Table) -> String {
        if !self.is_contended(session, table) {
            return String::new();
        }
        let names: Vec<&str> = table.keys.iter().map(|key| key.name.as_str()).collect();
        format!(" IGNORE INDEX ({})", names.join(", "))
    }

    /// Whether a change reads, beside what it changes, a table that others have changed since the
    /// snapshot: InnoDB reads it anew.
    pub fn reads_stale(&self, step: &Step) -> bool {
        step.reads.iter().any(|table| self.tracker.changed_since_snapshot(step.session, table))
    }

    /// Whether the engines may hold locks of different rows after a statement that failed in both:
    /// each has come to other rows before. The transaction is rolled back then. An INSERT of given
    /// values comes to its rows in order.
    pub fn leaves_other_locks(&self, step: &Step, outcome: &Outcome) -> bool {
        let Some(code) = outcome.code() else { return false };
        let given = ["INSERT", "REPLACE", "LOAD"].iter().any(|verb| step.text.starts_with(verb));
        let in_order = step.ordered && (given || code != LOCK_WAIT);
        let in_xa = self.queue.iter().any(|planned| planned.step.text.starts_with("XA "));
        matches!(step.kind, Kind::Change | Kind::LockingQuery)
            && (code == LOCK_WAIT || is_of_row(code))
            && self.tracker.session(step.session).is_open
            && !in_order
            && !in_xa
            && !self.is_alone(step.session)
    }
}
