//! The same statements on a table with a primary and a secondary key, and what the update takes of
//! DRAM.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::super::memory;
use super::super::plan::Plan;
use super::super::purge;
use super::super::report::Report;
use super::super::systems::{self, Servers, System};
use super::dram;
use super::statements::METRIC;
use crate::drive::server::Server;
use crate::shared::{client, csv};

/// The columns of the CSV files, and `k`, which has the secondary key.
const COLUMNS: &str = "id BIGINT NOT NULL PRIMARY KEY, a INT, b VARCHAR(32), c VARCHAR(32), d DATETIME, k INT, KEY (k)";
/// Updates a column that no index has.
const UPDATE: (&str, &str) = ("update/keys", "UPDATE mass SET a = a + 1");
/// Moves each row in the secondary key.
const UPDATE_INDEXED: (&str, &str) = ("update_indexed/keys", "UPDATE mass SET k = k + 1");
const DELETE: (&str, &str) = ("delete/keys", "DELETE FROM mass WHERE id % 2 = 0");
/// Bytes of DRAM a row.
const DRAM: f64 = 40.0;

/// The times, on the servers of the cases without keys, where the table `source` has the rows.
pub fn run(plan: &Plan, servers: &Servers, systems: &[System], rows: u64, report: &mut Report) -> Result<()> {
    let with_keys: Vec<System> = systems.iter().copied().filter(|&system| system != System::Memory).collect();
    let limit = Duration::from_secs(plan.size(100, 4));
    systems::rounds(plan, plan.rounds(), &with_keys, |system| {
        let mut connection = servers.of(system).connect()?;
        for statements in [[UPDATE, DELETE].as_slice(), &[UPDATE_INDEXED]] {
            let fill = "INSERT INTO mass SELECT id, a, b, c, d, a FROM source";
            client::execute(&mut connection, &["DROP TABLE IF EXISTS mass", &create(system), fill])?;
            for (case, statement) in statements {
                plan.running(system.name(), case);
                report.add(system.name(), case, METRIC, "s", systems::timed(&mut connection, statement)?);
                if system == System::Perdura {
                    purge::wait(&mut connection, limit)?;
                }
                check(&mut connection, system, case, rows)?;
            }
        }
        client::execute(&mut connection, &["DROP TABLE mass"])
    })
}

fn create(system: System) -> String {
    format!("CREATE TABLE mass ({COLUMNS}) ENGINE={}", system.engine())
}

/// Each index has the rows that the statement has left, with the keys that it has given them.
fn check(connection: &mut Conn, system: System, case: &str, rows: u64) -> Result<()> {
    let left = if case == DELETE.0 { rows / 2 } else { rows };
    let moved = u64::from(case == UPDATE_INDEXED.0);
    let source = if left == rows { "" } else { " WHERE id % 2 <> 0" };
    let expected: i64 =
        client::value(connection, &format!("SELECT CAST(SUM(a + {moved}) AS SIGNED) FROM source{source}"))?;
    let name = system.name();
    for (index, what) in [("PRIMARY", "id >= 0"), ("k", "k >= 0")] {
        let query = format!("SELECT COUNT(*), CAST(SUM(k) AS SIGNED) FROM mass FORCE INDEX ({index}) WHERE {what}");
        let (found, sum): (u64, i64) = connection.query_first(&query)?.with_context(|| format!("no row: {query}"))?;
        ensure!(found == left, "{name}, {case}: {found} rows by index {index}, not {left}");
        ensure!(sum == expected, "{name}, {case}: the sum by index {index} is {sum}, not {expected}");
    }
    Ok(())
}

/// Measures the DRAM that the update takes at its peak. Each run has a server of its own, so that
/// it inherits no memory.
pub fn dram(plan: &Plan, rows: u64, report: &mut Report) -> Result<()> {
    let systems = systems::chosen(plan, &[System::Innodb, System::Perdura]);
    let file = csv::paper(rows, 0)?;
    systems::rounds(plan, if plan.quick { 1 } else { 3 }, &systems, |system| {
        let server = Server::start_new(systems::options(plan.perdura))?;
        plan.running(system.name(), UPDATE.0);
        let _watch = plan.watch("keys", &server);
        let mut connection = server.connect()?;
        let load = client::load_statement(false, &file, "mass", " (id, a, b, c, d) SET k = a");
        client::execute(&mut connection, &[create(system), load])?;
        let (before, most) = memory::most_private_bytes(&server, || client::execute(&mut connection, &[UPDATE.1]))?;
        report.add(system.name(), UPDATE.0, dram::METRIC, "B", most.saturating_sub(before) as f64 / rows as f64);
        Ok(())
    })
}

/// Judges both.
pub fn judge(report: &mut Report) {
    for (case, _) in [UPDATE, UPDATE_INDEXED, DELETE] {
        let ratio = report.paired("perdura", "innodb", case, METRIC, |own, peer| own / peer);
        report.at_most(&format!("{case}: perdura / innodb"), ratio, 0.6);
    }
    let bytes = report.value("perdura", UPDATE.0, dram::METRIC);
    report.at_most(&format!("{}: bytes of DRAM a row", UPDATE.0), bytes, DRAM);
}
