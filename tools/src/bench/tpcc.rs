//! TPC-C, after revision 5.11 of the specification, beside InnoDB: its five transactions in their
//! mix, without keying and think times. The result is no official one: it says how many New-Orders
//! a minute (tpmC) one engine does beside the other.
//!
//! Terminals send their transactions statement by statement; in the cases `.../procedures` as one
//! call each.
//!
//! Each engine has a server of its own (see `pair`). All terminals are threads of this process.
//! After each run the consistency conditions are checked, and the books of what was acknowledged.
//!
//! Both engines run at READ COMMITTED. What a transaction reads and then writes it reads FOR
//! UPDATE, so no update is lost, and the conditions hold at that level. At REPEATABLE READ, Perdura
//! refuses to lock a row that was changed since the transaction's snapshot (error 1213), which the
//! rows of districts nearly always are; InnoDB takes the newest row there, so it gives no more than
//! at READ COMMITTED. A deadlock or a lock wait that takes too long is counted, and the transaction
//! is tried again.

mod case;
mod consistency;
mod customer;
mod delivery;
mod drive;
mod load;
mod money;
mod new_order;
mod order_status;
mod payment;
mod procedures;
mod schema;
mod session;
mod stock_level;
mod terminal;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use case::Case;
use consistency::Books;
use perdura_tpcc::{MIX, Mix};
use session::Session;

use super::pair::Pair;
use super::plan::Plan;
use super::report::Report;
use super::systems::{self, System};
use crate::drive::server::Server;
use crate::shared::paths;

pub use case::Form;
pub use drive::Outcome;

const TPMC: &str = "tpmc";
const CPU: &str = "cpu_us_per_tx";
const P99: &str = "new_order_p99_ms";
const RETRIES: &str = "retries_per_1000_tx";

/// Warehouses of a full run, unless the command line names a number.
const WAREHOUSES: [u32; 2] = [1, 10];
/// Runs of each case in a full run.
const ROUNDS: usize = 3;
/// When a quick run begins no further case.
const QUICK_TIME: Duration = Duration::from_secs(48);
/// InnoDB's buffer pool for each warehouse: more than its rows take, also those that the runs add.
const BUFFER_POOL_MIB: u64 = 192;
const BUFFER_POOL_LEAST_MIB: u64 = 2_048;
/// Room for each warehouse on the medium, both engines' together, and for the servers.
const ROOM_MIB: u64 = 512;
const SERVERS_ROOM_MIB: u64 = 3_072;

/// All cases.
pub fn run(plan: &Plan) -> Result<Report> {
    let plan = plan.until(QUICK_TIME);
    let warehouses = match plan.warehouses {
        Some(warehouses) => vec![warehouses],
        None if plan.quick => vec![WAREHOUSES[0]],
        None => WAREHOUSES.to_vec(),
    };
    let mut report: Option<Report> = None;
    for &warehouses in &warehouses {
        measure(&plan, warehouses, &mut report)?;
    }
    let mut report = report.context("no number of warehouses")?;
    for &warehouses in &warehouses {
        judge(&plan, warehouses, &mut report);
    }
    Ok(report)
}

/// The cases with so many warehouses. A quick run has the most telling ones.
fn cases(plan: &Plan, warehouses: u32) -> Vec<Case> {
    let of = |connections, form| Case { warehouses, connections, form, mix: MIX };
    if plan.quick {
        return vec![of(16, Form::Statements), of(4, Form::Statements), of(4, Form::Procedures)];
    }
    [1, 4, 16].into_iter().flat_map(|count| [of(count, Form::Statements), of(count, Form::Procedures)]).collect()
}

fn lasting(plan: &Plan) -> Duration {
    Duration::from_secs(plan.size(15, 4))
}

/// Starts servers in which so many warehouses have room, and `growth_mib` more of each engine.
pub fn start(plan: &Plan, warehouses: u32, growth_mib: u64) -> Result<Pair> {
    check_room(warehouses, growth_mib)?;
    let pool_mib = BUFFER_POOL_LEAST_MIB.max(u64::from(warehouses) * BUFFER_POOL_MIB) + growth_mib;
    Pair::start(plan, &[format!("--innodb-buffer-pool-size={pool_mib}M")])
}

/// Loads so many warehouses into new servers, and runs the cases on them.
fn measure(plan: &Plan, warehouses: u32, report: &mut Option<Report>) -> Result<()> {
    let pair = start(plan, warehouses, 0)?;
    let report = match report {
        Some(report) => report,
        None => {
            let seconds = lasting(plan).as_secs();
            let workload = format!(
                "TPC-C without think times, READ COMMITTED, runs of {seconds} s, WAREHOUSESw/CONNECTIONS[/FORM]"
            );
            report.insert(pair.report("tpcc", workload)?)
        }
    };
    let mut companies = Companies::load(&pair, warehouses)?;
    let rounds = if plan.quick { 1 } else { ROUNDS };
    let longest = (lasting(plan) + Duration::from_secs(2)) * pair.systems.len() as u32;
    for measured in cases(plan, warehouses) {
        let case = measured.name();
        if !plan.has_time(longest) {
            report.note(format!("{case}: left out, the quick run was late"));
            continue;
        }
        let mut runs = 0;
        systems::rounds(plan, rounds, &pair.systems, |system| {
            // The systems of a round come one after the other, and get the same input.
            let seed = u64::from(measured.connections) * 100 + (runs / pair.systems.len()) as u64;
            runs += 1;
            let (company, server) = (companies.of(system), pair.of(system));
            let mut outcome = company
                .drive(server, (measured.connections, measured.form, measured.mix), lasting(plan), seed)
                .with_context(|| format!("{}, {case}", system.name()))?;
            let transactions = outcome.done.transactions as f64;
            let mut add = |metric, unit, value| report.add(system.name(), &case, metric, unit, value);
            add(TPMC, "1/min", outcome.tpmc());
            add(CPU, "us", outcome.cpu.as_secs_f64() * 1e6 / transactions);
            add(P99, "ms", outcome.done.p99_ms());
            add(RETRIES, "1", outcome.done.retries as f64 * 1e3 / transactions);
            company.check(server, plan.quick).with_context(|| format!("{}, after {case}", system.name()))
        })?;
    }
    Ok(())
}

/// The tables in a server, and the books of what was done to them.
pub struct Company {
    warehouses: u32,
    books: Books,
}

impl Company {
    /// Makes and fills the tables.
    pub fn load(server: &Server, engine: &str, warehouses: u32) -> Result<Self> {
        let mut session = Session::open(server)?;
        schema::create(&mut session, engine)?;
        load::run(&mut session, warehouses, u64::from(warehouses))?;
        schema::analyze(&mut session)?;
        // The load keeps the conditions too.
        consistency::check(&mut session, warehouses, Books::default(), true)?;
        Ok(Self { warehouses, books: Books::default() })
    }

    /// Runs so many terminals.
    pub fn drive(
        &mut self,
        server: &Server,
        (connections, form, mix): (u32, Form, Mix),
        lasting: Duration,
        seed: u64,
    ) -> Result<Outcome> {
        let case = Case { warehouses: self.warehouses, connections, form, mix };
        let outcome = drive::run(server, case, lasting, seed).with_context(|| server.log_tail())?;
        self.books.orders += outcome.done.orders;
        self.books.payments += outcome.done.payments;
        Ok(outcome)
    }

    /// Checks the conditions, all or the cheap ones, and the books.
    pub fn check(&self, server: &Server, is_cheap: bool) -> Result<()> {
        consistency::check(&mut Session::open(server)?, self.warehouses, self.books, is_cheap)
    }

    /// Runs so many terminals, statement by statement, and checks the cheap conditions. Returns
    /// transactions, and how long they took.
    pub fn run(
        &mut self,
        server: &Server,
        (connections, mix): (u32, Mix),
        lasting: Duration,
        seed: u64,
    ) -> Result<(u64, Duration)> {
        let outcome = self.drive(server, (connections, Form::Statements, mix), lasting, seed)?;
        self.check(server, true)?;
        Ok((outcome.done.transactions, outcome.took))
    }
}

/// The tables in both servers.
pub struct Companies(Vec<(System, Company)>);

impl Companies {
    /// Fills both servers at once, each with the same rows.
    pub fn load(pair: &Pair, warehouses: u32) -> Result<Self> {
        std::thread::scope(|scope| {
            let load = |system: System| Company::load(pair.of(system), system.engine(), warehouses);
            let running: Vec<_> =
                pair.systems.iter().map(|&system| (system, scope.spawn(move || load(system)))).collect();
            let loaded = running.into_iter().map(|(system, loader)| {
                let loaded = loader.join().expect("a loader does not panic");
                let company =
                    loaded.with_context(|| format!("{}: cannot load {warehouses} warehouses", system.name()))?;
                Ok((system, company))
            });
            Ok(Self(loaded.collect::<Result<_>>()?))
        })
    }

    /// Those of a system.
    pub fn of(&mut self, system: System) -> &mut Company {
        let found = self.0.iter_mut().find(|(other, _)| *other == system);
        &mut found.expect("only systems that take part are asked for").1
    }
}

/// Fails early where the medium has no room for so many warehouses and for `growth_mib` more of
/// each engine.
pub fn check_room(warehouses: u32, growth_mib: u64) -> Result<()> {
    ensure!(warehouses > 0, "there is no TPC-C without a warehouse");
    let medium = paths::medium();
    std::fs::create_dir_all(&medium).with_context(|| medium.display().to_string())?;
    let found = rustix::fs::statvfs(&medium).with_context(|| medium.display().to_string())?;
    let free_mib = found.f_bavail.saturating_mul(found.f_frsize) >> 20;
    let needed_mib = u64::from(warehouses) * ROOM_MIB + SERVERS_ROOM_MIB + 2 * growth_mib;
    ensure!(
        free_mib >= needed_mib,
        "PERDURA_DIR={} has {free_mib} MiB free; {warehouses} warehouses need {needed_mib} MiB",
        medium.display()
    );
    Ok(())
}

fn judge(plan: &Plan, warehouses: u32, report: &mut Report) {
    for case in cases(plan, warehouses) {
        let case = case.name();
        let faster = report.paired("perdura", "innodb", &case, TPMC, |own, peer| own / peer);
        report.at_least(&format!("{case}: tpmC, perdura / innodb"), faster, 1.3);
        let cpu = report.paired("perdura", "innodb", &case, CPU, |own, peer| own / peer);
        report.at_most(&format!("{case}: CPU a transaction, perdura / innodb"), cpu, 0.7);
    }
}
