//! sysbench's OLTP scripts beside InnoDB: transactions a second, their latency, and the server's
//! CPU time for each.
//!
//! Each engine has a server of its own (see `pair`). The runs of the two alternate. A case with a
//! binary log has the prefix `binlog/`.

mod workload;

use std::time::Duration;

use anyhow::Result;
use workload::{Case, JUDGED};

use super::pair::{self, Pair};
use super::plan::Plan;
use super::report::Report;
use super::systems::{self, System};
use crate::drive::sysbench::{self as tool, Tables};
use crate::shared::client;

const TPS: &str = "tps";
const P99: &str = "p99_ms";
const CPU: &str = "cpu_us_per_tx";
const RETRIES: &str = "retries_per_1000_tx";

/// When a quick run begins no further case without a binary log, and none at all.
const PLAIN_TIME: Duration = Duration::from_secs(38);
const ALL_TIME: Duration = Duration::from_secs(51);

/// All cases, first without a binary log.
pub fn run(plan: &Plan) -> Result<Report> {
    tool::check()?;
    let tables = Tables::of_rows(plan.size(100_000, 25_000));
    let mut pair = Pair::start(plan, &[])?;
    let workload = format!(
        "sysbench, {tables} with a secondary key, runs of {} s, SCRIPT/THREADS",
        workload::lasting(plan).as_secs()
    );
    let mut report = pair.report("sysbench", workload)?;
    for &system in &pair.systems {
        tool::prepare(pair.of(system), system.engine(), tables)?;
        keep_copy(&pair, system)?;
    }
    Part { plan: plan.until(PLAIN_TIME), pair: &pair, tables, binary_log: false }.measure(&mut report)?;
    pair.restart_with_binary_log()?;
    Part { plan: plan.until(ALL_TIME), pair: &pair, tables, binary_log: true }.measure(&mut report)?;
    judge(plan, &mut report);
    Ok(report)
}

/// The cases with or without a binary log.
struct Part<'a> {
    plan: Plan,
    pair: &'a Pair,
    tables: Tables,
    binary_log: bool,
}

impl Part<'_> {
    fn measure(&self, report: &mut Report) -> Result<()> {
        let systems = &self.pair.systems;
        let _watches = self.pair.watch(&self.plan);
        let both = (workload::lasting(&self.plan) + Duration::from_millis(700)) * systems.len() as u32;
        let mut is_aged = false;
        for case in workload::cases(&self.plan, self.binary_log) {
            let name = case.name(self.binary_log);
            let ages = case.is_aged && !is_aged;
            let aging = if ages { workload::aging(&self.plan) * systems.len() as u32 } else { Duration::ZERO };
            if !self.plan.has_time(aging + both) {
                report.note(format!("{name}: left out, the quick run was late"));
                continue;
            }
            if ages {
                systems.iter().try_for_each(|&system| self.age(system, case.threads))?;
                is_aged = true;
            }
            systems::seeded_rounds(&self.plan, workload::rounds(&self.plan, case), systems, |system, seed| {
                self.run(system, case, &name, seed, report)
            })?;
        }
        Ok(())
    }

    /// Writes the tables for a while.
    fn age(&self, system: System, threads: u32) -> Result<()> {
        let lasting = workload::aging(&self.plan);
        tool::run(self.pair.of(system), workload::AGING, self.tables, threads, lasting, 1).map(drop)
    }

    fn run(&self, system: System, case: Case, name: &str, seed: usize, report: &mut Report) -> Result<()> {
        let server = self.pair.of(system);
        if self.binary_log {
            // The logs of the runs before take room on the medium.
            client::execute(&mut server.connect()?, &["RESET MASTER"])?;
        }
        self.plan.running(system.name(), name);
        let lasting = workload::lasting(&self.plan);
        let run = || tool::run(server, case.script.name, self.tables, case.threads, lasting, seed);
        let (outcome, cpu) = pair::server_cpu(server, run)?;
        if case.script.name == "delete" {
            refill(self.pair, system, self.tables)?;
        }
        let transactions = outcome.transactions as f64;
        let mut add = |metric, unit, value| report.add(system.name(), name, metric, unit, value);
        add(TPS, "1/s", outcome.tps);
        add(P99, "ms", outcome.p99_ms);
        add(CPU, "us", cpu.as_secs_f64() * 1e6 / transactions);
        add(RETRIES, "1", outcome.retries as f64 * 1e3 / transactions);
        Ok(())
    }
}

/// Keeps the rows of the first table for [`refill`].
pub(super) fn keep_copy(pair: &Pair, system: System) -> Result<()> {
    let statements = ["CREATE TABLE kept LIKE sbtest1", "INSERT INTO kept SELECT * FROM sbtest1"];
    client::execute(&mut pair.of(system).connect()?, &statements)
}

/// Puts rows back that were deleted. Otherwise the deletes of a fast engine would soon find no row,
/// and be faster still; and scripts that delete a row and insert it again would meet in rows that
/// are missing, which ends sysbench with a duplicate key.
pub(super) fn refill(pair: &Pair, system: System, tables: Tables) -> Result<()> {
    let mut connection = pair.of(system).connect()?;
    for table in 1..=tables.count {
        let refill = format!(
            "INSERT INTO sbtest{table} SELECT * FROM kept
             WHERE NOT EXISTS (SELECT 1 FROM sbtest{table} AS found WHERE found.id = kept.id)"
        );
        client::execute(&mut connection, &[refill])?;
    }
    Ok(())
}

fn judge(plan: &Plan, report: &mut Report) {
    for binary_log in [false, true] {
        let cases = workload::cases(plan, binary_log);
        for case in cases.into_iter().filter(|case| case.threads == JUDGED) {
            let (tps_least, cpu_most) = match (case.is_aged, case.script.writes) {
                (true, _) => (1.05, 0.95),
                (false, true) => (1.25, 0.7),
                (false, false) => (1.1, 0.85),
            };
            let name = case.name(binary_log);
            let tps = report.paired("perdura", "innodb", &name, TPS, |own, peer| own / peer);
            report.at_least(&format!("{name}: tps, perdura / innodb"), tps, tps_least);
            if binary_log {
                continue;
            }
            if case.script.writes {
                let p99 = report.paired("perdura", "innodb", &name, P99, |own, peer| own / peer);
                report.at_most(&format!("{name}: p99, perdura / innodb"), p99, 1.0);
            }
            let cpu = report.paired("perdura", "innodb", &name, CPU, |own, peer| own / peer);
            report.at_most(&format!("{name}: CPU a transaction, perdura / innodb"), cpu, cpu_most);
        }
    }
}
