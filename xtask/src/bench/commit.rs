//! Cost of a commit: INSERTs in a stored procedure, so that neither client nor wake-ups count.

use std::time::Instant;

use anyhow::Result;

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::{client, csv};

const METRIC: &str = "us_per_op";

const PROCEDURE: &str = "CREATE PROCEDURE insert_many(IN many BIGINT)
BEGIN
  DECLARE i BIGINT DEFAULT 0;
  WHILE i < many DO
    INSERT INTO committed VALUES (i, 7, 'b0123456789abcdef', 'c0123456789abcde', '2021-08-18 12:34:56');
    SET i = i + 1;
  END WHILE;
END";

/// Each INSERT its own transaction, and for comparison all in one.
pub fn run(plan: &Plan) -> Result<Report> {
    let inserts = plan.size(200_000, 40_000);
    let candidates = [System::Blackhole, System::Memory, System::Innodb, System::InnodbPwrite, System::Perdura];
    let systems = systems::chosen(plan, &candidates);
    let servers = Servers::start(&systems)?;
    for &system in &systems {
        let mut connection = servers.of(system).connect()?;
        client::execute(&mut connection, &["DROP PROCEDURE IF EXISTS insert_many", PROCEDURE])?;
    }
    let mut report =
        servers.report("commit", format!("{inserts} INSERTs in a stored procedure, no keys, no binary log"))?;
    for (case, begin, end) in
        [("autocommit", "SET autocommit=1", "SET autocommit=1"), ("one_transaction", "BEGIN", "COMMIT")]
    {
        systems::rounds(plan.rounds(), &systems, |system| {
            let mut connection = servers.of(system).connect()?;
            let create = format!("CREATE TABLE committed ({}) ENGINE={}", csv::COLUMNS, system.engine());
            client::execute(
                &mut connection,
                &["DROP TABLE IF EXISTS committed", &create, "CALL insert_many(100)", begin],
            )?;
            let begun = Instant::now();
            client::execute(&mut connection, &[format!("CALL insert_many({inserts})")])?;
            let took = begun.elapsed();
            client::execute(&mut connection, &[end, "DROP TABLE committed"])?;
            report.add(system.name(), case, METRIC, "us", took.as_secs_f64() * 1e6 / inserts as f64);
            Ok(())
        })?;
    }
    report.keep_better("innodb", "innodb_pwrite");
    let beyond = report.paired("perdura", "blackhole", "autocommit", METRIC, |own, floor| own - floor);
    let faster = report.paired("perdura", "innodb", "autocommit", METRIC, |own, peer| peer / own);
    report.at_most("autocommit: perdura - blackhole, us", beyond, 3.0);
    report.at_least("autocommit: innodb / perdura", faster, 1.4);
    Ok(report)
}
