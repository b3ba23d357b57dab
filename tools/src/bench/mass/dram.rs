//! DRAM that a mass update takes: the growth of the server's private memory (RssAnon), without
//! mapped files.

use std::time::Duration;

use anyhow::Result;
use mysql::Conn;

use super::super::memory;
use super::super::plan::Plan;
use super::super::purge;
use super::super::report::Report;
use super::super::systems::{self, System};
use crate::drive::server::Server;
use crate::shared::{client, csv, process};

/// The metric of the cases update (at the peak) and after (left a second after purge is through).
pub const METRIC: &str = "dram_bytes_per_row";
/// The metric of the case limit.
pub const LIMITED: &str = "dram_bytes";

const VARIABLE: &str = "perdura_transaction_memory";
const LIMIT_BYTES: u64 = 4 << 20;
/// Longest time that purge may take.
const PURGE: Duration = Duration::from_secs(100);
/// Time for the server to give back what purge has freed: the background thread trims the heap
/// after the round that ends it.
const TRIM: Duration = Duration::from_secs(1);

/// Each run has a server of its own, so that it inherits no memory.
pub fn run(plan: &Plan, rows: u64, report: &mut Report) -> Result<()> {
    let systems = systems::chosen(plan, &[System::Innodb, System::Perdura]);
    let rounds = if plan.quick { 1 } else { 3 };
    let mut limited = plan.perdura;
    systems::rounds(plan, rounds, &systems, |system| {
        let server = Server::start_new(systems::options(plan.perdura))?;
        plan.running(system.name(), "dram");
        let _watch = plan.watch("dram", &server);
        let mut connection = server.connect()?;
        let (before, most) = update(&server, &mut connection, system, rows)?;
        let each = |bytes: u64| bytes.saturating_sub(before) as f64 / rows as f64;
        report.add(system.name(), "update", METRIC, "B", each(most));
        if system == System::Perdura {
            purge::finish(&mut connection, PURGE)?;
            std::thread::sleep(TRIM);
            report.add(system.name(), "after", METRIC, "B", each(process::status_bytes(server.pid(), "RssAnon")?));
            limited = has_limit(&mut connection)?;
        }
        Ok(())
    })?;
    if !limited {
        if plan.perdura {
            report.not_supported("perdura", "limit", LIMITED, "B");
        }
        return Ok(());
    }
    for _ in 0..rounds {
        let mut options = systems::options(true);
        options.extra.push(format!("--{}={LIMIT_BYTES}", VARIABLE.replace('_', "-")));
        let server = Server::start_new(options)?;
        plan.running("perdura", "limit");
        let _watch = plan.watch("limit", &server);
        let (before, most) = update(&server, &mut server.connect()?, System::Perdura, rows)?;
        report.add("perdura", "limit", LIMITED, "B", most.saturating_sub(before) as f64);
    }
    Ok(())
}

/// Private memory before an update of all of `rows` rows, and its peak meanwhile.
fn update(server: &Server, connection: &mut Conn, system: System, rows: u64) -> Result<(u64, u64)> {
    let file = csv::paper(rows, 0)?;
    let fill = [
        format!("CREATE TABLE mass ({}) ENGINE={}", csv::COLUMNS, system.engine()),
        client::load_statement(false, &file, "mass", ""),
    ];
    client::execute(connection, &fill)?;
    memory::most_private_bytes(server, || client::execute(connection, &[super::statements::UPDATE]))
}

/// Whether this build bounds a transaction's memory.
fn has_limit(connection: &mut Conn) -> Result<bool> {
    let query = format!("SELECT COUNT(*) FROM information_schema.global_variables WHERE variable_name = '{VARIABLE}'");
    Ok(client::value::<u64>(connection, &query)? > 0)
}
