//! Changing one row by its primary key, each in a transaction of its own: UPDATEs in a stored
//! procedure, so that neither client nor wake-ups count.

use anyhow::{Result, ensure};

use super::keyed::{self, Procedure};
use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::shared::client;

const CASE: &str = "autocommit";
const METRIC: &str = "us_per_op";

const UPDATE: Procedure =
    Procedure { name: "change", statement: "UPDATE TABLE SET a = a + 1 WHERE id = k", found: "0" };

/// One case: the UPDATE of a column that no index has.
pub fn run(plan: &Plan) -> Result<Report> {
    let many = plan.size(200_000, 100_000);
    let candidates = [System::Memory, System::Innodb, System::InnodbPwrite, System::Perdura];
    let systems = systems::chosen(plan, &candidates);
    let servers = Servers::start(&systems)?;
    UPDATE.prepare(&servers, &systems)?;
    let workload = format!(
        "{many} UPDATEs by primary key in a stored procedure, keys all over {} rows, no binary log",
        keyed::ROWS
    );
    let mut report = servers.report("update", workload)?;
    systems::rounds(plan, plan.rounds(), &systems, |system| {
        let sum = format!("SELECT CAST(SUM(a) AS UNSIGNED) FROM {}", keyed::table(system));
        let before: u64 = client::value(&mut servers.of(system).connect()?, &sum)?;
        let (mut connection, warm_up) = UPDATE.session(&servers, system)?;
        let took_s = systems::timed(&mut connection, &UPDATE.call(system, many))?;
        let (updated, name) = (client::value::<u64>(&mut connection, &sum)? - before, system.name());
        ensure!(updated == warm_up + many, "{name}: {updated} rows were changed, not {}", warm_up + many);
        report.add(name, CASE, METRIC, "us", took_s * 1e6 / many as f64);
        Ok(())
    })?;
    report.keep_better("innodb", "innodb_pwrite");
    let beyond = report.paired("perdura", "memory", CASE, METRIC, |own, peer| own - peer);
    report.at_most("perdura - memory, us", beyond, 3.0);
    let faster = report.paired("perdura", "innodb", CASE, METRIC, |own, peer| peer / own);
    report.at_least("innodb / perdura", faster, 1.4);
    Ok(report)
}
