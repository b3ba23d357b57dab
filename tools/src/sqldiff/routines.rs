//! Triggers, views, procedures, functions, prepared statements and user variables.

use rand::Rng;

use super::expression::condition;
use super::generate::{Generator, ModelChange, Planned};
use super::random::{chance, pick};
use super::step::{Kind, Step};

/// Ways in which the optimizer has rows read and joined: level of the join cache, and switches. The
/// first is the server's own.
const PLANS: [(&str, &str); 12] = [
    ("DEFAULT", "default"),
    ("8", "default,mrr=on,mrr_cost_based=off,mrr_sort_keys=on"),
    ("6", "default,mrr=on,mrr_cost_based=off"),
    ("4", "default,index_condition_pushdown=off"),
    ("3", "default,firstmatch=off,loosescan=off"),
    ("7", "default,materialization=off,firstmatch=off,loosescan=on"),
    ("5", "default,semijoin=off,materialization=off,exists_to_in=off"),
    ("DEFAULT", "default,index_merge_sort_intersection=on,not_null_range_scan=on"),
    ("DEFAULT", "default,index_merge=off,extended_keys=off"),
    ("0", "default,derived_merge=off,derived_with_keys=off"),
    ("8", "default,mrr=on,mrr_cost_based=off,outer_join_with_cache=off"),
    ("DEFAULT", "default,condition_pushdown_for_derived=off,subquery_cache=off"),
];

/// Name of the table that triggers write to.
const LOG_TABLE: &str = "trigger_log";

fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

impl Generator {
    /// The table that triggers write to.
    pub fn log_table(&self) -> String {
        LOG_TABLE.to_owned()
    }

    /// Creates it.
    pub fn create_log_table(&mut self) {
        let text = format!("CREATE TABLE {LOG_TABLE} (id BIGINT, what VARCHAR(20), old_id BIGINT, new_id BIGINT)");
        self.plan(Step::new(0, Kind::Definition, text).writing([&LOG_TABLE.to_owned()]));
    }

    /// A statement of one of these kinds.
    pub fn extra(&mut self, session: usize) -> Option<()> {
        match self.random.random_range(0..10) {
            0..3 => self.prepared(session),
            3..5 => self.variables(session),
            5 => self.trigger(session),
            6 => self.view(session),
            7 => self.procedure(session),
            8 => self.function(session),
            _ => {
                self.setting(session);
                Some(())
            }
        }
    }

    fn setting(&mut self, session: usize) {
        let strict = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";
        let text = match self.random.random_range(0..10) {
            0 => "SET sql_mode = ''".to_owned(),
            1..4 => format!("SET sql_mode = '{strict}'"),
            4..8 => {
                let (level, switches) = pick(&mut self.random, &PLANS);
                format!("SET join_cache_level = {level}, optimizer_switch = '{switches}'")
            }
            _ => format!("SET timestamp = {}", 1_700_000_000 + self.random.random_range(0..1_000_000)),
        };
        self.plan(Step::new(session, Kind::Setting, text));
    }

    fn prepared(&mut self, session: usize) -> Option<()> {
        if chance(&mut self.random, 50) {
            let step = self.change(session).filter(|step| step.file.is_none())?;
            self.plan(Step::new(session, Kind::Setting, format!("PREPARE s FROM {}", text_literal(&step.text))));
            let times = self.random.random_range(1..=2);
            for _ in 0..times {
                let again = Step { text: "EXECUTE s".to_owned(), ordered: false, ..step.clone() };
                self.guarded(session, again);
            }
            return Some(());
        }
        let index = self.some_table(session)?;
        let table = self.tables[index].clone();
        let column = (*table.assignable().first()?).clone();
        let (value, id) = (column.kind.value(&mut self.random), table.some_id(&mut self.random));
        self.plan(Step::new(session, Kind::Setting, format!("SET @value = {value}, @id = {id}")));
        if table.is_order_sensitive() && !table.unique {
            return None;
        }
        let order = if table.is_order_sensitive() { " ORDER BY id" } else { "" };
        let hint = self.past_keys(session, &table);
        let text = format!("PREPARE s FROM 'UPDATE {}{hint} SET {} = ? WHERE id >= ?{order}'", table.name, column.name);
        self.plan(Step::new(session, Kind::Setting, text));
        let log = (!table.triggers.is_empty()).then(|| self.log_table());
        let step = Step::new(session, Kind::Change, "EXECUTE s USING @value, @id");
        self.guarded(session, step.writing([&table.name]).writing(log.as_ref()));
        Some(())
    }

    fn variables(&mut self, session: usize) -> Option<()> {
        let index = self.some_table(session)?;
        let table = self.tables[index].clone();
        if table.is_order_sensitive() && !table.unique {
            return None;
        }
        let condition = condition(&mut self.random, &table, "");
        let text = format!("SELECT MAX(id), COUNT(*) INTO @id, @count FROM {} WHERE {condition}", table.name);
        self.plan(Step::new(session, Kind::Query, text).reading([&table.name]));
        self.plan(Step::new(session, Kind::Query, "SELECT @id, @count"));
        let column = table.assignable().first()?.name.clone();
        let hint = if table.has_primary_id() { String::new() } else { self.past_keys(session, &table) };
        let text = format!("UPDATE {}{hint} SET {column} = @count WHERE id = @id", table.name);
        let log = (!table.triggers.is_empty()).then(|| self.log_table());
        let step = Step::new(session, Kind::Change, text).writing([&table.name]).writing(log.as_ref());
        self.guarded(session, step);
        Some(())
    }

    fn trigger(&mut self, session: usize) -> Option<()> {
        self.current = session;
        let index = self.some_base_table()?;
        let mut table = self.tables[index].clone();
        if self.tracker.any_open() {
            return None;
        }
        if let Some(name) = table.triggers.pop() {
            let step = Step::new(session, Kind::Definition, format!("DROP TRIGGER {name}")).writing([&table.name]);
            self.plan(Planned::with(step, ModelChange::Put(Box::new(table))));
            self.plan(
                Step::new(session, Kind::Change, format!("DELETE FROM {LOG_TABLE}")).writing([&LOG_TABLE.to_owned()]),
            );
            return Some(());
        }
        let name = self.new_name("g");
        let log = |what: &str, old: &str, new: &str| {
            format!("INSERT INTO {LOG_TABLE} VALUES (COALESCE({new}, {old}), '{what}', {old}, {new})")
        };
        let (when, body) = match self.random.random_range(0..5) {
            0 => ("AFTER INSERT", log("insert", "NULL", "NEW.id")),
            1 => ("AFTER UPDATE", log("update", "OLD.id", "NEW.id")),
            2 => ("BEFORE DELETE", log("delete", "OLD.id", "NULL")),
            3 => ("BEFORE INSERT", log("before", "NULL", "NEW.id")),
            _ => (
                "BEFORE UPDATE",
                "IF NEW.id % 11 = 3 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused'; END IF".to_owned(),
            ),
        };
        let text = format!("CREATE TRIGGER {name} {when} ON {} FOR EACH ROW {body}", table.name);
        table.triggers.push(name);
        let step = Step::new(session, Kind::Definition, text).writing([&table.name]);
        self.plan(Planned::with(step, ModelChange::Put(Box::new(table))));
        Some(())
    }

    fn view(&mut self, session: usize) -> Option<()> {
        let index = self.some_base_table()?;
        let table = self.tables[index].clone();
        if self.tracker.any_open() {
            return None;
        }
        let option = *pick(&mut self.random, &["", " WITH CHECK OPTION"]);
        let bound = table.some_id(&mut self.random);
        let text = format!("CREATE OR REPLACE VIEW v AS {} WHERE id > {bound}{option}", table.select_all());
        self.plan(Step::new(session, Kind::Definition, text).reading([&table.name]));
        self.plan(Step::new(session, Kind::Query, "SELECT * FROM v").reading([&table.name]));
        let log = (!table.triggers.is_empty()).then(|| self.log_table());
        let id = table.some_id(&mut self.random);
        let change = |text| Step::new(session, Kind::Change, text).writing([&table.name]).writing(log.as_ref());
        // Of rows that stay as they are, the server counts only some as matched when it buffers
        // those to change.
        self.plan(change(format!("UPDATE v SET id = id WHERE id <= {id}")).engine_shows());
        self.plan(change(format!("DELETE FROM v WHERE id = {id}")));
        if table.unique {
            let fresh = table.next_id;
            self.tables[index].next_id += 1;
            let text = format!("INSERT INTO v (id) VALUES ({fresh})");
            self.plan(Step::new(session, Kind::Change, text).writing([&table.name]).writing(log.as_ref()));
        }
        self.plan(Step::new(session, Kind::Definition, "DROP VIEW v").reading([&table.name]));
        Some(())
    }

    /// A procedure that goes on after a statement in it has failed.
    fn procedure(&mut self, session: usize) -> Option<()> {
        let index = self.some_base_table()?;
        if self.tracker.any_open() {
            return None;
        }
        let count = self.random.random_range(2..6);
        let mut body = String::new();
        let mut tables = Vec::new();
        for _ in 0..count {
            let step = self.change(session).filter(|step| step.file.is_none() && !step.text.contains("RETURNING"))?;
            if self.tables.iter().any(|table| table.owner.is_some() && step.tables().any(|name| *name == table.name)) {
                return None;
            }
            body += &format!("{}; ", step.text);
            tables.extend(step.tables().cloned());
        }
        let end = *pick(&mut self.random, &["COMMIT", "ROLLBACK", "SET @ended = 1"]);
        let start = if end.starts_with("SET") { "SET @ended = 0" } else { "START TRANSACTION" };
        let text = format!(
            "CREATE PROCEDURE p() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @errors = @errors + 1; {start}; {body}{end}; END"
        );
        let name = self.tables[index].name.clone();
        self.plan(Step::new(session, Kind::Definition, text));
        self.plan(Step::new(session, Kind::Setting, "SET @errors = 0"));
        let call = Step::new(session, Kind::Change, "CALL p()").writing(&tables).reading([&name]).engine_shows();
        self.plan(call);
        self.plan(Step::new(session, Kind::Query, "SELECT @errors"));
        self.plan(Step::new(session, Kind::Definition, "DROP PROCEDURE p"));
        Some(())
    }

    fn function(&mut self, session: usize) -> Option<()> {
        let (index, other) = (self.some_base_table()?, self.some_base_table()?);
        if self.tracker.any_open() {
            return None;
        }
        let (table, other) = (self.tables[index].name.clone(), self.tables[other].name.clone());
        let text = format!(
            "CREATE FUNCTION f(n BIGINT) RETURNS BIGINT READS SQL DATA RETURN (SELECT COUNT(*) FROM {other} WHERE id <= n)"
        );
        self.plan(Step::new(session, Kind::Definition, text));
        let text = format!("SELECT id, f(id) FROM {table}");
        self.plan(Step::new(session, Kind::Query, text).reading([&table, &other]));
        self.plan(Step::new(session, Kind::Definition, "DROP FUNCTION f"));
        Some(())
    }
}
