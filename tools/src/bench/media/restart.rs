//! Restart after kill -9 with much log since the last checkpoint.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::side::{Placement, Side};
use crate::bench::plan::Plan;
use crate::bench::report::Report;
use crate::shared::client;

pub(super) const METRIC: &str = "ready_s";
/// Rows of a transaction: as many as are by value still.
const BATCH: u64 = 60;
const CLIENTS: u64 = 8;

pub(super) fn run(plan: &Plan, report: &mut Report) -> Result<()> {
    if !plan.perdura {
        return Ok(());
    }
    let wanted = plan.size(1 << 30, 32 << 20);
    let log = ["--perdura-checkpoint-log-size=8G", "--perdura-checkpoint-interval=86400", "--perdura-journal-size=8G"];
    let log = log.iter().map(|&option| option.to_owned()).chain(["--perdura-log-lane-size=256M".to_owned()]);
    let mut side = Side::start("perdura", Placement::Ssd, &log.collect::<Vec<_>>())?;
    let columns = "id BIGINT AUTO_INCREMENT PRIMARY KEY, k BIGINT NOT NULL, text VARCHAR(500) NOT NULL, KEY (k)";
    client::execute(&mut side.server.connect()?, &[format!("CREATE TABLE kept ({columns}) ENGINE={}", side.engine)])?;
    let insert = format!("INSERT INTO kept (k, text) SELECT seq * 7919, REPEAT('x', 400) FROM seq_1_to_{BATCH}");
    let batches = wanted / (BATCH * 500) / CLIENTS;
    std::thread::scope(|scope| {
        let run = || {
            let mut connection = side.server.connect()?;
            (0..batches).try_for_each(|_| client::execute(&mut connection, &[&insert]))
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(run)).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
    })?;
    side.server.kill()?;
    let begun = Instant::now();
    side.server.start()?;
    let mut connection = side.server.connect()?;
    client::value::<u64>(&mut connection, "SELECT id FROM kept ORDER BY id LIMIT 1")?;
    report.add(side.name, "ssd", METRIC, "s", begun.elapsed().as_secs_f64());
    let rows: u64 = client::value(&mut connection, "SELECT COUNT(*) FROM kept")?;
    let expected = batches * BATCH * CLIENTS;
    ensure!(rows == expected, "{rows} rows after the restart, {expected} were committed");
    Ok(())
}
