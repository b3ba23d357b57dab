//! One client: random transactions and DDL until the server is killed, keeping the oracle's books.
//!
//! Invariant: `state` holds exactly what was acknowledged. Before the client sends anything that
//! may commit, `in_flight` names the changes. Only the answer clears it and advances `state`. An
//! error as the answer means "not done".

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use mysql::Conn;
use mysql::prelude::Queryable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::contest::{Version, Write};
use super::model::{ACCOUNTS, Change, InFlight, Place, Row, State, Transfer, body, contested};
use super::sequences::Values;
use crate::shared::client;
use crate::shared::trouble::Trouble;

/// With more rows than this in a place, the client deletes instead of inserting.
const ROWS_MAX: usize = 150;
/// With more tables than this, the client drops instead of creating.
const TABLES_MAX: usize = 4;
/// Number of contested rows: few, so that clients meet.
const SLOTS: u64 = 48;

/// A row's key is there already.
const DUPLICATE: u16 = 1062;

type Step<T = ()> = Result<T, Trouble>;

/// Counts of what was acknowledged.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Transactions.
    pub transactions: u64,
    /// DDL statements.
    pub definitions: u64,
    /// Refusals by lock conflicts.
    pub refusals: u64,
}

/// A client and its books, which live through all rounds.
pub struct Worker {
    /// The client's number.
    pub number: usize,
    /// The acknowledged state.
    pub state: State,
    /// Work that the crash left open.
    pub in_flight: InFlight,
    /// Its acknowledged changes of contested rows since the last crash.
    pub contested: Vec<Write>,
    /// The versions of contested rows it has read since then.
    pub seen: BTreeSet<Version>,
    /// The values of AUTO_INCREMENT that it got, of transactions rolled back too.
    pub numbers: Vec<u64>,
    /// The values of sequences that it got.
    pub values: Values,
    /// Totals.
    pub counts: Counts,
    engine: String,
    random: StdRng,
    next_id: u64,
    xa: bool,
}

impl Worker {
    /// Client `number`, whose choices follow from `seed`.
    pub fn new(number: usize, seed: u64, engine: &str) -> Self {
        let random = StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(number as u64));
        let (state, in_flight, counts) = (State::default(), InFlight::Nothing, Counts::default());
        let (contested, seen) = (Vec::new(), BTreeSet::new());
        Self {
            number,
            state,
            in_flight,
            contested,
            seen,
            numbers: Vec::new(),
            values: Values::default(),
            counts,
            engine: engine.to_owned(),
            random,
            next_id: 1,
            xa: true,
        }
    }

    /// Whether the own table of client `number` has keys.
    pub fn has_keys(number: usize) -> bool {
        number % 2 == 1
    }

    /// Enters acknowledged changes in the books.
    pub fn apply(&mut self, changes: &[Change]) {
        self.state.apply(changes);
        self.contested.extend(contested(changes));
    }

    /// Works until the connection is lost. Fails if that happens before `killed` is set, or on an
    /// unexpected error.
    pub fn run(&mut self, socket: &Path, killed: &AtomicBool, xa: bool) -> Result<()> {
        self.xa = xa;
        let trouble = match client::connect(socket) {
            Ok(mut connection) => loop {
                match self.one(&mut connection) {
                    Ok(()) => {}
                    Err(Trouble::Refused) => self.counts.refusals += 1,
                    Err(trouble) => break trouble,
                }
            },
            Err(error) => Trouble::Gone(error),
        };
        match trouble {
            Trouble::Gone(_) if killed.load(Ordering::SeqCst) => Ok(()),
            Trouble::Gone(error) => {
                bail!("client {}: lost its connection although nobody killed the server: {error}", self.number)
            }
            Trouble::Unexpected(error) => bail!("client {}: {error}", self.number),
            Trouble::Refused => Ok(()),
        }
    }

    fn one(&mut self, connection: &mut Conn) -> Step {
        match self.random.random_range(0..100) {
            0..6 => self.define(connection),
            6..26 => self.single(connection),
            26..30 if self.xa => self.two_phase(connection),
            30..36 => self.look(connection),
            36..44 => self.values.next(&mut self.random, connection),
            _ => self.transaction(connection),
        }
    }

    fn send(connection: &mut Conn, statement: &str) -> Step {
        connection.query_drop(statement).map_err(Trouble::from)
    }

    /// Reads all contested rows. What it sees is committed and must survive.
    fn look(&mut self, connection: &mut Conn) -> Step {
        let rows: Vec<(u64, u64, u64)> = connection.query("SELECT id, version, writer FROM contested")?;
        self.seen.extend(rows.into_iter().map(|(id, number, writer)| Version { id, number, writer }));
        Ok(())
    }

    /// Changes or deletes a contested row, or inserts it if it is missing.
    fn contend(&mut self, connection: &mut Conn, writer: u64, changes: &mut Vec<Change>) -> Step {
        let slot = self.random.random_range(0..SLOTS);
        let query = format!("SELECT id, version FROM contested WHERE slot = {slot} FOR UPDATE");
        let rows: Vec<(u64, u64)> = connection.query(query)?;
        let (statement, write) = match rows.first() {
            None => {
                let id = ((self.number as u64) << 40) | self.new_id();
                let text = body(0, id, Row { v: writer as i64, n: 0 });
                let statement = format!("INSERT INTO contested VALUES ({slot}, {id}, 0, {writer}, '{text}')");
                (statement, Write::Put(Version { id, number: 0, writer }))
            }
            Some(&(id, number)) => {
                let version = Version { id, number: number + 1, writer };
                if self.random.random_bool(0.2) {
                    (format!("DELETE FROM contested WHERE id = {id}"), Write::Delete(version))
                } else {
                    let text = body(0, id, Row { v: writer as i64, n: 0 });
                    let set = format!("version = version + 1, writer = {writer}, body = '{text}'");
                    (format!("UPDATE contested SET {set} WHERE id = {id}"), Write::Put(version))
                }
            }
        };
        match Self::send(connection, &statement) {
            // Another client has filled the slot since.
            Err(Trouble::Unexpected(mysql::Error::MySqlError(error))) if error.code == DUPLICATE => {
                return Err(Trouble::Refused);
            }
            sent => sent?,
        }
        changes.push(Change::Contest(write));
        Ok(())
    }

    /// Inserts a row that gets its number from the server.
    fn number(&mut self, connection: &mut Conn, changes: &mut Vec<Change>) -> Step {
        let tag = self.new_id();
        Self::send(connection, &format!("INSERT INTO numbers (client, tag) VALUES ({}, {tag})", self.number))?;
        let number = connection.last_insert_id();
        self.numbers.push(number);
        changes.push(Change::Number(number, tag));
        Ok(())
    }

    /// Inserts a row whose key is there: with others in one statement, of which none may stay.
    fn duplicate(&mut self, connection: &mut Conn, view: &State) -> Step {
        let place =
            if Self::has_keys(self.number) && self.random.random_bool(0.7) { Place::Own } else { Place::Shared };
        let Some(id) = self.pick(view.rows(place).keys()) else { return Ok(()) };
        let (table, fresh) = (self.table(place), self.new_id());
        let statement =
            format!("INSERT INTO {table} VALUES ({0}, {fresh}, 1, 0, 'x'), ({0}, {id}, 1, 0, 'y')", self.number);
        match connection.query_drop(statement) {
            Err(mysql::Error::MySqlError(error)) if error.code == DUPLICATE => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) => Err(Trouble::Unexpected(mysql::Error::from(std::io::Error::other(format!(
                "{table} took a second row {id}"
            ))))),
        }
    }

    /// Sends what may commit `changes`, and books them by the answer.
    fn send_commit(&mut self, connection: &mut Conn, statement: &str, changes: Vec<Change>) -> Step {
        self.in_flight = InFlight::Commit(changes);
        let sent = Self::send(connection, statement);
        if let Err(Trouble::Gone(_)) = sent {
            return sent;
        }
        if let (Ok(()), InFlight::Commit(changes)) = (&sent, std::mem::take(&mut self.in_flight)) {
            self.apply(&changes);
        }
        sent
    }

    /// One statement in autocommit mode.
    fn single(&mut self, connection: &mut Conn) -> Step {
        let mut changes = Vec::new();
        let state = self.state.clone();
        let Some(statement) = self.row_statement(&state, &mut changes) else { return Ok(()) };
        self.send_commit(connection, &statement, changes)?;
        self.counts.transactions += 1;
        Ok(())
    }

    fn transaction(&mut self, connection: &mut Conn) -> Step {
        if self.random.random_bool(0.5) {
            Self::send(connection, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")?;
        }
        Self::send(connection, "BEGIN")?;
        let changes = match self.body(connection, true) {
            Ok(changes) => changes,
            Err(Trouble::Refused) => {
                Self::send(connection, "ROLLBACK")?;
                return Err(Trouble::Refused);
            }
            Err(trouble) => return Err(trouble),
        };
        if self.random.random_bool(0.2) {
            return Self::send(connection, "ROLLBACK");
        }
        self.send_commit(connection, "COMMIT", changes)?;
        self.counts.transactions += 1;
        Ok(())
    }

    /// Sends the statements of a transaction. Returns what they change.
    fn body(&mut self, connection: &mut Conn, savepoints: bool) -> Step<Vec<Change>> {
        let mut changes = Vec::new();
        let mut view = self.state.clone();
        let mut savepoint = None;
        let writer = ((self.number as u64) << 40) | self.new_id();
        for _ in 0..self.random.random_range(1..=6) {
            match self.random.random_range(0..18) {
                14 => self.number(connection, &mut changes)?,
                17 => self.values.next(&mut self.random, connection)?,
                15.. => self.duplicate(connection, &view)?,
                0 => self.transfer(connection, &mut changes)?,
                10..14 => self.contend(connection, writer, &mut changes)?,
                1 if savepoints => {
                    Self::send(connection, "SAVEPOINT here")?;
                    savepoint = Some(changes.len());
                }
                2 if savepoint.is_some() => {
                    Self::send(connection, "ROLLBACK TO SAVEPOINT here")?;
                    changes.truncate(savepoint.unwrap_or_default());
                    view = self.state.with(&changes);
                }
                _ => {
                    let before = changes.len();
                    if let Some(statement) = self.row_statement(&view, &mut changes) {
                        Self::send(connection, &statement)?;
                    }
                    view.apply(&changes[before..]);
                }
            }
        }
        Ok(changes)
    }

    fn two_phase(&mut self, connection: &mut Conn) -> Step {
        let id = self.new_id();
        let name = format!("x{}.{id}", self.number);
        Self::send(connection, &format!("XA START '{name}'"))?;
        let changes = match self.body(connection, true) {
            Ok(changes) => changes,
            Err(Trouble::Refused) => {
                // A doomed XA transaction may refuse END; ROLLBACK is accepted all the same.
                match Self::send(connection, &format!("XA END '{name}'")) {
                    Err(Trouble::Gone(error)) => return Err(Trouble::Gone(error)),
                    Ok(()) | Err(_) => Self::send(connection, &format!("XA ROLLBACK '{name}'"))?,
                }
                return Err(Trouble::Refused);
            }
            Err(trouble) => return Err(trouble),
        };
        Self::send(connection, &format!("XA END '{name}'"))?;
        let open = |must_be_prepared, may_be_committed| InFlight::Xa {
            name: name.clone(),
            changes: changes.clone(),
            must_be_prepared,
            may_be_committed,
        };
        self.in_flight = open(false, false);
        Self::send(connection, &format!("XA PREPARE '{name}'"))?;
        self.in_flight = open(true, false);
        if self.random.random_bool(0.3) {
            std::thread::sleep(std::time::Duration::from_millis(self.random.random_range(0..100)));
        }
        let commits = self.random.random_bool(0.7);
        self.in_flight = open(false, commits);
        Self::send(connection, &format!("XA {} '{name}'", if commits { "COMMIT" } else { "ROLLBACK" }))?;
        self.in_flight = InFlight::Nothing;
        if commits {
            self.apply(&changes);
            self.counts.transactions += 1;
        }
        Ok(())
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn table(&self, place: Place) -> String {
        match place {
            Place::Own => format!("own_{}", self.number),
            Place::Shared => "shared".to_owned(),
        }
    }

    /// A random INSERT, UPDATE or DELETE on the rows of `view`; `None` when there is nothing to
    /// change.
    fn row_statement(&mut self, view: &State, changes: &mut Vec<Change>) -> Option<String> {
        let place = if self.random.random_bool(0.75) { Place::Own } else { Place::Shared };
        let rows = view.rows(place);
        let table = self.table(place);
        let crowded = rows.len() > ROWS_MAX;
        match self.random.random_range(0..10) {
            0..5 if !crowded => Some(self.insert(place, &table, changes)),
            5..7 => {
                let id = self.pick(rows.keys())?;
                let row = Row { v: self.random.random_range(0..1_000_000), n: rows[&id].n };
                changes.push(Change::Put(place, id, row));
                let body = body(self.number, id, row);
                Some(format!(
                    "UPDATE {table} SET v = {}, body = '{body}' WHERE id = {id} AND client = {}",
                    row.v, self.number
                ))
            }
            7 => {
                let (from, to) = self.range(rows.keys())?;
                let grown =
                    rows.range(from..=to).map(|(id, row)| Change::Put(place, *id, Row { n: row.n + 1, ..*row }));
                changes.extend(grown);
                Some(format!(
                    "UPDATE {table} SET n = n + 1 WHERE id BETWEEN {from} AND {to} AND client = {}",
                    self.number
                ))
            }
            _ => {
                let (from, to) = self.range(rows.keys())?;
                changes.extend(rows.range(from..=to).map(|(id, _)| Change::Remove(place, *id)));
                Some(format!("DELETE FROM {table} WHERE id BETWEEN {from} AND {to} AND client = {}", self.number))
            }
        }
    }

    fn insert(&mut self, place: Place, table: &str, changes: &mut Vec<Change>) -> String {
        let values: Vec<String> = (0..self.random.random_range(1..=12))
            .map(|_| {
                let (id, row) = (self.new_id(), Row { v: self.random.random_range(0..1_000_000), n: 0 });
                changes.push(Change::Put(place, id, row));
                format!("({}, {id}, {}, 0, '{}')", self.number, row.v, body(self.number, id, row))
            })
            .collect();
        format!("INSERT INTO {table} VALUES {}", values.join(", "))
    }

    /// Moves money and enters it in the ledger.
    fn transfer(&mut self, connection: &mut Conn, changes: &mut Vec<Change>) -> Step {
        let (from, step) = (self.random.random_range(0..ACCOUNTS), self.random.random_range(1..ACCOUNTS));
        let (to, amount, id) = ((from + step) % ACCOUNTS, self.random.random_range(1..100), self.new_id());
        Self::send(connection, &format!("UPDATE accounts SET amount = amount - {amount} WHERE id = {from}"))?;
        Self::send(connection, &format!("UPDATE accounts SET amount = amount + {amount} WHERE id = {to}"))?;
        Self::send(connection, &format!("INSERT INTO ledger VALUES ({}, {id}, {from}, {to}, {amount})", self.number))?;
        changes.push(Change::Transfer(id, Transfer { from, to, amount }));
        Ok(())
    }

    /// CREATE, fill, RENAME, TRUNCATE, ALTER or DROP of a table of the client's own.
    fn define(&mut self, connection: &mut Conn) -> Step {
        let existing = self.pick(self.state.tables.clone().keys());
        let id = self.new_id();
        let fresh = format!("made_{}_{id}", self.number);
        let choice = if self.state.tables.len() >= TABLES_MAX { 4 } else { self.random.random_range(0..6) };
        let (statement, changes) = match (choice, existing) {
            (1, Some(name)) => {
                let rows = self.random.random_range(1..2_000);
                let from = self.state.tables[&name];
                let filled = Change::Table(name.clone(), Some(from + rows));
                (format!("INSERT INTO {name} (id) SELECT seq FROM seq_{from}_to_{}", from + rows - 1), vec![filled])
            }
            (2, Some(name)) => {
                let rows = self.state.tables[&name];
                let renamed = vec![Change::Table(name.clone(), None), Change::Table(fresh.clone(), Some(rows))];
                (format!("RENAME TABLE {name} TO {fresh}"), renamed)
            }
            (3, Some(name)) => (format!("TRUNCATE TABLE {name}"), vec![Change::Table(name, Some(0))]),
            (4, Some(name)) => (format!("DROP TABLE {name}"), vec![Change::Table(name, None)]),
            (5, Some(name)) => {
                let same = Change::Table(name.clone(), Some(self.state.tables[&name]));
                let key =
                    if self.random.random_bool(0.5) { format!(", ADD KEY k{id} (c{id}, id)") } else { String::new() };
                (format!("ALTER TABLE {name} ADD COLUMN c{id} INT DEFAULT 7{key}, ALGORITHM=COPY"), vec![same])
            }
            _ => {
                let created = Change::Table(fresh.clone(), Some(0));
                let keys = ["", ", PRIMARY KEY (id), KEY (name)", ", UNIQUE KEY (name, id)"][id as usize % 3];
                (
                    format!(
                        "CREATE TABLE {fresh} (id BIGINT, name VARCHAR(40) DEFAULT 'x'{keys}) ENGINE={}",
                        self.engine
                    ),
                    vec![created],
                )
            }
        };
        self.send_commit(connection, &statement, changes)?;
        self.counts.definitions += 1;
        Ok(())
    }

    fn pick<'k, K, I>(&mut self, keys: I) -> Option<K>
    where
        K: Clone + 'k,
        I: ExactSizeIterator<Item = &'k K>,
    {
        let length = keys.len();
        if length == 0 {
            return None;
        }
        let index = self.random.random_range(0..length);
        keys.into_iter().nth(index).cloned()
    }

    /// A range over some neighbouring keys.
    fn range<'k, I>(&mut self, keys: I) -> Option<(u64, u64)>
    where
        I: ExactSizeIterator<Item = &'k u64> + Clone,
    {
        let length = keys.len();
        if length == 0 {
            return None;
        }
        let first = self.random.random_range(0..length);
        let last = (first + self.random.random_range(0..20)).min(length - 1);
        Some((*keys.clone().nth(first)?, *keys.clone().nth(last)?))
    }
}
