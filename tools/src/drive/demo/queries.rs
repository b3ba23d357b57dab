//! Queries over the flights, with joins and aggregates, in Perdura and InnoDB: the rows must be the
//! same, and both times are shown.

use std::time::Instant;

use anyhow::{Result, ensure};
use mysql::prelude::Queryable;
use mysql::{Conn, Row};

use super::heading::heading;
use crate::shared::client;

/// Rows shown of a result.
const SHOWN: usize = 3;

/// A question and its query; `{}` stands for the engine. Every ORDER BY is total, so results
/// compare row by row.
const QUERIES: [(&str, &str); 5] = [
    (
        "Which airlines are late most?",
        "SELECT a.name, COUNT(*) AS flights, ROUND(AVG(f.arr_delay), 2) AS minutes
         FROM flights_{} f JOIN airlines_{} a ON a.carrier = f.carrier
         WHERE f.arr_delay IS NOT NULL GROUP BY a.name ORDER BY minutes DESC, a.name",
    ),
    (
        "What do old planes fly?",
        "SELECT p.manufacturer, p.model, MIN(p.year) AS built, COUNT(*) AS flights, SUM(f.distance) AS miles
         FROM flights_{} f JOIN planes_{} p ON p.tailnum = f.tailnum
         WHERE p.year < 1980 GROUP BY p.manufacturer, p.model ORDER BY miles DESC, p.model",
    ),
    (
        "Does wind make flights late?",
        "SELECT FLOOR(w.wind_speed / 10) * 10 AS wind, COUNT(*) AS flights, ROUND(AVG(f.dep_delay), 1) AS minutes
         FROM flights_{} f JOIN weather_{} w ON w.origin = f.origin AND w.time_hour = f.time_hour
         WHERE f.dep_delay IS NOT NULL AND w.wind_speed IS NOT NULL GROUP BY wind ORDER BY wind",
    ),
    (
        "Where to, by distance?",
        "SELECT f.dest, ap.name, COUNT(DISTINCT f.tailnum) AS planes, MAX(f.air_time) AS longest
         FROM flights_{} f LEFT JOIN airports_{} ap ON ap.faa = f.dest
         GROUP BY f.dest, ap.name ORDER BY longest DESC, f.dest LIMIT 20",
    ),
    (
        "Which day of each month was worst?",
        "SELECT month, day, late FROM (
           SELECT month, day, SUM(dep_delay > 60) AS late,
                  RANK() OVER (PARTITION BY month ORDER BY SUM(dep_delay > 60) DESC, day) AS place
           FROM flights_{} GROUP BY month, day) days
         WHERE place = 1 ORDER BY month",
    ),
];

/// Runs every query in both engines and fails where they differ.
pub fn compare(connection: &mut Conn) -> Result<()> {
    heading("Queries, with InnoDB's answer beside them");
    // Tables of InnoDB that were opened while they were empty know nothing of their keys.
    client::execute(connection, &["ANALYZE TABLE flights_innodb, weather_innodb, planes_innodb", "FLUSH TABLES"])?;
    // Whole tables are joined, mostly by hashing.
    client::execute(connection, &["SET join_cache_level = 8", "SET join_buffer_size = 8388608"])?;
    for (question, query) in QUERIES {
        let (ours, our_time) = ask(connection, query, "perdura")?;
        let (theirs, their_time) = ask(connection, query, "innodb")?;
        ensure!(ours == theirs, "{question}\nPerdura: {ours:?}\nInnoDB: {theirs:?}");
        println!(
            "  {question} ({} rows, the same in both; Perdura {our_time:.2} s, InnoDB {their_time:.2} s)",
            ours.len()
        );
        for row in ours.iter().take(SHOWN) {
            println!("    {}", row.join(" | "));
        }
    }
    Ok(())
}

fn ask(connection: &mut Conn, query: &str, engine: &str) -> Result<(Vec<Vec<String>>, f64)> {
    let begun = Instant::now();
    let rows: Vec<Row> = connection.query(query.replace("{}", engine))?;
    let took = begun.elapsed().as_secs_f64();
    let text = |row: Row| row.unwrap().into_iter().map(|value| shown(&value)).collect();
    Ok((rows.into_iter().map(text).collect(), took))
}

fn shown(value: &mysql::Value) -> String {
    match value {
        mysql::Value::NULL => "NULL".to_owned(),
        mysql::Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}
