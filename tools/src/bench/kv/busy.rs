//! Clients beside processes that compute on all processors: a replica that looks for events without
//! sleeping has used up its share of a processor by the time it is needed.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::drive::{self, Case, Dialect, Kind, add};
use super::peers::Redis;
use super::stores::of_store;
use crate::bench::plan::Plan;
use crate::bench::report::Report;
use crate::drive::kv::cluster::Cluster;

const CASE: Case = Case { name: "busy/set/10", kind: Kind::Set, clients: 10, pipeline: 1 };
/// The store with its default, and one whose replicas sleep at once.
const SYSTEMS: [(&str, &str); 2] = [("list", ""), ("list_spin0", "raft.spin_us = 0")];

/// A process that computes until it is dropped.
struct Computing(Child);

impl Computing {
    fn start() -> Result<Computing> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().map(Computing).context("sh")
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures SETs of ten clients in stores of so many keys, beside as many processes that compute as
/// there are processors.
pub fn run(plan: &Plan, (keys, length): (u64, Duration), redis: Option<&Redis>, report: &mut Report) -> Result<()> {
    let start = |(name, more): (&'static str, &str)| {
        let cluster = Cluster::start(&format!("bench-kv-busy-{name}"), 3, &of_store("list", more))?;
        drive::fill(cluster.leader_address()?, 0, keys)?;
        Ok((name, cluster))
    };
    let clusters = SYSTEMS.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let _computing = (0..processors).map(|_| Computing::start()).collect::<Result<Vec<_>>>()?;
    for _ in 0..plan.size(5, 1) {
        for (name, cluster) in &clusters {
            add(report, name, CASE.name, &drive::run(cluster.leader_address()?, &CASE, keys, length, Dialect::Own)?);
        }
        if let Some(redis) = redis {
            add(report, "redis", CASE.name, &drive::run(redis.address(), &CASE, keys, length, Dialect::Redis)?);
        }
    }
    Ok(())
}

/// Holds what was found against the target.
pub fn judge(report: &mut Report) {
    let found = report.paired("list", "list_spin0", CASE.name, "ops_per_s", |own, other| own / other);
    report.at_least("list, busy/set/10: operations a second against raft.spin_us = 0", found, 0.9);
}
