//! Random statements on the tables of a catalog. A row mostly refers to rows that are there.

use anyhow::Result;
use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::catalog::{Catalog, Column, Reference, Table};
use super::sides::{self, Sides};

/// Rows that all tables get together at the start, and each at least.
const ROWS: usize = 160;
const ROWS_OF_TABLE: usize = 4;
/// Rows from which one to refer to is chosen.
const CHOICE: usize = 60;
/// Numbers, and texts of a kind, are below this.
const NUMBERS: u32 = 40;
const WORDS: [&str; 8] = ["alder", "Birch", "cedar", "Élan", "fir", "Ginkgo", "hazel", "box"];
/// Length of a long text.
const LONG: usize = 9_000;

/// The statements that follow from a seed.
pub struct Changes {
    tables: Vec<Table>,
    random: StdRng,
    is_open: bool,
    /// Statements that must follow the last one.
    planned: Vec<String>,
}

impl Changes {
    /// Statements on the tables of `catalog`.
    pub fn new(catalog: Catalog, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { tables: catalog.tables, random, is_open: false, planned: Vec::new() }
    }

    /// Whether a transaction is open.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Puts the first rows into all tables.
    pub fn load(&mut self, sides: &mut Sides) -> Result<()> {
        let each = (ROWS / self.tables.len()).max(ROWS_OF_TABLE);
        for table in self.tables.clone() {
            for _ in 0..each {
                let rows = self.rows(sides.theirs(), &table, 1)?;
                sides.run(&format!("INSERT INTO {} {rows}", table.name))?;
            }
        }
        Ok(())
    }

    /// The next statement.
    pub fn next(&mut self, sides: &mut Sides) -> Result<String> {
        if let Some(planned) = self.planned.pop() {
            return Ok(planned);
        }
        let table = self.tables[self.random.random_range(0..self.tables.len())].clone();
        let session = sides.theirs();
        match self.random.random_range(0..100) {
            0..38 => self.insert(session, &table),
            38..66 => self.update(session, &table),
            66..88 => self.delete(session, &table),
            88..94 => Ok(self.bound()),
            _ if self.is_open => self.update(session, &table),
            _ => self.define(session, &table),
        }
    }

    /// Begins a transaction, or ends it.
    fn bound(&mut self) -> String {
        let text = match self.is_open {
            false => "BEGIN",
            true if self.random.random_bool(0.7) => "COMMIT",
            true => "ROLLBACK",
        };
        self.is_open = !self.is_open;
        text.to_owned()
    }

    fn insert(&mut self, session: &mut Conn, table: &Table) -> Result<String> {
        let count = self.random.random_range(1..4);
        let rows = self.rows(session, table, count)?;
        let name = &table.name;
        Ok(match self.random.random_range(0..10) {
            0 => format!("INSERT IGNORE INTO {name} {rows}"),
            1 | 2 => format!("REPLACE INTO {name} {rows}"),
            3 => {
                let set = self.assignment(session, table)?;
                format!("INSERT INTO {name} {rows} ON DUPLICATE KEY UPDATE {set}")
            }
            _ => format!("INSERT INTO {name} {rows}"),
        })
    }

    fn update(&mut self, session: &mut Conn, table: &Table) -> Result<String> {
        let ignore = if self.random.random_bool(0.1) { " IGNORE" } else { "" };
        let set = self.assignment(session, table)?;
        let some = self.some_rows(session, table)?;
        Ok(format!("UPDATE{ignore} {} SET {set} {some}", table.name))
    }

    fn delete(&mut self, session: &mut Conn, table: &Table) -> Result<String> {
        let ignore = if self.random.random_bool(0.1) { " IGNORE" } else { "" };
        Ok(format!("DELETE{ignore} FROM {} {}", table.name, self.some_rows(session, table)?))
    }

    /// DDL, after which the tables are as before, but for TRUNCATE.
    fn define(&mut self, session: &mut Conn, table: &Table) -> Result<String> {
        let name = &table.name;
        if let (Some(reference), true) = (table.references.first(), self.random.random_bool(0.4)) {
            let definition = sides::definition(session, name)?;
            let begin = format!("CONSTRAINT `{}` ", reference.name);
            if let Some(clause) = definition.lines().map(str::trim).find(|line| line.starts_with(&begin)) {
                self.planned.push(format!("ALTER TABLE {name} ADD {}", clause.trim_end_matches(',')));
                return Ok(format!("ALTER TABLE {name} DROP FOREIGN KEY {}", reference.name));
            }
        }
        Ok(match self.random.random_range(0..3) {
            0 => format!("TRUNCATE TABLE {name}"),
            1 => format!("ALTER TABLE {name} FORCE"),
            _ => format!("ALTER TABLE {name} COMMENT = 'c{}'", self.random.random_range(0..NUMBERS)),
        })
    }

    /// Columns and rows of an INSERT.
    fn rows(&mut self, session: &mut Conn, table: &Table, count: usize) -> Result<String> {
        let counts = self.random.random_bool(0.7);
        let columns = table.columns.iter().filter(|column| !(column.is_computed || counts && column.is_counted));
        let columns: Vec<&Column> = columns.collect();
        let mut rows = Vec::new();
        for _ in 0..count {
            let mut values: Vec<String> = columns.iter().map(|column| self.value(column)).collect();
            for reference in &table.references {
                for (name, value) in self.reference(session, table, reference)? {
                    if let Some(at) = columns.iter().position(|column| column.name == name) {
                        values[at] = value;
                    }
                }
            }
            rows.push(format!("({})", values.join(", ")));
        }
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        Ok(format!("({}) VALUES {}", names.join(", "), rows.join(", ")))
    }

    /// Values for the columns of a reference: mostly those of a row that is there.
    fn reference(&mut self, session: &mut Conn, table: &Table, to: &Reference) -> Result<Vec<(String, String)>> {
        let nullable = |name: &&String| table.columns.iter().any(|column| column.name == **name && column.is_nullable);
        if self.random.random_bool(0.15)
            && let Some(column) = to.columns.iter().find(nullable)
        {
            return Ok(vec![(column.clone(), "NULL".to_owned())]);
        }
        if self.random.random_bool(0.06) {
            return Ok(Vec::new());
        }
        let found = self.one_of(session, &to.parent, &to.parent_columns)?;
        Ok(to.columns.iter().cloned().zip(found).collect())
    }

    /// The values of some columns in one of the rows; none if there is no row.
    fn one_of(&mut self, session: &mut Conn, table: &str, columns: &[String]) -> Result<Vec<String>> {
        let list = columns.join(", ");
        let nulls = columns.iter().map(|column| format!("{column} IS NOT NULL")).collect::<Vec<_>>().join(" AND ");
        let query = format!("SELECT DISTINCT {list} FROM {table} WHERE {nulls} ORDER BY {list} LIMIT {CHOICE}");
        let mut rows: Vec<Row> = session.query(query)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let row = rows.swap_remove(self.random.random_range(0..rows.len()));
        Ok(row.unwrap().iter().map(|value| value.as_sql(true)).collect())
    }

    /// A condition with order and limit, such that it is the same rows on both sides.
    fn some_rows(&mut self, session: &mut Conn, table: &Table) -> Result<String> {
        let key = table.key.join(", ");
        let values = self.one_of(session, &table.name, &table.key)?.join(", ");
        if values.is_empty() || self.random.random_bool(0.25) {
            let direction = if self.random.random_bool(0.5) { " DESC" } else { "" };
            let order = table.key.iter().map(|column| format!("{column}{direction}")).collect::<Vec<_>>().join(", ");
            return Ok(format!("ORDER BY {order} LIMIT {}", self.random.random_range(1..6)));
        }
        Ok(format!("WHERE ({key}) = ({values})"))
    }

    /// One assignment or those of a whole reference.
    fn assignment(&mut self, session: &mut Conn, table: &Table) -> Result<String> {
        if let (false, true) = (table.references.is_empty(), self.random.random_bool(0.4)) {
            let reference = &table.references[self.random.random_range(0..table.references.len())];
            let values = self.reference(session, table, reference)?;
            if !values.is_empty() {
                let assign = |(column, value): (String, String)| format!("{column} = {value}");
                return Ok(values.into_iter().map(assign).collect::<Vec<_>>().join(", "));
            }
        }
        let columns: Vec<&Column> = table.columns.iter().filter(|column| !column.is_computed).collect();
        let column = columns[self.random.random_range(0..columns.len())];
        Ok(format!("{} = {}", column.name, self.value(column)))
    }

    /// A value for a column, as a literal.
    fn value(&mut self, column: &Column) -> String {
        let number = self.random.random_range(1..NUMBERS);
        if column.is_nullable && self.random.random_bool(0.15) {
            return "NULL".to_owned();
        }
        match column.kind.as_str() {
            "tinyint" if column.type_text.starts_with("tinyint(1)") => (number % 2).to_string(),
            "year" => (2000 + number).to_string(),
            "date" => format!("'2024-{:02}-{:02}'", number % 12 + 1, number % 28 + 1),
            "datetime" | "timestamp" => {
                format!("'2024-{:02}-{:02} 12:{number:02}:00'", number % 12 + 1, number % 28 + 1)
            }
            "decimal" | "double" | "float" => format!("{}.{}", number % 10, number % 7),
            "enum" | "set" => {
                let options: Vec<&str> = column.type_text.split('\'').skip(1).step_by(2).collect();
                format!("'{}'", options[self.random.random_range(0..options.len())])
            }
            "binary" => format!("x'{:0width$x}'", number, width = 2 * column.length as usize),
            kind if kind.ends_with("int") => number.to_string(),
            kind if kind.ends_with("text") || kind.ends_with("blob") => match self.random.random_range(0..20) {
                0 => format!("'{}'", "long ".repeat(LONG / 5)),
                _ => format!("'{} {number}'", self.word()),
            },
            _ => {
                let text = format!("{}{}", self.word(), number % 9);
                let text: String = text.chars().take(column.length as usize).collect();
                format!("'{text}'")
            }
        }
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.random.random_range(0..WORDS.len())]
    }
}
