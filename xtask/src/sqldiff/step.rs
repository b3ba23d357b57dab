//! One statement of the stream: who sends it, what it touches and how its outcome is to be compared.

/// Sessions that change things.
pub const SESSIONS: usize = 4;
/// The session that only looks: READ COMMITTED, in autocommit mode.
pub const OBSERVER: usize = SESSIONS;

/// What a statement does to its session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A SET, PREPARE, XA END or the like: touches no table.
    Setting,
    /// A change of the session's isolation level.
    Isolation {
        /// REPEATABLE READ, or else READ COMMITTED.
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
    /// DDL on a temporary table, which does not.
    Temporary,
    /// Opens a transaction.
    Begin {
        /// WITH CONSISTENT SNAPSHOT.
        snapshot: bool,
    },
    /// Ends the transaction well.
    Commit,
    /// Ends the transaction badly.
    Rollback,
    /// SAVEPOINT, RELEASE, ROLLBACK TO.
    Savepoint,
    /// Both servers end and start again.
    Restart {
        /// kill -9 rather than SHUTDOWN.
        kill: bool,
    },
}

/// A statement with all that is known of it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Session that sends it, `OBSERVER` included.
    pub session: usize,
    /// The SQL; `{DIR}` stands for a directory of the server's own.
    pub text: String,
    /// What it does.
    pub kind: Kind,
    /// Tables it may change.
    pub writes: Vec<String>,
    /// Tables it reads besides.
    pub reads: Vec<String>,
    /// The rows come in an order the statement fixes, or error numbers do not depend on the order of rows.
    pub ordered: bool,
    /// Only errors count: the rows name the engine.
    pub rows_differ: bool,
    /// A look at a table after a statement of the stream; not counted.
    pub is_check: bool,
    /// A file the statement reads, as `{DIR}/NAME`, with its content.
    pub file: Option<(String, String)>,
}

impl Step {
    /// A statement that touches nothing, until told otherwise.
    pub fn new(session: usize, kind: Kind, text: impl Into<String>) -> Self {
        Self {
            session,
            text: text.into(),
            kind,
            writes: Vec::new(),
            reads: Vec::new(),
            ordered: false,
            rows_differ: false,
            is_check: false,
            file: None,
        }
    }

    /// Adds tables it may change.
    pub fn writing<'a>(mut self, tables: impl IntoIterator<Item = &'a String>) -> Self {
        self.writes.extend(tables.into_iter().cloned());
        self
    }

    /// Adds tables it reads.
    pub fn reading<'a>(mut self, tables: impl IntoIterator<Item = &'a String>) -> Self {
        self.reads.extend(tables.into_iter().cloned());
        self
    }

    /// Its rows come in a fixed order.
    pub fn in_order(mut self, ordered: bool) -> Self {
        self.ordered = ordered;
        self
    }

    /// Its result set is not compared.
    pub fn engine_shows(mut self) -> Self {
        self.rows_differ = true;
        self
    }

    /// All tables it touches.
    pub fn tables(&self) -> impl Iterator<Item = &String> {
        self.writes.iter().chain(&self.reads)
    }
}
