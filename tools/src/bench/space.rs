//! Space: what a table takes, beside InnoDB's, and compared with the bytes of its columns.

mod rows;
mod sizes;
mod sysbench;

use anyhow::Result;
use sizes::{COLUMNS_BYTES, METRIC, create, sizes};

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::shared::client;

const MIXED_ROWS: u64 = 100_000;
/// Bytes of a version's header and of the directory word that names it.
const PERDURA_HEADERS: f64 = 16.0 + 8.0;

/// Tables of rows of one length, also after updates, and of rows of many lengths. The server tells
/// the space they take.
pub fn run(plan: &Plan) -> Result<Report> {
    let systems = systems::chosen(plan, &[System::Innodb, System::Perdura]);
    let servers = Servers::start(&systems)?;
    // A quick run has no time for so many in all cases.
    let (rows, sysbench_rows) = (plan.size(10_000_000, 200_000), plan.size(10_000_000, 1_000_000));
    let workload = format!(
        "{rows} rows of 23 or 200 bytes, {sysbench_rows} of sysbench's table with its keys, before and after updates; \
         {MIXED_ROWS} rows of a BIGINT and a text of 0 to LENGTH bytes"
    );
    let mut report = servers.report("space", workload)?;
    rows::run(plan, &servers, &systems, rows, &mut report)?;
    sysbench::run(plan, &servers, &systems, sysbench_rows, &mut report)?;
    for length in [200, 2000] {
        mixed(plan, &servers, &systems, length, &mut report)?;
    }
    Ok(report)
}

/// One statement fills a table with texts of 0 to `length` bytes.
fn mixed(plan: &Plan, servers: &Servers, systems: &[System], length: u32, report: &mut Report) -> Result<()> {
    let case = format!("mixed/{length}");
    systems::rounds(plan, plan.rounds(), systems, |system| {
        let mut connection = servers.of(system).connect()?;
        let texts =
            format!("INSERT INTO space SELECT seq, REPEAT('x', FLOOR(RAND(1) * {length})) FROM seq_1_to_{MIXED_ROWS}");
        client::execute(&mut connection, &["DROP TABLE IF EXISTS space", &create(system, length), &texts])?;
        let found = sizes(&mut connection, system, COLUMNS_BYTES)?;
        client::execute(&mut connection, &["DROP TABLE space"])?;
        found.report(system, &case, MIXED_ROWS, report);
        if system == System::Perdura {
            report.add("payload", &case, METRIC, "B", found.payload / MIXED_ROWS as f64);
        }
        Ok(())
    })?;
    let text = format!("{case}: perdura / (payload + {PERDURA_HEADERS} B of version header and directory word)");
    let ratio = report.paired("perdura", "payload", &case, METRIC, |own, payload| own / (payload + PERDURA_HEADERS));
    report.at_most(&text, ratio, 1.3);
    Ok(())
}
