//! One of the two servers and all its sessions.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;
use mysql::{Conn, Value};

use super::column::VIRTUAL;
use super::outcome::{Outcome, Rows};
use super::step::{Kind, OBSERVER, Step};
use crate::drive::server::{Options, Place, Server};

/// Initial time of every session's clock: neither server may see the time of day.
const FIRST_SECOND: u32 = 1_700_000_000;

/// A server and its connections.
pub struct Side {
    /// Its default engine.
    pub engine: &'static str,
    server: Server,
    sessions: Vec<Conn>,
    /// Keeps InnoDB's purge stopped.
    purge_stop: Option<Conn>,
}

impl Side {
    /// Starts a server whose default engine is `engine`, on the media that `place` names.
    pub fn start(engine: &'static str, place: Place) -> Result<Self> {
        let perdura = engine == "Perdura";
        let own: &[&str] = if perdura {
            &[
                "--perdura-lock-wait-timeout=0",
                "--perdura-snapshot-isolation=ON",
                "--perdura-data-file-size=4194304",
                "--innodb-buffer-pool-size=16M",
            ]
        } else {
            &["--innodb-lock-wait-timeout=0", "--innodb-snapshot-isolation=ON", "--innodb-buffer-pool-size=256M"]
        };
        let common = [
            // DDL may have to wait for the short metadata locks of InnoDB's purge thread.
            "--lock-wait-timeout=1",
            "--alter-algorithm=COPY",
            "--innodb-stats-persistent=OFF",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-log-file-size=64M",
            "--table-open-cache=400",
        ];
        let mut extra: Vec<String> = own.iter().chain(&common).map(|&option| option.to_owned()).collect();
        extra.push(format!("--default-storage-engine={engine}"));
        let server = Server::start_new(Options { perdura, extra, place: Some(place), ..Options::default() })?;
        let mut side = Self { engine, server, sessions: Vec::new(), purge_stop: None };
        side.connect()?;
        Ok(side)
    }

    /// Reopens all sessions.
    fn connect(&mut self) -> Result<()> {
        self.disconnect();
        for number in 0..=OBSERVER {
            let mut session = self.server.connect()?;
            let level = if number == OBSERVER { "READ COMMITTED" } else { "REPEATABLE READ" };
            session.query_drop(format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"))?;
            session.query_drop(format!("SET timestamp = {FIRST_SECOND}, time_zone = '+00:00'"))?;
            self.sessions.push(session);
        }
        if self.engine == "InnoDB" {
            self.stop_purge()?;
        }
        Ok(())
    }

    /// Stops InnoDB's purge: which deleted rows it has removed decides what a statement locks, so
    /// the same seed would not lead to the same stream.
    fn stop_purge(&mut self) -> Result<()> {
        let mut session = self.server.connect()?;
        session.query_drop("CREATE DATABASE IF NOT EXISTS purge_stop")?;
        session.query_drop("CREATE TABLE IF NOT EXISTS purge_stop.held (id INT) ENGINE=InnoDB")?;
        session.query_drop("FLUSH TABLES purge_stop.held FOR EXPORT")?;
        self.purge_stop = Some(session);
        Ok(())
    }

    /// Closes all sessions.
    fn disconnect(&mut self) {
        self.sessions.clear();
        self.purge_stop = None;
    }

    /// Drops all tables, views and routines, and reopens all sessions.
    pub fn reset(&mut self) -> Result<()> {
        // A prepared transaction would keep its tables locked.
        let mut session = self.server.connect()?;
        self.disconnect();
        let prepared: Vec<(u64, u64, u64, String)> = session.query("XA RECOVER")?;
        for (.., name) in prepared {
            session.query_drop(format!("XA ROLLBACK '{name}'"))?;
        }
        session.query_drop("SET SESSION lock_wait_timeout = 30")?;
        session.query_drop("DROP DATABASE test")?;
        session.query_drop("CREATE DATABASE test")?;
        self.connect()
    }

    /// Restarts the server, in the thread that started it.
    pub fn restart(&mut self, kill: bool) -> Result<()> {
        if kill {
            self.server.kill()?;
            self.disconnect();
        } else {
            self.disconnect();
            self.server.stop()?;
        }
        self.server.start().with_context(|| format!("{} does not come back (kill: {kill})", self.engine))?;
        self.connect()?;
        self.wait_for_rollback()
    }

    /// Waits until InnoDB has rolled back, behind its sessions, what a killed server left open:
    /// until then the rows stay locked.
    fn wait_for_rollback(&mut self) -> Result<()> {
        const WITHIN: Duration = Duration::from_secs(60);
        const OPEN: &str = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = 0";
        let begun = Instant::now();
        let session = &mut self.sessions[OBSERVER];
        let prepared = session.query_iter("XA RECOVER")?.count() as u64;
        while session.query_first::<u64, _>(OPEN)?.unwrap_or(0) > prepared {
            ensure!(begun.elapsed() < WITHIN, "{} does not roll back what a killed server left open", self.engine);
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Sends a statement and reads the whole answer.
    pub fn execute(&mut self, step: &Step) -> Outcome {
        debug_assert!(!matches!(step.kind, Kind::Restart { .. }), "a restart is no statement");
        let dir = self.dir();
        let written = step.file.as_ref().map(|(name, content)| std::fs::write(dir.join(name), content));
        if let Some(Err(error)) = written {
            return Outcome::Gone(format!("cannot write a file to load: {error}"));
        }
        let computed = if self.engine == "Perdura" { "VIRTUAL" } else { "STORED" };
        let text = step.text.replace("{DIR}", &dir.display().to_string()).replace(VIRTUAL, computed);
        match run(&mut self.sessions[step.session], &text) {
            Ok(outcome) => outcome,
            Err(mysql::Error::MySqlError(error)) => Outcome::Refused { code: error.code, message: error.message },
            Err(error) => Outcome::Gone(format!("{error}\n{}", self.server.log_tail())),
        }
    }

    /// InnoDB's open transactions, and what each session does, as text.
    pub fn open_transactions(&mut self) -> Vec<String> {
        const OPEN: &str = "SELECT CONCAT_WS(' ', 'thread', trx_mysql_thread_id, trx_state, trx_started, trx_query, 'locks', trx_lock_structs, \
                            'rows', trx_rows_locked, 'changes', trx_rows_modified) FROM information_schema.innodb_trx";
        const SESSIONS: &str =
            "SELECT CONCAT_WS(' ', 'session', id, command, time_ms, state, info) FROM information_schema.processlist";
        let session = &mut self.sessions[OBSERVER];
        [OPEN, SESSIONS]
            .into_iter()
            .flat_map(|text| session.query::<String, _>(text).unwrap_or_else(|error| vec![error.to_string()]))
            .collect()
    }

    /// The server's directory.
    fn dir(&self) -> PathBuf {
        self.server.socket().parent().expect("the socket lies in the server's directory").to_owned()
    }

    /// Keeps the server's directory at the end and returns its path.
    pub fn keep(&mut self) -> PathBuf {
        self.server.keep().to_owned()
    }
}

fn run(session: &mut Conn, text: &str) -> mysql::Result<Outcome> {
    let mut result = session.query_iter(text)?;
    let (mut sets, mut affected) = (Vec::new(), 0);
    let (mut warnings, mut info) = (0_u16, String::new());
    while let Some(set) = result.iter() {
        let has_columns = !set.columns().as_ref().is_empty();
        affected += set.affected_rows();
        warnings = warnings.saturating_add(set.warnings());
        info += &set.info_str();
        let mut rows: Rows = Vec::new();
        for row in set {
            rows.push(row?.unwrap().into_iter().map(bytes).collect());
        }
        if has_columns {
            sets.push(rows);
        }
    }
    Ok(Outcome::Done { sets, affected, warnings, info })
}

/// A value of the text protocol, which is text or NULL.
fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(bytes),
        other => Some(other.as_sql(false).into_bytes()),
    }
}
