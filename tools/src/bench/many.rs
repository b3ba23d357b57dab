//! Many small tables: what each takes of the medium and of DRAM, and what all together add to a
//! start of the server.
//!
//! BLACKHOLE, whose tables are no more than their definitions, shows the server's own part.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use mysql::Conn;

use super::files;
use super::plan::Plan;
use super::report::Report;
use super::systems::{self, System};
use crate::drive::server::Server;
use crate::shared::{client, csv, process};

const CASE: &str = "tables";
const ROWS: u64 = 10;
/// The server keeps few tables open, so that what it keeps for them is little beside what the
/// engines keep for all.
const CACHES: [&str; 3] = ["--table-open-cache=10", "--table-open-cache-instances=1", "--table-definition-cache=400"];
const ROW: &str = "(1, 7, 'b0123456789abcdef', 'c0123456789abcde', '2021-08-18 12:34:56')";

/// Each run has a server of its own.
pub fn run(plan: &Plan) -> Result<Report> {
    let tables = plan.size(10_000, 1_000);
    let systems = systems::chosen(plan, &[System::Blackhole, System::Innodb, System::Perdura]);
    let workload = format!("{tables} tables of {ROWS} rows of 5 columns");
    let mut report: Option<Report> = None;
    systems::rounds(plan, 3, &systems, |system| {
        let mut options = systems::options(plan.perdura);
        options.extra.extend(CACHES.map(str::to_owned));
        let mut server = Server::start_new(options)?;
        if report.is_none() {
            report = Some(Report::new("many", workload.clone(), systems::medium(&server)?));
        }
        measure(&mut server, system, tables, report.as_mut().expect("it was just made"))
    })?;
    let mut report = report.expect("there is at least one round");
    let kib = report.value("perdura", CASE, "bytes_per_table").map(|bytes| bytes / 1024.0);
    report.at_most("perdura: KiB of files a table", kib, 128.0);
    let kib =
        report.paired("perdura", "blackhole", CASE, "dram_bytes_per_table", |own, server| (own - server) / 1024.0);
    report.at_most("perdura - blackhole: KiB of DRAM a table", kib, 8.0);
    let ready_s = report.value("perdura", CASE, "ready_s");
    report.at_most("perdura: start beyond the empty server's, s", ready_s, 1.0);
    Ok(report)
}

/// The server starts twice: empty, and with the tables. All figures are differences between the
/// two.
fn measure(server: &mut Server, system: System, tables: u64, report: &mut Report) -> Result<()> {
    let empty = start(server, "SELECT 1")?;
    make(&mut server.connect()?, system, tables)?;
    let file_bytes = file_bytes(server)?;
    let full = start(server, &format!("SELECT * FROM t{} LIMIT 1", tables / 2))?;
    // An engine may open a table only when it is used. What the server itself keeps open is closed
    // again.
    let mut connection = server.connect()?;
    for table in 0..tables {
        let found: u64 = client::value(&mut connection, &format!("SELECT COUNT(*) FROM t{table}"))?;
        ensure!(found == ROWS || system == System::Blackhole, "{}: {found} rows in t{table}", system.name());
    }
    client::execute(&mut connection, &["FLUSH TABLES"])?;
    let (used, mappings) = (process::status_bytes(server.pid(), "RssAnon")?, mappings(server.pid())?);
    let each = |full: u64, empty: u64| full.saturating_sub(empty) as f64 / tables as f64;
    let mut add = |metric, unit, value| report.add(system.name(), CASE, metric, unit, value);
    add("bytes_per_table", "B", each(file_bytes, empty.file_bytes));
    add("dram_bytes_per_table", "B", each(used, empty.private_bytes));
    add("mappings_per_table", "mappings", each(mappings, empty.mappings));
    add("server_s", "s", empty.ready_s);
    add("ready_s", "s", full.ready_s - empty.ready_s);
    Ok(())
}

/// The server after a start.
struct Started {
    ready_s: f64,
    private_bytes: u64,
    mappings: u64,
    file_bytes: u64,
}

/// Stops the server in the ordinary way and starts it. It is ready when it has answered `query`.
fn start(server: &mut Server, query: &str) -> Result<Started> {
    server.stop()?;
    let begun = Instant::now();
    server.start()?;
    client::execute(&mut server.connect()?, &[query])?;
    let ready_s = begun.elapsed().as_secs_f64();
    let (private_bytes, mappings) = (process::status_bytes(server.pid(), "RssAnon")?, mappings(server.pid())?);
    Ok(Started { ready_s, private_bytes, mappings, file_bytes: file_bytes(server)? })
}

fn make(connection: &mut Conn, system: System, tables: u64) -> Result<()> {
    let rows = vec![ROW; ROWS as usize].join(", ");
    for table in 0..tables {
        let create = format!("CREATE TABLE t{table} ({}) ENGINE={}", csv::COLUMNS, system.engine());
        client::execute(connection, &[create, format!("INSERT INTO t{table} VALUES {rows}")])?;
    }
    Ok(())
}

/// Lengths of the tables' files: Perdura's data files, other engines' files, and the server's
/// definitions.
fn file_bytes(server: &Server) -> Result<u64> {
    let pool = files::lengths(&server.directory().join("pool"), |name| name.starts_with("t."))?;
    Ok(pool + files::lengths(&server.directory().join("data/test"), |_| true)?)
}

/// Mappings of the process, of which the kernel allows 65,530.
fn mappings(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/maps");
    Ok(std::fs::read_to_string(&path).with_context(|| path.clone())?.lines().count() as u64)
}
