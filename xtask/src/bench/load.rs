//! The paper's load: two concurrent sessions, one CSV file each, into one table without indexes.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mysql::prelude::Queryable;

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::server::Server;
use crate::{client, csv};

const LOADERS: u64 = 2;
const METRIC: &str = "time_s";

/// Both cases: the client sends the file, or the server reads it.
pub fn run(plan: &Plan) -> Result<Report> {
    let rows = plan.size(1_000_000, 250_000);
    let candidates = [System::Blackhole, System::Memory, System::Innodb, System::InnodbPwrite, System::Perdura];
    let systems = systems::chosen(plan, &candidates);
    let servers = Servers::start(&systems)?;
    let files = (0..LOADERS).map(|loader| csv::paper(rows, loader)).collect::<Result<Vec<_>>>()?;
    let mut report = servers.report("load", format!("{LOADERS} loaders, {rows} rows each, {} columns", 5))?;
    for (case, local) in [("local", true), ("server", false)] {
        systems::rounds(plan.rounds(), &systems, |system| {
            let took = load(servers.of(system), system.engine(), &files, rows, local)?;
            report.add(system.name(), case, METRIC, "s", took.as_secs_f64());
            Ok(())
        })?;
    }
    report.keep_better("innodb", "innodb_pwrite");
    for (case, limit) in [("local", 1.25), ("server", 1.4)] {
        let times = |peer: &str| report.paired("perdura", peer, case, METRIC, |own, peer| own / peer);
        let (floor, memory) = (times("blackhole"), times("memory"));
        let faster = report.paired("perdura", "innodb", case, METRIC, |own, peer| peer / own);
        report.at_most(&format!("{case}: perdura / blackhole"), floor, limit);
        report.at_most(&format!("{case}: perdura / memory"), memory, 1.0);
        report.at_least(&format!("{case}: innodb / perdura"), faster, 3.5);
    }
    Ok(report)
}

/// Loads all files concurrently into a new table. Returns the time from the common start to the last end.
pub fn load(server: &Server, engine: &str, files: &[PathBuf], rows: u64, local: bool) -> Result<Duration> {
    let mut connection = server.connect()?;
    client::execute(
        &mut connection,
        &["DROP TABLE IF EXISTS loaded".to_owned(), format!("CREATE TABLE loaded ({}) ENGINE={engine}", csv::COLUMNS)],
    )?;
    let barrier = Barrier::new(files.len() + 1);
    let took = std::thread::scope(|scope| -> Result<Duration> {
        let mut loaders = Vec::new();
        for file in files {
            let mut connection = server.connect()?;
            let (statement, barrier) = (client::load_statement(local, file, "loaded", ""), &barrier);
            loaders.push(scope.spawn(move || {
                barrier.wait();
                connection.query_drop(statement)
            }));
        }
        barrier.wait();
        let begun = Instant::now();
        for loader in loaders {
            loader.join().expect("a loader does not panic")?;
        }
        Ok(begun.elapsed())
    })?;
    if engine != System::Blackhole.engine() {
        let found: u64 = client::value(&mut connection, "SELECT COUNT(*) FROM loaded")?;
        ensure!(found == rows * files.len() as u64, "{engine}: {found} rows after loading {} x {rows}", files.len());
    }
    client::execute(&mut connection, &["DROP TABLE loaded"])?;
    Ok(took)
}
