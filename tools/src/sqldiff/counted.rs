//! Tables with counters of AUTO_INCREMENT columns, and statements of every kind that count, pass
//! the counter or set it.

use rand::Rng;
use rand::rngs::StdRng;

use super::random::{chance, pick};

/// A table with more rows than this is thinned out before it gets others.
const ROWS_MAX: usize = 40;
/// Values of the column `u`, which is mostly unique.
const OTHERS: u32 = 25;

/// A type of the column, and the last value that the server counts to in it.
struct Type(&'static str, u64);

const TYPES: [Type; 9] = [
    Type("TINYINT", 127),
    Type("SMALLINT UNSIGNED", 65_535),
    Type("MEDIUMINT", 8_388_607),
    Type("INT", 2_147_483_647),
    Type("INT UNSIGNED", 4_294_967_295),
    Type("BIGINT", i64::MAX as u64),
    Type("BIGINT UNSIGNED", u64::MAX),
    Type("FLOAT", 1 << 24),
    Type("DOUBLE", 1 << 53),
];

/// Keys and partitions. In some `u` is in no unique key, and the values of `id` must be whole
/// numbers.
const SHAPES: [&str; 6] = [
    "PRIMARY KEY (id), UNIQUE KEY (u))",
    "KEY (id), UNIQUE KEY (u))",
    "UNIQUE KEY (id), UNIQUE KEY (u), KEY (v, id))",
    "KEY (id, v), UNIQUE KEY (u)) PARTITION BY KEY (u) PARTITIONS 3",
    "PRIMARY KEY (id), KEY (u)) PARTITION BY HASH (id) PARTITIONS 3",
    "PRIMARY KEY (id), KEY (u)) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (20), PARTITION p1 VALUES LESS THAN (60), PARTITION p2 VALUES LESS THAN MAXVALUE)",
];
const OF_WHOLE_NUMBERS: std::ops::Range<usize> = 4..6;

/// Effect of a statement on the session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// SET.
    Setting,
    /// BEGIN.
    Begin,
    /// ROLLBACK.
    Rollback,
    /// A change of rows.
    Change,
    /// DDL.
    Definition,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its effect on the transaction.
    pub effect: Effect,
    /// The SQL; `{DIR}` stands for the server's directory.
    pub text: String,
    /// Name and content of a file that it loads.
    pub file: Option<(String, String)>,
}

impl Statement {
    fn new(effect: Effect, text: impl Into<String>) -> Self {
        Self { effect, text: text.into(), file: None }
    }
}

/// A table `(id AUTO_INCREMENT, u, v)`.
///
/// Values are taken from just below to just above the highest one that the table has had, so that a
/// counter that falls behind gives one out that is there: an INSERT fails, or an upsert changes
/// another row. sqldiff compares rows and counters with InnoDB's, the replication test those of a
/// replica and of a replayed binary log (replication/counters.rs).
#[derive(Clone, Debug)]
pub struct Counted {
    /// Its name.
    pub name: String,
    kind: usize,
    shape: usize,
    /// Whether negative values come too.
    negative: bool,
    /// The highest value that was seen in it.
    top: u64,
    rows: usize,
}

impl Counted {
    /// A new table, and the statement that makes it. `wide` leaves out types whose values end soon.
    pub fn any(random: &mut StdRng, name: String, wide: bool) -> (Self, String) {
        let narrow = if wide { 3 } else { 0 };
        let kind = random.random_range(narrow..TYPES.len());
        let shape = random.random_range(0..SHAPES.len());
        let shape = if is_float(kind) && OF_WHOLE_NUMBERS.contains(&shape) { 0 } else { shape };
        let negative = !TYPES[kind].0.ends_with("UNSIGNED") && chance(random, 35);
        let first = if chance(random, 15) { " AUTO_INCREMENT=30" } else { "" };
        let (columns, partitions) =
            SHAPES[shape].split_at(SHAPES[shape].find(") PARTITION").map_or(SHAPES[shape].len(), |at| at + 1));
        let text = format!(
            "CREATE TABLE {name} (id {} NOT NULL AUTO_INCREMENT, u INT, v INT, {columns}{first}{partitions}",
            TYPES[kind].0
        );
        (Self { name, kind, shape, negative, top: 0, rows: 0 }, text)
    }

    /// The last value of the column.
    pub fn last(&self) -> u64 {
        TYPES[self.kind].1
    }

    /// The highest value that was seen.
    pub fn highest(&self) -> u64 {
        self.top
    }

    /// Learns from all rows, given as the values of `id`.
    pub fn learn<'a>(&mut self, ids: impl Iterator<Item = &'a str>) {
        self.rows = 0;
        for id in ids {
            self.rows += 1;
            let value = id.parse::<u64>().ok().or_else(|| id.parse::<f64>().ok().map(|value| value.max(0.0) as u64));
            self.top = self.top.max(value.unwrap_or(0).min(self.last()));
        }
    }

    /// Forgets the rows of before TRUNCATE.
    fn truncated(&mut self) {
        self.top = 0;
    }

    /// The statement that sets both counters to the same value, far beyond what a crash leaves out,
    /// or to the first one.
    pub fn align(&mut self) -> String {
        const FAR: u64 = 10_000;
        if self.top < self.last() / 2 && self.last() - self.top > 10 * FAR {
            self.top += FAR;
            return format!("ALTER TABLE {} AUTO_INCREMENT={}", self.name, self.top);
        }
        self.truncated();
        format!("TRUNCATE TABLE {}", self.name)
    }

    fn has_unique_other(&self) -> bool {
        !OF_WHOLE_NUMBERS.contains(&self.shape)
    }

    /// Rows that an upsert gives at most. After the first one that changes a row with a negative
    /// value the server takes the rest for out of range, which InnoDB believes.
    fn upsert_rows(&self) -> u32 {
        if self.negative { 1 } else { 4 }
    }

    /// A value for the column: often one that is there or comes next.
    fn id(&self, random: &mut StdRng) -> String {
        let beyond = match random.random_range(0..10) {
            0..3 => return random.random_range(1..=self.top.max(1)).to_string(),
            3 if self.negative => return format!("-{}", random.random_range(1..50)),
            3..8 => random.random_range(1..=4),
            _ => random.random_range(5..40),
        };
        let id = self.top.saturating_add(beyond);
        if is_float(self.kind) && chance(random, 25) { format!("{id}.25") } else { id.to_string() }
    }

    fn other(random: &mut StdRng) -> String {
        if chance(random, 8) { "NULL".to_owned() } else { random.random_range(1..=OTHERS).to_string() }
    }

    /// Rows of `(id, u, v)`; of each `automatic` in 100 the counter gives the id.
    fn rows(&self, random: &mut StdRng, most: u32, automatic: u32) -> String {
        let rows: Vec<String> = (0..random.random_range(1..=most))
            .map(|_| {
                let id = if chance(random, automatic) {
                    (*pick(random, &["NULL", "0", "DEFAULT"])).to_owned()
                } else {
                    self.id(random)
                };
                format!("({id}, {}, {})", Self::other(random), random.random_range(0..100))
            })
            .collect();
        rows.join(", ")
    }

    /// Statements that put the highest value into the table in one of the ways in which no value is
    /// asked for.
    pub fn pass(&self, random: &mut StdRng) -> Vec<Statement> {
        let (name, id) = (&self.name, self.top.saturating_add(random.random_range(3..60)));
        let change = |text: String| Statement::new(Effect::Change, text);
        match random.random_range(0..4) {
            0 if self.rows > 0 => {
                vec![change(format!("UPDATE {name} SET id = {id} ORDER BY id DESC, u DESC, v DESC LIMIT 1"))]
            }
            1 => vec![change(format!("REPLACE INTO {name} VALUES ({id}, {}, 1)", Self::other(random)))],
            2 => {
                let row = format!("({id}, {}, 1)", Self::other(random));
                vec![change(format!("INSERT INTO {name} VALUES {row} ON DUPLICATE KEY UPDATE id = VALUES(id)"))]
            }
            _ => {
                let set = Statement::new(Effect::Setting, format!("SET insert_id={}", id.min(i64::MAX as u64)));
                vec![set, change(format!("INSERT INTO {name} (u, v) VALUES (NULL, 1)"))]
            }
        }
    }

    /// A few statements that belong together.
    pub fn statements(&mut self, random: &mut StdRng, source: &Counted) -> Vec<Statement> {
        if self.rows > ROWS_MAX {
            return vec![Statement::new(Effect::Change, format!("DELETE FROM {} WHERE id % 3 <> 1", self.name))];
        }
        if self.top > self.last() - self.last() / 4 && chance(random, 30) || chance(random, 3) {
            self.truncated();
            return vec![Statement::new(Effect::Definition, format!("TRUNCATE TABLE {}", self.name))];
        }
        let mut all = Vec::new();
        let settings = chance(random, 12);
        if settings {
            let (increment, offset) = (random.random_range(1..=7), random.random_range(1..=12));
            let text = format!("SET auto_increment_increment={increment}, auto_increment_offset={offset}");
            all.push(Statement::new(Effect::Setting, text));
        }
        let rolls_back = chance(random, 10);
        if rolls_back {
            all.push(Statement::new(Effect::Begin, "BEGIN"));
        }
        for _ in 0..random.random_range(1..=2) {
            if chance(random, 12) {
                let id = self.top.saturating_add(random.random_range(1..10)).min(i64::MAX as u64);
                all.push(Statement::new(Effect::Setting, format!("SET insert_id={id}")));
                let text = format!("INSERT INTO {} VALUES {}", self.name, self.rows(random, 3, 80));
                all.push(Statement::new(Effect::Change, text));
            } else {
                all.push(self.change(random, source));
            }
        }
        // The next value, and one that an upsert must not take from another row.
        let tail = if self.has_unique_other() { " ON DUPLICATE KEY UPDATE v = v + 1" } else { "" };
        let text = format!("INSERT INTO {} (u, v) VALUES ({}, 7){tail}", self.name, Self::other(random));
        all.push(Statement::new(Effect::Change, text));
        if rolls_back {
            all.push(Statement::new(Effect::Rollback, "ROLLBACK"));
        } else if chance(random, 6) {
            all.push(Statement::new(Effect::Definition, self.definition(random)));
        }
        if settings {
            let text = "SET auto_increment_increment=DEFAULT, auto_increment_offset=DEFAULT";
            all.push(Statement::new(Effect::Setting, text));
        }
        all
    }

    fn definition(&self, random: &mut StdRng) -> String {
        let beyond = self.top.saturating_add(random.random_range(0..20)).min(self.last());
        let name = &self.name;
        match random.random_range(0..5) {
            0 => format!("ALTER TABLE {name} AUTO_INCREMENT={}", beyond.max(1)),
            1 => format!("ALTER TABLE {name} AUTO_INCREMENT=2"),
            2 => format!("ALTER TABLE {name} COMMENT='{beyond}', ALGORITHM=COPY"),
            3 if self.shape == 3 => format!("ALTER TABLE {name} PARTITION BY KEY (u) PARTITIONS {}", beyond % 3 + 1),
            3 if self.shape == 4 => format!("ALTER TABLE {name} REBUILD PARTITION ALL"),
            _ => format!("ALTER TABLE {name} FORCE"),
        }
    }

    /// A statement that changes rows.
    fn change(&self, random: &mut StdRng, source: &Counted) -> Statement {
        let name = &self.name;
        let text = match random.random_range(0..20) {
            0..3 => {
                let verb = *pick(random, &["INSERT", "INSERT IGNORE", "REPLACE"]);
                format!("{verb} INTO {name} VALUES {}", self.rows(random, 5, 60))
            }
            3..6 => format!("REPLACE INTO {name} VALUES {}", self.rows(random, 3, 20)),
            6..9 => {
                let set = *pick(
                    random,
                    &["v = v + 1", "id = VALUES(id)", "id = id + 3", "u = VALUES(u)", "id = LAST_INSERT_ID(id)"],
                );
                format!(
                    "INSERT INTO {name} VALUES {} ON DUPLICATE KEY UPDATE {set}",
                    self.rows(random, self.upsert_rows(), 40)
                )
            }
            9 | 10 => return self.load(random),
            11 | 12 => self.insert_select(random, source),
            13..17 => self.update(random),
            // With one row on each side the order of the rows decides nothing.
            17 if self.has_unique_other() && source.has_unique_other() && source.name != self.name => {
                let (one, two) = (Self::other(random), Self::other(random));
                let both = *pick(random, &["", ", b.v = 1"]);
                format!(
                    "UPDATE {name} a, {} b SET a.id = ABS(b.id) + 2{both} WHERE a.u = {one} AND b.u = {two}",
                    source.name
                )
            }
            18 => format!("DELETE FROM {name} WHERE id >= {}", self.top.saturating_sub(random.random_range(0..4))),
            19 => format!("DELETE FROM {name} WHERE u = {}", Self::other(random)),
            _ => self.update(random),
        };
        Statement::new(Effect::Change, text)
    }

    fn update(&self, random: &mut StdRng) -> String {
        let (name, id) = (&self.name, self.id(random));
        match random.random_range(0..6) {
            0 => format!("UPDATE {name} SET id = {id} WHERE u = {}", Self::other(random)),
            1 => format!("UPDATE IGNORE {name} SET id = {id}, v = v + 1 WHERE u < 20 ORDER BY id, u LIMIT 3"),
            2 => format!(
                "UPDATE {name} SET id = id + {} ORDER BY id DESC, u DESC, v DESC LIMIT 4",
                random.random_range(1..6)
            ),
            3 => format!("UPDATE {name} SET u = u + 1 WHERE u = {}", Self::other(random)),
            4 if self.negative => format!("UPDATE {name} SET id = -id WHERE u = {}", Self::other(random)),
            _ => format!("UPDATE {name} SET id = {id} WHERE id = {}", random.random_range(1..=self.top.max(1))),
        }
    }

    fn insert_select(&self, random: &mut StdRng, source: &Counted) -> String {
        let verb = *pick(random, &["INSERT", "INSERT IGNORE", "REPLACE"]);
        let ids = *pick(random, &["NULL", "NULL", "ABS(id)", "ABS(id) + 5", "IF(u % 2, NULL, ABS(id))"]);
        let tail = if verb == "INSERT" && !self.negative && chance(random, 40) {
            " ON DUPLICATE KEY UPDATE id = VALUES(id)"
        } else {
            ""
        };
        format!(
            "{verb} INTO {} (id, u, v) SELECT {ids}, u + {}, v FROM {} ORDER BY id, u, v LIMIT {}{tail}",
            self.name,
            random.random_range(0..10),
            source.name,
            random.random_range(1..8)
        )
    }

    fn load(&self, random: &mut StdRng) -> Statement {
        let mut content = String::new();
        for _ in 0..random.random_range(1..=4) {
            let id = if chance(random, 40) { "\\N".to_owned() } else { self.id(random) };
            content += &format!("{id},{},5\n", Self::other(random).replace("NULL", "\\N"));
        }
        let how = *pick(random, &[" REPLACE", " REPLACE", " IGNORE", ""]);
        let file = format!("counted-{}", random.random_range(0..8));
        let text = format!("LOAD DATA INFILE '{{DIR}}/{file}'{how} INTO TABLE {} FIELDS TERMINATED BY ','", self.name);
        Statement { effect: Effect::Change, text, file: Some((file, content)) }
    }
}

fn is_float(kind: usize) -> bool {
    kind >= 7
}
