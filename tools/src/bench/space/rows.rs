//! Tables of many rows of one length: as they were loaded, and after an update of each row in
//! random order.

use std::time::Duration;

use anyhow::{Result, ensure};
use mysql::Conn;

use super::super::plan::Plan;
use super::super::purge;
use super::super::report::Report;
use super::super::systems::{self, Servers, System};
use super::sizes::{COLUMNS_BYTES, METRIC, create, sizes};
use crate::shared::client;

/// Bytes of a row, as Perdura packs it: a BIGINT, a byte for the text's length, and the text.
const ROW_BYTES: [u32; 2] = [23, 200];
const BESIDE_TEXT: u32 = 8 + 1;
/// Rows that one statement inserts.
const BATCH: u64 = 1_000_000;
/// Transactions that update all rows, each those that a hash picks, scattered over the whole table.
/// Until one of them is over its rows take room twice, and the table keeps that room: a twentieth
/// of the rows' own.
pub const UPDATES: u64 = 20;
/// Longest time that purge may take.
pub const PURGE: Duration = Duration::from_secs(600);

/// The cases 23B and 200B, and the same with `/updated`. Sizes hardly vary, so there is one round.
pub fn run(plan: &Plan, servers: &Servers, systems: &[System], rows: u64, report: &mut Report) -> Result<()> {
    for bytes in ROW_BYTES {
        let (case, length) = (format!("{bytes}B"), bytes - BESIDE_TEXT);
        systems::rounds(plan, 1, systems, |system| {
            let mut connection = servers.of(system).connect()?;
            fill(&mut connection, system, rows, length)?;
            sizes(&mut connection, system, COLUMNS_BYTES)?.report(system, &case, rows, report);
            update(&mut connection, system, rows, length)?;
            sizes(&mut connection, system, COLUMNS_BYTES)?.report(system, &format!("{case}/updated"), rows, report);
            client::execute(&mut connection, &["DROP TABLE space"])
        })?;
    }
    for bytes in ROW_BYTES {
        for case in [format!("{bytes}B"), format!("{bytes}B/updated")] {
            let ratio = report.paired("perdura", "innodb", &case, METRIC, |own, peer| own / peer);
            report.at_most(&format!("{case}: perdura / innodb"), ratio, 1.0);
        }
    }
    Ok(())
}

fn fill(connection: &mut Conn, system: System, rows: u64, length: u32) -> Result<()> {
    client::execute(connection, &["DROP TABLE IF EXISTS space", &create(system, length)])?;
    for first in (1..=rows).step_by(BATCH as usize) {
        let last = rows.min(first + BATCH - 1);
        let insert = format!("INSERT INTO space SELECT seq, LPAD(seq, {length}, 'x') FROM seq_{first}_to_{last}");
        client::execute(connection, &[insert])?;
    }
    Ok(())
}

fn update(connection: &mut Conn, system: System, rows: u64, length: u32) -> Result<()> {
    for part in 0..UPDATES {
        let text = format!("LPAD(FLOOR(RAND() * {rows}), {length}, 'y')");
        client::execute(connection, &[format!("UPDATE space SET text = {text} WHERE CRC32(id) % {UPDATES} = {part}")])?;
    }
    let updated: u64 = client::value(connection, "SELECT COUNT(*) FROM space WHERE text LIKE 'y%'")?;
    ensure!(updated == rows, "{}: {updated} of {rows} rows were updated", system.name());
    match system {
        System::Perdura => purge::finish(connection, PURGE),
        _ => Ok(()),
    }
}
