//! Mass changes: one transaction updates or deletes rows by the million. What it costs in time and
//! DRAM, and what purge has to do after.

mod dram;
mod keys;
mod statements;

use std::time::Duration;

use anyhow::Result;

use super::plan::Plan;
use super::program;
use super::report::Report;
use super::systems::{self, Servers, System};

/// Cases that may take at most half of InnoDB's time.
const CASES: [&str; 4] = ["update", "update2", "delete", "update/2"];
/// When the statements of a quick run have to end, without keys and with them, so that there is
/// time for the rest.
const STATEMENTS_TIME: Duration = Duration::from_secs(14);
const KEYS_TIME: Duration = Duration::from_secs(30);
/// Bytes of DRAM a row that still count as none.
const NONE: f64 = 0.5;

/// All cases. Statements run in one server; measurements of DRAM have servers of their own; the
/// case `engine` has none.
pub fn run(plan: &Plan) -> Result<Report> {
    let rows = plan.size(2_000_000, 500_000);
    let candidates = [System::Memory, System::Innodb, System::InnodbPwrite, System::Perdura];
    let systems = systems::chosen(plan, &candidates);
    let mut report = {
        let servers = Servers::start(&systems)?;
        let _watches = servers.watch(plan);
        let workload = format!(
            "one transaction changes {rows} freshly loaded rows of 5 columns, or half of them; with keys, of 6 columns"
        );
        let mut report = servers.report("mass", workload)?;
        statements::run(&plan.until(STATEMENTS_TIME), &servers, &systems, rows, &mut report)?;
        keys::run(&plan.until(KEYS_TIME), &servers, &systems, rows, &mut report)?;
        report
    };
    report.keep_better("innodb", "innodb_pwrite");
    dram::run(plan, rows, &mut report)?;
    keys::dram(plan, rows, &mut report)?;
    if plan.perdura {
        program::add(&mut report, &program::run("transactions", &["mass"], plan)?, &[("us_per_row", "us")])?;
    }
    judge(&mut report);
    Ok(report)
}

fn judge(report: &mut Report) {
    for case in CASES {
        let ratio = report.paired("perdura", "innodb", case, statements::METRIC, |own, peer| own / peer);
        report.at_most(&format!("{case}: perdura / innodb"), ratio, 0.5);
    }
    keys::judge(report);
    let (rollback, update) = (("perdura", "rollback", statements::METRIC), ("perdura", "update", statements::METRIC));
    let ratio = report.paired_series(rollback, update, |rollback, update| rollback / update);
    report.at_most("perdura: rollback / update", ratio, 1.0);
    let metrics = (statements::METRIC, statements::STATEMENTS);
    let ratio = report.paired_metrics("perdura", "purge", metrics, |purge, statements| purge / statements);
    report.at_most("perdura: purge / the statements before", ratio, 1.0);
    let each = report.value("perdura", "engine", "us_per_row");
    report.at_most("engine: update, us a row", each, 0.2);
    for (case, limit) in [("update", 16.0), ("after", NONE)] {
        let bytes = report.value("perdura", case, dram::METRIC);
        report.at_most(&format!("{case}: bytes of DRAM a row"), bytes, limit);
    }
    let bytes = report.value("perdura", "limit", dram::LIMITED).map(|bytes| bytes / f64::from(1 << 20));
    report.at_most("limit of 4 MiB: MiB of DRAM", bytes, 8.0);
}
