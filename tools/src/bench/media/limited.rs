//! Data of twice the memory: each server under the same limit, its page cache included.

use anyhow::Result;

use super::side::{JUDGED, Placement, Side, TPS, lasting};
use crate::bench::plan::Plan;
use crate::bench::report::Report;
use crate::drive::sysbench::{self, Tables};
use crate::shared::memory_limit::MemoryLimit;

/// Memory of a server.
const LIMIT_BYTES: u64 = 512 << 20;
/// Of it InnoDB's buffer pool: the rest is the server's own.
const POOL_BYTES: u64 = 320 << 20;
/// They have some 1 GB.
const TABLES: Tables = Tables::of_rows(1_100_000);

pub(super) fn run(plan: &Plan, report: &mut Report) -> Result<()> {
    let (script, threads) = JUDGED;
    let case = format!("ssd2x/{script}/{threads}");
    let names: &[&str] = if plan.perdura { &["innodb", "perdura"] } else { &["innodb"] };
    for name in names {
        let extra = [format!("--innodb-buffer-pool-size={POOL_BYTES}")];
        let mut side = Side::start(name, Placement::Ssd, &extra)?;
        sysbench::prepare(&side.server, side.engine, TABLES)?;
        let limit = match MemoryLimit::new(name, LIMIT_BYTES) {
            Ok(limit) => limit,
            Err(error) => {
                report.note(format!("ssd2x: left out: {error:#}"));
                return Ok(());
            }
        };
        // Memory that loading has taken does not count for the group: the server starts again.
        side.server.restart_with(&[])?;
        limit.add(side.server.pid())?;
        for round in 1..=3 {
            let outcome = sysbench::run(&side.server, script, TABLES, threads, lasting(plan) * 2, round)?;
            report.add(side.name, &case, TPS, "1/s", outcome.tps);
        }
        drop(side);
        drop(limit);
    }
    Ok(())
}
