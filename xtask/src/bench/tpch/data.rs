//! The tables: generated once by DuckDB, whose extensions follow the specifications' generators,
//! and kept under build/data; loaded by LOAD DATA INFILE.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mysql::Conn;

use super::System;
use crate::{client, paths, process};

const SCHEMA: &str = include_str!("schema.sql");
const TABLES: [&str; 8] = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

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

/// Makes the tables in the engine of `system`, fills them from `directory` and analyzes them.
pub fn load(connection: &mut Conn, system: System, directory: &Path) -> Result<()> {
    client::execute(connection, &[format!("SET default_storage_engine = {}", system.engine())])?;
    let statements: Vec<&str> = SCHEMA.split(';').map(str::trim).filter(|statement| !statement.is_empty()).collect();
    client::execute(connection, &statements)?;
    for table in TABLES {
        let file = directory.join(table).with_extension("csv");
        let load = format!("LOAD DATA INFILE '{}' INTO TABLE {table} FIELDS TERMINATED BY '|'", file.display());
        client::execute(connection, &[load])?;
    }
    analyze(connection, "")
}

/// Analyzes all tables; `rest` follows in the statement.
pub fn analyze(connection: &mut Conn, rest: &str) -> Result<()> {
    for table in TABLES {
        client::execute(connection, &[format!("ANALYZE TABLE {table} {rest}")])?;
    }
    Ok(())
}
