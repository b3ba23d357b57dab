//! The generator's model of a table: its definition as created and altered.

use rand::Rng;
use rand::rngs::StdRng;

use super::column::Column;
use super::keys::{Key, Shape};
use super::random::{chance, pick};

/// A table, whose first column is `id BIGINT NOT NULL`, perhaps AUTO_INCREMENT.
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
    /// Its keys.
    pub keys: Vec<Key>,
    /// Whether `id` is unique by a key only, so that a new row's may exist already.
    pub collides: bool,
    /// Whether `id` is AUTO_INCREMENT.
    pub automatic: bool,
    /// The ids when last read, some of them.
    pub ids: Vec<u64>,
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
        let keyed = chance(random, 70);
        let computes_id = columns.iter().any(Column::computes_id);
        let mut table = Self {
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
            keys: Vec::new(),
            collides: false,
            automatic: owner.is_none() && keyed && !computes_id && chance(random, 25),
            ids: Vec::new(),
        };
        if keyed {
            table.keys = Key::some(random, &table.shape());
            if owner.is_some() {
                // A rollback in a temporary table of InnoDB may lose rows that another one has
                // taken the key of.
                table.keys.retain(|key| !key.is_unique());
            }
            table.collides = table.keys.iter().any(Key::is_of_id) && (!table.unique || chance(random, 30));
            table.unique |= table.collides;
        }
        table
    }

    /// Shape of the table, as a new key must know it.
    pub fn shape(&self) -> Shape<'_> {
        let hashes = self.owner.is_none() && !self.partitioned && !self.versioned && !self.automatic;
        Shape { columns: &self.columns, partitioned: self.partitioned, automatic: self.automatic, hashes }
    }

    /// The statement that creates it.
    pub fn create(&self, random: &mut StdRng) -> String {
        let counts = if self.automatic { " AUTO_INCREMENT" } else { "" };
        let columns: Vec<String> = std::iter::once(format!("id BIGINT NOT NULL{counts}"))
            .chain(self.columns.iter().map(Column::definition))
            .chain(self.keys.iter().map(Key::definition))
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
        if !self.ids.is_empty() && chance(random, 70) {
            return *pick(random, &self.ids);
        }
        random.random_range(1..=self.next_id.max(2))
    }

    /// The `id` of a new row.
    pub fn new_id(&mut self, random: &mut StdRng) -> u64 {
        if !self.unique {
            return random.random_range(1..=self.next_id.max(20));
        }
        if self.collides && chance(random, 25) {
            return self.some_id(random);
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
