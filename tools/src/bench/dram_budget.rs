//! The same DRAM: sysbench beside InnoDB whose buffer pool holds a part of the data, on the same
//! medium. Perdura's rows and leaves lie on the medium, and no DRAM is set aside for copies.
//!
//! Each engine has a server of its own, and Perdura a second one on memory that is modelled as
//! Optane. Perdura's run without InnoDB, which the server's own tables do not need.

use std::time::Duration;

use anyhow::Result;

use super::plan::Plan;
use super::report::Report;
use super::sampling::Watch;
use super::systems::{self, System};
use crate::drive::server::Server;
use crate::drive::sysbench::{self, Tables};
use crate::shared::{client, process};

const TPS: &str = "tps";
const PRIVATE: &str = "resident_bytes";
const SHARED: &str = "resident_shared_bytes";

/// Parts of the data that the buffer pool holds, in percent; the most telling one first.
const SHARES: [u64; 3] = [5, 25, 100];
/// Scripts, and by how much Perdura is to be faster where the pool is smallest.
const SCRIPTS: [(&str, f64); 3] = [("write_only", 7.0), ("read_write", 2.5), ("point_select", 1.1)];
/// Sessions at once.
const THREADS: u32 = 8;
/// The smallest buffer pool that InnoDB takes with pages of 16 KiB.
const POOL_LEAST_BYTES: u64 = 6 << 20;
/// Options of a server that has Perdura alone.
const ALONE: [&str; 2] = ["--skip-innodb", "--default-storage-engine=Perdura"];
/// Option of a server whose memory takes the time of another.
const OPTANE: &str = "--perdura-emulate-model=optane";
/// Word of a medium that can take the time of another.
const EMULATED: &str = "mode emulated";
/// When a quick run begins no further round.
const QUICK_TIME: Duration = Duration::from_secs(50);

/// All cases.
pub fn run(plan: &Plan) -> Result<Report> {
    sysbench::check()?;
    let plan = plan.until(QUICK_TIME);
    let tables = Tables::of_rows(plan.size(250_000, 130_000));
    let mut servers = Servers::start(&systems::chosen(&plan, &[System::Innodb, System::Perdura]))?;
    let medium = systems::medium(servers.last())?;
    if medium.contains(EMULATED) {
        servers.add(&systems::chosen(&plan, &[System::PerduraOptane]))?;
    }
    let systems = servers.systems();
    servers.load(tables)?;
    let bytes = data_bytes(servers.of(System::Innodb))?;
    let seconds = lasting(&plan).as_secs();
    let workload = format!(
        "sysbench, {tables} ({} MB in InnoDB), {THREADS} threads, runs of {seconds} s, POOL/SCRIPT: \
         InnoDB's buffer pool in percent of the data",
        bytes / 1_000_000
    );
    let is_modelled = systems.contains(&System::PerduraOptane);
    let mut report = Report::new("dram-budget", workload, medium);
    let note = if is_modelled {
        "perdura_optane: Perdura on memory modelled as Optane; InnoDB's files take the time of DRAM in all cases"
    } else {
        "no perdura_optane: only emulated memory can take the time of another medium"
    };
    report.note(note.to_owned());
    for share in SHARES {
        servers.restart(bytes * share / 100, share == SHARES[0])?;
        servers.warm(tables)?;
        let _watches = servers.watch(&plan);
        for (script, _) in SCRIPTS {
            let case = format!("{share}/{script}");
            systems::seeded_rounds(&plan, if plan.quick { 1 } else { 3 }, &systems, |system, seed| {
                plan.running(system.name(), &case);
                let server = servers.of(system);
                let outcome = sysbench::run(server, script, tables, THREADS, lasting(&plan), seed)?;
                report.add(system.name(), &case, TPS, "1/s", outcome.tps);
                let resident = |field| Ok::<_, anyhow::Error>(process::status_bytes(server.pid(), field)? as f64);
                report.add(system.name(), &case, PRIVATE, "B", resident("RssAnon")?);
                report.add(system.name(), &case, SHARED, "B", resident("RssShmem")?);
                Ok(())
            })?;
        }
    }
    judge(&mut report);
    Ok(report)
}

fn lasting(plan: &Plan) -> Duration {
    Duration::from_secs(plan.size(6, 1))
}

/// A server for each system.
struct Servers(Vec<(System, Server)>);

impl Servers {
    fn start(systems: &[System]) -> Result<Self> {
        let mut servers = Self(Vec::new());
        servers.add(systems)?;
        Ok(servers)
    }

    fn add(&mut self, systems: &[System]) -> Result<()> {
        for system in systems {
            let is_own = *system != System::Innodb;
            let mut options = systems::options(is_own);
            if is_own {
                options.extra.extend(ALONE.map(str::to_owned));
            }
            if *system == System::PerduraOptane {
                options.extra.push(OPTANE.to_owned());
            }
            self.0.push((*system, Server::start_new(options)?));
        }
        Ok(())
    }

    fn systems(&self) -> Vec<System> {
        self.0.iter().map(|(system, _)| *system).collect()
    }

    fn last(&self) -> &Server {
        &self.0.last().expect("InnoDB takes part").1
    }

    fn of(&self, system: System) -> &Server {
        let found = self.0.iter().find(|(other, _)| *other == system);
        &found.expect("only systems that take part are asked for").1
    }

    /// Samples the servers until these are dropped, if samples are wanted.
    fn watch(&self, plan: &Plan) -> Vec<Watch> {
        self.0.iter().filter_map(|(system, server)| plan.watch(system.name(), server)).collect()
    }

    /// Fills all. InnoDB's buffer pool is larger than the data then.
    fn load(&self, tables: Tables) -> Result<()> {
        self.at_once(|system, server| sysbench::prepare(server, system.engine(), tables))
    }

    /// Fills the buffer pool with what the runs look at, and gives the sessions their memory.
    fn warm(&self, tables: Tables) -> Result<()> {
        let second = Duration::from_secs(1);
        self.at_once(|_, server| sysbench::run(server, "point_select", tables, THREADS, second, 1).map(drop))
    }

    fn at_once(&self, work: impl Fn(System, &Server) -> Result<()> + Sync) -> Result<()> {
        std::thread::scope(|scope| {
            let work = &work;
            let running: Vec<_> =
                self.0.iter().map(|(system, server)| scope.spawn(move || work(*system, server))).collect();
            running.into_iter().try_for_each(|thread| thread.join().expect("nobody panics"))
        })
    }

    /// Starts InnoDB's server again with a buffer pool of so many bytes. Perdura's has the same
    /// memory for each share; it starts again before the first, so that none has what loading took.
    fn restart(&mut self, bytes: u64, is_first: bool) -> Result<()> {
        self.0.iter_mut().try_for_each(|(system, server)| match system {
            System::Innodb => server.restart_with(&[&pool(bytes)]),
            _ if is_first => server.restart_with(&[]),
            _ => Ok(()),
        })
    }
}

fn pool(bytes: u64) -> String {
    format!("--innodb-buffer-pool-size={}", bytes.max(POOL_LEAST_BYTES))
}

/// Bytes of the tables and their indexes.
fn data_bytes(server: &Server) -> Result<u64> {
    let query = "SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) FROM information_schema.tables
                 WHERE table_schema = DATABASE()";
    client::value(&mut server.connect()?, query)
}

fn judge(report: &mut Report) {
    let least = SHARES[0];
    for (script, faster) in SCRIPTS {
        let case = format!("{least}/{script}");
        let tps = report.paired("perdura", "innodb", &case, TPS, |own, peer| own / peer);
        report.at_least(&format!("{case}: tps, perdura / innodb"), tps, faster);
        let resident = report.paired("perdura", "innodb", &case, PRIVATE, |own, peer| own / peer);
        report.at_most(&format!("{case}: private memory, perdura / innodb"), resident, 1.0);
    }
}
