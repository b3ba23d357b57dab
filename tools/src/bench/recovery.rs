//! Restart after kill -9 with committed and uncommitted rows: from the start of the process to the
//! first query's answer.

use std::time::Instant;

use anyhow::{Result, ensure};
use mysql::prelude::Queryable;

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, System};
use crate::drive::server::Server;
use crate::shared::{client, csv};

/// `ready_s` with data; `server_s` for the same server, killed while empty.
pub fn run(plan: &Plan) -> Result<Report> {
    let (committed, uncommitted) = (plan.size(2_000_000, 400_000), plan.size(1_000_000, 200_000));
    let systems = systems::chosen(plan, &[System::Innodb, System::Perdura]);
    let workload = format!("kill -9 with {committed} rows committed and {uncommitted} not");
    let mut report: Option<Report> = None;
    systems::rounds(plan, plan.rounds(), &systems, |system| {
        let mut server = Server::start_new(systems::options(plan.perdura))?;
        if report.is_none() {
            report = Some(Report::new("recovery", workload.clone(), systems::medium(&server)?));
        }
        let report = report.as_mut().expect("it was just made");
        server.kill()?;
        let begun = Instant::now();
        server.start()?;
        server.connect()?.query_drop("SELECT 1")?;
        report.add(system.name(), "kill -9", "server_s", "s", begun.elapsed().as_secs_f64());
        let ready_s = restart_with_data(&mut server, system, committed, uncommitted)?;
        report.add(system.name(), "kill -9", "ready_s", "s", ready_s);
        Ok(())
    })?;
    let mut report = report.expect("there is at least one round");
    if plan.perdura {
        let beyond =
            report.paired_metrics("perdura", "kill -9", ("ready_s", "server_s"), |ready, server| ready - server);
        report.at_most("perdura: ready_s - server_s, s", beyond, 1.0);
    }
    Ok(report)
}

fn restart_with_data(server: &mut Server, system: System, committed: u64, uncommitted: u64) -> Result<f64> {
    let mut connection = server.connect()?;
    let create = format!("CREATE TABLE kept ({}) ENGINE={}", csv::COLUMNS, system.engine());
    let load = |rows: u64| Ok::<_, anyhow::Error>(client::load_statement(false, &csv::paper(rows, 0)?, "kept", ""));
    client::execute(&mut connection, &[create, load(committed)?, "BEGIN".to_owned(), load(uncommitted)?])?;
    server.kill()?;
    let begun = Instant::now();
    server.start()?;
    let mut connection = server.connect()?;
    connection.query_drop("SELECT * FROM kept LIMIT 1")?;
    let ready_s = begun.elapsed().as_secs_f64();
    let found: u64 = client::value(&mut connection, "SELECT COUNT(*) FROM kept")?;
    ensure!(found == committed, "{}: {found} rows after the crash, {committed} were committed", system.name());
    Ok(ready_s)
}
