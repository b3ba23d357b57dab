//! The generator's model of a table: its definition as created and altered.

use rand::Rng;
use rand::rngs::StdRng;

use super::random::{chance, pick};
use super::types::{self, Family, Type};

/// How a column's value is computed.
#[derive(Clone, Debug)]
pub struct Generated {
    expression: String,
    stored: bool,
}

/// A column other than `id`.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Type,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// How it is computed, if it is.
    pub generated: Option<Generated>,
    default: Option<String>,
    check: Option<String>,
    invisible: bool,
}

impl Column {
    /// A column of any type, perhaps computed from `others`.
    pub fn any(random: &mut StdRng, name: String, others: &[Column]) -> Self {
        if chance(random, 12) {
            return Self::computed(random, name, others);
        }
        let kind = types::any(random);
        let nullable = chance(random, 70);
        let clock = ["TIMESTAMP(", "DATETIME("].iter().any(|start| kind.sql.starts_with(start));
        let default = match random.random_range(0..10) {
            0..2 => Some(kind.value(random)),
            2 if kind.family == Family::Exact => Some("(id % 50 + 1)".to_owned()),
            2 if kind.family == Family::Text => Some("(CONCAT('d', id % 10))".to_owned()),
            3..6 if clock => {
                let digits = kind.sql.chars().nth_back(1).unwrap_or('0');
                // No ON UPDATE: the server decides whether a row changes by the columns that the engine has read.
                Some(format!("CURRENT_TIMESTAMP({digits})"))
            }
            _ => None,
        };
        let check = match kind.family {
            Family::Exact if chance(random, 15) => Some(format!("{name} IS NULL OR {name} < 90")),
            Family::Text if chance(random, 5) => Some(format!("{name} <> 'abc'")),
            _ => None,
        };
        let invisible = chance(random, 4) && (nullable || default.is_some());
        Self { name, kind, nullable, generated: None, default, check, invisible }
    }

    fn computed(random: &mut StdRng, name: String, others: &[Column]) -> Self {
        let base: Vec<&Column> = others.iter().filter(|column| column.generated.is_none()).collect();
        let (sql, family, expression) = match base.is_empty() {
            false if chance(random, 70) => {
                let other = &pick(random, &base).name;
                let expression =
                    if chance(random, 50) { format!("{other} IS NULL") } else { format!("LENGTH({other})") };
                ("BIGINT", Family::Exact, expression)
            }
            _ if chance(random, 50) => ("INT", Family::Exact, "id % 10".to_owned()),
            _ => ("VARCHAR(40) CHARACTER SET utf8mb4", Family::Text, "CONCAT('#', id)".to_owned()),
        };
        let kind = types::computed(sql, family);
        let generated = Some(Generated { expression, stored: chance(random, 50) });
        Self { name, kind, nullable: true, generated, default: None, check: None, invisible: false }
    }

    /// Its definition for CREATE and ALTER.
    pub fn definition(&self) -> String {
        let mut text = format!("{} {}", self.name, self.kind.sql);
        if let Some(Generated { expression, stored }) = &self.generated {
            return text + &format!(" AS ({expression}) {}", if *stored { "STORED" } else { "VIRTUAL" });
        }
        text += if self.nullable { " NULL" } else { " NOT NULL" };
        if self.invisible {
            text += " INVISIBLE";
        }
        if let Some(default) = &self.default {
            text += &format!(" DEFAULT {default}");
        }
        if let Some(check) = &self.check {
            text += &format!(" CHECK ({check})");
        }
        text
    }

    /// A value for INSERT or UPDATE: mostly a literal.
    pub fn value(&self, random: &mut StdRng) -> String {
        if self.generated.is_some() {
            return "DEFAULT".to_owned();
        }
        match random.random_range(0..100) {
            0..8 => "DEFAULT".to_owned(),
            8..20 if self.nullable => "NULL".to_owned(),
            20 => "NULL".to_owned(),
            _ => self.kind.value(random),
        }
    }
}

/// A table, whose first column is `id BIGINT NOT NULL`.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns after `id`.
    pub columns: Vec<Column>,
    /// Whether `id` is unique, so that ORDER BY id is total.
    pub unique: bool,
    /// The next unused `id`.
    pub next_id: u64,
    /// The session that owns it, if it is temporary.
    pub owner: Option<usize>,
    /// Its number of rows when last read.
    pub rows: usize,
    /// Whether it is partitioned.
    pub partitioned: bool,
    /// Whether its triggers write to the log table.
    pub triggers: Vec<String>,
    /// Number in the next column's name.
    pub next_column: u32,
    /// Whether it is system-versioned.
    pub versioned: bool,
}

impl Table {
    /// A table of random columns.
    pub fn any(random: &mut StdRng, name: String, owner: Option<usize>) -> Self {
        let mut columns = Vec::new();
        let count = random.random_range(1..=8);
        for number in 0..count {
            let column = Column::any(random, format!("c{number}"), &columns);
            columns.push(column);
        }
        let partitioned = owner.is_none() && chance(random, 8);
        Self {
            name,
            columns,
            unique: chance(random, 85),
            next_id: 1,
            owner,
            rows: 0,
            partitioned,
            triggers: Vec::new(),
            next_column: count,
            versioned: owner.is_none() && !partitioned && chance(random, 4),
        }
    }

    /// The statement that creates it.
    pub fn create(&self, random: &mut StdRng) -> String {
        let columns: Vec<String> = std::iter::once("id BIGINT NOT NULL".to_owned())
            .chain(self.columns.iter().map(Column::definition))
            .chain(chance(random, 10).then(|| "CONSTRAINT ids CHECK (id >= 0)".to_owned()))
            .collect();
        let temporary = if self.owner.is_some() { "TEMPORARY " } else { "" };
        let versioned = if self.versioned { " WITH SYSTEM VERSIONING" } else { "" };
        let partitions = if self.partitioned { partitions(random) } else { "" };
        format!("CREATE {temporary}TABLE {} ({}){versioned}{partitions}", self.name, columns.join(", "))
    }

    /// Names of all columns, invisible ones included.
    pub fn all_columns(&self) -> String {
        std::iter::once("id")
            .chain(self.columns.iter().map(|column| column.name.as_str()))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// A query for its whole content.
    pub fn select_all(&self) -> String {
        format!("SELECT {} FROM {}", self.all_columns(), self.name)
    }

    /// An `id` that may exist.
    pub fn some_id(&self, random: &mut StdRng) -> u64 {
        random.random_range(1..=self.next_id.max(2))
    }

    /// The `id` of a new row.
    pub fn new_id(&mut self, random: &mut StdRng) -> u64 {
        if !self.unique {
            return random.random_range(1..=self.next_id.max(20));
        }
        self.next_id += 1;
        self.next_id - 1
    }

    /// Columns that statements may assign to.
    pub fn assignable(&self) -> Vec<&Column> {
        self.columns.iter().filter(|column| column.generated.is_none()).collect()
    }
}

fn partitions(random: &mut StdRng) -> &'static str {
    pick::<&str>(
        random,
        &[
            " PARTITION BY HASH (id) PARTITIONS 3",
            " PARTITION BY KEY (id) PARTITIONS 2",
            " PARTITION BY LIST (id % 3) (PARTITION p0 VALUES IN (0), PARTITION p1 VALUES IN (1), PARTITION p2 VALUES IN (2))",
            " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (40), PARTITION p2 VALUES LESS THAN MAXVALUE)",
        ],
    )
}
