//! The times of statements that change every row of a table, or half of them, each in a transaction
//! of its own.

use std::time::Duration;

use anyhow::{Result, ensure};
use mysql::Conn;

use super::super::plan::Plan;
use super::super::purge;
use super::super::report::Report;
use super::super::systems::{self, Servers, System};
use crate::shared::{client, csv};

/// The time of a case.
pub const METRIC: &str = "time_s";
/// The time of the statements that purge cleans up after.
pub const STATEMENTS: &str = "statements_s";

/// The update of all rows.
pub const UPDATE: &str = "UPDATE mass SET a = a + 1";
const DELETE: &str = "DELETE FROM mass WHERE id % 2 = 0";
/// InnoDB locks every row that it reads here unless it reads committed rows.
const READ_COMMITTED: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// Runs all cases. A table in memory holds the rows to fill tables with.
pub fn run(plan: &Plan, servers: &Servers, systems: &[System], rows: u64, report: &mut Report) -> Result<()> {
    let file = csv::paper(rows, 0)?;
    for &system in systems {
        let source = [
            format!("CREATE TABLE IF NOT EXISTS source ({}) ENGINE=MEMORY", csv::COLUMNS),
            "TRUNCATE source".to_owned(),
            client::load_statement(false, &file, "source", ""),
        ];
        client::execute(&mut servers.of(system).connect()?, &source)?;
    }
    systems::rounds(plan, plan.rounds(), systems, |system| {
        let mut connection = servers.of(system).connect()?;
        changes(plan, &mut connection, system, rows, report)?;
        rollback_and_halves(plan, servers, &mut connection, system, rows, report)?;
        client::execute(&mut connection, &["DROP TABLE mass"])
    })
}

/// A new table with the rows of the source.
fn fill(connection: &mut Conn, system: System) -> Result<()> {
    let create = format!("CREATE TABLE mass ({}) ENGINE={}", csv::COLUMNS, system.engine());
    client::execute(connection, &["DROP TABLE IF EXISTS mass", &create, "INSERT INTO mass SELECT * FROM source"])
}

/// The cases update, update2 and delete, and purge: the times until all is purged after update2,
/// and after delete. Each of the two is waited for up to a limit.
fn changes(plan: &Plan, conn: &mut Conn, system: System, rows: u64, report: &mut Report) -> Result<()> {
    let limit = Duration::from_secs(plan.size(100, 4));
    let (mut statements_s, mut purge_s, mut left) = (0.0, 0.0, 0);
    for cases in [[("update", UPDATE), ("update2", UPDATE)].as_slice(), &[("delete", DELETE)]] {
        plan.running(system.name(), "fill");
        fill(conn, system)?;
        for (case, statement) in cases {
            plan.running(system.name(), case);
            let took_s = systems::timed(conn, statement)?;
            report.add(system.name(), case, METRIC, "s", took_s);
            statements_s += took_s;
        }
        if system == System::Perdura {
            plan.running(system.name(), "purge");
            let (took, lag) = purge::wait(conn, limit)?;
            purge_s += took.as_secs_f64();
            left += lag;
        }
    }
    let found: u64 = client::value(conn, "SELECT COUNT(*) FROM mass")?;
    ensure!(found == rows - rows / 2, "{}: {found} of {rows} rows after deleting every second", system.name());
    if system == System::Perdura {
        report.add(system.name(), "purge", METRIC, "s", purge_s);
        report.add(system.name(), "purge", STATEMENTS, "s", statements_s);
    }
    if left > 0 {
        report.note(format!("purge: {left} versions were still waiting when the wait of {limit:?} ended"));
    }
    Ok(())
}

/// The cases rollback, which leaves the rows as they were loaded, and update/2.
fn rollback_and_halves(
    plan: &Plan,
    servers: &Servers,
    connection: &mut Conn,
    system: System,
    rows: u64,
    report: &mut Report,
) -> Result<()> {
    plan.running(system.name(), "rollback");
    fill(connection, system)?;
    let sum = "SELECT CAST(SUM(a) AS UNSIGNED) FROM mass";
    let mut before: u64 = client::value(connection, sum)?;
    // MEMORY cannot roll back.
    if system != System::Memory {
        client::execute(connection, &["BEGIN", UPDATE])?;
        report.add(system.name(), "rollback", METRIC, "s", systems::timed(connection, "ROLLBACK")?);
        let after: u64 = client::value(connection, sum)?;
        ensure!(after == before, "{}: the sum is {after} after a rollback, {before} before it", system.name());
    }
    let halves = ["<", ">="].map(|half| format!("{UPDATE} WHERE id {half} {}", rows / 2));
    plan.running(system.name(), "update/2");
    let took = systems::at_once(servers.of(system), &[READ_COMMITTED], &halves, &[])?;
    report.add(system.name(), "update/2", METRIC, "s", took.as_secs_f64());
    before += rows;
    let after: u64 = client::value(connection, sum)?;
    ensure!(after == before, "{}: the sum is {after} after the update of both halves, not {before}", system.name());
    Ok(())
}
