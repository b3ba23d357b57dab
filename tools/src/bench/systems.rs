//! The systems under test, and the servers they run in.
//!
//! All engines run in one server, so that they share everything above the engine. InnoDB runs at
//! its best: a buffer pool larger than the data, everything on the same medium, one fsync a commit
//! as its users run it. In full runs a second server writes InnoDB's redo log by pwrite instead of
//! mapping it, and the better of the two is reported.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::Result;
use mysql::Conn;
use mysql::prelude::Queryable;

use super::plan::Plan;
use super::report::Report;
use super::sampling::Watch;
use crate::drive::plugin;
use crate::drive::server::{Options, Server};
use crate::shared::{client, paths, process};

/// Pause after tables were dropped, so that background work of one engine does not disturb the
/// next.
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
    /// The floor of a transactional engine: takes part in commits and throws rows away
    /// (bench/null_engine).
    Null,
    /// This project's engine.
    Perdura,
    /// This project's engine where it has to get its files as it goes, instead of finding room made
    /// and faulted in before.
    PerduraNew,
    /// This project's engine on memory that is modelled as Optane.
    PerduraOptane,
}

impl System {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blackhole => "blackhole",
            Self::Memory => "memory",
            Self::Innodb => "innodb",
            Self::InnodbPwrite => "innodb_pwrite",
            Self::Null => "null",
            Self::Perdura => "perdura",
            Self::PerduraNew => "perdura_new",
            Self::PerduraOptane => "perdura_optane",
        }
    }

    /// Its name after `ENGINE=`.
    pub fn engine(self) -> &'static str {
        match self {
            Self::Blackhole => "BLACKHOLE",
            Self::Memory => "MEMORY",
            Self::Innodb | Self::InnodbPwrite => "InnoDB",
            Self::Null => "Bench_null",
            Self::Perdura | Self::PerduraNew | Self::PerduraOptane => "Perdura",
        }
    }

    /// Whether a row that was inserted can be found again.
    pub fn keeps_rows(self) -> bool {
        ![Self::Blackhole, Self::Null].contains(&self)
    }
}

/// The `candidates` that take part.
pub fn chosen(plan: &Plan, candidates: &[System]) -> Vec<System> {
    let takes_part = |system: &System| match system {
        System::Perdura | System::PerduraNew | System::PerduraOptane => plan.perdura,
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
        let mut options_of_all = options(systems.contains(&System::Perdura));
        if systems.contains(&System::Null) {
            plugin::build_null()?;
            let load = format!("--plugin-load-add={}", plugin::NULL_LIBRARY);
            options_of_all.extra.extend([load, "--plugin-maturity=experimental".to_owned()]);
        }
        let main = Server::start_new(options_of_all)?;
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

    /// Samples all servers until these are dropped, if samples are wanted.
    pub fn watch(&self, plan: &Plan) -> Vec<Watch> {
        let servers = [("main", Some(&self.main)), ("innodb_pwrite", self.pwrite.as_ref())];
        servers.into_iter().filter_map(|(name, server)| plan.watch(name, server?)).collect()
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

/// Calls `run` for every system, `rounds` times, each round in another order. A quick run ends
/// earlier when it is late.
pub fn rounds<F>(plan: &Plan, rounds: usize, systems: &[System], mut run: F) -> Result<()>
where
    F: FnMut(System) -> Result<()>,
{
    let mut longest = Duration::ZERO;
    for round in 0..rounds {
        if round > 0 && !plan.has_time(longest) {
            break;
        }
        let begun = Instant::now();
        for turn in 0..systems.len() {
            run(systems[(turn + round) % systems.len()])?;
            std::thread::sleep(SETTLE);
        }
        longest = longest.max(begun.elapsed());
    }
    Ok(())
}

/// As [`rounds`], with a seed by which the systems of a round choose the same rows. It is never 0,
/// which sysbench takes for none.
pub fn seeded_rounds<F>(plan: &Plan, count: usize, systems: &[System], mut run: F) -> Result<()>
where
    F: FnMut(System, usize) -> Result<()>,
{
    let mut runs = 0;
    rounds(plan, count, systems, |system| {
        let seed = runs / systems.len() + 1;
        runs += 1;
        run(system, seed)
    })
}

/// Runs the statements at once, each in a session of its own. A session runs `before` first, and
/// `after` when all statements have ended. Returns the time from the statements' common start to
/// the last one's end.
pub fn at_once(server: &Server, before: &[&str], statements: &[String], after: &[&str]) -> Result<Duration> {
    let mut connections = Vec::new();
    for _ in statements {
        let mut connection = server.connect()?;
        client::execute(&mut connection, before)?;
        connections.push(connection);
    }
    let barrier = Barrier::new(statements.len() + 1);
    let took = std::thread::scope(|scope| -> Result<Duration> {
        let run = |(connection, statement): (&'_ mut Conn, &'_ String)| {
            barrier.wait();
            connection.query_drop(statement)
        };
        let pairs = connections.iter_mut().zip(statements);
        let running: Vec<_> = pairs.map(|pair| scope.spawn(move || run(pair))).collect();
        barrier.wait();
        let begun = Instant::now();
        for session in running {
            session.join().expect("a session does not panic")?;
        }
        Ok(begun.elapsed())
    })?;
    connections.iter_mut().try_for_each(|connection| client::execute(connection, after))?;
    Ok(took)
}

/// Time that one statement takes.
pub fn timed(connection: &mut Conn, statement: &str) -> Result<f64> {
    let begun = Instant::now();
    client::execute(connection, &[statement])?;
    Ok(begun.elapsed().as_secs_f64())
}
