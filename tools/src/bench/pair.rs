//! One server for each engine, for benchmarks that count the server's CPU time: nothing that one
//! engine does in the background counts as the other's. Both are the same program with the same
//! options, and keep their data on the same medium.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::plan::Plan;
use super::report::Report;
use super::sampling::Watch;
use super::systems::{self, System};
use crate::drive::server::Server;
use crate::shared::{client, process};

/// Options of a server with a binary log that loses no transaction in a crash.
const BINARY_LOG: [&str; 3] = ["--log-bin=binlog", "--sync-binlog=1", "--binlog-format=ROW"];

/// The servers, in the order of their systems.
pub struct Pair {
    /// The systems that take part.
    pub systems: Vec<System>,
    servers: Vec<Server>,
}

impl Pair {
    /// Starts InnoDB's server and, if it takes part, Perdura's, with `extra` options besides those
    /// of all benchmarks.
    pub fn start(plan: &Plan, extra: &[String]) -> Result<Self> {
        let systems = systems::chosen(plan, &[System::Innodb, System::Perdura]);
        let start = |system: &System| {
            let mut options = systems::options(*system == System::Perdura);
            options.extra.extend_from_slice(extra);
            Server::start_new(options)
        };
        let servers = systems.iter().map(start).collect::<Result<_>>()?;
        Ok(Self { systems, servers })
    }

    /// The server that a system runs in.
    pub fn of(&self, system: System) -> &Server {
        let place = self.systems.iter().position(|other| *other == system);
        &self.servers[place.expect("only systems that take part are asked for")]
    }

    /// Samples the servers until these are dropped or the servers restart, if samples are wanted.
    pub fn watch(&self, plan: &Plan) -> Vec<Watch> {
        let pairs = self.systems.iter().zip(&self.servers);
        pairs.filter_map(|(system, server)| plan.watch(system.name(), server)).collect()
    }

    /// Shuts the servers down and starts them on the same data, with a binary log.
    pub fn restart_with_binary_log(&mut self) -> Result<()> {
        for server in &mut self.servers {
            server.restart_with(&BINARY_LOG)?;
            let on: u64 = client::value(&mut server.connect()?, "SELECT @@log_bin AND @@sync_binlog = 1")?;
            ensure!(on == 1, "the server writes no binary log");
        }
        Ok(())
    }

    /// An empty report that names the medium and how InnoDB writes.
    pub fn report(&self, bench: &'static str, workload: String) -> Result<Report> {
        // Only Perdura's server knows the medium as the engine found it.
        let last = self.servers.last().expect("InnoDB always takes part");
        let mut report = Report::new(bench, workload, systems::medium(last)?);
        let server = self.of(System::Innodb);
        let mapped = server.log().contains("(memory-mapped)");
        let way = if mapped { "memory-mapped" } else { "written by pwrite" };
        let method: String = client::value(&mut server.connect()?, "SELECT @@innodb_flush_method")?;
        report.note(format!("innodb: redo log {way}, innodb_flush_method={method} where the file system has it"));
        report.note(format!("at the engines' defaults: {}", self.snapshot_isolation()?));
        Ok(report)
    }

    /// Settings for rows that have changed since a REPEATABLE READ transaction's snapshot.
    fn snapshot_isolation(&self) -> Result<String> {
        let setting = |system: &System| {
            let name = format!("{}_snapshot_isolation", system.name());
            let is_on: u64 = client::value(&mut self.of(*system).connect()?, &format!("SELECT @@{name}"))?;
            Ok(format!("{name}={}", if is_on == 1 { "ON" } else { "OFF" }))
        };
        let settings: Vec<String> = self.systems.iter().map(setting).collect::<Result<_>>()?;
        Ok(settings.join(", "))
    }
}

/// Runs `work` and returns the CPU time, user's and kernel's, that the server spent meanwhile.
pub fn server_cpu<T>(server: &Server, work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let before = process::cpu_time(server.pid())?;
    let outcome = work()?;
    Ok((outcome, process::cpu_time(server.pid())?.saturating_sub(before)))
}
