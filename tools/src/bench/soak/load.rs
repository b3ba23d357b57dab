//! The load: sessions that insert, update and delete rows of their own, each statement a
//! transaction.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, ensure};

use super::super::systems::System;
use crate::drive::server::Server;
use crate::shared::client;

/// Sessions that change rows.
pub const SESSIONS: u64 = 2;
/// Keys that each session has for itself.
const KEYS: u64 = 1 << 40;
/// Turns in one call of the procedure: some 10 ms.
const TURNS: u64 = 200;
/// Statements of a turn.
const STATEMENTS: u64 = 4;

/// `turns` times: a row is inserted behind the last, two are updated, one of them in the secondary
/// key, and one is deleted. Which ones, a random number says: the first row from there on. So the
/// table keeps its size, its old rows thin out, and leaves are joined while others are split.
const PROCEDURE: &str = "CREATE PROCEDURE soak_turns(IN low BIGINT, IN high BIGINT, IN turns BIGINT)
BEGIN
  DECLARE i, row BIGINT DEFAULT 0;
  WHILE i < turns DO
    INSERT INTO soak VALUES (high + i, FLOOR(RAND() * 1000000), LPAD(i, 64, 'x'));
    SET row = low + FLOOR(RAND() * (high + i - low));
    UPDATE soak SET k = FLOOR(RAND() * 1000000) WHERE id >= row ORDER BY id LIMIT 1;
    SET row = low + FLOOR(RAND() * (high + i - low));
    UPDATE soak SET text = LPAD(i, 64, 'y') WHERE id >= row ORDER BY id LIMIT 1;
    SET row = low + FLOOR(RAND() * (high + i - low));
    DELETE FROM soak WHERE id >= row ORDER BY id LIMIT 1;
    SET i = i + 1;
  END WHILE;
END";

/// Makes the table, with an equal part of `rows` rows for each session.
pub fn prepare(server: &Server, system: System, rows: u64) -> Result<()> {
    let mut connection = server.connect()?;
    let create = format!(
        "CREATE TABLE soak (id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, text VARCHAR(100) NOT NULL, KEY (k)) ENGINE={}",
        system.engine()
    );
    client::execute(&mut connection, &[create.as_str(), PROCEDURE])?;
    for session in 0..SESSIONS {
        let (low, last) = (session * KEYS, rows / SESSIONS - 1);
        let fill = format!(
            "INSERT INTO soak SELECT {low} + seq, FLOOR(RAND() * 1000000), LPAD(seq, 64, 'x') FROM seq_0_to_{last}"
        );
        client::execute(&mut connection, &[fill])?;
    }
    Ok(())
}

/// After the load the table has as many rows as before, in both indexes.
pub fn check(server: &Server, system: System, rows: u64) -> Result<()> {
    let mut connection = server.connect()?;
    for (index, condition) in [("PRIMARY", "id >= 0"), ("k", "k >= 0")] {
        let count = format!("SELECT COUNT(*) FROM soak FORCE INDEX ({index}) WHERE {condition}");
        let found: u64 = client::value(&mut connection, &count)?;
        ensure!(found == rows, "{}: {found} rows by index {index} after the load, not {rows}", system.name());
    }
    Ok(())
}

/// State that the sessions share.
pub struct Load {
    operations: AtomicU64,
    stopped: AtomicBool,
}

/// Ends the load.
pub struct Stop<'load>(&'load Load);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }
}

impl Load {
    /// A load that goes on until it is stopped.
    pub fn new() -> Self {
        Self { operations: AtomicU64::new(0), stopped: AtomicBool::new(false) }
    }

    /// Stops the load when what this returns is dropped.
    pub fn stop_on_drop(&self) -> Stop<'_> {
        Stop(self)
    }

    /// Statements that have ended so far.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// One session. If it fails it stops the others.
    pub fn run(&self, server: &Server, session: u64, rows: u64) -> Result<()> {
        let _stop = self.stop_on_drop();
        let mut connection = server.connect()?;
        let low = session * KEYS;
        let mut high = low + rows / SESSIONS;
        while !self.stopped.load(Ordering::Relaxed) {
            client::execute(&mut connection, &[format!("CALL soak_turns({low}, {high}, {TURNS})")])?;
            high += TURNS;
            self.operations.fetch_add(TURNS * STATEMENTS, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether a session has failed.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
