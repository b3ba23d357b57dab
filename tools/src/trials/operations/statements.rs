//! Executes what pages state as SQL: the statements of their blocks fenced as `sql`.
//!
//! The hazard: a page says of the engine what is no longer true, or never was. A statement ends
//! with a semicolon at the end of a line, or before ` -- error N`, the error that it must give, or
//! before ` -- N`, the one value that it must return. Each block begins in an empty database, with
//! the engine as default.

use anyhow::{Context, Result, bail, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::drive::server::Server;

/// Outcome that a statement must have.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Success,
    Error(u16),
    Value(String),
}

/// A line of a block where the server is killed.
const KILL: &str = "-- kill -9";

/// Runs the blocks of a page; `least` is the number of statements that it has at least.
pub fn hold(connection: &mut Conn, page: &str, text: &str, least: usize) -> Result<()> {
    let mut count = 0;
    for block in blocks(text) {
        begin(connection)?;
        count += run(connection, page, &block)?;
    }
    connection.query_drop("DROP DATABASE IF EXISTS stated")?;
    ensure!(count >= least, "{page} has {count} statements in blocks of sql, not {least}");
    Ok(())
}

/// Runs the first block of a page, with a kill of the server where it says so.
pub fn hold_over_kill(server: &mut Server, page: &str, text: &str) -> Result<()> {
    let block = blocks(text).into_iter().next().with_context(|| format!("{page} has no block of sql"))?;
    let (before, after) = block.split_once(KILL).with_context(|| format!("{page} kills no server"))?;
    let mut connection = server.connect()?;
    begin(&mut connection)?;
    run(&mut connection, page, before)?;
    server.kill()?;
    server.start()?;
    let mut connection = server.connect()?;
    connection.query_drop("USE stated")?;
    let count = run(&mut connection, page, &format!("{KILL}{after}"))?;
    ensure!(count > 0, "{page} asks for nothing after the kill");
    Ok(())
}

/// Makes an empty database, with the engine as default.
fn begin(connection: &mut Conn) -> Result<()> {
    for statement in ["DROP DATABASE IF EXISTS stated", "CREATE DATABASE stated", "USE stated"] {
        connection.query_drop(statement)?;
    }
    Ok(connection.query_drop("SET default_storage_engine=Perdura")?)
}

/// Runs the statements of a block, and returns their number.
fn run(connection: &mut Conn, page: &str, block: &str) -> Result<usize> {
    let statements = statements(block).with_context(|| page.to_owned())?;
    for (statement, expected) in &statements {
        check(connection, statement, expected).with_context(|| format!("{page} is not true: {statement}"))?;
    }
    Ok(statements.len())
}

fn check(connection: &mut Conn, statement: &str, expected: &Expected) -> Result<()> {
    let outcome = connection.query::<mysql::Row, _>(statement);
    match (outcome, expected) {
        (Ok(_), Expected::Success) => Ok(()),
        (Ok(rows), Expected::Value(wanted)) => {
            let values: Vec<String> =
                rows.into_iter().flat_map(mysql::Row::unwrap).map(|value| value.as_sql(true)).collect();
            let found: Vec<&str> = values.iter().map(|value| value.trim_matches('\'')).collect();
            ensure!(found == [wanted.as_str()], "it returns {found:?}, not {wanted}");
            Ok(())
        }
        (Err(mysql::Error::MySqlError(error)), Expected::Error(code)) if error.code == *code => Ok(()),
        (Ok(_), Expected::Error(code)) => bail!("it succeeds, and is to give error {code}"),
        (Err(error), expected) => bail!("{error}, and is to give {expected:?}"),
    }
}

/// The blocks fenced as `sql`.
fn blocks(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line.trim() == "```sql") {
        let block: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
        found.push(block.join("\n"));
    }
    found
}

/// The statements of a block, and what must come of each.
fn statements(block: &str) -> Result<Vec<(String, Expected)>> {
    let (mut found, mut begun) = (Vec::new(), String::new());
    for line in block.lines().filter(|line| !line.trim_start().starts_with("-- ")) {
        let (text, note) = line.split_once(" -- ").map_or((line, None), |(text, note)| (text, Some(note.trim())));
        begun += text;
        begun.push('\n');
        let Some(statement) = begun.trim().strip_suffix(';').map(str::to_owned) else {
            ensure!(note.is_none(), "a note within a statement: {line}");
            continue;
        };
        let expected = match note {
            None => Expected::Success,
            Some(note) => match note.strip_prefix("error ") {
                Some(code) => {
                    Expected::Error(code.parse().with_context(|| format!("not the number of an error: {line}"))?)
                }
                None => Expected::Value(note.to_owned()),
            },
        };
        begun.clear();
        found.push((statement, expected));
    }
    ensure!(begun.trim().is_empty(), "a statement without an end: {begun}");
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Expected, blocks, statements};

    #[test]
    fn blocks_are_read_with_what_must_come_of_their_statements() {
        let text = "a\n```sql\n-- of keys\nSELECT 1\n  + 1; -- 2\n```\n```\nno;\n```\n```sql\nDROP x; -- error 1051\nDO 1;\n```\n";
        let found: Vec<_> = blocks(text).iter().map(|block| statements(block).unwrap()).collect();
        assert_eq!(
            found,
            [
                vec![("SELECT 1\n  + 1".to_owned(), Expected::Value("2".to_owned()))],
                vec![("DROP x".to_owned(), Expected::Error(1051)), ("DO 1".to_owned(), Expected::Success)]
            ]
        );
        assert!(statements("SELECT 1").is_err());
        assert!(statements("SELECT 1; -- error many").is_err());
    }
}
