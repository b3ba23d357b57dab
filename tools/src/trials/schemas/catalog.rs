//! The tables of a schema, as the server's own catalog has them: columns, keys, references.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use mysql::Conn;
use mysql::prelude::Queryable;

/// A column.
#[derive(Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type's name, and the type as a whole.
    pub kind: String,
    pub type_text: String,
    /// Characters that it holds, of a text.
    pub length: u64,
    /// Whether it may be NULL.
    pub is_nullable: bool,
    /// Whether the server counts it.
    pub is_counted: bool,
    /// Whether it is computed.
    pub is_computed: bool,
}

/// A foreign key.
#[derive(Clone)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// The table that it refers to, and the columns there.
    pub parent: String,
    pub parent_columns: Vec<String>,
}

/// A table.
#[derive(Clone)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// All columns.
    pub columns: Vec<Column>,
    /// Those of the primary key.
    pub key: Vec<String>,
    /// Its foreign keys.
    pub references: Vec<Reference>,
}

/// All tables, parents before their children where there is no cycle.
pub struct Catalog {
    /// The tables.
    pub tables: Vec<Table>,
}

const COLUMNS: &str = "SELECT table_name, column_name, data_type, column_type, IFNULL(character_maximum_length, 0), is_nullable = 'YES', extra LIKE '%auto_increment%', is_generated = 'ALWAYS' FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' ORDER BY table_name, ordinal_position";
const KEYS: &str = "SELECT table_name, column_name FROM information_schema.key_column_usage WHERE table_schema = DATABASE() AND constraint_name = 'PRIMARY' ORDER BY table_name, ordinal_position";
const REFERENCES: &str = "SELECT table_name, constraint_name, column_name, referenced_table_name, referenced_column_name FROM information_schema.key_column_usage WHERE table_schema = DATABASE() AND referenced_table_name IS NOT NULL ORDER BY table_name, constraint_name, ordinal_position";

type ColumnRow = (String, String, String, String, u64, bool, bool, bool);

impl Catalog {
    /// Reads the tables of the session's database.
    pub fn read(session: &mut Conn) -> Result<Self> {
        let mut tables: BTreeMap<String, Table> = BTreeMap::new();
        for row in session.query::<ColumnRow, _>(COLUMNS)? {
            let (table, name, kind, type_text, length, is_nullable, is_counted, is_computed) = row;
            let empty = || Table { name: table.clone(), columns: Vec::new(), key: Vec::new(), references: Vec::new() };
            let column = Column { name, kind, type_text, length, is_nullable, is_counted, is_computed };
            tables.entry(table.clone()).or_insert_with(empty).columns.push(column);
        }
        for (table, column) in session.query::<(String, String), _>(KEYS)? {
            tables.entry(table).and_modify(|table| table.key.push(column));
        }
        for row in session.query::<(String, String, String, String, String), _>(REFERENCES)? {
            let (table, name, column, parent, parent_column) = row;
            let Some(table) = tables.get_mut(&table) else { continue };
            match table.references.iter_mut().find(|reference| reference.name == name) {
                Some(known) => {
                    known.columns.push(column);
                    known.parent_columns.push(parent_column);
                }
                None => {
                    let (columns, parent_columns) = (vec![column], vec![parent_column]);
                    table.references.push(Reference { name, columns, parent, parent_columns });
                }
            }
        }
        Ok(Self { tables: ordered(tables.into_values().collect()) })
    }

    /// Number of their foreign keys.
    pub fn reference_count(&self) -> usize {
        self.tables.iter().map(|table| table.references.len()).sum()
    }

    /// The names of all tables.
    pub fn names(&self) -> Vec<String> {
        self.tables.iter().map(|table| table.name.clone()).collect()
    }
}

/// Takes again and again the first table whose parents are there, or the first of all.
fn ordered(mut left: Vec<Table>) -> Vec<Table> {
    let mut done: Vec<Table> = Vec::with_capacity(left.len());
    let mut names = BTreeSet::new();
    while !left.is_empty() {
        let is_there = |table: &Table, to: &Reference| to.parent == table.name || names.contains(&to.parent);
        let is_ready = |table: &Table| table.references.iter().all(|to| is_there(table, to));
        let table = left.remove(left.iter().position(is_ready).unwrap_or(0));
        names.insert(table.name.clone());
        done.push(table);
    }
    done
}
