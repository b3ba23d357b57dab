//! Space: what a table takes, beside InnoDB's, and compared with the bytes of its columns.

mod rows;

use anyhow::{Result, ensure};
use mysql::Conn;

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::client;

const METRIC: &str = "bytes_per_row";
const FILE_METRIC: &str = "file_bytes_per_row";
const MIXED_ROWS: u64 = 100_000;
/// Bytes of a version's header and of the directory word that names it.
const PERDURA_HEADERS: f64 = 32.0 + 8.0;

/// Tables of rows of one length, also after updates, and of rows of many lengths. The server tells the space they take.
pub fn run(plan: &Plan) -> Result<Report> {
    let systems = systems::chosen(plan, &[System::Innodb, System::Perdura]);
    let servers = Servers::start(&systems)?;
    let rows = plan.size(10_000_000, 1_000_000);
    let workload = format!(
        "{rows} rows of 23 or 200 bytes, before and after updates; {MIXED_ROWS} rows of a BIGINT and a text of 0 to LENGTH bytes"
    );
    let mut report = servers.report("space", workload)?;
    rows::run(plan, &servers, &systems, rows, &mut report)?;
    for length in [200, 2000] {
        mixed(plan, &servers, &systems, length, &mut report)?;
    }
    Ok(report)
}

/// One statement fills a table with texts of 0 to `length` bytes.
fn mixed(plan: &Plan, servers: &Servers, systems: &[System], length: u32, report: &mut Report) -> Result<()> {
    let case = format!("mixed/{length}");
    systems::rounds(plan, plan.rounds(), systems, |system| {
        let mut connection = servers.of(system).connect()?;
        let texts =
            format!("INSERT INTO space SELECT seq, REPEAT('x', FLOOR(RAND(1) * {length})) FROM seq_1_to_{MIXED_ROWS}");
        client::execute(&mut connection, &["DROP TABLE IF EXISTS space", &create(system, length), &texts])?;
        let found = sizes(&mut connection, system)?;
        client::execute(&mut connection, &["DROP TABLE space"])?;
        found.report(system, &case, MIXED_ROWS, report);
        if system == System::Perdura {
            report.add("payload", &case, METRIC, "B", found.payload / MIXED_ROWS as f64);
        }
        Ok(())
    })?;
    let text = format!("{case}: perdura / (payload + {PERDURA_HEADERS} B of version header and directory word)");
    let ratio = report.paired("perdura", "payload", &case, METRIC, |own, payload| own / (payload + PERDURA_HEADERS));
    report.at_most(&text, ratio, 1.3);
    Ok(())
}

fn create(system: System, length: u32) -> String {
    let text = format!("VARCHAR({length}) CHARACTER SET latin1 NOT NULL");
    format!("CREATE TABLE space (id BIGINT NOT NULL, text {text}) ENGINE={}", system.engine())
}

/// Sizes of the table, in bytes.
struct Sizes {
    /// Its rows' columns.
    payload: f64,
    /// The space in use, as the engine counts it.
    in_use: f64,
    /// Its files.
    files: f64,
}

impl Sizes {
    fn report(&self, system: System, case: &str, rows: u64, report: &mut Report) {
        report.add(system.name(), case, METRIC, "B", self.in_use / rows as f64);
        report.add(system.name(), case, FILE_METRIC, "B", self.files / rows as f64);
    }
}

fn sizes(connection: &mut Conn, system: System) -> Result<Sizes> {
    client::execute(connection, &["ANALYZE TABLE space"])?;
    let payload: f64 = client::value(connection, "SELECT CAST(SUM(8 + LENGTH(text)) AS DOUBLE) FROM space")?;
    let sizes = "FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'space'";
    let in_use: f64 = client::value(connection, &format!("SELECT CAST(data_length AS DOUBLE) {sizes}"))?;
    let files = match system {
        System::Perdura => format!("SELECT CAST(data_length + data_free AS DOUBLE) {sizes}"),
        _ => "SELECT CAST(SUM(file_size) AS DOUBLE) FROM information_schema.innodb_sys_tablespaces \
              WHERE name = CONCAT(DATABASE(), '/space')"
            .to_owned(),
    };
    let files: f64 = client::value(connection, &files)?;
    ensure!(in_use >= payload && files >= in_use, "{}: {payload} bytes in {in_use} in {files}", system.name());
    Ok(Sizes { payload, in_use, files })
}
