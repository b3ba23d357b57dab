//! A dump of each side, restored into Perdura: that of InnoDB as a user brings it along, with the
//! engine's name replaced.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::sides::{Sum, database, definition};
use crate::drive::server::Server;
use crate::shared::{paths, process};

/// Dumps both databases of a schema, restores and compares.
pub fn round_trip(server: &Server, name: &str) -> Result<()> {
    for engine in ["Perdura", "InnoDB"] {
        one(server, &database(name, engine)).with_context(|| format!("the dump of {engine}'s database, restored"))?;
    }
    Ok(())
}

fn one(server: &Server, source: &str) -> Result<()> {
    let restored = format!("{source}_restored");
    let client = |program: &str| -> Result<Command> {
        let mut command = Command::new(paths::mariadb()?.join("bin").join(program));
        command.arg("--no-defaults").arg(format!("--socket={}", server.socket().display())).arg("--user=root");
        Ok(command)
    };
    let dump = process::output(client("mariadb-dump")?.args(["--single-transaction", "--skip-comments", source]))?;
    let file = server.directory().join("tmp").join(format!("{source}.sql"));
    std::fs::write(&file, dump.replace("ENGINE=InnoDB", "ENGINE=Perdura"))?;
    let mut session = server.connect()?;
    session.query_drop(format!("CREATE DATABASE {restored} CHARACTER SET utf8mb4"))?;
    process::run(client("mariadb")?.arg(&restored).stdin(Stdio::from(std::fs::File::open(&file)?)))?;
    std::fs::remove_file(&file)?;
    let (before, after) = (contents(&mut session, source)?, contents(&mut session, &restored)?);
    ensure!(before.len() == after.len(), "{} tables became {}", before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        ensure!(before == after, "{before:?} became {after:?}");
    }
    session.query_drop(format!("DROP DATABASE {restored}"))?;
    Ok(())
}

/// Definition, number of rows and sum of each table.
fn contents(session: &mut Conn, database: &str) -> Result<Vec<(String, u64, u64)>> {
    session.query_drop(format!("USE {database}"))?;
    let mut found = Vec::new();
    for Sum { table, query } in Sum::all(session)? {
        let (rows, sum) = session.query_first(query)?.context("no sum")?;
        found.push((definition(session, &table)?, rows, sum));
    }
    Ok(found)
}
