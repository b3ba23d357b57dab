//! Tracks open transactions and what they have touched, to tell which refusals by InnoDB alone its
//! wider locks explain.

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
    /// InnoDB reads the row that has a key already, in a table newer than the snapshot. Perdura
    /// reads its newest version, or waits for it.
    DuplicateInNewTable,
    /// A table got a key in place. Perdura refuses older snapshots, InnoDB only reads of them by
    /// the new key.
    AlteredInPlace,
    /// The engines take different ways to the rows of several tables, and so only one comes to a
    /// table that is newer than the snapshot.
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

/// The last commit of each session on each table: when, and by which session.
type Commits = BTreeMap<String, Vec<(u64, usize)>>;

/// The transaction that runs alone.
#[derive(Clone, Copy)]
pub struct Alone {
    /// Its session.
    pub session: usize,
    /// How many of its statements are still to come.
    pub left: u32,
}

/// All sessions.
///
/// Without a key InnoDB locks every row a statement scans, and under REPEATABLE READ the gaps as
/// well; Perdura locks the rows the statement changes. So InnoDB may refuse where Perdura does not,
/// never the other way round. Only these facts explain a refusal by InnoDB alone:
///
/// - 1205: another open transaction has changed or locked rows of a table the statement touches;
/// - 1020: another session has committed changes of such a table since this session's snapshot.
///
/// The generator sees to it that on tables with keys, too, InnoDB meets all that Perdura meets
/// (contention.rs). So Perdura alone refuses only in two cases: a table is newer than the snapshot
/// and only one engine comes to it; or an INSERT or REPLACE of another open transaction has failed
/// on the table, after which Perdura keeps the locks of all rows that it has met, and InnoDB of
/// some.
///
/// After an explained refusal both servers roll the session's transaction back, so that they stay
/// equal.
pub struct Tracker {
    sessions: Vec<Session>,
    /// The commits on each table: when, and by which session.
    commits: Commits,
    /// Those of DDL among them.
    definitions: Commits,
    /// Those in place.
    alterations: Commits,
    clock: u64,
}

impl Default for Tracker {
    fn default() -> Self {
        let mut sessions = vec![Session { repeatable: true, ..Session::default() }; OBSERVER];
        sessions.push(Session::default());
        Self { sessions, commits: Commits::new(), definitions: Commits::new(), alterations: Commits::new(), clock: 0 }
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

    /// Whether an open transaction of another session has used the table, so that DDL on it would
    /// wait.
    pub fn used_by_others(&self, session: usize, table: &str) -> bool {
        self.others(session).any(|other| other.used.contains(table))
    }

    fn others(&self, session: usize) -> impl Iterator<Item = &Session> {
        let others = self.sessions.iter().enumerate().filter(move |(number, _)| *number != session);
        others.map(|(_, other)| other).filter(|other| other.is_open)
    }

    /// Whether others have committed changes of the table since the session's snapshot.
    pub fn changed_since_snapshot(&self, session: usize, table: &str) -> bool {
        self.since_snapshot(session, &self.commits, table)
    }

    fn since_snapshot(&self, session: usize, commits: &Commits, table: &str) -> bool {
        let Some(snapshot) = self.sessions[session].snapshot else { return false };
        let commits = commits.get(table).map_or(&[][..], Vec::as_slice);
        commits.iter().any(|(time, by)| *time > snapshot && *by != session)
    }

    /// Whether the step makes InnoDB take a snapshot although Perdura may have one that misses
    /// later commits of others.
    pub fn snapshot_comes_late(&self, step: &Step) -> bool {
        let session = &self.sessions[step.session];
        let Some(first_use) = session.first_use.filter(|_| session.repeatable && session.snapshot.is_none()) else {
            return false;
        };
        step.kind == Kind::Query && self.commits.values().flatten().any(|(time, _)| *time > first_use)
    }

    /// Why InnoDB's outcome may differ from ours here, if it may. InnoDB's conflicts count as
    /// deadlocks already.
    pub fn explain(&self, step: &Step, ours: &Outcome, theirs: &Outcome) -> Option<Explained> {
        let locks = || step.tables().any(|table| self.locked_by_others(step.session, table));
        let failures =
            || step.tables().any(|table| self.others(step.session).any(|other| other.failed.contains(table)));
        let redefined = || step.tables().any(|table| self.since_snapshot(step.session, &self.definitions, table));
        let altered = || step.tables().any(|table| self.since_snapshot(step.session, &self.alterations, table));
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
            (code, Some(TABLE_CHANGED))
                if step.keyed
                    && redefined()
                    && (ours.is_done() || code.is_some_and(is_of_row) || code == Some(LOCK_WAIT) && locks()) =>
            {
                Some(Explained::DuplicateInNewTable)
            }
            (Some(TABLE_CHANGED), _) if altered() => Some(Explained::AlteredInPlace),
            (_, Some(TABLE_CHANGED)) if !ours.is_conflict() && altered() => Some(Explained::AlteredInPlace),
            (Some(TABLE_CHANGED), None) if theirs.is_done() && redefined() => Some(Explained::OtherPlan),
            (Some(DEADLOCK), Some(code)) if is_of_row(code) && !step.ordered && changes() => {
                Some(Explained::OtherRowFirst)
            }
            (Some(LOCK_WAIT), Some(code)) if is_of_row(code) && !step.ordered && locks() => {
                Some(Explained::OtherRowFirst)
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
                    note_commit(&mut self.definitions, self.clock, number, step.writes.clone());
                    if step.in_place {
                        note_commit(&mut self.alterations, self.clock, number, step.writes.clone());
                    }
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
            // The transaction is over, but some settings open a new one: the stream sends ROLLBACK
            // next.
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
        note_commit(&mut self.commits, self.clock, number, tables);
    }
}

fn note_commit(commits: &mut Commits, clock: u64, number: usize, tables: impl IntoIterator<Item = String>) {
    for table in tables {
        let commits = commits.entry(table).or_default();
        commits.retain(|(_, by)| *by != number);
        commits.push((clock, number));
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{DEADLOCK, LOCK_WAIT, Outcome, TABLE_CHANGED};
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
    fn a_table_is_newer_than_the_snapshot_after_ddl_only() {
        let mut tracker = Tracker::default();
        begin(&mut tracker, 1);
        let step = Step { keyed: true, ..change(1, "t") };
        let explain = |tracker: &Tracker| tracker.explain(&step, &done(), &refused(TABLE_CHANGED));
        tracker.note(&change(0, "t"), &done());
        assert_eq!(explain(&tracker), None, "rows only");
        tracker.note(&Step::new(0, Kind::Definition, "").writing([&"t".to_owned()]), &done());
        assert_eq!(explain(&tracker), Some(Explained::DuplicateInNewTable));
    }

    #[test]
    fn perdura_alone_waits_only_for_what_a_failed_statement_locked() {
        let mut tracker = Tracker::default();
        begin(&mut tracker, 1);
        tracker.note(&change(0, "t"), &done());
        begin(&mut tracker, 0);
        tracker.note(&change(0, "t"), &done());
        let step = |table| Step { keyed: true, ..change(1, table) };
        let explain = |tracker: &Tracker, table, code| tracker.explain(&step(table), &refused(code), &done());
        assert!([LOCK_WAIT, DEADLOCK].iter().all(|code| explain(&tracker, "t", *code).is_none()));
        tracker.note(&change(0, "t"), &refused(1264));
        assert_eq!(explain(&tracker, "t", LOCK_WAIT), Some(Explained::LockOfFailure));
        assert_eq!(explain(&tracker, "t", DEADLOCK), None, "no conflict");
        assert_eq!(explain(&tracker, "u", LOCK_WAIT), None, "another table");
        tracker.note(&Step::new(0, Kind::Rollback, ""), &done());
        assert_eq!(explain(&tracker, "t", LOCK_WAIT), None, "rolled back");
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
