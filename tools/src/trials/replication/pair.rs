//! A primary and its replica: two servers on loopback, each in its own directory.
//!
//! Both survive crashes. The primary syncs its binary log with each commit and recovers the engine
//! by it. The replica writes its position (mysql.gtid_slave_pos, an InnoDB table unless it is told
//! otherwise) in the very transaction that the position includes, and its binary log or tc.log
//! commits that transaction in both engines or in none.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mysql::prelude::Queryable;
use mysql::{Conn, Row};

use super::plan::{FAMILY, Log, Mode, Plan, ROWS, TABLES};
use crate::drive::server::{Options, Server};
use crate::shared::ports::free_port;
use crate::shared::{client, indexes};

/// A replica that takes longer to catch up hangs. Shorter than its lock wait timeout: a wait that
/// only the timeout ends is a hang too.
const CATCH_UP: Duration = Duration::from_secs(40);
const LOCK_WAIT_SECONDS: u32 = 60;

/// One of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that the clients change.
    Primary,
    /// The side that follows.
    Replica,
}

impl Side {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Side::Primary => "primary",
            Side::Replica => "replica",
        }
    }
}

/// The two servers.
pub struct Pair {
    primary: Server,
    replica: Server,
}

impl Pair {
    /// Starts both, makes the tables and lets the replica follow.
    pub fn start(plan: &Plan, mode: Mode, log: Log) -> Result<Self> {
        let port = free_port()?;
        let mut of_primary = vec!["--server-id=1".to_owned(), "--skip-networking=OFF".to_owned()];
        of_primary.extend(["--log-bin".to_owned(), "--bind-address=127.0.0.1".to_owned(), format!("--port={port}")]);
        // Larger commit groups give the workers more to apply concurrently.
        of_primary.extend(["--binlog-commit-wait-count=4", "--binlog-commit-wait-usec=2000"].map(str::to_owned));
        let mut of_replica = vec!["--server-id=2".to_owned(), "--slave-parallel-threads=4".to_owned()];
        of_replica.push(format!("--slave-parallel-mode={}", mode.name()));
        of_replica.push("--slave-net-timeout=10".to_owned());
        of_replica.extend(log.options(&plan.engine));
        let primary = Server::start_new(options(plan, of_primary))?;
        let replica = Server::start_new(options(plan, of_replica))?;
        let pair = Self { primary, replica };
        create_tables(&mut pair.primary.connect()?, &plan.engine)?;
        let follow = format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root', MASTER_CONNECT_RETRY=1, \
             MASTER_USE_GTID=slave_pos"
        );
        client::execute(&mut pair.replica.connect()?, &[follow.as_str(), "START SLAVE"])?;
        Ok(pair)
    }

    /// Path of the socket that clients connect to.
    pub fn primary_socket(&self) -> PathBuf {
        self.primary.socket()
    }

    fn server(&mut self, side: Side) -> &mut Server {
        match side {
            Side::Primary => &mut self.primary,
            Side::Replica => &mut self.replica,
        }
    }

    /// Kills one side with SIGKILL.
    pub fn kill(&mut self, side: Side) -> Result<()> {
        self.server(side).kill()
    }

    /// Starts the side that was killed. The replica goes on by itself.
    pub fn restart(&mut self, side: Side) -> Result<()> {
        self.server(side).start().with_context(|| format!("the {} does not come back", side.name()))?;
        Ok(())
    }

    /// Waits until the replica has applied all the primary has; returns how long that took.
    pub fn catch_up(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let wanted: String = client::value(&mut self.primary.connect()?, "SELECT @@gtid_binlog_pos")?;
        let mut replica = self.replica.connect()?;
        let wait = format!("SELECT MASTER_GTID_WAIT('{wanted}', 0.5)");
        while begun.elapsed() < CATCH_UP {
            if client::value::<i64>(&mut replica, &wait)? == 0 {
                return Ok(begun.elapsed());
            }
            let status = slave_status(&mut replica)?;
            let error = field(&status, "Last_SQL_Error");
            ensure!(error.is_empty(), "the replica stopped: {error}; wanted {wanted}");
        }
        bail!("the replica did not catch up in {CATCH_UP:?}: wanted {wanted}")
    }

    /// Checks that both sides hold the same rows. Their order may differ: it depends on where there
    /// was room.
    pub fn compare(&mut self) -> Result<()> {
        let (mut primary, mut replica) = (self.primary.connect()?, self.replica.connect()?);
        let family = FAMILY.iter().map(|table| (*table).to_owned());
        let twins = TABLES.iter().flat_map(|table| [(*table).to_owned(), format!("keyed_{table}")]);
        for table in twins.chain(family) {
            let rows = |connection: &mut Conn| -> Result<Vec<Row>> {
                Ok(connection.query(format!("SELECT * FROM {table} ORDER BY 1, 2, 3"))?)
            };
            let (left, right) = (rows(&mut primary)?, rows(&mut replica)?);
            let text = |row: &Row| format!("{row:?}");
            let differs = left.iter().map(text).ne(right.iter().map(text));
            ensure!(
                !differs,
                "table {table} differs: the primary has {} rows, the replica {}; first: {:?}",
                left.len(),
                right.len(),
                left.iter().zip(&right).find(|(left, right)| text(left) != text(right))
            );
            let checksum = |connection: &mut Conn| -> Result<Option<(String, Option<u64>)>> {
                Ok(connection.query_first(format!("CHECKSUM TABLE {table}"))?)
            };
            let (left, right) = (checksum(&mut primary)?, checksum(&mut replica)?);
            ensure!(left == right && left.is_some(), "checksums differ: {left:?} and {right:?}");
        }
        for table in ["few", "keyed_few"] {
            let few: u64 = client::value(&mut primary, &format!("SELECT COUNT(DISTINCT id) FROM {table}"))?;
            ensure!(few == u64::from(ROWS), "{table}: {few} rows of {ROWS} are left");
        }
        for (side, connection) in [("primary", &mut primary), ("replica", &mut replica)] {
            let faults = indexes::check(connection)?;
            ensure!(faults.is_empty(), "on the {side}: {}", faults.join("; "));
        }
        Ok(())
    }

    /// The replica's counters, for the progress line.
    pub fn replica_counts(&mut self) -> Result<String> {
        let mut replica = self.replica.connect()?;
        let mut count = |name: &str| -> Result<String> {
            let row: Option<(String, String)> = replica.query_first(format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
            Ok(row.map_or_else(|| "none".to_owned(), |(_, value)| value))
        };
        Ok(format!(
            "replica: {} retries, {} lock waits, {} deadlocks",
            count("Slave_retried_transactions")?,
            count("Perdura_lock_waits")?,
            count("Perdura_deadlocks")?
        ))
    }

    /// Shuts both down in the ordinary way, the replica first.
    pub fn stop(&mut self) -> Result<()> {
        self.replica.stop()?;
        self.primary.stop()
    }

    /// Keeps both directories for inspection, and returns their names and the ends of both error
    /// logs: the next test removes the directories.
    pub fn keep(&mut self) -> String {
        let mut text = format!("{} {}", self.primary.keep().display(), self.replica.keep().display());
        for (side, server) in [(Side::Primary, &self.primary), (Side::Replica, &self.replica)] {
            text += &format!("\nthe end of the {}'s error log:\n{}", side.name(), server.log_tail());
        }
        text
    }

    /// State of the replica and both engines, for the report of a failure.
    pub fn state(&mut self) -> String {
        let mut text = String::new();
        for (side, server) in [(Side::Primary, &self.primary), (Side::Replica, &self.replica)] {
            match server.connect().and_then(|mut connection| described(&mut connection, side)) {
                Ok(found) => text += &found,
                Err(error) => text += &format!("the {} does not answer: {error:#}\n", side.name()),
            }
        }
        text
    }
}

fn options(plan: &Plan, further: Vec<String>) -> Options {
    let perdura = plan.engine.eq_ignore_ascii_case("perdura");
    let mut extra = vec!["--binlog-format=ROW".to_owned(), "--sync-binlog=1".to_owned()];
    extra.push("--innodb-flush-log-at-trx-commit=1".to_owned());
    extra.push(format!("--innodb-lock-wait-timeout={LOCK_WAIT_SECONDS}"));
    if perdura {
        extra.push(format!("--perdura-lock-wait-timeout={LOCK_WAIT_SECONDS}"));
    }
    extra.extend(further);
    Options { perdura, extra, ..Options::default() }
}

fn create_tables(connection: &mut Conn, engine: &str) -> Result<()> {
    let keyed = |table: &str, columns: &str| format!("CREATE TABLE keyed_{table} ({columns}) ENGINE={engine}");
    client::execute(
        connection,
        &[
            keyed("few", "id INT PRIMARY KEY, v BIGINT, body VARCHAR(40), KEY (v), KEY (body DESC, v)"),
            keyed("queue", "client INT, id BIGINT, body VARCHAR(60), UNIQUE KEY (client, id), KEY (body(10))"),
            // Many rows with one key, and no key that is unique.
            keyed("doubles", "v INT, body CHAR(4), none INT, KEY (v), KEY (none, body)"),
            format!("INSERT INTO keyed_few SELECT seq, 0, '' FROM seq_0_to_{}", ROWS - 1),
            format!("CREATE TABLE few (id INT, v BIGINT, body VARCHAR(40)) ENGINE={engine}"),
            format!("CREATE TABLE queue (client INT, id BIGINT, body VARCHAR(60)) ENGINE={engine}"),
            // A third column, so that all rows sort alike.
            format!("CREATE TABLE doubles (v INT, body CHAR(4), none INT) ENGINE={engine}"),
            format!("INSERT INTO few SELECT seq, 0, '' FROM seq_0_to_{}", ROWS - 1),
            format!("CREATE TABLE parents (id INT PRIMARY KEY, v BIGINT, none INT) ENGINE={engine}"),
            format!(
                "CREATE TABLE children (client INT, id BIGINT, parent INT, PRIMARY KEY (client, id), \
                 FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE) ENGINE={engine}"
            ),
            format!(
                "CREATE TABLE leaves (client INT, child BIGINT, number BIGINT, \
                 FOREIGN KEY (client, child) REFERENCES children (client, id) ON DELETE SET NULL) ENGINE={engine}"
            ),
        ],
    )
}

/// Positions, threads and the engine's status of one server.
fn described(connection: &mut Conn, side: Side) -> Result<String> {
    let positions: Row = connection
        .query_first("SELECT @@gtid_binlog_pos, @@gtid_slave_pos, @@gtid_current_pos")?
        .context("no positions")?;
    let threads: Vec<Row> =
        connection.query("SELECT id, command, time_ms, state, info FROM information_schema.processlist ORDER BY id")?;
    let mut text = format!("the {}: {positions:?}\n", side.name());
    for row in threads {
        text += &format!("  {row:?}\n");
    }
    if side == Side::Replica {
        let status = slave_status(connection)?;
        for name in ["Slave_IO_Running", "Slave_SQL_Running", "Last_IO_Error", "Last_SQL_Error", "Gtid_IO_Pos"] {
            text += &format!("  {name}: {}\n", field(&status, name));
        }
    }
    Ok(text + &client::engine_status(connection)?.unwrap_or_default() + "\n")
}

fn slave_status(connection: &mut Conn) -> Result<Row> {
    connection.query_first("SHOW SLAVE STATUS")?.context("the replica follows nobody")
}

fn field(row: &Row, name: &str) -> String {
    row.get::<Option<String>, _>(name).flatten().unwrap_or_default()
}
