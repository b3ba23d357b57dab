//! Pools on a disk, and with the log on (emulated) persistent memory and the data on a disk, beside
//! InnoDB on the same disk with the same durability.
//!
//! `ssd`: log and data on the disk; `split`: the log in `PERDURA_DIR`; `pmem`: both there; `ssd2x`:
//! on the disk, with twice as many data as memory. `innodb_nodw` is InnoDB without doublewrite.

mod limited;
mod restart;
mod side;

use std::time::Duration;

use anyhow::{Context, Result};

use super::plan::Plan;
use super::report::Report;
use super::systems;
use crate::drive::sysbench::{self, Tables};
use crate::shared::{client, paths, process};
use side::{BYTES, JUDGED, Placement, Side, TPS, lasting};

/// When a quick run begins no further case.
const QUICK_TIME: Duration = Duration::from_secs(42);
/// Sysbench's scripts and threads, by the placement that they run on.
const ON_DISK: [(&str, u32); 4] = [("write_only", 16), ("insert", 1), ("insert", 16), ("insert", 64)];

/// All cases.
pub fn run(plan: &Plan) -> Result<Report> {
    sysbench::check()?;
    std::fs::create_dir_all(paths::disk()).with_context(|| format!("PERDURA_DISK_DIR={}", paths::disk().display()))?;
    let plan = &plan.until(QUICK_TIME);
    let tables = Tables::of_rows(plan.size(100_000, 10_000));
    let mut sides = vec![Side::start("innodb", Placement::Ssd, &[])?];
    if !plan.quick {
        sides.push(Side::start("innodb_nodw", Placement::Ssd, &[])?);
    }
    if plan.perdura {
        for placement in [Placement::Pmem, Placement::Split, Placement::Ssd] {
            sides.push(Side::start("perdura", placement, &[])?);
        }
    }
    let last = &sides.last().expect("InnoDB takes part").server;
    let workload = format!(
        "sysbench, {tables}, runs of {} s, PLACEMENT/SCRIPT/THREADS; LOAD DATA; restart after kill -9",
        lasting(plan).as_secs()
    );
    let mut report = Report::new("media", workload, systems::medium(last)?);
    let disk = process::mount(&paths::disk()).map_or_else(|| "unknown".to_owned(), |(kind, _)| kind);
    report.note(format!("the disk: {disk}; InnoDB: innodb_flush_log_at_trx_commit=1, redo log by pwrite"));
    for side in &sides {
        sysbench::prepare(&side.server, side.engine, tables)?;
    }
    let rounds = if plan.quick { 1 } else { 3 };
    for (script, threads) in ON_DISK {
        for round in 1..=rounds {
            for side in &sides {
                let is_wanted = side.placement == Placement::Ssd || (script, threads) == JUDGED;
                if is_wanted && plan.has_time(lasting(plan)) {
                    side.run(plan, (script, threads), tables, round, &mut report)?;
                }
            }
        }
    }
    load(plan, &sides, &mut report)?;
    drop(sides);
    if !plan.quick {
        limited::run(plan, &mut report)?;
    }
    restart::run(plan, &mut report)?;
    judge(&mut report);
    Ok(report)
}

/// Rows of a file into a new table with keys.
fn load(plan: &Plan, sides: &[Side], report: &mut Report) -> Result<()> {
    let rows = plan.size(1_000_000, 60_000);
    let file = paths::disk().join(format!("load-{}.csv", std::process::id()));
    let made = client::execute(
        &mut sides[0].server.connect()?,
        &[format!(
            "SELECT seq, seq * 7919 % {rows}, LPAD(seq, 60, 'x') INTO OUTFILE '{}' FIELDS TERMINATED BY ',' FROM seq_1_to_{rows}",
            file.display()
        )],
    );
    let loaded = made.and_then(|()| {
        for _ in 0..if plan.quick { 1 } else { 3 } {
            for side in sides.iter().filter(|side| side.placement == Placement::Ssd) {
                let columns = "id INT PRIMARY KEY, k INT NOT NULL, text VARCHAR(64) NOT NULL, KEY (k)";
                let create = format!("CREATE TABLE loaded ({columns}) ENGINE={}", side.engine);
                let mut connection = side.server.connect()?;
                client::execute(&mut connection, &["DROP TABLE IF EXISTS loaded", &create])?;
                let begun = std::time::Instant::now();
                let statement =
                    format!("LOAD DATA INFILE '{}' INTO TABLE loaded FIELDS TERMINATED BY ','", file.display());
                client::execute(&mut connection, &[statement])?;
                report.add(side.name, "ssd/load", "time_s", "s", begun.elapsed().as_secs_f64());
            }
        }
        Ok(())
    });
    let _ = std::fs::remove_file(&file);
    loaded
}

fn judge(report: &mut Report) {
    let ratio =
        |report: &Report, case: &str, metric| report.paired("perdura", "innodb", case, metric, |own, peer| own / peer);
    for (case, least) in [
        ("ssd/write_only/16", 1.5),
        ("ssd/insert/1", 1.3),
        ("ssd/insert/16", 1.3),
        ("ssd/insert/64", 1.3),
        ("ssd2x/write_only/16", 1.0),
    ] {
        let found = ratio(report, case, TPS);
        report.at_least(&format!("{case}: tps, perdura / innodb"), found, least);
    }
    let faster = report.paired("perdura", "innodb", "ssd/load", "time_s", |own, peer| peer / own);
    report.at_least("ssd/load: innodb / perdura", faster, 3.0);
    let split =
        report.value("perdura", "split/write_only/16", TPS).zip(report.value("perdura", "pmem/write_only/16", TPS));
    report.at_least("write_only/16: tps, split / pmem", split.map(|(split, pmem)| split / pmem), 0.9);
    let written = ratio(report, "ssd/write_only/16", BYTES);
    report.at_most("ssd/write_only/16: bytes written a transaction, perdura / innodb", written, 0.5);
    let ready = report.value("perdura", "ssd", restart::METRIC);
    report.at_most("ssd: restart with the log since the checkpoint, s", ready, 5.0);
}
