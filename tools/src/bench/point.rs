//! Reading one row by its primary key: SELECTs in a stored procedure, so that neither client nor
//! wake-ups count.

use anyhow::Result;

use super::keyed::{self, Procedure};
use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::shared::client;

const METRIC: &str = "us_per_op";

const SELECT: Procedure =
    Procedure { name: "point", statement: "SELECT a INTO found FROM TABLE WHERE id = k", found: "k" };

/// All SELECTs in one transaction, or each its own.
pub fn run(plan: &Plan) -> Result<Report> {
    let many = plan.size(500_000, 200_000);
    let systems = systems::chosen(plan, &[System::Memory, System::Innodb, System::Perdura]);
    let servers = Servers::start(&systems)?;
    SELECT.prepare(&servers, &systems)?;
    let workload = format!("{many} SELECTs by primary key in a stored procedure, keys all over {} rows", keyed::ROWS);
    let mut report = servers.report("point", workload)?;
    let cases = [("one_transaction", "BEGIN", "COMMIT"), ("autocommit", "SET autocommit=1", "SET autocommit=1")];
    systems::rounds(plan, plan.rounds(), &systems, |system| {
        let (mut connection, _) = SELECT.session(&servers, system)?;
        for (case, begin, end) in cases {
            client::execute(&mut connection, &[begin])?;
            let took_s = systems::timed(&mut connection, &SELECT.call(system, many))?;
            client::execute(&mut connection, &[end])?;
            report.add(system.name(), case, METRIC, "us", took_s * 1e6 / many as f64);
        }
        Ok(())
    })?;
    let ratio = report.paired("perdura", "memory", "one_transaction", METRIC, |own, peer| own / peer);
    report.at_most("one_transaction: perdura / memory", ratio, 1.0);
    let beyond = report.paired("perdura", "memory", "autocommit", METRIC, |own, peer| own - peer);
    report.at_most("autocommit: perdura - memory, us", beyond, 0.5);
    Ok(report)
}
