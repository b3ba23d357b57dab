//! Soak: mixed load for minutes, and meanwhile one reader that holds a snapshot. How much it slows
//! the others down, and whether memory and files stop growing when it has ended. `--hours` runs
//! another load instead (see `hours`).

mod hours;
mod load;
mod sample;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use load::Load;
use mysql::Conn;
use mysql::prelude::Queryable;
use sample::Sampler;

use super::plan::Plan;
use super::report::{Report, median};
use super::systems::{self, System};
use crate::drive::server::Server;
use crate::shared::client;

const METRIC: &str = "ops_per_s";
/// The parts of a run, with the windows of each. In the first the table comes to the state in which
/// the load keeps it.
const PARTS: [(&str, u32); 4] = [("begin", 2), ("alone", 5), ("reader", 5), ("after", 6)];
/// Windows at the end of the part after that are compared with as many before.
const COMPARED: usize = 2;
/// The part in which the reader is there.
const READER: &str = "reader";
const AFTER: &str = "after";

/// Perdura, and InnoDB for comparison, one after the other, each with a server of its own.
pub fn run(plan: &Plan) -> Result<Report> {
    if let Some(hours) = plan.hours {
        return hours::run(plan, hours);
    }
    let rows = plan.size(1_000_000, 100_000);
    let window = if plan.quick { Duration::from_secs(1) } else { Duration::from_secs(600) / windows() };
    let mut report: Option<Report> = None;
    for system in systems::chosen(plan, &[System::Perdura, System::Innodb]) {
        let server = Server::start_new(systems::options(plan.perdura))?;
        if report.is_none() {
            let workload = format!(
                "{:?} of INSERT, UPDATE and DELETE by {} sessions in a table of {rows} rows, with a reader for part of the time",
                window * windows(),
                load::SESSIONS
            );
            report = Some(Report::new("soak", workload, systems::medium(&server)?));
        }
        soak(plan, &server, system, rows, window, report.as_mut().expect("it was just made"))?;
    }
    let mut report = report.context("no system takes part")?;
    let slower =
        report.paired_series(("perdura", READER, METRIC), ("perdura", "alone", METRIC), |with, without| with / without);
    report.at_least("perdura: operations with the reader / without", slower, 0.8);
    for (metric, what) in sample::METRICS {
        let growth = report.runs("perdura", AFTER, metric).and_then(growth);
        report.at_most(&format!("perdura, after the reader: {what}, end / before"), growth, 1.05);
    }
    Ok(report)
}

fn windows() -> u32 {
    PARTS.iter().map(|(_, windows)| windows).sum()
}

/// The median of the last values over that of as many before them.
fn growth(values: &[f64]) -> Option<f64> {
    let (rest, last) = values.split_at_checked(values.len().checked_sub(COMPARED)?)?;
    let before = &rest[rest.len().checked_sub(COMPARED)?..];
    Some(median(last) / median(before))
}

/// One system's run.
fn soak(plan: &Plan, server: &Server, system: System, rows: u64, window: Duration, report: &mut Report) -> Result<()> {
    plan.running(system.name(), "fill");
    let _watch = plan.watch(system.name(), server);
    load::prepare(server, system, rows)?;
    let mut sampler = Sampler::new(server, system)?;
    let load = &Load::new();
    std::thread::scope(|scope| -> Result<()> {
        let sessions: Vec<_> =
            (0..load::SESSIONS).map(|session| scope.spawn(move || load.run(server, session, rows))).collect();
        // However this ends, the sessions do.
        let stop = load.stop_on_drop();
        for (part, windows) in PARTS {
            plan.running(system.name(), part);
            let reader = if part == READER { Some(Reader::open(server)?) } else { None };
            for _ in 0..windows {
                let (begun, before) = (Instant::now(), load.operations());
                std::thread::sleep(window);
                if load.is_stopped() {
                    break;
                }
                let done = (load.operations() - before) as f64 / begun.elapsed().as_secs_f64();
                if part != PARTS[0].0 {
                    report.add(system.name(), part, METRIC, "1/s", done);
                    sampler.add(part, report)?;
                }
            }
            reader.map_or(Ok(()), Reader::close)?;
        }
        drop(stop);
        sessions.into_iter().try_for_each(|session| session.join().expect("a session does not panic"))
    })?;
    load::check(server, system, rows)
}

/// A session with an open snapshot. It reads when it begins and when it ends, and has to find the
/// same.
struct Reader {
    connection: Conn,
    sum: u64,
}

const SUM: &str = "SELECT CAST(COUNT(*) + SUM(k) AS UNSIGNED) FROM soak";

impl Reader {
    fn open(server: &Server) -> Result<Self> {
        let mut connection = server.connect()?;
        let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
        client::execute(&mut connection, &["SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", begin])?;
        let sum = client::value(&mut connection, SUM)?;
        Ok(Self { connection, sum })
    }

    fn close(mut self) -> Result<()> {
        let sum: u64 = client::value(&mut self.connection, SUM)?;
        ensure!(sum == self.sum, "a snapshot has changed: the sum was {}, and is {sum}", self.sum);
        Ok(self.connection.query_drop("COMMIT")?)
    }
}

#[cfg(test)]
mod tests {
    use super::growth;

    /// The first values are those of a table that has not yet given back what the reader held.
    #[test]
    fn growth_is_judged_at_the_end() {
        assert_eq!(growth(&[9.0, 9.0, 2.0, 2.0, 3.0, 3.0]), Some(1.5));
        assert_eq!(growth(&[1.0]), None);
        assert_eq!(growth(&[1.0, 1.0, 1.0]), None);
    }
}
