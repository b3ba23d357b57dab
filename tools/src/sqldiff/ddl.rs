//! CREATE, ALTER, RENAME, TRUNCATE, OPTIMIZE, DROP, and their effects on the generator's model.

use rand::Rng;

use super::column::Column;
use super::expression::condition;
use super::generate::{Generator, ModelChange, Planned};
use super::keys::BYTES_MAX;
use super::random::{chance, pick};
use super::schema::Table;
use super::step::{Kind, Step};

const TABLES_MIN: usize = 3;
const TABLES_MAX: usize = 7;

impl Generator {
    /// Applies the effect of a successful statement.
    pub fn apply(&mut self, change: ModelChange) {
        match change {
            ModelChange::Put(table) => {
                match self.tables.iter().position(|other| other.name == table.name) {
                    Some(index) => self.tables[index] = *table,
                    None => self.tables.push(*table),
                };
            }
            ModelChange::Remove(name) => self.tables.retain(|table| table.name != name),
            ModelChange::Rename(from, to) => {
                for table in self.tables.iter_mut().filter(|table| table.name == from) {
                    table.name.clone_from(&to);
                }
            }
            ModelChange::Swap(one, two) => {
                for table in &mut self.tables {
                    if table.name == one {
                        table.name.clone_from(&two);
                    } else if table.name == two {
                        table.name.clone_from(&one);
                    }
                }
            }
        }
    }

    /// A table for DDL; seldom one that another transaction uses, since DDL then waits a second.
    fn table_to_define(&mut self) -> Option<usize> {
        let index = self.some_base_table()?;
        let table = &self.tables[index];
        let session = self.current;
        let waits = self.tracker.used_by_others(session, &table.name);
        (!waits || chance(&mut self.random, 2)).then_some(index)
    }

    /// A DDL statement.
    pub fn define(&mut self, session: usize) -> Option<Planned> {
        self.current = session;
        let base = self.tables.iter().filter(|table| table.owner.is_none()).count();
        if base < TABLES_MIN {
            return Some(self.create(session));
        }
        match self.random.random_range(0..100) {
            0..10 if base < TABLES_MAX => Some(self.create(session)),
            10..14 if base < TABLES_MAX => self.create_like(session),
            14..18 if base < TABLES_MAX => self.create_select(session),
            18..30 => self.truncate(session),
            30..36 => self.rename(session),
            36..48 => self.optimize(session),
            48..56 if base > TABLES_MIN => self.drop_table(session),
            56..60 => self.partition(session),
            60..78 => {
                let index = self.table_to_define()?;
                self.alter_keys(session, index)
            }
            _ => self.alter(session),
        }
    }

    /// A table of random columns.
    pub fn create(&mut self, session: usize) -> Planned {
        let name = self.new_name("t");
        let table = Table::any(&mut self.random, name, None);
        let text = table.create(&mut self.random);
        let step = Step::new(session, Kind::Definition, text).writing([&table.name]);
        Planned::with(step, ModelChange::Put(Box::new(table)))
    }

    fn create_like(&mut self, session: usize) -> Option<Planned> {
        let index = self.some_base_table()?;
        let name = self.new_name("t");
        let source = self.tables[index].name.clone();
        let table = Table {
            name: name.clone(),
            triggers: Vec::new(),
            rows: 0,
            next_id: 1,
            ids: Vec::new(),
            ..self.tables[index].clone()
        };
        let text = format!("CREATE TABLE {name} LIKE {source}");
        let step = Step::new(session, Kind::Definition, text).writing([&name]).reading([&source]);
        Some(Planned::with(step, ModelChange::Put(Box::new(table))))
    }

    fn create_select(&mut self, session: usize) -> Option<Planned> {
        let index = self.some_base_table()?;
        let source = self.tables[index].clone();
        // InnoDB reads the source with locks, Perdura from the snapshot.
        if self.tracker.locked_by_others(session, &source.name) {
            return None;
        }
        let name = self.new_name("t");
        let condition = condition(&mut self.random, &source, "");
        let columns: Vec<Column> = source.columns.iter().filter(|column| column.generated.is_none()).cloned().collect();
        let list: Vec<&str> = std::iter::once("id").chain(columns.iter().map(|column| column.name.as_str())).collect();
        let text = format!("CREATE TABLE {name} AS SELECT {} FROM {} WHERE {condition}", list.join(", "), source.name);
        let step = Step::new(session, Kind::Definition, text).writing([&name]).reading([&source.name]);
        let mut table = Table { name, columns, triggers: Vec::new(), partitioned: false, versioned: false, ..source };
        table.keys.clear();
        table.keys_changed();
        table.automatic = false;
        Some(Planned::with(step, ModelChange::Put(Box::new(table))))
    }

    fn truncate(&mut self, session: usize) -> Option<Planned> {
        let index = self.table_to_define()?;
        let name = self.tables[index].name.clone();
        Some(Step::new(session, Kind::Definition, format!("TRUNCATE TABLE {name}")).writing([&name]).into())
    }

    fn rename(&mut self, session: usize) -> Option<Planned> {
        let index = self.table_to_define()?;
        let name = self.tables[index].name.clone();
        let fresh = self.new_name("t");
        let other = self.table_to_define().map(|other| self.tables[other].name.clone()).filter(|other| *other != name);
        // Its triggers name the table.
        let plain = |name: &String| self.tables.iter().any(|table| table.name == *name && table.triggers.is_empty());
        if let Some(other) = other.filter(|other| chance(&mut self.random, 30) && plain(other) && plain(&name)) {
            let text = format!("RENAME TABLE {name} TO {fresh}, {other} TO {name}, {fresh} TO {other}");
            let step = Step::new(session, Kind::Definition, text).writing([&name, &other]);
            return Some(Planned::with(step, ModelChange::Swap(name, other)));
        }
        let text = match self.random.random_range(0..2) {
            0 => format!("RENAME TABLE {name} TO {fresh}"),
            _ => format!("ALTER TABLE {name} RENAME TO {fresh}"),
        };
        let step = Step::new(session, Kind::Definition, text).writing([&name, &fresh]);
        Some(Planned::with(step, ModelChange::Rename(name, fresh)))
    }

    /// The rows of the answer are the engine's own words.
    fn optimize(&mut self, session: usize) -> Option<Planned> {
        let index = self.table_to_define()?;
        let name = self.tables[index].name.clone();
        let text = match self.random.random_range(0..3) {
            0 => format!("OPTIMIZE TABLE {name}"),
            1 => format!("ALTER TABLE {name} FORCE"),
            _ => format!("ANALYZE TABLE {name}"),
        };
        let step = Step::new(session, Kind::Definition, text).engine_shows();
        Some(step.writing([&name]).into())
    }

    fn drop_table(&mut self, session: usize) -> Option<Planned> {
        let index = self.table_to_define()?;
        let name = self.tables[index].name.clone();
        let exists = *pick(&mut self.random, &["", "IF EXISTS "]);
        let step = Step::new(session, Kind::Definition, format!("DROP TABLE {exists}{name}")).writing([&name]);
        Some(Planned::with(step, ModelChange::Remove(name)))
    }

    fn partition(&mut self, session: usize) -> Option<Planned> {
        let index = self.table_to_define()?;
        let mut table = self.tables[index].clone();
        let text = if table.partitioned {
            let change = *pick(
                &mut self.random,
                &[
                    "TRUNCATE PARTITION p1",
                    "DROP PARTITION p1",
                    "COALESCE PARTITION 1",
                    "ADD PARTITION PARTITIONS 1",
                    "REBUILD PARTITION ALL",
                    "REMOVE PARTITIONING",
                    "REORGANIZE PARTITION p0, p1 INTO (PARTITION p1 VALUES LESS THAN (40))",
                ],
            );
            table.partitioned = change != "REMOVE PARTITIONING";
            format!("ALTER TABLE {} {change}", table.name)
        } else if table.versioned || table.has_computed_key() || table.has_hashed_key() {
            return None;
        } else {
            table.partitioned = true;
            format!("ALTER TABLE {} PARTITION BY HASH (id) PARTITIONS 3", table.name)
        };
        let step = Step::new(session, Kind::Definition, text).writing([&table.name]);
        Some(Planned::with(step, ModelChange::Put(Box::new(table))))
    }

    fn alter(&mut self, session: usize) -> Option<Planned> {
        let index = self.table_to_define()?;
        let mut table = self.tables[index].clone();
        let random = &mut self.random;
        if table.columns.is_empty() {
            return None;
        }
        let place = random.random_range(0..table.columns.len());
        let at = table.columns[place].name.clone();
        if table.keys.iter().any(|key| key.hashed && key.has(&at)) {
            return None;
        }
        let mut renames = false;
        let change = match random.random_range(0..8) {
            0..3 => {
                let column = Column::any(random, format!("c{}", table.next_column), &table.columns);
                if table.automatic && column.computes_id() {
                    return None;
                }
                table.next_column += 1;
                let (after, at) = match random.random_range(0..3) {
                    0 => (" FIRST".to_owned(), table.columns.len()),
                    1 => (format!(" AFTER {at}"), place + 1),
                    _ => (String::new(), table.columns.len()),
                };
                let text = format!("ADD COLUMN {}{after}", column.definition());
                table.columns.insert(at, column);
                text
            }
            3 if table.columns.len() > 1 => {
                table.columns.remove(place);
                table.lose_column_of_keys(&at);
                format!("DROP COLUMN {at}")
            }
            4 => {
                let name = format!("c{}", table.next_column);
                table.next_column += 1;
                table.columns[place].name.clone_from(&name);
                table.rename_column_of_keys(&at, &name);
                renames = true;
                format!("RENAME COLUMN {at} TO {name}")
            }
            5 => {
                let value = table.columns[place].kind.value(random);
                format!("ALTER COLUMN {at} SET DEFAULT {value}")
            }
            6 => (*pick(random, &["ADD CONSTRAINT ids CHECK (id >= 0)", "DROP CONSTRAINT ids", "COMMENT = 'changed'"]))
                .to_owned(),
            _ => {
                let column = Column::any(random, at, &table.columns[..place]);
                // The server does not let a column that is stored become one that is not, nor the
                // reverse.
                let is_computed = table.columns.iter().any(|other| other.computes(&column.name));
                if column.is_virtual() || table.columns[place].is_virtual() || is_computed {
                    return None;
                }
                let mut text = format!("MODIFY COLUMN {}", column.definition());
                // In place InnoDB does not check the rows.
                if text.contains(" CHECK (") {
                    text += ", ALGORITHM=COPY";
                }
                table.columns[place] = column;
                let fits = |column: &Column| {
                    let short = column.kind.key_bytes(None).is_some_and(|bytes| bytes <= BYTES_MAX);
                    column.fits_key(table.partitioned) && short || !table.keys.iter().any(|key| key.has(&column.name))
                };
                if table.partitioned && table.has_computed_key() || !fits(&table.columns[place]) {
                    return None;
                }
                text
            }
        };
        if renames {
            self.open_anew(session, &table.name);
        }
        let random = &mut self.random;
        // Of rows with the same key the first one stays, and the engines meet them in different
        // orders.
        let ignore = if chance(random, 20) && !table.is_order_sensitive() { "IGNORE " } else { "" };
        let text = format!("ALTER {ignore}TABLE {} {change}", table.name);
        let step = Step::new(session, Kind::Definition, text).writing([&table.name]);
        Some(Planned::with(step, ModelChange::Put(Box::new(table))))
    }

    /// The server does not find a column that a CHECK names (error 1054) if it has opened the table
    /// first under an alias. With each engine it has other tables open, so they are closed before.
    /// An alias is used now and then, so that the remedy is seen to help.
    fn open_anew(&mut self, session: usize, name: &String) {
        if chance(&mut self.random, 30) {
            let text = format!("SELECT COUNT(*) FROM {name} AS some_longer_name");
            self.plan(Step::new(session, Kind::Query, text).reading([name]));
        }
        self.plan(Step::new(session, Kind::Definition, format!("FLUSH TABLES {name}")).writing([name]));
    }

    /// Creates or drops a temporary table.
    pub fn temporary(&mut self, session: usize) -> Planned {
        let mine = self.tables.iter().position(|table| table.owner == Some(session));
        if let Some(index) = mine {
            let name = self.tables[index].name.clone();
            if chance(&mut self.random, 40) {
                // Unlike CREATE and DROP, this commits.
                let step = Step::new(session, Kind::Definition, format!("TRUNCATE TABLE {name}"));
                return step.writing([&name]).into();
            }
            let step = Step::new(session, Kind::Temporary, format!("DROP TEMPORARY TABLE {name}"));
            return Planned::with(step.writing([&name]), ModelChange::Remove(name));
        }
        let name = self.new_name(&format!("tmp{session}_"));
        let table = Table::any(&mut self.random, name, Some(session));
        let text = table.create(&mut self.random);
        let step = Step::new(session, Kind::Temporary, text).writing([&table.name]);
        Planned::with(step, ModelChange::Put(Box::new(table)))
    }
}
