//! A table with a primary key for each system, and procedures that go through its keys one
//! statement at a time.
//!
//! The procedures reckon the keys by themselves, so that neither client nor random numbers count: a
//! linear congruential sequence that comes to every key once before it repeats, and jumps all over
//! the table meanwhile.

use anyhow::Result;
use mysql::Conn;

use super::systems::{Servers, System};
use crate::shared::client;

/// Rows of the table, with the keys from 0 on. Columns `id`, `a`, `text`; at first `a` is `id`.
pub const ROWS: u64 = 100_000;
/// Of full period for every count of rows that has no prime factors but 2 and 5.
const FACTOR: u64 = 78_341;
const STEP: u64 = 12_347;

/// Statements that run before each round's measurement: the session reads the procedure, and the
/// engine finds its way.
const WARM_UP: u64 = 1_000;

/// A procedure that runs `statement` for one key after the other.
pub struct Procedure {
    /// Its name; each system's own has the system's name behind it.
    pub name: &'static str,
    /// Statement that it runs for the key `k`. It may set `found`. `TABLE` stands for the name of
    /// the table.
    pub statement: &'static str,
    /// Expected value of `found` after the last statement, in terms of `k`.
    pub found: &'static str,
}

impl Procedure {
    /// Makes the table and the procedure of each system.
    pub fn prepare(&self, servers: &Servers, systems: &[System]) -> Result<()> {
        for &system in systems {
            let (table, procedure) = (table(system), self.of(system));
            let statements = [
                format!(
                    "CREATE TABLE {table} (id BIGINT NOT NULL PRIMARY KEY, a BIGINT NOT NULL, text VARCHAR(32) NOT NULL) ENGINE={}",
                    system.engine()
                ),
                format!("INSERT INTO {table} SELECT seq - 1, seq - 1, LPAD(seq, 16, 'x') FROM seq_1_to_{ROWS}"),
                self.text(&table, &procedure),
            ];
            client::execute(&mut servers.of(system).connect()?, &statements)?;
        }
        Ok(())
    }

    fn text(&self, table: &str, procedure: &str) -> String {
        let statement = self.statement.replace("TABLE", table);
        format!(
            "CREATE PROCEDURE {procedure}(IN many BIGINT)
BEGIN
  DECLARE i, k, found BIGINT DEFAULT 0;
  WHILE i < many DO
    SET k = (k * {FACTOR} + {STEP}) % {ROWS};
    {statement};
    SET i = i + 1;
  END WHILE;
  IF NOT found <=> {} THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the last key led to another row';
  END IF;
END",
            self.found
        )
    }

    fn of(&self, system: System) -> String {
        format!("{}_{}", self.name, system.name())
    }

    /// The statement that runs it for so many keys.
    pub fn call(&self, system: System, many: u64) -> String {
        format!("CALL {}({many})", self.of(system))
    }

    /// Opens a session and has it run a few statements. Returns it with their number.
    pub fn session(&self, servers: &Servers, system: System) -> Result<(Conn, u64)> {
        let mut connection = servers.of(system).connect()?;
        client::execute(&mut connection, &[self.call(system, WARM_UP)])?;
        Ok((connection, WARM_UP))
    }
}

/// The name of a system's table.
pub fn table(system: System) -> String {
    format!("keyed_{}", system.name())
}

#[cfg(test)]
mod tests {
    use super::{FACTOR, ROWS, STEP};

    /// A shorter sequence would stay within a part of the table, and find it in the processor's
    /// cache.
    #[test]
    fn the_keys_come_one_after_the_other_until_all_have_come() {
        let mut key = 0;
        let mut seen = vec![false; ROWS as usize];
        for _ in 0..ROWS {
            key = (key * FACTOR + STEP) % ROWS;
            assert!(!std::mem::replace(&mut seen[key as usize], true), "{key} comes twice");
        }
    }
}
