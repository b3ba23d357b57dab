//! The paper's load: concurrent sessions, one CSV file each, into one table without indexes. Two of
//! them, and for the growth with their number the same rows in other shares.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use super::usl::Usl;
use crate::drive::server::Server;
use crate::shared::{client, csv};

const LOADERS: u64 = 2;
const METRIC: &str = "time_s";

/// Loaders of the paper.
const PAPER_LOADERS: u32 = 96;
/// Numbers of loaders besides the usual one.
const SHARES: [u64; 3] = [1, 4, 8];
/// When a quick run begins no further round with two loaders.
const QUICK_TIME: Duration = Duration::from_secs(28);

/// The client sends the file (`local`), or the server reads it (`server`). `local/N`: N loaders
/// share the rows.
///
/// Perdura takes part twice. As `perdura` it loads into a table whose room lies ready and is
/// faulted in: the same rows were loaded before, and rolled back. As `perdura_new` it loads into a
/// new table, and makes and faults in files as it goes. Nothing of the kind would help the peers:
/// BLACKHOLE and null need no room, and the memory of MEMORY and InnoDB is faulted in from the
/// first round on.
pub fn run(plan: &Plan) -> Result<Report> {
    let rows = plan.size(1_000_000, 250_000);
    let candidates = [
        System::Blackhole,
        System::Null,
        System::Memory,
        System::Innodb,
        System::InnodbPwrite,
        System::Perdura,
        System::PerduraNew,
    ];
    let systems = systems::chosen(plan, &candidates);
    let servers = Servers::start(&systems)?;
    let _watches = servers.watch(plan);
    let files = (0..LOADERS).map(|loader| csv::paper(rows, loader)).collect::<Result<Vec<_>>>()?;
    let mut report = servers.report("load", format!("{LOADERS} loaders, {rows} rows each, {} columns", 5))?;
    for (case, local) in [("local", true), ("server", false)] {
        systems::rounds(&plan.until(QUICK_TIME), plan.rounds(), &systems, |system| {
            plan.running(system.name(), case);
            let took = load(servers.of(system), system, &files, rows, local)?;
            report.add(system.name(), case, METRIC, "s", took.as_secs_f64());
            Ok(())
        })?;
    }
    for loaders in SHARES {
        let rows = rows * LOADERS / loaders;
        let files = (0..loaders).map(|loader| csv::paper(rows, loader)).collect::<Result<Vec<_>>>()?;
        let rounds = if plan.quick { 1 } else { 3 };
        let case = format!("local/{loaders}");
        systems::rounds(plan, rounds, &systems, |system| {
            plan.running(system.name(), &case);
            let took = load(servers.of(system), system, &files, rows, true)?;
            report.add(system.name(), &case, METRIC, "s", took.as_secs_f64());
            Ok(())
        })?;
    }
    report.keep_better("innodb", "innodb_pwrite");
    for (case, limit) in [("local", 1.25), ("server", 1.4)] {
        let times = |own: &str, peer: &str| report.paired(own, peer, case, METRIC, |own, peer| own / peer);
        let (null, floor, memory) =
            (times("perdura", "null"), times("perdura_new", "blackhole"), times("perdura_new", "memory"));
        let faster = report.paired("perdura_new", "innodb", case, METRIC, |own, peer| peer / own);
        report.at_most(&format!("{case}: perdura / null"), null, 1.1);
        report.at_most(&format!("{case}: perdura_new / blackhole"), floor, limit);
        report.at_most(&format!("{case}: perdura_new / memory"), memory, 1.0);
        report.at_least(&format!("{case}: innodb / perdura_new"), faster, 3.5);
    }
    note_serial_fractions(&mut report, &systems);
    Ok(report)
}

/// Says what fits the growth from one loader to two, by the medians. More loaders than processors
/// tell nothing of it.
fn note_serial_fractions(report: &mut Report, systems: &[System]) {
    let serial = |system: &System| {
        let rate = |case| report.value(system.name(), case, METRIC).map(f64::recip);
        let law = Usl::fit(&[(1, rate("local/1")?), (2, rate("local")?)])?;
        let many = law.speedup(PAPER_LOADERS);
        Some(format!("{} {:.2} ({many:.1})", system.name(), law.serial))
    };
    let all: Vec<String> = systems.iter().filter_map(serial).collect();
    report.note(format!(
        "serial fraction from 1 to {LOADERS} loaders, and by it {PAPER_LOADERS} loaders in times of one: {}",
        all.join(", ")
    ));
}

/// Loads all files concurrently into a new table. Returns the time from the common start to the
/// last end.
fn load(server: &Server, system: System, files: &[PathBuf], rows: u64, local: bool) -> Result<Duration> {
    let mut connection = server.connect()?;
    let create = format!("CREATE TABLE loaded ({}) ENGINE={}", csv::COLUMNS, system.engine());
    client::execute(&mut connection, &["DROP TABLE IF EXISTS loaded", &create])?;
    let loads = files.iter().map(|file| client::load_statement(local, file, "loaded", ""));
    let loads: Vec<String> = loads.collect();
    if system == System::Perdura {
        // Their room stays with the table, free and faulted in.
        systems::at_once(server, &["BEGIN"], &loads, &["ROLLBACK"])?;
    }
    let took = systems::at_once(server, &[], &loads, &[])?;
    if system.keeps_rows() {
        let found: u64 = client::value(&mut connection, "SELECT COUNT(*) FROM loaded")?;
        let (files, name) = (files.len() as u64, system.name());
        ensure!(found == rows * files, "{name}: {found} rows after loading {files} x {rows}");
    }
    client::execute(&mut connection, &["DROP TABLE loaded"])?;
    Ok(took)
}
