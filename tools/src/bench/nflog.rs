//! The ways to the log beside one another and beside InnoDB's own: the experiments of *NF-log* (SNU
//! 2022, 3.2 and 3.3) with sysbench, on the medium of `PERDURA_DIR`.
//!
//! A case is a number of threads of write_only; in full runs `read_write/N` and `read_only/N` as
//! well, and `wa/N`, the granularities of the write-ahead at 8 threads.

use std::time::Duration;

use anyhow::Result;
use mysql::Conn;

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, System};
use crate::drive::server::{Options, Server};
use crate::drive::sysbench::{self, TABLES};
use crate::shared::{client, process};

const TPS: &str = "tps";
const BYTES: &str = "bytes_per_tx";
const CPU: &str = "cpu_us_per_tx";
/// Name of each system, and its settings.
const PATHS: [(&str, &[&str]); 6] = [
    ("classic", &["--perdura-log-path=classic"]),
    ("persist", &["--perdura-log-path=persist"]),
    ("wa512", &["--perdura-log-path=write_ahead"]),
    ("local", &["--perdura-log-path=local"]),
    ("nf", &["--perdura-log-path=nf"]),
    ("direct", &["--perdura-log-path=direct"]),
];
const THREADS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Threads of a quick run, of the sweep, and of the judged ratios.
const JUDGED: u32 = 8;
/// Granularities of the sweep in bytes.
const SWEEP: [u32; 6] = [256, 512, 1024, 2048, 4096, 8192];
/// When a quick run begins no further round.
const QUICK_TIME: Duration = Duration::from_secs(42);

/// A system with its server.
struct Side {
    name: String,
    engine: &'static str,
    server: Server,
}

impl Side {
    fn perdura(name: &str, settings: &[&str], rows: u64) -> Result<Side> {
        let mut options = systems::options(true);
        options.extra.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let side =
            Side { name: name.to_owned(), engine: System::Perdura.engine(), server: Server::start_new(options)? };
        sysbench::prepare(&side.server, side.engine, rows)?;
        Ok(side)
    }

    /// InnoDB, which writes its log with pwrite where that can be had: a mount needs root.
    fn innodb(rows: u64) -> Result<Side> {
        let options = Options { own_log_mount: process::is_root(), ..systems::options(false) };
        let side =
            Side { name: "innodb".to_owned(), engine: System::Innodb.engine(), server: Server::start_new(options)? };
        sysbench::prepare(&side.server, side.engine, rows)?;
        Ok(side)
    }

    /// Bytes that went to the medium since the start, as far as the engine counts them.
    fn bytes(&self, connection: &mut Conn) -> Result<u64> {
        let names = match self.engine {
            "Perdura" => "variable_name LIKE 'Perdura_medium_bytes_%'",
            _ => "variable_name IN ('Innodb_os_log_written', 'Innodb_data_written')",
        };
        let query =
            format!("SELECT CAST(SUM(variable_value) AS UNSIGNED) FROM information_schema.global_status WHERE {names}");
        client::value(connection, &query)
    }

    /// One run, of which figures are added.
    fn run(
        &self,
        plan: &Plan,
        (script, threads): (&str, u32),
        rows: u64,
        round: usize,
        report: &mut Report,
    ) -> Result<()> {
        let case = if script == "write_only" { threads.to_string() } else { format!("{script}/{threads}") };
        self.run_as(plan, &self.name, &case, (script, threads), rows, round, report)
    }

    #[expect(clippy::too_many_arguments, reason = "one call, which names them")]
    fn run_as(
        &self,
        plan: &Plan,
        name: &str,
        case: &str,
        (script, threads): (&str, u32),
        rows: u64,
        round: usize,
        report: &mut Report,
    ) -> Result<()> {
        plan.running(name, case);
        let mut connection = self.server.connect()?;
        let (bytes, cpu) = (self.bytes(&mut connection)?, process::cpu_time(self.server.pid())?);
        let outcome = sysbench::run(&self.server, script, rows, threads, lasting(plan), round)?;
        let bytes = self.bytes(&mut connection)? - bytes;
        let cpu = process::cpu_time(self.server.pid())? - cpu;
        let each = outcome.transactions as f64;
        report.add(name, case, TPS, "1/s", outcome.tps);
        report.add(name, case, BYTES, "B", bytes as f64 / each);
        report.add(name, case, CPU, "us", cpu.as_secs_f64() * 1e6 / each);
        Ok(())
    }
}

fn lasting(plan: &Plan) -> Duration {
    Duration::from_secs(plan.size(10, 2))
}

/// All cases.
pub fn run(plan: &Plan) -> Result<Report> {
    sysbench::check()?;
    let plan = &plan.until(QUICK_TIME);
    let rows = plan.size(100_000, 5_000);
    let mut sides = vec![Side::innodb(rows)?];
    if plan.perdura {
        for (name, settings) in PATHS {
            sides.push(Side::perdura(name, settings, rows)?);
        }
    }
    let last = &sides.last().expect("InnoDB takes part").server;
    let workload = format!(
        "sysbench write_only, {TABLES} tables of {rows} rows, runs of {} s; cases: threads, SCRIPT/THREADS, wa/GRANULARITY at {JUDGED}",
        lasting(plan).as_secs()
    );
    let mut report = Report::new("nflog", workload, systems::medium(last)?);
    let mapped = sides[0].server.log().contains("(memory-mapped)");
    report.note(format!("innodb: redo log {}", if mapped { "memory-mapped" } else { "written by pwrite" }));
    if numa_nodes() < 2 {
        report.note("local: this machine has one NUMA node, so no thread is pinned".to_owned());
    }
    let rounds = if plan.quick { 1 } else { 3 };
    let scripts: &[&str] = if plan.quick { &["write_only"] } else { &["write_only", "read_write", "read_only"] };
    for script in scripts {
        let threads = THREADS.into_iter().filter(|threads| !plan.quick || *threads == JUDGED);
        for threads in threads {
            for round in 1..=rounds {
                for side in &sides {
                    side.run(plan, (script, threads), rows, round, &mut report)?;
                }
            }
        }
    }
    drop(sides);
    if plan.perdura && !plan.quick {
        sweep(plan, rows, &mut report)?;
    }
    judge(&mut report);
    Ok(report)
}

/// NUMA nodes that the system tells of.
fn numa_nodes() -> usize {
    let nodes = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    nodes.filter(|entry| entry.file_name().to_string_lossy().starts_with("node")).count()
}

/// The granularities of the write-ahead, each on top of `classic` and as `nf`.
fn sweep(plan: &Plan, rows: u64, report: &mut Report) -> Result<()> {
    for bytes in SWEEP {
        for (name, path) in [("wa", "write_ahead"), ("nf", "nf")] {
            let settings = [format!("--perdura-log-path={path}"), format!("--perdura-log-write-ahead-size={bytes}")];
            let side = Side::perdura(name, &settings.each_ref().map(String::as_str), rows)?;
            for round in 1..=3 {
                side.run_as(plan, name, &format!("wa/{bytes}"), ("write_only", JUDGED), rows, round, report)?;
            }
        }
    }
    Ok(())
}

fn judge(report: &mut Report) {
    let case = JUDGED.to_string();
    let ratio = |report: &Report, (first, second): (&str, &str), metric| {
        report.paired(first, second, &case, metric, |first, second| first / second)
    };
    for (first, second, least) in [("persist", "classic", 0.97), ("classic", "innodb", 0.9)] {
        let found = ratio(report, (first, second), TPS);
        report.at_least(&format!("{case}: tps, {first} / {second}"), found, least);
    }
    let (direct, nf) = (ratio(report, ("direct", "classic"), TPS), ratio(report, ("nf", "classic"), TPS));
    let found = direct.zip(nf).map(|(direct, nf)| direct / nf);
    report.at_least(&format!("{case}: tps, (direct / classic) / (nf / classic)"), found, 1.0);
    for (first, most) in [("nf", 0.7), ("direct", 0.5)] {
        let found = ratio(report, (first, "classic"), BYTES);
        report.at_most(&format!("{case}: bytes to the medium a transaction, {first} / classic"), found, most);
    }
    let found = ratio(report, ("nf", "classic"), CPU);
    report.at_most(&format!("{case}: CPU a transaction, nf / classic"), found, 1.0);
}
