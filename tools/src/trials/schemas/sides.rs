//! A schema's two databases, one of either engine, in one server.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use mysql::prelude::Queryable;
use mysql::{Conn, Error, Row, Value};

use crate::drive::server::Server;

/// A foreign key, or a key that is taken: of a statement that breaks several rules either engine
/// names another one.
const BROKEN_KEYS: [u16; 5] = [1062, 1451, 1452, 1761, 1216];
/// Rows that the report of a difference shows.
const SHOWN: usize = 3;

/// Effect of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// So many rows.
    Done(u64),
    /// The server's error.
    Refused(u16),
}

impl Outcome {
    /// Whether it was done.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Done(_))
    }

    fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Refused(one), Self::Refused(two)) if BROKEN_KEYS.contains(&one) => BROKEN_KEYS.contains(&two),
            _ => self == other,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(rows) => write!(out, "{rows} rows"),
            Self::Refused(code) => write!(out, "error {code}"),
        }
    }
}

/// The databases `NAME_perdura` and `NAME_innodb`, each with a session.
pub struct Sides {
    ours: Conn,
    theirs: Conn,
    /// Queries of the tables' sums, once they were needed.
    sums: Vec<Sum>,
}

/// A database of a schema.
pub fn database(name: &str, engine: &str) -> String {
    format!("{name}_{}", engine.to_lowercase())
}

fn session(server: &Server, name: &str, engine: &str) -> Result<Conn> {
    let mut session = server.connect()?;
    session
        .query_drop(format!("SET default_storage_engine = {engine}, timestamp = 1700000000, time_zone = '+00:00'"))?;
    session.query_drop(format!("USE {}", database(name, engine)))?;
    Ok(session)
}

impl Sides {
    /// Creates both databases.
    pub fn create(server: &Server, name: &str) -> Result<Self> {
        let mut session = server.connect()?;
        for engine in ["Perdura", "InnoDB"] {
            session.query_drop(format!("CREATE DATABASE {} CHARACTER SET utf8mb4", database(name, engine)))?;
        }
        Self::open(server, name)
    }

    /// Opens both.
    pub fn open(server: &Server, name: &str) -> Result<Self> {
        let (ours, theirs) = (session(server, name, "Perdura")?, session(server, name, "InnoDB")?);
        Ok(Self { ours, theirs, sums: Vec::new() })
    }

    /// The session in InnoDB's, which is asked for values.
    pub fn theirs(&mut self) -> &mut Conn {
        &mut self.theirs
    }

    /// Runs a statement on both sides; fails if the outcomes differ.
    pub fn run(&mut self, statement: &str) -> Result<Outcome> {
        let (ours, theirs) = (execute(&mut self.ours, statement)?, execute(&mut self.theirs, statement)?);
        ensure!(ours.is_like(theirs), "Perdura: {ours}, InnoDB: {theirs}: {statement}");
        Ok(theirs)
    }

    /// Compares the rows of all tables.
    pub fn compare_all(&mut self) -> Result<()> {
        if self.sums.is_empty() {
            self.sums = Sum::all(&mut self.theirs)?;
        }
        for number in 0..self.sums.len() {
            let Sum { table, query } = &self.sums[number];
            let (ours, theirs): (Option<Row>, Option<Row>) =
                (self.ours.query_first(query)?, self.theirs.query_first(query)?);
            if ours.map(Row::unwrap) != theirs.map(Row::unwrap) {
                let table = table.clone();
                bail!("table {table} differs: {}", self.difference(&table)?);
            }
        }
        Ok(())
    }

    /// Rows of a table that one side has.
    fn difference(&mut self, table: &str) -> Result<String> {
        let rows = |session: &mut Conn| -> Result<Vec<String>> {
            let rows: Vec<Row> = session.query(format!("SELECT * FROM {table} ORDER BY 1"))?;
            let line = |row: Row| row.unwrap().iter().map(|value| value.as_sql(true)).collect::<Vec<_>>().join(", ");
            Ok(rows.into_iter().map(line).collect())
        };
        let (ours, theirs) = (rows(&mut self.ours)?, rows(&mut self.theirs)?);
        let only = |some: &[String], others: &[String]| {
            some.iter().filter(|row| !others.contains(row)).take(SHOWN).cloned().collect::<Vec<_>>().join("; ")
        };
        Ok(format!("only Perdura: {}; only InnoDB: {}", only(&ours, &theirs), only(&theirs, &ours)))
    }

    /// Compares what the server says of the tables.
    pub fn compare_definitions(&mut self, names: &[String]) -> Result<()> {
        for name in names {
            let (ours, theirs) = (definition(&mut self.ours, name)?, definition(&mut self.theirs, name)?);
            let (ours, theirs) = (without_next_value(&ours), without_next_value(&theirs));
            ensure!(ours == theirs, "definitions differ: Perdura: {ours}\nInnoDB: {theirs}");
        }
        const RULES: &str = "SELECT constraint_name, unique_constraint_name, update_rule, delete_rule, table_name, referenced_table_name FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE() ORDER BY table_name, constraint_name";
        let rules = |session: &mut Conn| -> Result<Vec<Vec<Value>>> {
            Ok(session.query::<Row, _>(RULES)?.into_iter().map(Row::unwrap).collect())
        };
        ensure!(
            rules(&mut self.ours)? == rules(&mut self.theirs)?,
            "information_schema.referential_constraints differs"
        );
        Ok(())
    }

    /// Number of rows of all tables.
    pub fn rows(&mut self, names: &[String]) -> Result<u64> {
        names.iter().try_fold(0, |rows, name| {
            let count: Option<u64> = self.ours.query_first(format!("SELECT COUNT(*) FROM {name}"))?;
            Ok(rows + count.context("no count")?)
        })
    }
}

/// The query of a table's number of rows and of a sum over their columns, whatever their order.
/// CHECKSUM TABLE does not do: of computed columns it counts what the engine leaves in the record.
pub struct Sum {
    /// The table.
    pub table: String,
    /// The query.
    pub query: String,
}

impl Sum {
    /// Those of all tables of the session's database.
    pub fn all(session: &mut Conn) -> Result<Vec<Sum>> {
        const COLUMNS: &str = "SELECT table_name, GROUP_CONCAT('IFNULL(HEX(CAST(', column_name, ' AS BINARY)), \\'-\\')' ORDER BY ordinal_position SEPARATOR ', ') FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' GROUP BY table_name";
        let tables: Vec<(String, String)> = session.query(COLUMNS)?;
        let sum = |(table, columns): (String, String)| {
            let query = format!("SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS(',', {columns}))) FROM {table}");
            Sum { table, query }
        };
        Ok(tables.into_iter().map(sum).collect())
    }
}

/// Runs a statement. Fails only if the connection is lost.
fn execute(session: &mut Conn, statement: &str) -> Result<Outcome> {
    // Of DDL each engine copies as many rows as it has to. Of a row that ON DUPLICATE KEY leaves as
    // it was InnoDB counts what it has looked at.
    let counts = !statement.starts_with("ALTER") && !statement.contains("ON DUPLICATE");
    match session.query_drop(statement) {
        Ok(()) => Ok(Outcome::Done(if counts { session.affected_rows() } else { 0 })),
        Err(Error::MySqlError(error)) => Ok(Outcome::Refused(error.code)),
        Err(error) => Err(error).with_context(|| statement.to_owned()),
    }
}

/// SHOW CREATE TABLE without the engine's name.
pub fn definition(session: &mut Conn, name: &str) -> Result<String> {
    let (_, text): (String, String) = session.query_first(format!("SHOW CREATE TABLE {name}"))?.context("no table")?;
    Ok(text.replace("ENGINE=Perdura", "ENGINE=").replace("ENGINE=InnoDB", "ENGINE="))
}

/// The same without the next value of AUTO_INCREMENT.
fn without_next_value(text: &str) -> String {
    const WORD: &str = " AUTO_INCREMENT=";
    let Some((before, after)) = text.split_once(WORD) else { return text.to_owned() };
    format!("{before}{}", after.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}
