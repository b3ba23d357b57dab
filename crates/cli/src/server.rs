//! A session of the running server for a backup: where its pool is, its backup lock, and the hold
//! on the pool.

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row, Value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Attempts to take the locks; between them the server runs undisturbed for a pause.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);
/// Seconds that each backup stage waits for its lock.
const LOCK_WAIT_S: u32 = 60;
/// The server's number for a lock wait that timed out.
const ER_LOCK_WAIT_TIMEOUT: u16 = 1205;

/// The session to open.
pub struct Account {
    /// The server's Unix socket.
    pub socket: PathBuf,
    /// Name of the account.
    pub user: String,
    /// File whose first line is the password.
    pub password_file: Option<PathBuf>,
}

/// An open session.
pub struct Server {
    connection: Conn,
    held_since: Option<Instant>,
}

/// The server's state at the moment the pool was held.
pub struct Held {
    /// The pool's directory, as the server sees it.
    pub pool: PathBuf,
    /// The directory of its log, if that is another.
    pub log: Option<PathBuf>,
    /// Lines of `backup.info` about the server, in order.
    pub facts: Vec<(String, String)>,
}

fn said(doing: &str, error: &mysql::Error) -> String {
    match error {
        mysql::Error::DriverError(error) => {
            format!("{doing}: {error}; make sure that the server runs and that this is its socket")
        }
        error => format!("{doing}: the server says: {error}"),
    }
}

impl Server {
    /// Opens the session.
    pub fn connect(account: &Account) -> Result<Server, String> {
        let password = match &account.password_file {
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
                text.lines().next().map(str::to_owned)
            }
            None => std::env::var("MYSQL_PWD").ok(),
        };
        let options = OptsBuilder::new()
            .socket(Some(account.socket.to_string_lossy()))
            .user(Some(&account.user))
            .pass(password)
            // A session over the network might reach another server, with another pool.
            .prefer_socket(false);
        let doing = || format!("opening a session at {} as {}", account.socket.display(), account.user);
        let connection = Conn::new(options).map_err(|error| said(&doing(), &error))?;
        Ok(Server { connection, held_since: None })
    }

    fn run(&mut self, statement: &str) -> Result<(), mysql::Error> {
        self.connection.query_drop(statement)
    }

    /// Takes the backup lock and holds the pool. Waits until no statement writes to it.
    pub fn hold(&mut self) -> Result<Held, String> {
        let known: Option<Row> = self
            .connection
            .query_first("SHOW GLOBAL VARIABLES LIKE 'perdura_hold'")
            .map_err(|error| said("asking for the engine", &error))?;
        if known.is_none() {
            return Err("the server has no Perdura engine, or one too old for `perdura backup`".to_owned());
        }
        let mut attempt = 1;
        loop {
            match self.try_hold() {
                Ok(held) => return Ok(held),
                Err(mysql::Error::MySqlError(error)) if error.code == ER_LOCK_WAIT_TIMEOUT && attempt < ATTEMPTS => {
                    // The server refuses it if no stage had begun, which does no harm.
                    let _ = self.run("BACKUP STAGE END");
                    eprintln!("perdura: {error}; attempt {attempt} of {ATTEMPTS}");
                    std::thread::sleep(PAUSE);
                    attempt += 1;
                }
                Err(error) => return Err(said("holding the pool", &error)),
            }
        }
    }

    fn try_hold(&mut self) -> Result<Held, mysql::Error> {
        self.run(&format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_S}"))?;
        for stage in ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"] {
            self.run(&format!("BACKUP STAGE {stage}"))?;
        }
        // Read before the hold, so that no session waiting for the pool can block the query.
        let facts = self.facts()?;
        let query = "SELECT @@global.perdura_dir, @@global.perdura_log_dir, @@global.datadir";
        let (directory, log, data): (String, Option<String>, String) =
            self.connection.query_first(query)?.unwrap_or_default();
        let log = log.filter(|log| !log.is_empty() && *log != directory);
        #[allow(clippy::disallowed_methods, reason = "the command tells how long the hold took; nothing replays it")]
        let now = Instant::now();
        self.held_since = Some(now);
        self.run("SET GLOBAL perdura_hold = ON")?;
        let at = |directory: String| Path::new(&data).join(directory);
        Ok(Held { pool: at(directory), log: log.map(at), facts })
    }

    /// Version, time, and position in the binary log.
    fn facts(&mut self) -> Result<Vec<(String, String)>, mysql::Error> {
        let columns = "VERSION(), DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%SZ'), @@global.gtid_binlog_pos, \
                       @@global.gtid_slave_pos, @@global.server_id";
        let names = ["server", "time", "gtid_binlog_pos", "gtid_slave_pos", "server_id"];
        let row: Option<Row> = self.connection.query_first(format!("SELECT {columns}"))?;
        let values = row.map(Row::unwrap).unwrap_or_default();
        let mut facts: Vec<_> =
            names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), text(value))).collect();
        let status: Option<Row> = self.connection.query_first("SHOW MASTER STATUS")?;
        let position = status.map(Row::unwrap).unwrap_or_default().into_iter().map(text);
        facts.extend(["binlog_file", "binlog_position"].map(str::to_owned).into_iter().zip(position));
        Ok(facts)
    }

    /// Releases hold and lock; returns how long the pool was held. After an error it may not have
    /// been held all the time.
    pub fn release(&mut self) -> Result<Duration, String> {
        let released = self.run("SET GLOBAL perdura_hold = OFF").and_then(|()| self.run("BACKUP STAGE END"));
        released.map_err(|error| said("the pool may have been changed while it was copied", &error))?;
        Ok(self.held_since.take().map(|since| since.elapsed()).unwrap_or_default())
    }
}

fn text(value: Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::NULL => String::new(),
        other => other.as_sql(true),
    }
}
