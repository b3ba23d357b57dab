//! A system on a medium: where its server has its files, and one run of sysbench.

use std::time::Duration;

use anyhow::Result;

use crate::bench::plan::Plan;
use crate::bench::report::Report;
use crate::bench::systems::{self, System};
use crate::drive::server::{Options, Place, Server};
use crate::drive::sysbench::{self, Tables};
use crate::shared::{device, paths};

pub(super) const TPS: &str = "tps";
pub(super) const BYTES: &str = "bytes_per_tx";
/// The script and threads by which media are compared.
pub(super) const JUDGED: (&str, u32) = ("write_only", 16);

/// Where a server has its files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    Ssd,
    Split,
    Pmem,
}

impl Placement {
    pub(super) fn name(self) -> &'static str {
        match self {
            Placement::Ssd => "ssd",
            Placement::Split => "split",
            Placement::Pmem => "pmem",
        }
    }

    fn place(self) -> Place {
        match self {
            Placement::Ssd => Place::new(paths::disk(), None),
            Placement::Split => Place::new(paths::disk(), Some(paths::medium())),
            Placement::Pmem => Place::new(paths::medium(), None),
        }
    }
}

/// A system on a medium.
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) engine: &'static str,
    pub(super) placement: Placement,
    pub(super) server: Server,
}

impl Side {
    pub(super) fn start(name: &'static str, placement: Placement, extra: &[String]) -> Result<Side> {
        let perdura = name == "perdura";
        let mut options = Options { place: Some(placement.place()), ..systems::options(perdura) };
        if name == "innodb_nodw" {
            options.extra.push("--innodb-doublewrite=OFF".to_owned());
        }
        options.extra.extend_from_slice(extra);
        let engine = if perdura { System::Perdura.engine() } else { System::Innodb.engine() };
        Ok(Side { name, engine, placement, server: Server::start_new(options)? })
    }

    /// One run, of which the transactions a second and the bytes written to the disk are added.
    pub(super) fn run(
        &self,
        plan: &Plan,
        (script, threads): (&str, u32),
        tables: Tables,
        seed: usize,
        report: &mut Report,
    ) -> Result<()> {
        let case = format!("{}/{script}/{threads}", self.placement.name());
        plan.running(self.name, &case);
        let before = device::bytes_written(&paths::disk())?;
        let outcome = sysbench::run(&self.server, script, tables, threads, lasting(plan), seed)?;
        let after = device::bytes_written(&paths::disk())?;
        report.add(self.name, &case, TPS, "1/s", outcome.tps);
        if let (Some(before), Some(after)) = (before, after) {
            report.add(self.name, &case, BYTES, "B", (after - before) as f64 / outcome.transactions as f64);
        }
        Ok(())
    }
}

pub(super) fn lasting(plan: &Plan) -> Duration {
    Duration::from_secs(plan.size(10, 2))
}
