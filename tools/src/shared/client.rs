//! Connections to a test server over its Unix socket.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler, OptsBuilder};

/// A session that waits this long for an answer reports a hang.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// The same where a statement may take long.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Opens a session as root in database `test`. LOAD DATA LOCAL may read any file this process may
/// read.
pub fn connect(socket: &Path) -> mysql::Result<Conn> {
    connect_counting(socket, Arc::default())
}

/// As [`connect`], for a session whose statements may take long.
pub fn connect_patient(socket: &Path) -> mysql::Result<Conn> {
    Conn::new(options(socket).read_timeout(Some(PATIENCE)))
}

/// As [`connect`], for a session that runs up to `statements` different prepared statements: all of
/// them stay prepared.
pub fn connect_preparing(socket: &Path, statements: usize) -> mysql::Result<Conn> {
    Conn::new(options(socket).stmt_cache_size(statements))
}

fn options(socket: &Path) -> OptsBuilder {
    OptsBuilder::new()
        .socket(Some(socket.to_string_lossy()))
        .user(Some("root"))
        .db_name(Some("test"))
        .read_timeout(Some(ANSWER_TIMEOUT))
        .write_timeout(Some(ANSWER_TIMEOUT))
}

/// As [`connect`], adding the bytes that LOAD DATA LOCAL sends to `sent` as they go.
pub fn connect_counting(socket: &Path, sent: Arc<AtomicU64>) -> mysql::Result<Conn> {
    let options = options(socket).local_infile_handler(Some(LocalInfileHandler::new(move |name, out| {
        let path = PathBuf::from(String::from_utf8_lossy(name).into_owned());
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 1 << 18];
        loop {
            let length = file.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            out.write_all(&buffer[..length])?;
            sent.fetch_add(length as u64, Ordering::Relaxed);
        }
    })));
    Conn::new(options)
}

/// Runs statements one after another.
pub fn execute<S: AsRef<str>>(connection: &mut Conn, statements: &[S]) -> Result<()> {
    for statement in statements {
        let statement = statement.as_ref();
        connection.query_drop(statement).with_context(|| shorten(statement))?;
    }
    Ok(())
}

/// The single value of a query.
pub fn value<T: mysql::prelude::FromValue>(connection: &mut Conn, query: &str) -> Result<T> {
    let row: Option<T> = connection.query_first(query).with_context(|| shorten(query))?;
    row.with_context(|| format!("no row: {}", shorten(query)))
}

/// The text of SHOW ENGINE PERDURA STATUS, or `None` where the server has no such engine.
pub fn engine_status(connection: &mut Conn) -> Result<Option<String>> {
    let engine: Option<u8> = connection.query_first(
        "SELECT 1 FROM information_schema.engines WHERE engine = 'Perdura' AND support IN ('YES', 'DEFAULT')",
    )?;
    if engine.is_none() {
        return Ok(None);
    }
    let row: Option<(String, String, String)> = connection.query_first("SHOW ENGINE PERDURA STATUS")?;
    Ok(row.map(|(.., text)| text))
}

/// The medium as the engine found it, or `None` where the server has no such engine.
pub fn medium(connection: &mut Conn) -> Result<Option<String>> {
    let Some(status) = engine_status(connection)? else { return Ok(None) };
    let after_heading = status.lines().skip_while(|line| !line.trim().eq_ignore_ascii_case("medium")).nth(1);
    Ok(after_heading.map(|line| line.trim().to_owned()))
}

/// The LOAD DATA statement for a CSV file as `csv` writes it.
pub fn load_statement(local: bool, file: &Path, table: &str, rest: &str) -> String {
    let local = if local { "LOCAL " } else { "" };
    format!("LOAD DATA {local}INFILE '{}' INTO TABLE {table} FIELDS TERMINATED BY ','{rest}", file.display())
}

fn shorten(statement: &str) -> String {
    match statement.char_indices().nth(160) {
        Some((end, _)) => format!("{}...", &statement[..end]),
        None => statement.to_owned(),
    }
}
