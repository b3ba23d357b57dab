//! Restart with a large table that has keys, after kill -9: from the start of the process to the
//! first query's answer by primary key.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, System};
use crate::drive::server::Server;
use crate::shared::client;

const CASE: &str = "kill -9";
const COLUMNS: &str = "id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, text VARCHAR(64) NOT NULL, KEY (k)";
/// Rows that one statement inserts.
const BATCH: u64 = 1_000_000;

/// `server_s` for a server killed while empty, and `ready_s`, what it takes beyond that with the
/// table. Each run fills a table anew, so that the redo log has what it has after a load.
pub fn run(plan: &Plan) -> Result<Report> {
    let rows = plan.size(10_000_000, 1_000_000);
    let systems = systems::chosen(plan, &[System::Innodb, System::Perdura]);
    let workload = format!("kill -9 with {rows} rows in a table with a primary and a secondary key");
    let mut report: Option<Report> = None;
    systems::rounds(plan, 3, &systems, |system| {
        let mut server = Server::start_new(systems::options(plan.perdura))?;
        if report.is_none() {
            report = Some(Report::new("restart", workload.clone(), systems::medium(&server)?));
        }
        let report = report.as_mut().expect("it was just made");
        let server_s = restart(&mut server, "SELECT 1", "1")?;
        fill(&server, system, rows)?;
        let row = rows / 2;
        let ready_s =
            restart(&mut server, &format!("SELECT k FROM kept WHERE id = {row}"), &key(row, rows).to_string())?;
        report.add(system.name(), CASE, "server_s", "s", server_s);
        report.add(system.name(), CASE, "ready_s", "s", ready_s - server_s);
        check(&server, system, rows)
    })?;
    let mut report = report.expect("there is at least one round");
    let ready_s = report.value("perdura", CASE, "ready_s");
    report.at_most("perdura: start beyond the empty server's, s", ready_s, 1.0);
    Ok(report)
}

/// Kills the server and starts it. Returns the time until it has answered `query`, with `answer`.
fn restart(server: &mut Server, query: &str, answer: &str) -> Result<f64> {
    server.kill()?;
    let begun = Instant::now();
    server.start()?;
    let found: String = client::value(&mut server.connect()?, query)?;
    let took_s = begun.elapsed().as_secs_f64();
    ensure!(found == answer, "{query}: {found}, not {answer}");
    Ok(took_s)
}

/// The secondary key of row `id`: scattered over all numbers below that of the rows, the same for
/// all systems.
fn key(id: u64, rows: u64) -> u64 {
    id * 7_919 % (rows - 1)
}

fn fill(server: &Server, system: System, rows: u64) -> Result<()> {
    let mut connection = server.connect()?;
    client::execute(&mut connection, &[format!("CREATE TABLE kept ({COLUMNS}) ENGINE={}", system.engine())])?;
    for first in (1..=rows).step_by(BATCH as usize) {
        let last = rows.min(first + BATCH - 1);
        let key = format!("seq * 7919 % {}", rows - 1);
        let insert = format!("INSERT INTO kept SELECT seq, {key}, LPAD(seq, 32, 'x') FROM seq_{first}_to_{last}");
        client::execute(&mut connection, &[insert])?;
    }
    Ok(())
}

/// Every committed row is there, by either key.
fn check(server: &Server, system: System, rows: u64) -> Result<()> {
    let mut connection = server.connect()?;
    for (index, condition) in [("PRIMARY", "id > 0"), ("k", "k >= 0")] {
        let count = format!("SELECT COUNT(*) FROM kept FORCE INDEX ({index}) WHERE {condition}");
        let found: u64 = client::value(&mut connection, &count)?;
        ensure!(
            found == rows,
            "{}: {found} rows by index {index} after the crash, {rows} were committed",
            system.name()
        );
    }
    Ok(())
}
