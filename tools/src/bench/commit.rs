//! Cost of a commit: INSERTs or UPDATEs in a stored procedure, so that neither client nor wake-ups
//! count.

use anyhow::Result;
use mysql::Conn;

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::shared::{client, csv};

const METRIC: &str = "us_per_op";

/// Procedure that inserts rows into the table `committed`, each in its own transaction.
pub const INSERT: &str = "CREATE PROCEDURE insert_many(IN many BIGINT)
BEGIN
  DECLARE i BIGINT DEFAULT 0;
  WHILE i < many DO
    INSERT INTO committed VALUES (i, 7, 'b0123456789abcdef', 'c0123456789abcde', '2021-08-18 12:34:56');
    SET i = i + 1;
  END WHILE;
END";

const UPDATE: &str = "CREATE PROCEDURE update_many(IN many BIGINT)
BEGIN
  DECLARE i BIGINT DEFAULT 0;
  WHILE i < many DO
    UPDATE committed SET a = i;
    SET i = i + 1;
  END WHILE;
END";

/// Each INSERT its own transaction, and for comparison all in one; UPDATEs of a table of one row,
/// each its own transaction.
pub fn run(plan: &Plan) -> Result<Report> {
    let many = plan.size(200_000, 40_000);
    let candidates =
        [System::Blackhole, System::Null, System::Memory, System::Innodb, System::InnodbPwrite, System::Perdura];
    let systems = systems::chosen(plan, &candidates);
    let servers = Servers::start(&systems)?;
    for &system in &systems {
        let mut connection = servers.of(system).connect()?;
        client::execute(
            &mut connection,
            &["DROP PROCEDURE IF EXISTS insert_many", "DROP PROCEDURE IF EXISTS update_many", INSERT, UPDATE],
        )?;
    }
    let mut report =
        servers.report("commit", format!("{many} INSERTs or UPDATEs in a stored procedure, no keys, no binary log"))?;
    for (case, begin, end) in
        [("autocommit", "SET autocommit=1", "SET autocommit=1"), ("one_transaction", "BEGIN", "COMMIT")]
    {
        systems::rounds(plan, plan.rounds(), &systems, |system| {
            let mut connection = prepare(&servers, system)?;
            client::execute(&mut connection, &["CALL insert_many(100)", begin])?;
            let took_s = systems::timed(&mut connection, &format!("CALL insert_many({many})"))?;
            client::execute(&mut connection, &[end, "DROP TABLE committed"])?;
            report.add(system.name(), case, METRIC, "us", took_s * 1e6 / many as f64);
            Ok(())
        })?;
    }
    let updaters: Vec<System> = systems.iter().copied().filter(|system| system.keeps_rows()).collect();
    systems::rounds(plan, plan.rounds(), &updaters, |system| {
        let mut connection = prepare(&servers, system)?;
        client::execute(&mut connection, &["CALL insert_many(1)", "CALL update_many(100)"])?;
        let took_s = systems::timed(&mut connection, &format!("CALL update_many({many})"))?;
        client::execute(&mut connection, &["DROP TABLE committed"])?;
        report.add(system.name(), "update", METRIC, "us", took_s * 1e6 / many as f64);
        Ok(())
    })?;
    report.keep_better("innodb", "innodb_pwrite");
    let beyond = report.paired("perdura", "blackhole", "autocommit", METRIC, |own, floor| own - floor);
    let faster = report.paired("perdura", "innodb", "autocommit", METRIC, |own, peer| peer / own);
    report.at_most("autocommit: perdura - blackhole, us", beyond, 3.0);
    report.at_least("autocommit: innodb / perdura", faster, 1.4);
    let beyond = report.paired("perdura", "memory", "update", METRIC, |own, peer| own - peer);
    report.at_most("update: perdura - memory, us", beyond, 2.0);
    Ok(report)
}

/// Makes an empty table in a new session.
fn prepare(servers: &Servers, system: System) -> Result<Conn> {
    let mut connection = servers.of(system).connect()?;
    let create = format!("CREATE TABLE committed ({}) ENGINE={}", csv::COLUMNS, system.engine());
    client::execute(&mut connection, &["DROP TABLE IF EXISTS committed", &create])?;
    Ok(connection)
}
