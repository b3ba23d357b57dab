//! Statements about keys: ranges, orders and joins with and without an index, ON DUPLICATE KEY
//! UPDATE, values of AUTO_INCREMENT, ALTER of keys.

use rand::Rng;

use super::column::Column;
use super::expression::{assigned, condition};
use super::generate::{Generator, ModelChange, Planned};
use super::keys::{Key, on_key};
use super::random::{chance, pick};
use super::schema::Table;
use super::step::{Kind, Step};
use super::types::Family;

/// How far a row's own id lies beyond the last one, so that the next value of AUTO_INCREMENT is the
/// same in both engines: they leave out other values after errors, rollbacks and crashes, but less
/// than this many.
const FAR: u64 = 10_000;

impl Generator {
    /// A read through a key, or past it; the whole order is fixed where the statement has one.
    pub fn read_by_key(&mut self, session: usize, table: &Table) -> Option<Step> {
        let contended = self.is_contended(session, table);
        let random = &mut self.random;
        let (key, column) = table.some_key(random)?;
        let condition = match column {
            Some(column) if chance(random, 85) => on_key(random, column, &column.name),
            _ => condition(random, table, ""),
        };
        let hint = match random.random_range(0..4) {
            0 => String::new(),
            1 => format!(" IGNORE INDEX ({})", key.name),
            _ => format!(" FORCE INDEX ({})", key.name),
        };
        let backward = chance(random, 50);
        let order = table.order_of(key, backward).filter(|_| table.unique);
        let from = format!("FROM {}{hint} WHERE {condition}", table.name);
        let (text, ordered) = match (random.random_range(0..10), order) {
            (0..4, Some(order)) => {
                let limit = *pick(random, &["", "", " LIMIT 3", " LIMIT 1", " LIMIT 4 OFFSET 2"]);
                (format!("SELECT {} {from} ORDER BY {order}{limit}", table.all_columns()), true)
            }
            (4 | 5, Some(_)) if column.is_some() => {
                let name = &key.parts[0].column;
                let groups = format!("SELECT COUNT(*), MIN(id), MAX(id) {from} GROUP BY {name}");
                (format!("{groups} ORDER BY MIN(id)"), true)
            }
            (6, _) if column.is_some_and(|column| column.kind.family == Family::Exact) => {
                let name = &key.parts[0].column;
                (format!("SELECT MIN({name}), MAX({name}), COUNT(DISTINCT {name}) {from}"), false)
            }
            (7, Some(_)) => {
                (format!("SELECT id {from} ORDER BY id{} LIMIT 5", if backward { " DESC" } else { "" }), true)
            }
            _ => (format!("SELECT {} {from}", table.all_columns()), false),
        };
        if chance(random, 8) && !text.contains("GROUP BY") && !contended {
            let lock = *pick(random, &["FOR UPDATE", "LOCK IN SHARE MODE"]);
            let step = Step::new(session, Kind::LockingQuery, format!("{text} {lock}"));
            return Some(step.in_order(ordered).warns_by_plan());
        }
        Some(Step::new(session, Kind::Query, text).in_order(ordered).warns_by_plan())
    }

    /// A join in which the second table is looked up by one of its keys.
    pub fn join_by_key(&mut self, session: usize, table: &Table) -> Option<Step> {
        let other = self.some_table(session)?;
        let other = self.tables[other].clone();
        if other.name == table.name {
            return None;
        }
        let random = &mut self.random;
        let (key, column) = other.some_key(random)?;
        let (name, with) = match column {
            None => ("id".to_owned(), "id".to_owned()),
            Some(column) => {
                let family = column.kind.family;
                let alike = |candidate: &&Column| {
                    matches!(family, Family::Exact | Family::Text | Family::Bytes) && candidate.kind.family == family
                };
                let columns: Vec<_> = table.columns.iter().filter(alike).collect();
                if columns.is_empty() {
                    return None;
                }
                (column.name.clone(), pick(random, &columns).name.clone())
            }
        };
        let hint = *pick(random, &["FORCE", "IGNORE"]);
        let join = *pick(random, &["JOIN", "LEFT JOIN", "STRAIGHT_JOIN"]);
        let text = format!(
            "SELECT a.id, b.id FROM {} a {join} {} b {hint} INDEX ({}) ON b.{name} = a.{with} WHERE {}",
            table.name,
            other.name,
            key.name,
            condition(random, table, "a.")
        );
        Some(Step::new(session, Kind::Query, text).reading([&other.name]).warns_by_plan())
    }

    /// An INSERT that changes the rows that have a key already.
    pub fn insert_or_update(&mut self, session: usize, index: usize) -> Step {
        let random = &mut self.random;
        let table = &mut self.tables[index];
        let id_is_key = table.keys.iter().any(Key::is_of_id);
        let columns: Vec<usize> =
            (0..table.columns.len()).filter(|&column| table.columns[column].generated.is_none()).collect();
        let rows: Vec<String> = (0..random.random_range(1..=5))
            .map(|_| {
                let again = id_is_key && chance(random, 50);
                let id = if again { table.some_id(random) } else { table.new_id(random) };
                let values = columns.iter().map(|&column| format!(", {}", table.columns[column].value(random)));
                format!("({id}{})", values.collect::<String>())
            })
            .collect();
        let names: String = columns.iter().map(|&column| format!(", {}", table.columns[column].name)).collect();
        let mut set: Vec<String> = Vec::new();
        for &column in &columns {
            if set.is_empty() || chance(random, 30) {
                let column = &table.columns[column];
                let value = match random.random_range(0..3) {
                    0 => assigned(random, column, ""),
                    _ => format!("VALUES({})", column.name),
                };
                set.push(format!("{} = {value}", column.name));
            }
        }
        let ignore = if chance(random, 10) { "IGNORE " } else { "" };
        let set = if set.is_empty() { "id = id".to_owned() } else { set.join(", ") };
        let text = format!(
            "INSERT {ignore}INTO {} (id{names}) VALUES {} ON DUPLICATE KEY UPDATE {set}",
            table.name,
            rows.join(", ")
        );
        Step::new(session, Kind::Change, text).in_order(true)
    }

    /// Values of AUTO_INCREMENT: after a row with an id of its own far beyond all others they are
    /// the same in both engines.
    pub fn automatic(&mut self, session: usize) -> Option<()> {
        let seen = |table: &&Table| table.automatic && table.owner.is_none_or(|owner| owner == session);
        let names: Vec<String> = self.tables.iter().filter(seen).map(|table| table.name.clone()).collect();
        let name = (!names.is_empty()).then(|| pick(&mut self.random, &names).clone())?;
        // Rows may have come from another table with their ids.
        let last = self.tables.iter().map(|table| table.next_id).max().unwrap_or(0);
        let random = &mut self.random;
        let table = self.tables.iter_mut().find(|table| table.name == name)?;
        let first = last + FAR;
        table.next_id = first;
        let count = random.random_range(1..=4);
        table.next_id += 10;
        let columns: Vec<usize> = (0..table.columns.len()).collect();
        let names: String = columns.iter().map(|&column| format!(", {}", table.columns[column].name)).collect();
        let mut row = |id: &str| {
            let values = columns.iter().map(|&column| format!(", {}", table.columns[column].value(random)));
            format!("({id}{})", values.collect::<String>())
        };
        let own = format!("INSERT INTO {name} (id{names}) VALUES {}", row(&first.to_string()));
        let rows: Vec<String> = (0..count).map(|number| row(["NULL", "DEFAULT", "0"][number % 3])).collect();
        let verbs = [
            ("INSERT", ""),
            ("INSERT", ""),
            ("INSERT", " RETURNING id"),
            ("INSERT IGNORE", ""),
            ("REPLACE", ""),
            ("INSERT", " ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)"),
        ];
        let (verb, tail) = *pick(random, &verbs);
        let values = format!("{verb} INTO {name} (id{names}) VALUES {}{tail}", rows.join(", "));
        let log = (!self.tables.iter().any(|table| table.name == name && table.triggers.is_empty()))
            .then(|| self.log_table());
        let change =
            |text: String| Step::new(session, Kind::Change, text).in_order(true).writing([&name]).writing(log.as_ref());
        self.guarded(session, change(own));
        self.queue.push_back(Planned { follows: true, ..change(values).into() });
        let look = Step::new(session, Kind::Query, "SELECT LAST_INSERT_ID()");
        self.queue.push_back(Planned { follows: true, ..look.into() });
        Some(())
    }

    /// Adds, drops or renames a key.
    pub fn alter_keys(&mut self, session: usize, index: usize) -> Option<Planned> {
        let mut table = self.tables[index].clone();
        let name = self.new_name("k");
        let random = &mut self.random;
        let has_primary = table.keys.iter().any(|key| key.name == "PRIMARY");
        // Without a primary key InnoDB orders its rows by another, which stays only if the table is
        // copied.
        let may_stay = has_primary && !table.partitioned && !table.has_hashed_key() && chance(random, 60);
        let mut text = match random.random_range(0..10) {
            0..5 => {
                let primary = !has_primary && chance(random, 50);
                let key = if primary {
                    Key::primary(random, &table.shape())
                } else {
                    Key::any(random, &table.shape(), name)?
                };
                let text = format!("ALTER TABLE {} ADD {}", table.name, key.definition());
                table.keys.push(key);
                table.keys_changed();
                text
            }
            place if table.keys.is_empty() || place == 9 => return None,
            5 => {
                let place = random.random_range(0..table.keys.len());
                let old = std::mem::replace(&mut table.keys[place].name, name);
                if old == "PRIMARY" {
                    return None;
                }
                format!("ALTER TABLE {} RENAME INDEX {old} TO {}", table.name, table.keys[place].name)
            }
            _ => {
                let key = table.keys.remove(random.random_range(0..table.keys.len()));
                table.keys_changed();
                match key.name.as_str() {
                    "PRIMARY" => format!("ALTER TABLE {} DROP PRIMARY KEY", table.name),
                    name if chance(random, 50) => format!("DROP INDEX {name} ON {}", table.name),
                    name => format!("ALTER TABLE {} DROP INDEX {name}", table.name),
                }
            }
        };
        // Without the copy neither engine checks the rows again. DROP INDEX takes no algorithm.
        let in_place =
            may_stay && !table.has_hashed_key() && !text.contains("PRIMARY") && !text.starts_with("DROP INDEX");
        if in_place {
            text += if text.starts_with("ALTER") { ", ALGORITHM=INPLACE" } else { " ALGORITHM=INPLACE" };
        }
        let mut step = Step::new(session, Kind::Definition, text).writing([&table.name]);
        step.in_place = in_place;
        Some(Planned::with(step, ModelChange::Put(Box::new(table))))
    }
}
