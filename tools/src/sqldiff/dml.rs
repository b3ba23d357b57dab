//! INSERT, REPLACE, UPDATE, DELETE and LOAD DATA in all their forms.

use rand::Rng;
use rand::rngs::StdRng;

use super::expression::{assigned, condition};
use super::generate::Generator;
use super::keys::on_key;
use super::random::{chance, pick};
use super::schema::Table;
use super::step::{Kind, Step};

/// A table with more rows than this is emptied before it is filled.
const ROWS_MAX: usize = 60;

/// A condition, often one that a key answers.
fn by_key_or_not(random: &mut StdRng, table: &Table) -> String {
    match table.some_key(random) {
        Some((_, Some(column))) if chance(random, 50) => {
            // A part of the rows only: a full table tests more than an empty one.
            format!("({}) AND id % 3 = {}", on_key(random, column, &column.name), random.random_range(0..3))
        }
        _ => condition(random, table, ""),
    }
}

impl Generator {
    /// A statement that changes some table.
    pub fn change(&mut self, session: usize) -> Option<Step> {
        let index = self.some_table(session)?;
        let crowded = self.tables[index].rows > ROWS_MAX;
        let step = match self.random.random_range(0..100) {
            0..7 if !crowded && !self.tables[index].keys.is_empty() && !self.tables[index].has_hashed_key() => {
                self.insert_or_update(session, index)
            }
            0..38 if !crowded => self.insert(session, index),
            38..44 if !crowded => self.insert_select(session, index),
            44..46 if !crowded => self.insert_many(session, index),
            46..51 if !crowded => self.load(session, index),
            51..75 => self.update(session, index),
            75..80 => self.update_join(session, index),
            80..85 => self.delete_join(session, index),
            _ if crowded && chance(&mut self.random, 50) => {
                let table = &self.tables[index];
                let keep = self.random.random_range(2..6);
                Step::new(session, Kind::Change, format!("DELETE FROM {} WHERE id % {keep} <> 1", table.name))
            }
            _ => self.delete(session, index),
        };
        let table = &self.tables[index];
        let log = (!table.triggers.is_empty()).then(|| self.log_table());
        let step = step.writing([&table.name]).writing(log.as_ref());
        (!self.reads_stale(&step)).then_some(step)
    }

    fn insert(&mut self, session: usize, index: usize) -> Step {
        let random = &mut self.random;
        let table = &mut self.tables[index];
        let mut columns: Vec<usize> = (0..table.columns.len()).collect();
        if chance(random, 35) {
            columns.retain(|_| chance(random, 60));
        }
        let verbs = ["INSERT", "INSERT", "INSERT", "INSERT IGNORE", "REPLACE"];
        let verb = *pick(random, table.without_replace(&verbs));
        let returning = if chance(random, 5) { format!(" RETURNING {}", table.all_columns()) } else { String::new() };
        if chance(random, 10) {
            let id = table.new_id(random);
            let set: Vec<String> = columns
                .iter()
                .map(|&column| format!(", {} = {}", table.columns[column].name, table.columns[column].value(random)))
                .collect();
            let text = format!("{verb} INTO {} SET id = {id}{}{returning}", table.name, set.concat());
            return Step::new(session, Kind::Change, text).in_order(true);
        }
        let names: Vec<&str> = columns.iter().map(|&column| table.columns[column].name.as_str()).collect();
        let names = std::iter::once("id").chain(names).collect::<Vec<_>>().join(", ");
        let count = if chance(random, 50) { 1 } else { random.random_range(2..=9) };
        let rows: Vec<String> = (0..count)
            .map(|_| {
                let id = table.new_id(random);
                let values = columns.iter().map(|&column| format!(", {}", table.columns[column].value(random)));
                format!("({id}{})", values.collect::<String>())
            })
            .collect();
        let text = format!("{verb} INTO {} ({names}) VALUES {}{returning}", table.name, rows.join(", "));
        Step::new(session, Kind::Change, text).in_order(true)
    }

    /// INSERT ... SELECT from another table or the same: the columns at the same positions, or
    /// values.
    fn insert_select(&mut self, session: usize, index: usize) -> Step {
        let Some(source) = self.some_table(session) else { return self.insert(session, index) };
        let from = self.tables[source].clone();
        let random = &mut self.random;
        let table = &mut self.tables[index];
        let copies_ids = table.collides && chance(random, 50);
        let id = if table.unique && !copies_ids {
            let first = table.next_id;
            table.next_id += from.rows as u64 + 200;
            format!("{first} + ROW_NUMBER() OVER (ORDER BY id)")
        } else {
            "id".to_owned()
        };
        let (mut names, mut values) = (vec!["id".to_owned()], vec![id]);
        for (place, column) in table.columns.iter().enumerate() {
            let same = from.columns.get(place).filter(|_| chance(random, 80));
            if column.generated.is_none() && chance(random, 85) {
                names.push(column.name.clone());
                let literal = || "NULL".to_owned();
                values.push(same.map_or_else(literal, |same| same.name.clone()));
            }
        }
        // Without an order the rows would get different ids on the two sides.
        let matters = table.unique || table.is_order_sensitive();
        if matters && !from.unique {
            return self.insert(session, index);
        }
        let order = if matters { " ORDER BY id" } else { "" };
        let verbs = ["INSERT", "INSERT IGNORE", "REPLACE"];
        let verb = *pick(random, table.without_replace(&verbs));
        let condition = condition(random, &from, "");
        let text = format!(
            "{verb} INTO {} ({}) SELECT {} FROM {} WHERE {condition}{order}",
            table.name,
            names.join(", "),
            values.join(", "),
            from.name
        );
        Step::new(session, Kind::Change, text).reading([&from.name]).in_order(matters)
    }

    /// A bulk insert: many rows of mixed lengths.
    fn insert_many(&mut self, session: usize, index: usize) -> Step {
        let random = &mut self.random;
        let table = &mut self.tables[index];
        let count = random.random_range(60..300);
        let first = table.next_id;
        table.next_id += count;
        let longest = *pick(random, &[10, 200, 2_000]);
        let mut names = vec!["id".to_owned()];
        let mut values = vec!["seq".to_owned()];
        for column in table.assignable() {
            let value = match column.kind.family {
                super::types::Family::Exact => "seq % 100".to_owned(),
                super::types::Family::Text | super::types::Family::Bytes if column.kind.is_blob => {
                    format!("REPEAT('m', seq * 7919 % {longest})")
                }
                super::types::Family::Text | super::types::Family::Bytes => "LEFT(seq, 1)".to_owned(),
                _ if column.nullable => continue,
                _ => column.kind.value(random),
            };
            names.push(column.name.clone());
            values.push(value);
        }
        let (names, values, last) = (names.join(", "), values.join(", "), first + count - 1);
        let text = format!("INSERT INTO {} ({names}) SELECT {values} FROM seq_{first}_to_{last}", table.name);
        Step::new(session, Kind::Change, text).in_order(true)
    }

    fn load(&mut self, session: usize, index: usize) -> Step {
        let random = &mut self.random;
        let table = &mut self.tables[index];
        let mut content = String::new();
        for _ in 0..random.random_range(1..=12) {
            content += &table.new_id(random).to_string();
            for column in table.columns.iter().filter(|column| column.generated.is_none()) {
                content.push(',');
                content += &if chance(random, 10) { "\\N".to_owned() } else { column.kind.field(random) };
            }
            content.push('\n');
        }
        let columns: Vec<&str> = table.assignable().into_iter().map(|column| column.name.as_str()).collect();
        let columns = std::iter::once("id").chain(columns).collect::<Vec<_>>().join(", ");
        let file = format!("load-{}", self.files);
        self.files = (self.files + 1) % 8;
        let how = *pick(random, &["", "LOCAL "]);
        let ignores = ["", "", " IGNORE", " REPLACE"];
        let ignore = *pick(random, table.without_replace(&ignores));
        let text = format!(
            "LOAD DATA {how}INFILE '{{DIR}}/{file}'{ignore} INTO TABLE {} CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' ({columns})",
            table.name
        );
        let mut step = Step::new(session, Kind::Change, text).in_order(true);
        step.file = Some((file, content));
        step
    }

    fn assignments(&mut self, table: &Table, prefix: &str) -> String {
        let random = &mut self.random;
        let columns = table.assignable();
        if columns.is_empty() {
            return format!("{prefix}id = {prefix}id");
        }
        let count = random.random_range(1..=3);
        let assignments: Vec<String> = (0..count)
            .map(|_| {
                let column = *pick(random, &columns);
                format!("{prefix}{} = {}", column.name, assigned(random, column, prefix))
            })
            .collect();
        assignments.join(", ")
    }

    fn update(&mut self, session: usize, index: usize) -> Step {
        let table = self.tables[index].clone();
        let set = self.assignments(&table, "");
        let sensitive = table.is_order_sensitive();
        if sensitive && !table.unique {
            return self.insert(session, index);
        }
        let condition = by_key_or_not(&mut self.random, &table);
        let (condition, hint) = self.settled(session, &table, condition);
        let limits = table.unique && !self.is_contended(session, &table);
        let random = &mut self.random;
        let ignore = if chance(random, 12) && !table.has_hashed_key() { "IGNORE " } else { "" };
        let by_key = table.some_key(random).and_then(|(key, _)| table.order_of(key, chance(random, 50)));
        let (tail, ordered) = match (random.random_range(0..7), by_key) {
            (0, _) if limits => (format!(" ORDER BY id LIMIT {}", random.random_range(0..9)), true),
            (1, _) if table.unique => (" ORDER BY id DESC".to_owned(), true),
            (2, Some(order)) if limits => (format!(" ORDER BY {order} LIMIT {}", random.random_range(0..9)), true),
            _ if sensitive => (" ORDER BY id".to_owned(), true),
            _ => (String::new(), false),
        };
        let text = format!("UPDATE {ignore}{}{hint} SET {set} WHERE {condition}{tail}", table.name);
        Step::new(session, Kind::Change, text).in_order(ordered)
    }

    /// Changes the rows of one table whose ids another has. The assigned values depend only on the
    /// row itself.
    fn update_join(&mut self, session: usize, index: usize) -> Step {
        let Some(other) = self.some_table(session).filter(|&other| other != index) else {
            return self.update(session, index);
        };
        let (table, other) = (self.tables[index].clone(), self.tables[other].clone());
        let sensitive = table.is_order_sensitive() || other.is_order_sensitive();
        if sensitive && !(table.unique && other.unique) {
            return self.update(session, index);
        }
        let mut set = self.assignments(&table, "a.");
        let both = chance(&mut self.random, 35) && other.triggers.is_empty();
        if both {
            set = format!("{set}, {}", self.assignments(&other, "b."));
        }
        let mut condition = condition(&mut self.random, &table, "a.");
        if sensitive {
            condition = format!("a.id = {} AND ({condition})", table.some_id(&mut self.random));
        }
        let joined = self.joined(session, &table, &other);
        let text = format!("UPDATE {joined} ON a.id = b.id SET {set} WHERE {condition}");
        let step = Step::new(session, Kind::Change, text);
        if both { step.writing([&other.name]) } else { step.reading([&other.name]) }
    }

    /// A fixed join order: the optimizer would choose it, and so the rows to lock, by the engine's
    /// statistics.
    fn joined(&mut self, session: usize, a: &Table, b: &Table) -> String {
        let [a, b] = [(a, "a"), (b, "b")]
            .map(|(table, name)| format!("{} {name}{}", table.name, self.past_keys(session, table)));
        if chance(&mut self.random, 50) { format!("{a} STRAIGHT_JOIN {b}") } else { format!("{b} STRAIGHT_JOIN {a}") }
    }

    fn delete(&mut self, session: usize, index: usize) -> Step {
        let table = self.tables[index].clone();
        let condition = by_key_or_not(&mut self.random, &table);
        let condition = self.settled_delete(session, &table, condition);
        let limits = table.unique && !self.is_contended(session, &table);
        let random = &mut self.random;
        let (tail, ordered) = match random.random_range(0..8) {
            0 | 1 if limits => (format!(" ORDER BY id LIMIT {}", random.random_range(0..6)), true),
            2 => (format!(" RETURNING {}", table.all_columns()), false),
            _ => (String::new(), false),
        };
        let text = format!("DELETE FROM {} WHERE {condition}{tail}", table.name);
        Step::new(session, Kind::Change, text).in_order(ordered)
    }

    fn delete_join(&mut self, session: usize, index: usize) -> Step {
        let Some(other) = self.some_table(session).filter(|&other| other != index) else {
            return self.delete(session, index);
        };
        let (table, other) = (self.tables[index].clone(), self.tables[other].clone());
        let condition = condition(&mut self.random, &table, "a.");
        let both = chance(&mut self.random, 30) && other.triggers.is_empty();
        let targets = if both { "a, b" } else { "a" };
        let joined = self.joined(session, &table, &other);
        let text = format!("DELETE {targets} FROM {joined} ON a.id = b.id WHERE {condition}");
        let step = Step::new(session, Kind::Change, text);
        if both { step.writing([&other.name]) } else { step.reading([&other.name]) }
    }
}
