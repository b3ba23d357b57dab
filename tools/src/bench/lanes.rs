//! Small transactions by lanes of the log, as in table III of Matsuura, NVMSA 2021: runs the
//! program `lanes` of perdura-bench, and the same in SQL; judges the results and says what the
//! stages take in which threads meet.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::commit::INSERT;
use super::plan::Plan;
use super::program;
use super::report::Report;
use super::systems;
use crate::drive::server::{Options, Server};
use crate::shared::{client, csv};

const METRICS: [(&str, &str); 3] = [(TIME, "s"), (STAGE, "ns"), ("ns_per_op", "ns")];
const TIME: &str = "time_s";
const STAGE: &str = "ns_per_commit";
const OWN: &str = "perdura";
/// Lanes, with the paper's time in that of 4 lanes.
const LANES: [(&str, f64); 7] =
    [("1", 1.31), ("2", 1.06), ("4", 1.00), ("8", 1.17), ("10", 1.18), ("12", 1.05), ("16", 1.28)];
/// Numbers of lanes from which on none should be slow.
const JUDGED: [&str; 5] = ["4", "8", "10", "12", "16"];
/// Most that any of them may take, in times of the best number of lanes.
const SLOWEST: f64 = 1.1;
/// Stages in which threads can wait for each other.
const SHARED: [&str; 9] =
    ["id", "reserve", "csn", "durable", "durable_wait", "visible", "visible_wait", "stored", "release"];

/// Sessions of the systems in SQL.
const SESSIONS: [u64; 3] = [2, 4, 8];
/// Bytes of a generation, over however many lanes.
const GENERATION_BYTES: u64 = 32 << 20;
/// Bytes of a page: a lane has a whole number of them.
const PAGE_BYTES: u64 = 4096;

/// `time_s` by lanes, `ns_per_commit` by stage and lanes, and `ns_per_op` of the counter alone.
pub fn run(plan: &Plan) -> Result<Report> {
    let lines = program::run("lanes", &[], plan)?;
    let workload = format!(
        "{} transactions of one row each, by lanes of the log: 8 threads with lanes by session, others in the systems' names",
        plan.size(200_000, 40_000)
    );
    let mut report = Report::new("lanes", workload, program::medium(&lines));
    program::add(&mut report, &lines, &METRICS)?;
    if plan.perdura {
        in_sql(plan, &mut report)?;
    }
    judge(&mut report);
    Ok(report)
}

/// The same in SQL: sessions run a stored procedure of INSERTs, each in its own transaction. Each
/// number of lanes has a server of its own.
fn in_sql(plan: &Plan, report: &mut Report) -> Result<()> {
    let mut longest = Duration::ZERO;
    for round in 0..plan.rounds() {
        if round > 0 && !plan.has_time(longest) {
            break;
        }
        let begun = Instant::now();
        for turn in 0..LANES.len() {
            let (lanes, _) = LANES[(turn + round) % LANES.len()];
            let server = start(lanes)?;
            for sessions in SESSIONS {
                let took = insert(&server, sessions, plan.size(200_000, 40_000))?;
                report.add(&format!("perdura_sql_{sessions}t"), lanes, TIME, "s", took.as_secs_f64());
            }
        }
        longest = longest.max(begun.elapsed());
    }
    Ok(())
}

/// A server whose new pool has so many lanes.
fn start(lanes: &str) -> Result<Server> {
    let mut options: Options = systems::options(true);
    let bytes = GENERATION_BYTES / lanes.parse::<u64>()? / PAGE_BYTES * PAGE_BYTES;
    options.extra.extend([format!("--perdura-log-lanes={lanes}"), format!("--perdura-log-lane-size={bytes}")]);
    let server = Server::start_new(options)?;
    client::execute(&mut server.connect()?, &[INSERT])?;
    Ok(server)
}

/// Has so many sessions insert `rows` rows in all into a new table.
fn insert(server: &Server, sessions: u64, rows: u64) -> Result<Duration> {
    let mut connection = server.connect()?;
    let create = format!("CREATE TABLE committed ({}) ENGINE=Perdura", csv::COLUMNS);
    client::execute(&mut connection, &[&create])?;
    let each = rows / sessions;
    let statements: Vec<String> = (0..sessions).map(|_| format!("CALL insert_many({each})")).collect();
    let took = systems::at_once(server, &["SET autocommit=1"], &statements, &[])?;
    let found: u64 = client::value(&mut connection, "SELECT COUNT(*) FROM committed")?;
    ensure!(found == each * sessions, "{found} rows of {}", each * sessions);
    client::execute(&mut connection, &["DROP TABLE committed"])?;
    Ok(took)
}

fn judge(report: &mut Report) {
    let times: Vec<(&str, f64, f64)> =
        LANES.iter().filter_map(|(lanes, paper)| Some((*lanes, report.value(OWN, lanes, TIME)?, *paper))).collect();
    let best = times.iter().map(|(_, time, _)| *time).fold(f64::INFINITY, f64::min);
    for (lanes, time, paper) in &times {
        let waits: f64 = SHARED.iter().filter_map(|stage| report.value(OWN, &format!("{stage}/{lanes}"), STAGE)).sum();
        report.note(format!(
            "{lanes} lanes: {:.2} x the best (the paper: {paper:.2}); {waits:.0} ns a commit where threads meet",
            time / best
        ));
    }
    let judged = times.iter().filter(|(lanes, ..)| JUDGED.contains(lanes)).map(|(_, time, _)| time / best);
    report.at_most("4 to 16 lanes: slowest / best", judged.reduce(f64::max), SLOWEST);
}

#[cfg(test)]
mod tests {
    use super::{LANES, OWN, Report, STAGE, TIME, judge};

    #[test]
    fn the_slowest_of_many_lanes_is_judged_and_one_lane_is_not() {
        let mut report = Report::new("lanes", String::new(), String::new());
        for (lanes, paper) in LANES {
            report.add(OWN, lanes, TIME, "s", paper);
        }
        report.add(OWN, "csn/8", STAGE, "ns", 30.0);
        report.add(OWN, "durable_wait/8", STAGE, "ns", 12.0);
        judge(&mut report);
        let [target] = &report.targets[..] else { panic!("one target") };
        assert_eq!((target.found, target.met), (1.28, false));
        assert!(
            report.notes[3].contains("1.17 x the best") && report.notes[3].contains(" 42 ns"),
            "{:?}",
            report.notes
        );
    }

    /// Without the times there is nothing to judge, as with `--peers-only`.
    #[test]
    fn nothing_is_judged_without_times() {
        let mut report = Report::new("lanes", String::new(), String::new());
        judge(&mut report);
        assert!(report.targets.is_empty() && report.notes.is_empty());
    }
}
