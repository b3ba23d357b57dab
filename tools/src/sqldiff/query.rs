//! Reads: some columns, aggregates, joins, subqueries, locking reads.

use rand::Rng;

use super::expression::condition;
use super::generate::Generator;
use super::random::{chance, pick};
use super::schema::Table;
use super::step::{Kind, Step};

impl Generator {
    /// A read of some table.
    pub fn query(&mut self, session: usize) -> Option<Step> {
        let index = self.some_table(session)?;
        let table = self.tables[index].clone();
        let by_key = match self.random.random_range(0..10) {
            0..4 => self.read_by_key(session, &table),
            4 => self.join_by_key(session, &table),
            _ => None,
        };
        if let Some(step) = by_key {
            return Some(step.reading([&table.name]));
        }
        let step = match self.random.random_range(0..10) {
            0..4 => self.select(session, &table),
            4..6 => self.aggregate(session, &table),
            6..8 => self.select_two(session, &table),
            8 => self.locking_read(session, &table),
            _ if table.versioned => {
                let text = format!("SELECT id FROM {} FOR SYSTEM_TIME ALL", table.name);
                Step::new(session, Kind::Query, text)
            }
            _ => self.select(session, &table),
        };
        Some(step.reading([&table.name]))
    }

    fn some_columns(&mut self, table: &Table) -> String {
        let columns: Vec<&str> = std::iter::once("id")
            .chain(table.columns.iter().map(|column| column.name.as_str()).filter(|_| chance(&mut self.random, 50)))
            .collect();
        columns.join(", ")
    }

    fn select(&mut self, session: usize, table: &Table) -> Step {
        let columns = self.some_columns(table);
        let random = &mut self.random;
        let condition = condition(random, table, "");
        let ordered = table.unique && chance(random, 40);
        let order = if ordered { " ORDER BY id DESC" } else { "" };
        let limit = if ordered && chance(random, 40) { " LIMIT 5 OFFSET 1" } else { "" };
        let text = format!("SELECT {columns} FROM {} WHERE {condition}{order}{limit}", table.name);
        Step::new(session, Kind::Query, text).in_order(ordered)
    }

    /// An aggregate. Only exact numbers are summed, and none whose sums may overflow on the way:
    /// otherwise they depend on the order of rows.
    fn aggregate(&mut self, session: usize, table: &Table) -> Step {
        let numbers: Vec<&str> =
            table.columns.iter().filter(|column| column.kind.has_sums()).map(|column| &*column.name).collect();
        let random = &mut self.random;
        let number = if numbers.is_empty() { "id" } else { *pick(random, &numbers) };
        let aggregates = format!("COUNT(*), COUNT({number}), SUM({number}), MIN({number}), MAX({number})");
        let condition = condition(random, table, "");
        let text = match random.random_range(0..4) {
            0 => format!("SELECT {aggregates} FROM {} WHERE {condition}", table.name),
            1 => format!("SELECT id % 4, {aggregates} FROM {} WHERE {condition} GROUP BY id % 4", table.name),
            2 => format!("SELECT DISTINCT {number} FROM {} WHERE {condition}", table.name),
            _ => format!("SELECT COUNT(*), SUM(LENGTH(CONCAT_WS('', {}))) FROM {}", table.all_columns(), table.name),
        };
        Step::new(session, Kind::Query, text)
    }

    fn select_two(&mut self, session: usize, table: &Table) -> Step {
        let Some(other) = self.some_table(session) else { return self.select(session, table) };
        let other = self.tables[other].name.clone();
        let random = &mut self.random;
        let name = &table.name;
        // The server does not open a temporary table twice everywhere.
        if other == *name {
            return self.select(session, table);
        }
        let condition = condition(random, table, "a.");
        let text = match random.random_range(0..5) {
            0 => format!("SELECT a.*, b.id FROM {name} a JOIN {other} b ON a.id = b.id WHERE {condition}"),
            1 => format!("SELECT a.id, b.id FROM {name} a LEFT JOIN {other} b ON a.id = b.id + 1 WHERE {condition}"),
            2 => format!(
                "SELECT a.id FROM {name} a WHERE EXISTS (SELECT 1 FROM {other} b WHERE b.id = a.id) AND {condition}"
            ),
            3 => format!("SELECT a.* FROM {name} a WHERE a.id IN (SELECT id + 1 FROM {other}) AND {condition}"),
            _ => format!("SELECT id FROM {name} a WHERE {condition} UNION ALL SELECT id FROM {other}"),
        };
        Step::new(session, Kind::Query, text).reading([&other])
    }

    fn locking_read(&mut self, session: usize, table: &Table) -> Step {
        let columns = self.some_columns(table);
        let condition = condition(&mut self.random, table, "");
        // SKIP LOCKED would skip more rows in InnoDB, which locks more.
        let alone = !self.tracker.locked_by_others(session, &table.name);
        let locks = ["FOR UPDATE", "LOCK IN SHARE MODE", "FOR UPDATE NOWAIT", "FOR UPDATE SKIP LOCKED"];
        let lock = *pick(&mut self.random, if alone { &locks } else { &locks[..3] });
        let hint = self.past_keys(session, table);
        let text = format!("SELECT {columns} FROM {}{hint} WHERE {condition} {lock}", table.name);
        Step::new(session, Kind::LockingQuery, text)
    }
}
