//! The clients: point updates of a few rows, inserts, deletes, transactions that meet in opposite
//! orders; rows that are equal in all columns.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use mysql::Conn;
use mysql::prelude::Queryable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::pair::{Pair, Side};
use super::plan::ROWS;
use crate::shared::client;
use crate::shared::trouble::Trouble;

/// Distinct contents in the table of duplicate rows.
const DOUBLES: u32 = 5;
/// Distinct keys of the rows that others refer to.
const PARENTS: u32 = 12;
/// Errors of foreign keys and of keys that are taken: the client goes on.
const BROKEN_KEYS: [u16; 4] = [1451, 1452, 1062, 1761];
/// One client, which lives through all rounds.
pub struct Client {
    number: usize,
    random: StdRng,
    next_id: u64,
    /// Transactions acknowledged.
    pub transactions: u64,
    /// Transactions refused for conflicts.
    pub refusals: u64,
}

type Step = Result<(), Trouble>;

/// Lets all clients work for `time`, then kills one side at once, or ends the load.
pub fn run(pair: &mut Pair, clients: &mut [Client], time: Duration, kill: Option<Side>) -> Result<()> {
    let (done, primary_dies) = (AtomicBool::new(false), kill == Some(Side::Primary));
    let socket = pair.primary_socket();
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                let (socket, done) = (&socket, &done);
                scope.spawn(move || client.run(socket, done, primary_dies))
            })
            .collect();
        std::thread::sleep(time);
        // A replica dies while the load goes on. When the primary dies, its clients lose their
        // connections.
        if let Some(side) = kill {
            if primary_dies {
                done.store(true, Ordering::SeqCst);
            }
            pair.kill(side)?;
        }
        done.store(true, Ordering::SeqCst);
        for thread in threads {
            thread.join().expect("a client does not panic")?;
        }
        Ok(())
    })
}

impl Client {
    /// Client `number`, whose choices follow from `seed`.
    pub fn new(number: usize, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { number, random, next_id: 0, transactions: 0, refusals: 0 }
    }

    /// Works until `done` is set. With `dies` it works until the connection is lost, which may
    /// happen only after `done` is set.
    fn run(&mut self, socket: &Path, done: &AtomicBool, dies: bool) -> Result<()> {
        let mut connection = client::connect(socket)?;
        while dies || !done.load(Ordering::SeqCst) {
            match self.one(&mut connection) {
                Ok(()) => self.transactions += 1,
                Err(Trouble::Refused) => self.refusals += 1,
                Err(Trouble::Gone(_)) if dies && done.load(Ordering::SeqCst) => return Ok(()),
                Err(Trouble::Gone(error)) => {
                    bail!("client {}: lost its connection although nobody killed a server: {error}", self.number)
                }
                Err(Trouble::Unexpected(error)) => bail!("client {}: {error}", self.number),
            }
        }
        Ok(())
    }

    fn one(&mut self, connection: &mut Conn) -> Step {
        if self.random.random_bool(0.7) {
            let statement = self.statement();
            return send(connection, &statement);
        }
        send(connection, "BEGIN")?;
        for _ in 0..self.random.random_range(2..=5) {
            let statement = self.statement();
            if let Err(trouble) = send(connection, &statement) {
                if matches!(trouble, Trouble::Refused) {
                    send(connection, "ROLLBACK")?;
                }
                return Err(trouble);
            }
        }
        send(connection, if self.random.random_bool(0.1) { "ROLLBACK" } else { "COMMIT" })
    }

    fn statement(&mut self) -> String {
        if self.random.random_bool(0.2) {
            return self.related_statement();
        }
        // Half of the time on the tables with keys.
        let statement = self.plain_statement();
        if self.random.random_bool(0.5) { statement } else { with_keys(&statement) }
    }

    /// A statement on the tables with foreign keys. Some rows come without a check, and refer to
    /// none.
    fn related_statement(&mut self) -> String {
        let (number, random) = (self.number, &mut self.random);
        let (parent, other) = (random.random_range(0..PARENTS), random.random_range(0..PARENTS));
        let kind = random.random_range(0..100);
        self.next_id += 1;
        let id = self.next_id;
        match kind {
            0..35 => format!("INSERT INTO children VALUES ({number}, {id}, {parent})"),
            35..40 => {
                let insert = format!("INSERT INTO children VALUES ({number}, {id}, {})", parent + 2 * PARENTS);
                format!("SET STATEMENT foreign_key_checks = 0 FOR {insert}")
            }
            40..50 => {
                format!("INSERT INTO leaves SELECT client, id, {id} FROM children WHERE parent = {parent} LIMIT 2")
            }
            50..70 => format!("INSERT INTO parents VALUES ({parent}, {id}, NULL)"),
            70..85 => format!("DELETE FROM parents WHERE id = {parent}"),
            85..95 => format!("UPDATE parents SET id = {other} WHERE id = {parent}"),
            _ => format!("DELETE FROM children WHERE parent = {parent} LIMIT 3"),
        }
    }

    fn plain_statement(&mut self) -> String {
        let random = &mut self.random;
        let (number, double) = (self.number, random.random_range(0..DOUBLES));
        match random.random_range(0..100) {
            0..65 => format!("UPDATE few SET v = v + 1 WHERE id = {}", random.random_range(0..ROWS)),
            65..70 => {
                let first = random.random_range(0..ROWS);
                format!(
                    "UPDATE few SET v = v + 100, body = REPEAT('{number}', v % 30) WHERE id IN ({first}, {})",
                    (first + 7) % ROWS
                )
            }
            70..80 => {
                self.next_id += 1;
                format!(
                    "INSERT INTO queue VALUES ({number}, {}, REPEAT('q', {}))",
                    self.next_id,
                    random.random_range(0..50)
                )
            }
            // A row of any client, even one that is just inserting it.
            80..86 => format!("DELETE FROM queue WHERE client = {} LIMIT 3", random.random_range(0..super::CLIENTS)),
            86..91 => format!("INSERT INTO doubles VALUES ({double}, 'same', NULL)"),
            91..96 => format!("DELETE FROM doubles WHERE v = {double} LIMIT 1"),
            _ => format!("UPDATE doubles SET v = {} WHERE v = {double} LIMIT 1", (double + 1) % DOUBLES),
        }
    }
}

fn send(connection: &mut Conn, statement: &str) -> Step {
    connection.query_drop(statement).map_err(|error| match &error {
        mysql::Error::MySqlError(server) if BROKEN_KEYS.contains(&server.code) => Trouble::Refused,
        _ => Trouble::from(error),
    })
}

/// The same statement on the table with keys.
fn with_keys(statement: &str) -> String {
    let keyed = |text: String, table: &str| text.replace(&format!(" {table} "), &format!(" keyed_{table} "));
    super::plan::TABLES.iter().fold(statement.to_owned(), |text, table| keyed(text, table))
}
