//! One connection: prepared statements, and the errors after which a transaction is tried again.

use anyhow::{Context, Result, ensure};
use mysql::prelude::{FromRow, Queryable};
use mysql::{Conn, Params};

use crate::drive::server::Server;
use crate::shared::client;

/// Statements that a session keeps prepared, more than the transactions have.
const STATEMENTS: usize = 100;
/// The row that a statement needed was locked by a transaction that waits for this one, or was
/// changed since this one's snapshot.
const ER_LOCK_DEADLOCK: u16 = 1213;
/// A row was locked for too long.
const ER_LOCK_WAIT_TIMEOUT: u16 = 1205;

/// An open session.
pub struct Session {
    connection: Conn,
}

impl Session {
    /// Opens one at READ COMMITTED. See the head of `tpcc` for the reason.
    pub fn open(server: &Server) -> Result<Self> {
        let connection = client::connect_preparing(&server.socket(), STATEMENTS).with_context(|| server.log_tail())?;
        let mut session = Self { connection };
        session.statement("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")?;
        Ok(session)
    }

    /// Runs a statement as text, such as BEGIN.
    pub fn statement(&mut self, text: &str) -> Result<()> {
        client::execute(&mut self.connection, &[text])
    }

    /// All rows of a query.
    pub fn rows<T: FromRow>(&mut self, text: &str, parameters: impl Into<Params>) -> Result<Vec<T>> {
        Ok(self.connection.exec(text, parameters)?)
    }

    /// The first row of a query, if there is one.
    pub fn first<T: FromRow>(&mut self, text: &str, parameters: impl Into<Params>) -> Result<Option<T>> {
        Ok(self.connection.exec_first(text, parameters)?)
    }

    /// The row of a query that has one.
    pub fn row<T: FromRow>(&mut self, text: &str, parameters: impl Into<Params>) -> Result<T> {
        self.first(text, parameters)?.with_context(|| format!("a row is missing: {text}"))
    }

    /// A statement that changes rows. Returns how many.
    pub fn change(&mut self, text: &str, parameters: impl Into<Params>) -> Result<u64> {
        self.connection.exec_drop(text, parameters)?;
        Ok(self.connection.affected_rows())
    }

    /// A statement that changes exactly one row.
    pub fn change_one(&mut self, text: &str, parameters: impl Into<Params>) -> Result<()> {
        let found = self.change(text, parameters)?;
        ensure!(found == 1, "{found} rows were changed instead of one: {text}");
        Ok(())
    }
}

/// Whether the transaction was rolled back, or has to be, only since another one was in its way.
pub fn is_conflict(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<mysql::Error>() {
        Some(mysql::Error::MySqlError(error)) => [ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT].contains(&error.code),
        _ => false,
    }
}
