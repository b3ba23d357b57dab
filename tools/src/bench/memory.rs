//! DRAM that one transaction takes to load rows: the growth of the server's private memory
//! (RssAnon), without mapped files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, System};
use crate::drive::server::Server;
use crate::shared::{client, csv, process};

const SAMPLE: Duration = Duration::from_millis(2);
const METRIC: &str = "bytes_per_row";

/// Each run has a server of its own, so that it inherits no memory. Buffer pools are private memory
/// and count.
pub fn run(plan: &Plan) -> Result<Report> {
    let rows = plan.size(1_000_000, 250_000);
    let systems = systems::chosen(plan, &[System::Memory, System::Innodb, System::Perdura]);
    let file = csv::paper(rows, 0)?;
    let mut report: Option<Report> = None;
    systems::rounds(plan, plan.rounds(), &systems, |system| {
        let server = Server::start_new(systems::options(plan.perdura))?;
        let workload = format!("one transaction loads {rows} rows; most private memory above that at its start");
        if report.is_none() {
            report = Some(Report::new("memory", workload, systems::medium(&server)?));
        }
        let statements = [
            format!("CREATE TABLE held ({}) ENGINE={}", csv::COLUMNS, system.engine()),
            "BEGIN".to_owned(),
            client::load_statement(false, &file, "held", ""),
            "COMMIT".to_owned(),
        ];
        let mut connection = server.connect()?;
        client::execute(&mut connection, &statements[..1])?;
        let (before, most) = most_private_bytes(&server, || client::execute(&mut connection, &statements[1..]))?;
        let report = report.as_mut().expect("it was just made");
        report.add(system.name(), "load", METRIC, "B", most.saturating_sub(before) as f64 / rows as f64);
        Ok(())
    })?;
    let mut report = report.expect("there is at least one round");
    let own = report.value("perdura", "load", METRIC);
    report.at_most("perdura, bytes a row", own, 48.0);
    Ok(report)
}

/// Private memory before `work`, and its peak while `work` ran.
pub fn most_private_bytes(server: &Server, work: impl FnOnce() -> Result<()>) -> Result<(u64, u64)> {
    let (pid, done) = (server.pid(), AtomicBool::new(false));
    let before = process::status_bytes(pid, "RssAnon")?;
    let most = std::thread::scope(|scope| -> Result<u64> {
        let sampler = scope.spawn(|| -> Result<u64> {
            let mut most = before;
            while !done.load(Ordering::Relaxed) {
                most = most.max(process::status_bytes(pid, "RssAnon")?);
                std::thread::sleep(SAMPLE);
            }
            Ok(most.max(process::status_bytes(pid, "RssAnon")?))
        });
        let outcome = work();
        done.store(true, Ordering::Relaxed);
        let most = sampler.join().expect("the sampler does not panic");
        outcome?;
        most
    })?;
    Ok((before, most))
}
