//! Pre-fault (Table II and Fig. 4 of the source paper): a load into cold files with and without it,
//! through the engine's API (the program `transactions prefault` of perdura-bench) and by SQL.
//!
//! Large pages need a file system that has them: the case "2m" runs on a tmpfs of its own, mounted
//! with `huge=always` in a mount namespace, and is left out where that is not allowed.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::plan::Plan;
use super::profile;
use super::program;
use super::report::Report;
use super::systems::{self, System};
use crate::drive::server::Server;
use crate::shared::{client, csv, paths, process};

const METRICS: [(&str, &str); 5] =
    [("time_s", "s"), ("faults", ""), ("service_faults", ""), ("user_s", "s"), ("system_s", "s")];
/// Name of the service's threads, as the kernel cuts it.
const SERVICE: &str = "perdura-prefaul";
const LOADERS: u64 = 2;

/// Cases "off", "4k", "2m" of the systems `engine` and `sql`.
pub fn run(plan: &Plan) -> Result<Report> {
    let lines = program::run("transactions", &["prefault"], plan)?;
    let rows = plan.size(1_000_000, 250_000);
    let workload = format!(
        "a load into files of 8 MiB that nobody has touched: `engine` {} rows of 64 B in one transaction; `sql` {LOADERS} \
         loaders, {rows} rows each",
        plan.size(2_000_000, 1_000_000)
    );
    let mut report = Report::new("prefault", workload, program::medium(&lines));
    program::add(&mut report, &lines, &METRICS)?;
    large_pages(plan, &mut report)?;
    if plan.perdura {
        by_sql(plan, rows, &mut report)?;
    }
    for case in ["off", "4k/awaited"] {
        profile::add(&mut report, "engine", case, ("transactions", &["prefault", "--case", case]), plan)?;
    }
    for case in ["4k", "4k/awaited"] {
        let gain = report.paired_series(("engine", "off", "time_s"), ("engine", case, "time_s"), |off, on| off / on);
        report.at_least(&format!("engine: time off / {case}"), gain, 2.0);
    }
    let faults = report.value("engine", "4k/awaited", "faults");
    report.at_most("engine, 4k/awaited: page faults of the thread that loads", faults, 10.0);
    Ok(report)
}

fn large_pages(plan: &Plan, report: &mut Report) -> Result<()> {
    let directory = paths::medium().join(format!("huge-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let mount = format!("mount -t tmpfs -o huge=always perdura '{}' && exec \"$@\"", directory.display());
    let within = ["unshare", "--mount", "sh", "-c", &mount, "sh"];
    let allowed = Command::new(within[0]).args(&within[1..]).arg("true").output().context("cannot run unshare")?;
    if allowed.status.success() {
        let lines = program::run_within(&within, "transactions", &["prefault", "--case", "2m"], &directory, plan)?;
        program::add(report, &lines, &METRICS)?;
    } else {
        let reason = String::from_utf8_lossy(&allowed.stderr);
        report.note(format!("no case 2m: a tmpfs with large pages cannot be mounted: {}", reason.trim()));
    }
    fs::remove_dir(&directory).with_context(|| directory.display().to_string())
}

/// Loads a new table; each case has a server of its own. Faults of the service's threads are told
/// from those of all others by their name.
fn by_sql(plan: &Plan, rows: u64, report: &mut Report) -> Result<()> {
    let files = (0..LOADERS).map(|loader| csv::paper(rows, loader)).collect::<Result<Vec<_>>>()?;
    let loads: Vec<String> = files.iter().map(|file| client::load_statement(false, file, "loaded", "")).collect();
    let (mut servers, mut watches) = (Vec::new(), Vec::new());
    for (case, prefault) in [("off", "OFF"), ("4k", "ON")] {
        let mut options = systems::options(true);
        options.extra.push(format!("--perdura-prefault={prefault}"));
        options.extra.push("--perdura-data-file-size=8M".to_owned());
        // The files of a table that is dropped would be faulted in already.
        options.extra.push("--perdura-kept-file-bytes=0".to_owned());
        let server = Server::start_new(options)?;
        watches.extend(plan.watch(&format!("sql {case}"), &server));
        servers.push((case, server));
    }
    for round in 0..plan.rounds() {
        for turn in 0..servers.len() {
            let (case, server) = &servers[(round + turn) % 2];
            plan.running("sql", case);
            let mut connection = server.connect()?;
            let engine = System::Perdura.engine();
            client::execute(&mut connection, &[format!("CREATE TABLE loaded ({}) ENGINE={engine}", csv::COLUMNS)])?;
            let (before, cpu) = (faults(server.pid())?, process::cpu_times(server.pid())?);
            let took = systems::at_once(server, &[], &loads, &[])?;
            let (after, cpu_after) = (faults(server.pid())?, process::cpu_times(server.pid())?);
            report.add("sql", case, "time_s", "s", took.as_secs_f64());
            report.add("sql", case, "faults", "", (after.0 - before.0) as f64);
            report.add("sql", case, "service_faults", "", (after.1 - before.1) as f64);
            report.add("sql", case, "user_s", "s", (cpu_after.0 - cpu.0).as_secs_f64());
            report.add("sql", case, "system_s", "s", (cpu_after.1 - cpu.1).as_secs_f64());
            client::execute(&mut connection, &["DROP TABLE loaded"])?;
        }
    }
    Ok(())
}

/// Page faults of a process until now: of all threads but the service's, and of the service's.
fn faults(pid: u32) -> Result<(u64, u64)> {
    let fault_count = |stat: &str| -> Option<u64> {
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        // Behind the name: minor faults are the eighth field, major ones the tenth.
        Some(fields.nth(7)?.parse::<u64>().ok()? + fields.nth(1)?.parse::<u64>().ok()?)
    };
    let all = fault_count(&fs::read_to_string(format!("/proc/{pid}/stat"))?).context("a line of stat")?;
    let mut service = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end meanwhile.
        let Ok(stat) = fs::read_to_string(task?.path().join("stat")) else { continue };
        if stat.contains(&format!("({SERVICE})")) {
            service += fault_count(&stat).context("a line of stat")?;
        }
    }
    Ok((all - service, service))
}
