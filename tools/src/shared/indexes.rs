//! Checks of keys in the tests of crashes and of replication: each index leads to the rows of a
//! scan, and CHECK TABLE finds nothing.

use anyhow::{Context, Result};
use mysql::prelude::Queryable;
use mysql::{Conn, Row};

/// An index as the server describes it: its name, its columns in order for ORDER BY, and whether a
/// column counts in part only.
struct Index {
    table: String,
    name: String,
    order: String,
    is_partial: bool,
    first: String,
}

/// Compares all indexes of all tables with scans, and checks the tables. Returns one line for each
/// fault.
pub fn check(connection: &mut Conn) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let indexes = indexes(connection)?;
    let mut scanned: Option<(String, Vec<String>)> = None;
    for Index { table, name, order, is_partial, first } in indexes {
        if scanned.as_ref().is_none_or(|(other, _)| *other != table) {
            let rows = rows(connection, &format!("SELECT * FROM {table} IGNORE INDEX ({name})"))?;
            faults.extend(check_table(connection, &table)?);
            scanned = Some((table.clone(), rows));
        }
        // The beginning of a column does not give its order; all that is not less than nothing is
        // all.
        let way = if is_partial { format!("WHERE {first} >= ''") } else { format!("ORDER BY {order}") };
        let found = rows(connection, &format!("SELECT * FROM {table} FORCE INDEX ({name}) {way}"))?;
        let Some((_, expected)) = &scanned else { continue };
        if found != *expected {
            let only = |some: &[String], others: &[String]| {
                let missing = some.iter().find(|row| !others.contains(row));
                missing.map(|row| row.chars().take(200).collect::<String>())
            };
            faults.push(format!(
                "{table}: {} rows by scan, {} by index {name}; only by scan: {:?}; only by the index: {:?}",
                expected.len(),
                found.len(),
                only(expected, &found),
                only(&found, expected)
            ));
        }
    }
    Ok(faults)
}

fn indexes(connection: &mut Conn) -> Result<Vec<Index>> {
    let columns = "GROUP_CONCAT(column_name, IF(collation = 'D', ' DESC', '') ORDER BY seq_in_index SEPARATOR ', ')";
    let query = format!(
        "SELECT table_name, index_name, {columns}, MAX(sub_part) IS NOT NULL, MIN(IF(seq_in_index = 1, column_name, NULL)) \
         FROM information_schema.statistics WHERE table_schema = 'test' GROUP BY table_name, index_name \
         ORDER BY table_name, index_name"
    );
    let found: Vec<(String, String, String, bool, String)> = connection.query(query).context("the indexes")?;
    Ok(found
        .into_iter()
        .map(|(table, name, order, is_partial, first)| Index { table, name, order, is_partial, first })
        .collect())
}

/// The rows of a query as sorted text.
fn rows(connection: &mut Conn, query: &str) -> Result<Vec<String>> {
    let rows: Vec<Row> = connection.query(query).with_context(|| query.to_owned())?;
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort_unstable();
    Ok(rows)
}

fn check_table(connection: &mut Conn, table: &str) -> Result<Vec<String>> {
    let found: Vec<(String, String, String, String)> = connection.query(format!("CHECK TABLE {table}"))?;
    let wrong = found.into_iter().filter(|(_, _, kind, text)| kind != "status" || text != "OK");
    Ok(wrong.map(|(.., kind, text)| format!("CHECK TABLE {table}: {kind} {text}")).collect())
}
