//! A full scan: SUM over a whole loaded table.

use std::time::Instant;

use anyhow::{Result, ensure};
use mysql::prelude::Queryable;

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::shared::{client, csv};

const METRIC: &str = "time_s";
const QUERY: &str = "SELECT SUM(a) FROM ";

/// Scans of each system in a round, one after the other.
const SCANS: u32 = 10;

/// The table stays for all rounds. The first scan of each system is not counted.
pub fn run(plan: &Plan) -> Result<Report> {
    let rows = plan.size(2_000_000, 500_000);
    let systems = systems::chosen(plan, &[System::Memory, System::Innodb, System::Perdura]);
    let servers = Servers::start(&systems)?;
    let file = csv::paper(rows, 0)?;
    let mut sums: Vec<u64> = Vec::new();
    for &system in &systems {
        let mut connection = servers.of(system).connect()?;
        let table = format!("scanned_{}", system.name());
        let create = format!("CREATE TABLE {table} ({}) ENGINE={}", csv::COLUMNS, system.engine());
        client::execute(&mut connection, &[create, client::load_statement(false, &file, &table, "")])?;
        sums.push(client::value(&mut connection, &format!("{QUERY}{table}"))?);
    }
    ensure!(sums.windows(2).all(|pair| pair[0] == pair[1]), "the systems disagree on the sum: {sums:?}");
    let mut report = servers.report("scan", format!("{QUERY} {rows} rows"))?;
    systems::rounds(plan, plan.rounds(), &systems, |system| {
        let mut connection = servers.of(system).connect()?;
        let begun = Instant::now();
        for _ in 0..SCANS {
            connection.query_drop(format!("{QUERY}scanned_{}", system.name()))?;
        }
        report.add(system.name(), "sum", METRIC, "s", begun.elapsed().as_secs_f64() / f64::from(SCANS));
        Ok(())
    })?;
    let ratio = report.paired("perdura", "memory", "sum", METRIC, |own, peer| own / peer);
    report.at_most("perdura / memory", ratio, 1.1);
    Ok(report)
}
