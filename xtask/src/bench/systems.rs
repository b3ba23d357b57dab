//! The systems under test, and the servers they run in.
//!
//! All engines run in one server, so that they share everything above the engine. InnoDB runs at its best: a buffer pool larger than
//! the data, everything on the same medium, one fsync a commit as its users run it. In full runs a second server writes InnoDB's redo
//! log by pwrite instead of mapping it, and the better of the two is reported.

use std::time::Duration;

use anyhow::Result;

use super::plan::Plan;
use super::report::Report;
use crate::server::{Options, Server};
use crate::{client, paths, process};

/// Pause after tables were dropped, so that background work of one engine does not disturb the next.
const SETTLE: Duration = Duration::from_millis(300);

/// One system under test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// The SQL layer's floor: rows are thrown away.
    Blackhole,
    /// DRAM only; nothing survives.
    Memory,
    /// InnoDB, redo log mapped as persistent memory.
    Innodb,
    /// InnoDB, redo log written by pwrite.
    InnodbPwrite,
    /// This project's engine.
    Perdura,
}

impl System {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blackhole => "blackhole",
            Self::Memory => "memory",
            Self::Innodb => "innodb",
            Self::InnodbPwrite => "innodb_pwrite",
            Self::Perdura => "perdura",
        }
    }

    /// Its name after `ENGINE=`.
    pub fn engine(self) -> &'static str {
        match self {
            Self::Blackhole => "BLACKHOLE",
            Self::Memory => "MEMORY",
            Self::Innodb | Self::InnodbPwrite => "InnoDB",
            Self::Perdura => "Perdura",
        }
    }
}

/// The `candidates` that take part.
pub fn chosen(plan: &Plan, candidates: &[System]) -> Vec<System> {
    let takes_part = |system: &System| match system {
        System::Perdura => plan.perdura,
        // A mount needs root.
        System::InnodbPwrite => !plan.quick && process::is_root(),
        _ => true,
    };
    candidates.iter().copied().filter(takes_part).collect()
}

/// Server options for benchmarks.
pub fn options(perdura: bool) -> Options {
    let extra = [
        "--skip-log-bin",
        "--max-heap-table-size=8G",
        "--innodb-buffer-pool-size=2G",
        "--innodb-log-file-size=1G",
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-doublewrite=ON",
    ];
    Options { perdura, extra: extra.map(str::to_owned).to_vec(), ..Options::default() }
}

/// The running servers of a benchmark.
pub struct Servers {
    main: Server,
    pwrite: Option<Server>,
}

impl Servers {
    /// Starts the servers that `systems` need.
    pub fn start(systems: &[System]) -> Result<Self> {
        let perdura = systems.contains(&System::Perdura);
        let main = Server::start_new(options(perdura))?;
        let pwrite = if systems.contains(&System::InnodbPwrite) {
            Some(Server::start_new(Options { own_log_mount: true, ..options(false) })?)
        } else {
            None
        };
        Ok(Self { main, pwrite })
    }

    /// The server that a system runs in.
    pub fn of(&self, system: System) -> &Server {
        match (system, &self.pwrite) {
            (System::InnodbPwrite, Some(server)) => server,
            _ => &self.main,
        }
    }

    /// The medium as the engine found it; without Perdura the file system that holds the data.
    pub fn medium(&self) -> Result<String> {
        medium(&self.main)
    }

    /// An empty report that names this run's medium and how InnoDB writes its log.
    pub fn report(&self, bench: &'static str, workload: String) -> Result<Report> {
        let mut report = Report::new(bench, workload, self.medium()?);
        for (name, server) in [("innodb", Some(&self.main)), ("innodb_pwrite", self.pwrite.as_ref())] {
            let Some(server) = server else { continue };
            let mapped = server.log().contains("(memory-mapped)");
            report.note(format!("{name}: redo log {}", if mapped { "memory-mapped" } else { "written by pwrite" }));
        }
        Ok(report)
    }
}

/// See [`Servers::medium`].
pub fn medium(server: &Server) -> Result<String> {
    let found = client::medium(&mut server.connect()?)?;
    let file_system = process::mount(&paths::medium()).map_or_else(|| "unknown".to_owned(), |(kind, _)| kind);
    Ok(match found {
        // A report needs neither the exact path nor the free space.
        Some(found) => format!("{} ({file_system})", found.split(", directory").next().unwrap_or_default()),
        None => file_system,
    })
}

/// Calls `run` for every system, `rounds` times, each round in another order.
pub fn rounds<F>(rounds: usize, systems: &[System], mut run: F) -> Result<()>
where
    F: FnMut(System) -> Result<()>,
{
    for round in 0..rounds {
        for turn in 0..systems.len() {
            run(systems[(turn + round) % systems.len()])?;
            std::thread::sleep(SETTLE);
        }
    }
    Ok(())
}
