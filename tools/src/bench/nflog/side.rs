//! A system of the comparison with its server.

use std::time::Duration;

use anyhow::Result;
use mysql::Conn;
use perdura_tpcc::Mix;

use crate::bench::plan::Plan;
use crate::bench::report::Report;
use crate::bench::sampling::Watch;
use crate::bench::systems::{self, System};
use crate::bench::tpcc::Company;
use crate::drive::server::{Options, Server};
use crate::drive::sysbench::{self, Tables};
use crate::shared::{client, paths, process};

pub const TPS: &str = "tps";
pub const BYTES: &str = "bytes_per_tx";
pub const LOG_BYTES: &str = "log_bytes_per_tx";
pub const CPU: &str = "cpu_us_per_tx";
const PRIVATE: &str = "private_mib";

/// A system with its server, whose tables of sysbench are filled.
pub struct Side {
    pub name: String,
    tables: Tables,
    engine: &'static str,
    company: Option<Company>,
    // Before its server.
    _watch: Option<Watch>,
    pub server: Server,
}

impl Side {
    pub fn perdura(plan: &Plan, name: &str, settings: &[&str], tables: Tables) -> Result<Self> {
        let mut options = systems::options(true);
        options.extra.extend(settings.iter().map(|setting| (*setting).to_owned()));
        Self::start(plan, name, System::Perdura, options, tables)
    }

    /// InnoDB, which writes its log with pwrite where that can be had: on /dev/shm it would map it,
    /// and a mount needs root.
    pub fn innodb(plan: &Plan, tables: Tables) -> Result<Self> {
        let own_log_mount = process::is_root() && process::is_in_dram(&paths::medium());
        let options = Options { own_log_mount, ..systems::options(false) };
        Self::start(plan, "innodb", System::Innodb, options, tables)
    }

    fn start(plan: &Plan, name: &str, system: System, options: Options, tables: Tables) -> Result<Self> {
        let (engine, server) = (system.engine(), Server::start_new(options)?);
        sysbench::prepare(&server, engine, tables)?;
        let watch = plan.watch(name, &server);
        Ok(Self { name: name.to_owned(), tables, engine, company: None, _watch: watch, server })
    }

    /// Fills the tables of TPC-C.
    pub fn load_company(&mut self, warehouses: u32) -> Result<()> {
        self.company = Some(Company::load(&self.server, self.engine, warehouses)?);
        Ok(())
    }

    /// Runs a script of sysbench, and adds its figures under `case`.
    pub fn sysbench(
        &mut self,
        plan: &Plan,
        case: &str,
        (script, threads): (&str, u32),
        round: usize,
        report: &mut Report,
    ) -> Result<()> {
        let tables = self.tables;
        self.measured(plan, case, report, |side| {
            let outcome = sysbench::run(&side.server, script, tables, threads, plan.lasting(), round)?;
            Ok((outcome.transactions, outcome.tps))
        })
    }

    /// The same for transactions of TPC-C, of all kinds.
    pub fn tpcc(
        &mut self,
        plan: &Plan,
        case: &str,
        terminals: (u32, Mix),
        round: usize,
        report: &mut Report,
    ) -> Result<()> {
        self.measured(plan, case, report, |side| {
            let company = side.company.as_mut().expect("its tables are filled");
            let (count, took) = company.run(&side.server, terminals, plan.lasting(), round as u64)?;
            Ok((count, count as f64 / took.as_secs_f64()))
        })
    }

    /// Adds the figures of a run that returns its transactions, all and of a second.
    fn measured(
        &mut self,
        plan: &Plan,
        case: &str,
        report: &mut Report,
        run: impl FnOnce(&mut Self) -> Result<(u64, f64)>,
    ) -> Result<()> {
        plan.running(&self.name, case);
        let mut connection = self.server.connect()?;
        let (bytes, log) = (self.bytes(&mut connection)?, self.log_bytes(&mut connection)?);
        let cpu = process::cpu_time(self.server.pid())?;
        let (count, tps) = run(self)?;
        let bytes = self.bytes(&mut connection)?.saturating_sub(bytes);
        let log = self.log_bytes(&mut connection)?.saturating_sub(log);
        let cpu = process::cpu_time(self.server.pid())?.saturating_sub(cpu);
        let private = process::status_bytes(self.server.pid(), "RssAnon")?;
        let each = count.max(1) as f64;
        let mut add = |metric, unit, value| report.add(&self.name, case, metric, unit, value);
        add(TPS, "1/s", tps);
        add(BYTES, "B", bytes as f64 / each);
        add(LOG_BYTES, "B", log as f64 / each);
        add(CPU, "us", cpu.as_secs_f64() * 1e6 / each);
        add(PRIVATE, "MiB", private as f64 / f64::from(1 << 20));
        Ok(())
    }

    /// Bytes that went to the medium since the start, as far as the engine counts them.
    fn bytes(&self, connection: &mut Conn) -> Result<u64> {
        sum(
            connection,
            match self.engine {
                "Perdura" => "variable_name LIKE 'Perdura_medium_bytes_%'",
                _ => "variable_name IN ('Innodb_os_log_written', 'Innodb_data_written')",
            },
        )
    }

    /// Those of the log.
    fn log_bytes(&self, connection: &mut Conn) -> Result<u64> {
        sum(connection, "variable_name IN ('Innodb_os_log_written', 'Perdura_medium_bytes_log')")
    }
}

/// Sum of status variables. A server that has InnoDB too does not write to it meanwhile.
fn sum(connection: &mut Conn, names: &str) -> Result<u64> {
    let query =
        format!("SELECT CAST(SUM(variable_value) AS UNSIGNED) FROM information_schema.global_status WHERE {names}");
    client::value(connection, &query)
}

impl Plan {
    /// Time of a run.
    pub fn lasting(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(self.size(4, 2)))
    }
}
