//! One statement of the stream: its session, the tables it touches, and how its outcomes compare.

/// Number of sessions that change tables.
pub const SESSIONS: usize = 4;
/// The session that only reads: READ COMMITTED, in autocommit mode.
pub const OBSERVER: usize = SESSIONS;

/// The effect of a statement on its session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A SET, PREPARE, XA END or the like: touches no table.
    Setting,
    /// A change of the session's isolation level.
    Isolation {
        /// REPEATABLE READ; otherwise READ COMMITTED.
        repeatable: bool,
    },
    /// A consistent read.
    Query,
    /// A read that locks rows.
    LockingQuery,
    /// INSERT, UPDATE, DELETE, LOAD DATA, CALL and so on.
    Change,
    /// DDL that commits before and after.
    Definition,
    /// DDL on a temporary table, which does not commit.
    Temporary,
    /// Opens a transaction.
    Begin {
        /// Whether WITH CONSISTENT SNAPSHOT.
        snapshot: bool,
    },
    /// Commits the transaction.
    Commit,
    /// Rolls the transaction back.
    Rollback,
    /// SAVEPOINT, RELEASE, ROLLBACK TO.
    Savepoint,
    /// Restarts both servers.
    Restart {
        /// Whether by kill -9 rather than SHUTDOWN.
        kill: bool,
    },
}

/// A statement and what is known about it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The session that sends it, or `OBSERVER`.
    pub session: usize,
    /// The SQL; `{DIR}` stands for the server's directory.
    pub text: String,
    /// Its effect on the transaction.
    pub kind: Kind,
    /// Tables that it may change.
    pub writes: Vec<String>,
    /// Further tables that it reads.
    pub reads: Vec<String>,
    /// Whether the statement fixes the order of its rows, or its errors do not depend on that
    /// order.
    pub ordered: bool,
    /// Whether only errors are compared, since the rows name the engine.
    pub rows_differ: bool,
    /// Whether the number of warnings depends on the plan: how often a value is compared.
    pub warns_by_plan: bool,
    /// Whether a table that it touches has keys.
    pub keyed: bool,
    /// Whether it alters keys in place.
    pub in_place: bool,
    /// Whether it is a read that follows a statement of the stream. Such reads are not counted.
    pub is_check: bool,
    /// Name and content of a file that the statement reads as `{DIR}/NAME`.
    pub file: Option<(String, String)>,
}

impl Step {
    /// A statement that touches no table yet.
    pub fn new(session: usize, kind: Kind, text: impl Into<String>) -> Self {
        Self {
            session,
            text: text.into(),
            kind,
            writes: Vec::new(),
            reads: Vec::new(),
            ordered: false,
            rows_differ: false,
            warns_by_plan: false,
            keyed: false,
            in_place: false,
            is_check: false,
            file: None,
        }
    }

    /// Adds tables that it may change.
    pub fn writing<'a>(mut self, tables: impl IntoIterator<Item = &'a String>) -> Self {
        self.writes.extend(tables.into_iter().cloned());
        self
    }

    /// Adds tables that it reads.
    pub fn reading<'a>(mut self, tables: impl IntoIterator<Item = &'a String>) -> Self {
        self.reads.extend(tables.into_iter().cloned());
        self
    }

    /// Declares that its rows have a fixed order.
    pub fn in_order(mut self, ordered: bool) -> Self {
        self.ordered = ordered;
        self
    }

    /// Declares that its result set is not compared.
    pub fn engine_shows(mut self) -> Self {
        self.rows_differ = true;
        self
    }

    /// Declares that its warnings are not compared.
    pub fn warns_by_plan(mut self) -> Self {
        self.warns_by_plan = true;
        self
    }

    /// All tables that it touches.
    pub fn tables(&self) -> impl Iterator<Item = &String> {
        self.writes.iter().chain(&self.reads)
    }
}
