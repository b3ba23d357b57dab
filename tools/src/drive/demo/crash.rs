//! kill -9 in the middle of a load. Afterwards exactly the acknowledged transactions must be found,
//! each as a whole.
//!
//! Two sessions load files of 50,000 rows, one transaction each. A transaction that was not
//! answered when the server died may be found as a whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::heading::heading;
use crate::drive::server::Server;
use crate::shared::{client, csv};

const FILE_ROWS: u64 = 50_000;
const FILES: u64 = 40;
const SESSIONS: u64 = 2;
/// The server is killed a moment after this many transactions were acknowledged.
const ACKNOWLEDGED_BEFORE_KILL: usize = 17;

/// Tables loaded before, whose content the crash must not change.
const KEPT: [&str; 2] = ["flights_perdura", "paper_perdura"];

/// Loads, kills, restarts, and checks the rows.
pub fn kill_during_load(server: &mut Server) -> Result<()> {
    heading("kill -9 in the middle of a load");
    let files = (0..FILES).map(|number| csv::paper(FILE_ROWS, number)).collect::<Result<Vec<_>>>()?;
    let mut connection = server.connect()?;
    // InnoDB's tables were just written, and the demo does not show their recovery.
    client::execute(&mut connection, &["SET GLOBAL innodb_log_checkpoint_now = ON"])?;
    client::execute(&mut connection, &[format!("CREATE TABLE crashed ({}) ENGINE=Perdura", csv::COLUMNS)])?;
    let before = fingerprints(&mut connection)?;
    drop(connection);

    let (acknowledged, begun) = load_until_killed(server, &files)?;
    println!(
        "  killed with {} transactions of {FILE_ROWS} rows acknowledged and {} open",
        acknowledged.len(),
        begun.len()
    );
    let took = server.start().context("the server does not come back")?;
    let mut connection = server.connect()?;
    println!("  restarted: first session after {:.2} s", took.as_secs_f64());

    let found: Vec<(u64, u64)> = connection.query(format!(
        "SELECT CAST(FLOOR(id / {FILE_ROWS}) AS UNSIGNED) AS file, COUNT(*) FROM crashed GROUP BY file"
    ))?;
    let found: BTreeMap<u64, u64> = found.into_iter().collect();
    for (file, rows) in &found {
        ensure!(*rows == FILE_ROWS, "transaction {file} is there in part: {rows} of {FILE_ROWS} rows");
        ensure!(acknowledged.contains(file) || begun.contains(file), "transaction {file} was never begun");
    }
    for file in &acknowledged {
        ensure!(found.contains_key(file), "transaction {file} was acknowledged and is lost");
    }
    let rows: u64 = found.values().sum();
    println!("  {rows} rows: {} transactions, each whole, every acknowledged one among them", found.len());
    let after = fingerprints(&mut connection)?;
    ensure!(before == after, "tables changed by the crash: {before:?}, {after:?}");
    for (table, (rows, _)) in KEPT.iter().zip(after) {
        println!("  {table}: {rows} rows, as before");
    }
    Ok(())
}

/// Returns the files whose load was acknowledged, and those whose load was begun and not
/// acknowledged.
fn load_until_killed(server: &mut Server, files: &[PathBuf]) -> Result<(BTreeSet<u64>, BTreeSet<u64>)> {
    let (acknowledged, begun) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
    let killed = AtomicBool::new(false);
    let next = Arc::new(AtomicU64::new(0));
    let socket = server.socket();
    let session = || -> Result<()> {
        let mut connection = client::connect(&socket)?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(number as usize) else { return Ok(()) };
            begun.lock().expect("no panics").insert(number);
            match connection.query_drop(client::load_statement(true, file, "crashed", "")) {
                Ok(()) => {
                    begun.lock().expect("no panics").remove(&number);
                    acknowledged.lock().expect("no panics").insert(number);
                }
                Err(_) if killed.load(Ordering::SeqCst) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        let sessions: Vec<_> = (0..SESSIONS).map(|_| scope.spawn(session)).collect();
        while acknowledged.lock().expect("no panics").len() < ACKNOWLEDGED_BEFORE_KILL {
            ensure!(!sessions.iter().all(std::thread::ScopedJoinHandle::is_finished), "the load ended before the kill");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        killed.store(true, Ordering::SeqCst);
        server.kill()?;
        sessions.into_iter().try_for_each(|session| session.join().expect("a session does not panic"))
    })?;
    Ok((acknowledged.into_inner().expect("no panics"), begun.into_inner().expect("no panics")))
}

/// Rows and a checksum over all columns of the tables that must not change.
fn fingerprints(connection: &mut Conn) -> Result<Vec<(u64, String)>> {
    let of = |table: &&str| -> Result<(u64, String)> {
        let rows = client::value(connection, &format!("SELECT COUNT(*) FROM {table}"))?;
        let (_, checksum): (String, u64) =
            connection.query_first(format!("CHECKSUM TABLE {table} EXTENDED"))?.context("no checksum")?;
        Ok((rows, checksum.to_string()))
    };
    KEPT.iter().map(of).collect()
}
