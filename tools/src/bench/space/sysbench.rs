//! The table of sysbench, with a primary and a secondary key: as it was loaded, and after an update
//! of each row in random order, which moves the row in the secondary key.

use anyhow::{Result, ensure};
use mysql::Conn;

use super::super::plan::Plan;
use super::super::purge;
use super::super::report::Report;
use super::super::systems::{self, Servers, System};
use super::rows::{PURGE, UPDATES};
use super::sizes::{METRIC, sizes};
use crate::shared::client;

/// The cases and their character sets: one byte a character, and the server's default, in which a
/// CHAR has room for four.
const CASES: [(&str, &str); 2] = [("sysbench", "latin1"), ("sysbench/utf8mb4", "utf8mb4")];
/// Its columns.
const COLUMNS: &str = "id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', \
                       pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k)";
/// Rows that one statement inserts, as sysbench does. A leaf that is split leaves a place that is
/// used again only after the transaction is over: one that loads the whole table would keep as many
/// places free as it uses.
const BATCH: u64 = 10_000;
const COLUMNS_BYTES: &str = "4 + 4 + LENGTH(c) + LENGTH(pad)";

/// Each case, and the same with `/updated`. Sizes hardly vary, so there is one round.
pub fn run(plan: &Plan, servers: &Servers, systems: &[System], rows: u64, report: &mut Report) -> Result<()> {
    for (case, charset) in CASES {
        let updated = format!("{case}/updated");
        systems::rounds(plan, 1, systems, |system| {
            let mut connection = servers.of(system).connect()?;
            fill(&mut connection, system, charset, rows)?;
            sizes(&mut connection, system, COLUMNS_BYTES)?.report(system, case, rows, report);
            update(&mut connection, system, rows)?;
            sizes(&mut connection, system, COLUMNS_BYTES)?.report(system, &updated, rows, report);
            client::execute(&mut connection, &["DROP TABLE space"])
        })?;
        for case in [case, &updated] {
            let ratio = report.paired("perdura", "innodb", case, METRIC, |own, peer| own / peer);
            report.at_most(&format!("{case}: perdura / innodb"), ratio, 1.0);
        }
    }
    Ok(())
}

fn fill(connection: &mut Conn, system: System, charset: &str, rows: u64) -> Result<()> {
    let create = format!("CREATE TABLE space ({COLUMNS}) ENGINE={} CHARACTER SET {charset}", system.engine());
    client::execute(connection, &["DROP TABLE IF EXISTS space", &create])?;
    for first in (1..=rows).step_by(BATCH as usize) {
        let last = rows.min(first + BATCH - 1);
        let digits = "LPAD(seq, 11, '0')";
        let insert = format!(
            "INSERT INTO space (k, c, pad) SELECT 1 + FLOOR(RAND({first}) * {rows}), RPAD({digits}, 119, CONCAT('-', {digits})), \
             RPAD({digits}, 59, CONCAT('-', {digits})) FROM seq_{first}_to_{last}"
        );
        client::execute(connection, &[insert])?;
    }
    Ok(())
}

/// Each transaction updates the rows that a hash picks, as for tables without keys.
fn update(connection: &mut Conn, system: System, rows: u64) -> Result<()> {
    for part in 0..UPDATES {
        let set = format!("k = 1 + FLOOR(RAND({part}) * {rows}), c = RPAD('y', 119, LPAD(id, 11, '-'))");
        client::execute(connection, &[format!("UPDATE space SET {set} WHERE CRC32(id) % {UPDATES} = {part}")])?;
    }
    let updated: u64 = client::value(connection, "SELECT COUNT(*) FROM space WHERE c LIKE 'y%'")?;
    let indexed: u64 = client::value(connection, "SELECT COUNT(*) FROM space FORCE INDEX (k_1) WHERE k > 0")?;
    ensure!(
        updated == rows && indexed == rows,
        "{}: {updated} of {rows} rows were updated, {indexed} have a key",
        system.name()
    );
    match system {
        System::Perdura => purge::finish(connection, PURGE),
        _ => Ok(()),
    }
}
