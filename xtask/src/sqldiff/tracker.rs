//! Tracks open transactions and what they have touched, to tell which refusals by InnoDB alone its wider locks explain.
//!
//! Without a key InnoDB locks every row a statement scans, and under REPEATABLE READ the gaps as well; Perdura locks the
//! rows the statement changes. So InnoDB may refuse where Perdura does not, never the other way round. Only these facts explain a
//! refusal by InnoDB alone:
//!
//! - 1205: another open transaction has changed or locked rows of a table the statement touches;
//! - 1020: another session has committed changes of such a table since this session's snapshot.
//!
//! A failed statement keeps the locks of the rows it has met, and the two engines meet rows in different orders. So Perdura alone may
//! refuse with 1205 if a statement of another open transaction on such a table has failed before.
//!
//! A row that another session has deleted since the snapshot is a conflict for Perdura however it is found. InnoDB passes by it if it
//! comes along a secondary key. So Perdura alone may refuse with 1213 if such a table has keys.
//!
//! After an explained refusal both servers roll the session's transaction back, so that they stay equal.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::{DEADLOCK, LOCK_WAIT, Outcome, TABLE_CHANGED, is_of_row};
use super::step::{Kind, OBSERVER, Step};

/// Why the two servers may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Explained {
    /// InnoDB waits for a row that Perdura does not lock.
    WiderLock,
    /// InnoDB has a conflict over a row that Perdura does not change.
    WiderConflict,
    /// Both refuse, over different rows: one waits, the other has a conflict.
    OtherRowFirst,
    /// Perdura has a conflict over a row that InnoDB passes by, since it has been deleted.
    ConflictOfDeleted,
    /// InnoDB reads the row that has a key already, in a table newer than the snapshot. Perdura reads its newest version.
    DuplicateInNewTable,
    /// The engines take different ways to the rows of a table with keys, and so lock more or fewer of them (those that a LIMIT leaves out,
    /// or those before an erroneous one), or come to a table that is newer than the snapshot.
    OtherPlan,
    /// Perdura waits for a row that a failed statement has locked.
    LockOfFailure,
}

/// One session's transaction.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Whether a transaction is open.
    pub is_open: bool,
    /// Whether this transaction and the next run at REPEATABLE READ.
    pub repeatable: bool,
    /// Tables that it has used, on which DDL of others must wait.
    pub used: BTreeSet<String>,
    /// Tables in which it may hold row locks.
    pub locked: BTreeSet<String>,
    /// Tables on which one of its statements has failed.
    failed: BTreeSet<String>,
    /// Tables that it may have changed.
    pub written: BTreeSet<String>,
    /// When its snapshot was taken.
    pub snapshot: Option<u64>,
    /// When it first used a table.
    first_use: Option<u64>,
}

impl Session {
    fn end(&mut self) {
        *self = Self { repeatable: self.repeatable, ..Self::default() };
    }
}

/// All sessions.
pub struct Tracker {
    sessions: Vec<Session>,
    /// The commits on each table: when, and by which session.
    commits: BTreeMap<String, Vec<(u64, usize)>>,
    clock: u64,
}

impl Default for Tracker {
    fn default() -> Self {
        let mut sessions = vec![Session { repeatable: true, ..Session::default() }; OBSERVER];
        sessions.push(Session::default());
        Self { sessions, commits: BTreeMap::new(), clock: 0 }
    }
}

impl Tracker {
    /// The state of a session.
    pub fn session(&self, number: usize) -> &Session {
        &self.sessions[number]
    }

    /// Whether any transaction is open.
    pub fn any_open(&self) -> bool {
        self.sessions.iter().any(|session| session.is_open)
    }

    /// Whether a transaction of another session may hold row locks of the table.
    pub fn locked_by_others(&self, session: usize, table: &str) -> bool {
        self.others(session).any(|other| other.locked.contains(table))
    }

    /// Whether an open transaction of another session has used the table, so that DDL on it would wait.
    pub fn used_by_others(&self, session: usize, table: &str) -> bool {
        self.others(session).any(|other| other.used.contains(table))
    }

    fn others(&self, session: usize) -> impl Iterator<Item = &Session> {
        let others = self.sessions.iter().enumerate().filter(move |(number, _)| *number != session);
        others.map(|(_, other)| other).filter(|other| other.is_open)
    }

    fn changed_since_snapshot(&self, session: usize, table: &str) -> bool {
        let Some(snapshot) = self.sessions[session].snapshot else { return false };
        let commits = self.commits.get(table).map_or(&[][..], Vec::as_slice);
        commits.iter().any(|(time, by)| *time > snapshot && *by != session)
    }

    /// Whether the step makes InnoDB take a snapshot although Perdura may have one that misses later commits of others.
    pub fn snapshot_comes_late(&self, step: &Step) -> bool {
        let session = &self.sessions[step.session];
        let Some(first_use) = session.first_use.filter(|_| session.repeatable && session.snapshot.is_none()) else {
            return false;
        };
        step.kind == Kind::Query && self.commits.values().flatten().any(|(time, _)| *time > first_use)
    }

    /// Why InnoDB's outcome may differ from ours here, if it may. InnoDB's conflicts count as deadlocks already.
    pub fn explain(&self, step: &Step, ours: &Outcome, theirs: &Outcome) -> Option<Explained> {
        let locks = || step.tables().any(|table| self.locked_by_others(step.session, table));
        let failures =
            || step.tables().any(|table| self.others(step.session).any(|other| other.failed.contains(table)));
        let changes = || step.tables().any(|table| self.changed_since_snapshot(step.session, table));
        match (ours.code(), theirs.code()) {
            (None, Some(LOCK_WAIT)) if ours.is_done() && locks() => Some(Explained::WiderLock),
            (None, Some(DEADLOCK)) if ours.is_done() && changes() => Some(Explained::WiderConflict),
            (Some(LOCK_WAIT), Some(DEADLOCK)) | (Some(DEADLOCK), Some(LOCK_WAIT)) if locks() && changes() => {
                Some(Explained::OtherRowFirst)
            }
            // InnoDB stops at a lock or a conflict before it meets the erroneous row.
            (Some(_), Some(LOCK_WAIT)) if !ours.is_conflict() && locks() => Some(Explained::WiderLock),
            (Some(_), Some(DEADLOCK)) if !ours.is_conflict() && changes() => Some(Explained::WiderConflict),
            (None, Some(TABLE_CHANGED)) if ours.is_done() && step.keyed && changes() => {
                Some(Explained::DuplicateInNewTable)
            }
            (Some(LOCK_WAIT), _) if !theirs.is_conflict() && step.keyed && locks() => Some(Explained::OtherPlan),
            (Some(TABLE_CHANGED), None) if theirs.is_done() && step.keyed && changes() => Some(Explained::OtherPlan),
            (Some(DEADLOCK), Some(code)) if is_of_row(code) && !step.ordered && changes() => {
                Some(Explained::OtherRowFirst)
            }
            (Some(DEADLOCK), _) if !theirs.is_conflict() && step.keyed && changes() => {
                Some(Explained::ConflictOfDeleted)
            }
            (Some(LOCK_WAIT), _) if !theirs.is_conflict() && failures() => Some(Explained::LockOfFailure),
            _ => None,
        }
    }

    /// Books a step after both servers have answered.
    pub fn note(&mut self, step: &Step, theirs: &Outcome) {
        self.clock += 1;
        let number = step.session;
        let done = theirs.is_done();
        match step.kind {
            Kind::Restart { .. } => {
                let fresh = Self::default();
                self.sessions = fresh.sessions;
            }
            Kind::Isolation { repeatable } if done => self.sessions[number].repeatable = repeatable,
            Kind::Begin { snapshot } if done => {
                self.commit(number);
                let session = &mut self.sessions[number];
                session.is_open = true;
                session.snapshot = (snapshot && session.repeatable).then_some(self.clock);
            }
            Kind::Commit if done => self.commit(number),
            Kind::Rollback if done => self.sessions[number].end(),
            Kind::Definition => {
                self.commit(number);
                if done {
                    self.committed(number, step.writes.clone());
                }
            }
            Kind::Query | Kind::LockingQuery | Kind::Change => self.used(step, theirs),
            _ => {}
        }
    }

    fn used(&mut self, step: &Step, theirs: &Outcome) {
        let (number, clock) = (step.session, self.clock);
        let session = &mut self.sessions[number];
        if !session.is_open {
            if step.kind == Kind::Change && theirs.is_done() {
                self.committed(number, step.writes.clone());
            }
            return;
        }
        if theirs.code() == Some(DEADLOCK) {
            session.end();
            // The transaction is over, but some settings open a new one: the stream sends ROLLBACK next.
            session.is_open = true;
            return;
        }
        session.used.extend(step.tables().cloned());
        session.first_use.get_or_insert(clock);
        if step.kind != Kind::Query {
            session.locked.extend(step.tables().cloned());
            if !theirs.is_done() {
                session.failed.extend(step.tables().cloned());
            }
        }
        if step.kind == Kind::Change {
            session.written.extend(step.writes.iter().cloned());
        }
        if session.repeatable && session.snapshot.is_none() && step.kind == Kind::Query {
            session.snapshot = Some(clock);
        }
    }

    fn commit(&mut self, number: usize) {
        let written = std::mem::take(&mut self.sessions[number].written);
        self.sessions[number].end();
        self.committed(number, written);
    }

    fn committed(&mut self, number: usize, tables: impl IntoIterator<Item = String>) {
        for table in tables {
            let commits = self.commits.entry(table).or_default();
            commits.retain(|(_, by)| *by != number);
            commits.push((self.clock, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{DEADLOCK, LOCK_WAIT, Outcome};
    use super::super::step::{Kind, Step};
    use super::{Explained, Tracker};

    fn done() -> Outcome {
        Outcome::Done { sets: vec![], affected: 1, warnings: 0, info: String::new() }
    }

    fn refused(code: u16) -> Outcome {
        Outcome::Refused { code, message: String::new() }
    }

    fn change(session: usize, table: &str) -> Step {
        Step::new(session, Kind::Change, "").writing([&table.to_owned()])
    }

    fn begin(tracker: &mut Tracker, session: usize) {
        tracker.note(&Step::new(session, Kind::Begin { snapshot: true }, ""), &done());
    }

    #[test]
    fn a_lock_of_nobody_explains_nothing() {
        let mut tracker = Tracker::default();
        begin(&mut tracker, 0);
        begin(&mut tracker, 1);
        tracker.note(&change(0, "t"), &done());
        let explain = |step: &Step, ours: &Outcome, code| tracker.explain(step, ours, &refused(code));
        assert_eq!(explain(&change(1, "t"), &done(), LOCK_WAIT), Some(Explained::WiderLock));
        assert_eq!(explain(&change(1, "u"), &done(), LOCK_WAIT), None, "another table");
        assert_eq!(explain(&change(0, "t"), &done(), LOCK_WAIT), None, "its own lock");
        assert_eq!(explain(&change(1, "t"), &done(), DEADLOCK), None, "nobody has committed");
        assert_eq!(explain(&change(1, "t"), &done(), 1264), None, "another error");
        assert_eq!(tracker.explain(&change(1, "t"), &refused(LOCK_WAIT), &done()), None, "Perdura alone refuses");
    }

    #[test]
    fn a_conflict_needs_a_commit_since_the_snapshot() {
        let mut tracker = Tracker::default();
        begin(&mut tracker, 0);
        tracker.note(&change(0, "t"), &done());
        tracker.note(&Step::new(0, Kind::Commit, ""), &done());
        begin(&mut tracker, 1);
        assert_eq!(tracker.explain(&change(1, "t"), &done(), &refused(DEADLOCK)), None, "committed before");
        tracker.note(&change(0, "t"), &done());
        assert_eq!(tracker.explain(&change(1, "t"), &done(), &refused(DEADLOCK)), Some(Explained::WiderConflict));
        assert_eq!(tracker.explain(&change(1, "u"), &done(), &refused(DEADLOCK)), None);
        assert_eq!(tracker.explain(&change(1, "t"), &refused(DEADLOCK), &done()), None, "Perdura alone refuses");
    }

    #[test]
    fn perdura_alone_waits_only_for_what_a_failed_statement_locked() {
        let mut tracker = Tracker::default();
        begin(&mut tracker, 0);
        tracker.note(&change(0, "t"), &done());
        let explain = |tracker: &Tracker, table| tracker.explain(&change(1, table), &refused(LOCK_WAIT), &done());
        assert_eq!(explain(&tracker, "t"), None);
        tracker.note(&change(0, "t"), &refused(1264));
        assert_eq!(explain(&tracker, "t"), Some(Explained::LockOfFailure));
        assert_eq!(explain(&tracker, "u"), None, "another table");
        tracker.note(&Step::new(0, Kind::Rollback, ""), &done());
        assert_eq!(explain(&tracker, "t"), None, "rolled back");
    }

    #[test]
    fn a_rollback_lets_go_of_everything() {
        let mut tracker = Tracker::default();
        begin(&mut tracker, 0);
        tracker.note(&change(0, "t"), &done());
        assert!(tracker.locked_by_others(1, "t") && tracker.used_by_others(1, "t"));
        tracker.note(&Step::new(0, Kind::Rollback, ""), &done());
        assert!(!tracker.locked_by_others(1, "t") && !tracker.any_open());
    }
}
