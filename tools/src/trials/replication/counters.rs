//! Counters of AUTO_INCREMENT columns at a replica, after a replayed binary log, and after kill -9.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::drive::server::{Options, Server};
use crate::shared::ports::free_port;
use crate::shared::{client, paths, process};
use crate::sqldiff::counted::{Counted, Effect, Statement};

/// Formats of the binary log.
pub const FORMATS: [&str; 3] = ["ROW", "STATEMENT", "MIXED"];
const TABLES: usize = 3;
/// Groups of statements in each format.
const GROUPS: u32 = 60;
const CATCH_UP: Duration = Duration::from_secs(40);

/// The servers.
struct Servers {
    primary: Server,
    replica: Server,
}

/// Compares the counters for each format of the binary log. Returns how many formats failed.
///
/// The hazard: what a replica, or a replay up to a point in time, writes does not pass the counter.
/// The server, promoted, gives out values that rows have: an INSERT fails, an upsert changes
/// another row. A primary with tables of InnoDB logs rows, statements or both. Its replica has
/// tables of Perdura. Then the log is replayed into tables of InnoDB and again into tables of
/// Perdura: same rows, same counters, each above every value that a row has had, also after a kill.
pub fn run(seed: u64) -> Result<u32> {
    let mut servers = Servers::start()?;
    for (round, format) in FORMATS.iter().enumerate() {
        let begun = Instant::now();
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(3).wrapping_add(round as u64));
        match servers.round(&mut random, format) {
            Ok(statements) => println!(
                "replication: counters, log of format {format}: {statements} statements; replica, replays and kill agree, {} ms",
                begun.elapsed().as_millis()
            ),
            Err(error) => {
                println!("replication: VIOLATION with counters, log of format {format}, seed {seed}: {error:#}");
                let kept = [servers.primary.keep().to_owned(), servers.replica.keep().to_owned()];
                println!("replication: the servers' directories are kept: {kept:?}");
                return Ok((FORMATS.len() - round) as u32);
            }
        }
    }
    servers.replica.stop()?;
    servers.primary.stop()?;
    Ok(0)
}

impl Servers {
    fn start() -> Result<Self> {
        let port = free_port()?;
        let options = |perdura: bool, further: &[&str]| {
            let extra = further.iter().map(|&option| option.to_owned()).collect();
            Options { perdura, extra, ..Options::default() }
        };
        let primary = Server::start_new(options(
            false,
            &[
                "--server-id=1",
                "--skip-networking=OFF",
                "--log-bin",
                "--bind-address=127.0.0.1",
                &format!("--port={port}"),
            ],
        ))?;
        let replica = Server::start_new(options(true, &["--server-id=2", "--default-storage-engine=Perdura"]))?;
        let follow = format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root', MASTER_CONNECT_RETRY=1, \
             MASTER_USE_GTID=slave_pos"
        );
        client::execute(&mut replica.connect()?, &[follow.as_str(), "START SLAVE"])?;
        Ok(Self { primary, replica })
    }

    /// One format. Returns the number of statements that the primary has run.
    fn round(&mut self, random: &mut StdRng, format: &str) -> Result<u32> {
        let mut primary = self.primary.connect()?;
        client::execute(&mut primary, &[format!("SET GLOBAL binlog_format={format}").as_str(), "FLUSH BINARY LOGS"])?;
        let status: mysql::Row = primary.query_first("SHOW MASTER STATUS")?.context("the primary has no log")?;
        let log: String = status.get(0).context("the log has no name")?;
        let (tables, statements) = self.load(random, format)?;
        client::execute(&mut primary, &["FLUSH BINARY LOGS"])?;
        let at_primary = State::of(&mut primary, &tables)?;
        self.catch_up(&mut primary)?;
        let mut replica = self.replica.connect()?;
        let replicated = State::of(&mut replica, &tables)?;
        replicated.has_passed(&tables).context("at the replica")?;
        ensure!(replicated.rows == at_primary.rows, "the replica has other rows: {replicated:?}, {at_primary:?}");
        let theirs = self.replay(&log, &tables, "InnoDB")?;
        ensure!(theirs.rows == at_primary.rows, "replayed, InnoDB has other rows: {theirs:?}, {at_primary:?}");
        let ours = self.replay(&log, &tables, "Perdura")?;
        ours.has_passed(&tables).context("replayed")?;
        ensure!(ours == theirs, "replayed, Perdura has {ours:?}, InnoDB {theirs:?}");
        ensure!(replicated.counters == ours.counters, "at the replica {replicated:?}, replayed {ours:?}");
        drop(replica);
        self.replica.kill()?;
        self.replica.start()?;
        let mut replica = self.replica.connect()?;
        State::of(&mut replica, &tables)?.has_passed(&tables).context("after kill -9")?;
        for table in &tables {
            let name = &table.name;
            replica.query_drop(format!("INSERT INTO {name} (u, v) VALUES (NULL, -1)")).context("after kill -9")?;
            let given: u64 = client::value(&mut replica, "SELECT LAST_INSERT_ID()")?;
            ensure!(given > table.highest(), "after kill -9 {table:?} gives {given}");
            replica.query_drop(format!("DROP TABLE {name}"))?;
        }
        Ok(statements)
    }

    /// Makes tables at the primary and changes them.
    fn load(&self, random: &mut StdRng, format: &str) -> Result<(Vec<Counted>, u32)> {
        let mut session = self.primary.connect()?;
        let mut tables = Vec::new();
        for number in 0..TABLES {
            let (table, text) = Counted::any(random, format!("{}{number}", format.to_lowercase()), true);
            session.query_drop(&text).context(text)?;
            tables.push(table);
        }
        let mut done = 0;
        for group in 0..GROUPS as usize + TABLES {
            let place = group % TABLES;
            let source = tables[(group / TABLES) % TABLES].clone();
            // At the end each table gets its highest value without being asked for one, so that
            // nothing later makes up for it.
            let statements = if group < GROUPS as usize {
                tables[place].statements(random, &source)
            } else {
                tables[place].pass(random)
            };
            let mut is_open = false;
            for statement in statements {
                is_open = statement.effect == Effect::Begin || is_open && statement.effect != Effect::Rollback;
                done += u32::from(self.send(&mut session, &statement)?);
                // Changes that are rolled back are not logged.
                for table in tables.iter_mut().filter(|_| !is_open) {
                    let ids: Vec<String> = session.query(format!("SELECT CAST(id AS CHAR) FROM {}", table.name))?;
                    table.learn(ids.iter().map(String::as_str));
                }
            }
        }
        ensure!(done > GROUPS, "only {done} statements of {GROUPS} groups have succeeded: nothing was tested");
        Ok((tables, done))
    }

    /// Whether a statement succeeds. Fails if the connection does.
    fn send(&self, session: &mut Conn, statement: &Statement) -> Result<bool> {
        let directory = self.primary.directory();
        if let Some((name, content)) = &statement.file {
            std::fs::write(directory.join(name), content)?;
        }
        match session.query_drop(statement.text.replace("{DIR}", &directory.display().to_string())) {
            Ok(()) => Ok(true),
            Err(mysql::Error::MySqlError(_)) => Ok(false),
            Err(error) => Err(error).with_context(|| statement.text.clone()),
        }
    }

    fn catch_up(&self, primary: &mut Conn) -> Result<()> {
        let wanted: String = client::value(primary, "SELECT @@gtid_binlog_pos")?;
        let mut replica = self.replica.connect()?;
        let begun = Instant::now();
        while begun.elapsed() < CATCH_UP {
            if client::value::<i64>(&mut replica, &format!("SELECT MASTER_GTID_WAIT('{wanted}', 0.5)"))? == 0 {
                return Ok(());
            }
            let status: mysql::Row = replica.query_first("SHOW SLAVE STATUS")?.context("the replica follows nobody")?;
            let error = status.get::<Option<String>, _>("Last_SQL_Error").flatten().unwrap_or_default();
            ensure!(error.is_empty(), "the replica stopped: {error}");
        }
        bail!("the replica did not catch up in {CATCH_UP:?}")
    }

    /// Replays one of the primary's logs into tables of an engine, in place of those that are
    /// there.
    fn replay(&self, log: &str, tables: &[Counted], engine: &str) -> Result<State> {
        let mut session = self.replica.connect()?;
        for table in tables {
            session.query_drop(format!("DROP TABLE {}", table.name))?;
        }
        let (directory, programs) = (self.replica.directory(), paths::mariadb()?.join("bin"));
        let text = directory.join("replayed.sql");
        process::run(
            Command::new(programs.join("mariadb-binlog"))
                .args(["--no-defaults", "--disable-log-bin", &format!("--local-load={}", directory.display())])
                .arg(self.primary.directory().join("data").join(log))
                .stdout(File::create(&text)?),
        )?;
        process::run(
            Command::new(programs.join("mariadb"))
                .args(["--no-defaults", "--user=root", "--local-infile=1"])
                .arg(format!("--socket={}", self.replica.socket().display()))
                .arg(format!("--init-command=SET default_storage_engine={engine}"))
                .arg("test")
                .stdin(File::open(&text)?),
        )
        .with_context(|| format!("replaying {log} into tables of {engine}"))?;
        State::of(&mut session, tables)
    }
}

/// A row as it was read: its text and two numbers.
type Row = (String, Option<i64>, Option<i64>);

/// The rows and the counter of each table.
#[derive(Debug, PartialEq)]
struct State {
    rows: Vec<Vec<Row>>,
    counters: Vec<Option<u64>>,
}

impl State {
    fn of(session: &mut Conn, tables: &[Counted]) -> Result<Self> {
        let (mut rows, mut counters) = (Vec::new(), Vec::new());
        for table in tables {
            let name = &table.name;
            rows.push(session.query(format!("SELECT CAST(id AS CHAR), u, v FROM {name} ORDER BY id, u, v"))?);
            let text = format!(
                "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA='test' AND TABLE_NAME='{name}'"
            );
            counters.push(client::value(session, &text)?);
        }
        Ok(Self { rows, counters })
    }

    /// Checks that each counter is above every value that a row has had.
    fn has_passed(&self, tables: &[Counted]) -> Result<()> {
        for (table, counter) in tables.iter().zip(&self.counters) {
            ensure!(counter.is_some_and(|counter| counter > table.highest()), "{table:?} goes on from {counter:?}");
        }
        Ok(())
    }
}
