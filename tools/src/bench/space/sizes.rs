//! The table that is measured, and its sizes.

use anyhow::{Result, ensure};
use mysql::Conn;

use super::super::report::Report;
use super::super::systems::System;
use crate::shared::client;

/// Space in use.
pub const METRIC: &str = "bytes_per_row";
/// Lengths of files.
const FILE_METRIC: &str = "file_bytes_per_row";

/// Bytes of the columns of that table, as SQL.
pub const COLUMNS_BYTES: &str = "8 + LENGTH(text)";

/// The statement that creates the table, with texts of at most `length` bytes.
pub fn create(system: System, length: u32) -> String {
    let text = format!("VARCHAR({length}) CHARACTER SET latin1 NOT NULL");
    format!("CREATE TABLE space (id BIGINT NOT NULL, text {text}) ENGINE={}", system.engine())
}

/// Sizes of the table, in bytes.
pub struct Sizes {
    /// Its rows' columns.
    pub payload: f64,
    /// The space in use, as the engine counts it.
    in_use: f64,
    /// Its files.
    files: f64,
}

impl Sizes {
    /// Adds what each of `rows` rows takes.
    pub fn report(&self, system: System, case: &str, rows: u64, report: &mut Report) {
        report.add(system.name(), case, METRIC, "B", self.in_use / rows as f64);
        report.add(system.name(), case, FILE_METRIC, "B", self.files / rows as f64);
    }
}

/// The sizes as the server tells them, on fresh statistics. `row` is the bytes of a row's columns,
/// as SQL.
pub fn sizes(connection: &mut Conn, system: System, row: &str) -> Result<Sizes> {
    client::execute(connection, &["ANALYZE TABLE space"])?;
    let payload: f64 = client::value(connection, &format!("SELECT CAST(SUM({row}) AS DOUBLE) FROM space"))?;
    let sizes = "FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'space'";
    // Perdura counts its indexes among the data.
    let in_use: f64 = client::value(connection, &format!("SELECT CAST(data_length + index_length AS DOUBLE) {sizes}"))?;
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
