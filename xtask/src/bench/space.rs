//! Space: what a table with rows of many lengths takes, compared with the bytes of its columns.

use anyhow::{Result, ensure};
use mysql::Conn;

use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::client;

const METRIC: &str = "bytes_per_row";
const FILE_METRIC: &str = "file_bytes_per_row";
const ROWS: u64 = 100_000;
/// Bytes of a version's header and of the directory word that names it.
const PERDURA_HEADERS: f64 = 32.0 + 8.0;

/// One statement fills a table with texts of 0 to LENGTH bytes. The server tells the space they take.
pub fn run(plan: &Plan) -> Result<Report> {
    let systems = systems::chosen(plan, &[System::Innodb, System::Perdura]);
    let servers = Servers::start(&systems)?;
    let workload = format!("{ROWS} rows of a BIGINT and a text of 0 to LENGTH bytes, by one INSERT ... SELECT");
    let mut report = servers.report("space", workload)?;
    for length in [200, 2000] {
        let case = format!("mixed/{length}");
        systems::rounds(plan.rounds(), &systems, |system| {
            let mut connection = servers.of(system).connect()?;
            let found = fill(&mut connection, system, length)?;
            report.add(system.name(), &case, METRIC, "B", found.in_use / ROWS as f64);
            report.add(system.name(), &case, FILE_METRIC, "B", found.files / ROWS as f64);
            if system == System::Perdura {
                report.add("payload", &case, METRIC, "B", found.payload / ROWS as f64);
            }
            Ok(())
        })?;
        let text = format!("{case}: perdura / (payload + {PERDURA_HEADERS} B of version header and directory word)");
        let ratio =
            report.paired("perdura", "payload", &case, METRIC, |own, payload| own / (payload + PERDURA_HEADERS));
        report.at_most(&text, ratio, 1.3);
    }
    Ok(report)
}

/// Sizes of one table, in bytes.
struct Found {
    /// Its rows' columns.
    payload: f64,
    /// The space in use, as the engine counts it.
    in_use: f64,
    /// Its files.
    files: f64,
}

fn fill(connection: &mut Conn, system: System, length: u32) -> Result<Found> {
    let statements = [
        "DROP TABLE IF EXISTS space".to_owned(),
        format!(
            "CREATE TABLE space (id BIGINT NOT NULL, text VARCHAR({length}) CHARACTER SET latin1 NOT NULL) ENGINE={}",
            system.engine()
        ),
        format!("INSERT INTO space SELECT seq, REPEAT('x', FLOOR(RAND(1) * {length})) FROM seq_1_to_{ROWS}"),
        "ANALYZE TABLE space".to_owned(),
    ];
    client::execute(connection, &statements)?;
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
    client::execute(connection, &["DROP TABLE space"])?;
    Ok(Found { payload, in_use, files })
}
