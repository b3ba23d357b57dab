//! Keys of the flights' tables: their definition as the server shows it, a query that joins by
//! them, and what foreign keys refuse.

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;
use mysql::{Conn, Error};

use super::heading::heading;
use crate::shared::client;

const QUERY: &str = "SELECT a.name, CAST(o.name AS CHAR), p.model, f.distance FROM flights_perdura f
    JOIN airlines_perdura a ON a.carrier = f.carrier JOIN airports_perdura o ON o.faa = f.origin
    JOIN planes_perdura p ON p.tailnum = f.tailnum
    WHERE f.carrier = 'HA' AND f.flight = 51 AND f.time_hour = '2013-01-01 14:00:00'";

/// Statements, each with the error of the foreign key that refuses it.
const REFUSED: [(&str, u16); 3] = [
    ("INSERT INTO flights_perdura (carrier, flight, time_hour, origin) VALUES ('ZZ', 1, '2013-01-01', 'JFK')", 1452),
    ("DELETE FROM airlines_perdura WHERE carrier = 'UA'", 1451),
    ("DROP TABLE airports_perdura", 1451),
];

/// Shows the keys, and fails if they do not hold.
pub fn show(connection: &mut Conn) -> Result<()> {
    heading("Primary and foreign keys");
    let definition: Option<(String, String)> = connection.query_first("SHOW CREATE TABLE flights_perdura")?;
    let (_, definition) = definition.context("no table")?;
    for line in definition.lines().filter(|line| line.contains("KEY") || line.contains("ENGINE")) {
        println!("  {line}");
    }
    let flight: Option<(String, String, String, u32)> = connection.query_first(QUERY)?;
    let (airline, airport, model, miles) = flight.context("the flight is not there")?;
    println!("  flight HA 51 on 1 January: {airline}, from {airport}, {model}, {miles} miles");
    for (statement, code) in REFUSED {
        match connection.query_drop(statement) {
            Err(Error::MySqlError(error)) if error.code == code => println!("  {statement}: error {code}"),
            other => ensure!(false, "{statement}: {other:?}, error {code} expected"),
        }
    }
    let rows: u64 = client::value(connection, "SELECT COUNT(*) FROM airlines_perdura")?;
    ensure!(rows == 16, "{rows} airlines after refused statements");
    Ok(())
}
