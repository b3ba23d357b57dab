//! The tables: generated once by DuckDB, whose extensions follow the specifications' generators,
//! and kept under build/data; loaded by LOAD DATA INFILE.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mysql::Conn;

use crate::bench::systems::System;
use crate::shared::{client, paths, process};

/// The directory with the tables of `bench` at `scale`, and the reference answers.
pub fn generate(bench: &str, scale: &str) -> Result<PathBuf> {
    let directory = paths::data().join(format!("{bench}-{scale}"));
    if directory.exists() {
        return Ok(directory);
    }
    let duckdb = paths::build().join("duckdb");
    ensure!(duckdb.exists(), "no DuckDB under build/: run `make setup`, with a Python from 3.9 to 3.11");
    let staging = directory.with_extension("new");
    if staging.exists() {
        std::fs::remove_dir_all(&staging)?;
    }
    std::fs::create_dir_all(&staging).with_context(|| staging.display().to_string())?;
    let program = paths::top().join("scripts/decision-support-data.py");
    process::run(Command::new("python3").arg(program).args([bench, scale]).arg(&staging).env("PYTHONPATH", duckdb))?;
    std::fs::rename(&staging, &directory)?;
    Ok(directory)
}

/// Makes the tables of `schema` in the engine of `system`, fills them from `directory` and analyzes
/// them.
pub fn load(connection: &mut Conn, system: System, schema: &str, directory: &Path) -> Result<()> {
    client::execute(connection, &[format!("SET default_storage_engine = {}", system.engine())])?;
    let statements: Vec<&str> = schema.split(';').map(str::trim).filter(|statement| !statement.is_empty()).collect();
    client::execute(connection, &statements)?;
    for table in tables(schema) {
        let file = directory.join(table).with_extension("csv");
        let columns = "FIELDS TERMINATED BY '|' OPTIONALLY ENCLOSED BY '\"'";
        client::execute(connection, &[format!("LOAD DATA INFILE '{}' INTO TABLE {table} {columns}", file.display())])?;
    }
    analyze(connection, schema, "")
}

/// Analyzes all tables of `schema`; `rest` follows in the statement.
pub fn analyze(connection: &mut Conn, schema: &str, rest: &str) -> Result<()> {
    for table in tables(schema) {
        client::execute(connection, &[format!("ANALYZE TABLE {table} {rest}")])?;
    }
    Ok(())
}

/// Names of the tables of `schema`, in its order.
fn tables(schema: &str) -> impl Iterator<Item = &str> {
    schema.split("CREATE TABLE ").skip(1).filter_map(|rest| rest.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::tables;

    #[test]
    fn tables_are_those_that_the_schema_makes() {
        let schema = "-- Keys: some.\nCREATE TABLE region (a INT,\n  KEY a (a));\nCREATE TABLE nation (b INT);\n";
        assert_eq!(tables(schema).collect::<Vec<_>>(), ["region", "nation"]);
    }
}
