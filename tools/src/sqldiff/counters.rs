//! Counters of AUTO_INCREMENT columns in the stream: tables and statements of their own
//! (counted.rs), outside transactions or in short ones that nobody interrupts, so that both engines
//! count alike. After each change the rows and the counter are compared.

use super::counted::{Counted, Effect, Statement};
use super::generate::Generator;
use super::random::{chance, pick};
use super::step::{Kind, OBSERVER, Step};

/// Tables with counters.
const TABLES: usize = 4;

/// Only a restart sets the counters apart: Perdura leaves values out after a crash, InnoDB forgets
/// values that no row had. The next value must not be there on either side; then both counters are
/// set to the same value.
impl Generator {
    /// Plans a few statements on tables with counters.
    pub fn count(&mut self, session: usize) {
        if self.counted.len() < TABLES {
            let name = self.new_name("counted");
            let (table, text) = Counted::any(&mut self.random, name.clone(), false);
            self.counted.push(table);
            self.plan(Step::new(session, Kind::Definition, text).writing([&name]));
            return;
        }
        let place = rand::Rng::random_range(&mut self.random, 0..TABLES);
        if chance(&mut self.random, 1) {
            let name = self.counted.remove(place).name;
            self.plan(Step::new(session, Kind::Definition, format!("DROP TABLE {name}")));
            return;
        }
        let source = pick(&mut self.random, &self.counted).clone();
        for statement in self.counted[place].statements(&mut self.random, &source) {
            let step = step(session, statement);
            let writes_source = step.text.starts_with("UPDATE") && step.text.contains("b.v = 1");
            let source = writes_source.then_some(&source.name);
            let table = self.counted[place].name.clone();
            let changes = matches!(step.kind, Kind::Change | Kind::Definition);
            self.plan(if changes { step.writing([&table]).writing(source) } else { step });
        }
    }

    /// Plans what follows a restart: a value that the counter gives out, and the same counters on
    /// both sides.
    pub fn count_anew(&mut self) {
        for place in 0..self.counted.len() {
            let name = self.counted[place].name.clone();
            let text = self.counted[place].align();
            if text.starts_with("ALTER") {
                // The values differ, so they are not looked at.
                self.plan(Step::new(0, Kind::Change, format!("INSERT INTO {name} (u, v) VALUES (NULL, -1)")));
                self.plan(Step::new(0, Kind::Change, format!("DELETE FROM {name} WHERE v = -1")));
            }
            self.plan(Step::new(0, Kind::Definition, text).writing([&name]));
        }
    }

    /// Whether a step changes a table with a counter.
    pub fn counts(&self, step: &Step) -> bool {
        self.counted.iter().any(|table| step.writes.contains(&table.name))
    }

    /// The read of a table's counter.
    pub fn look_at_counter(&self, name: &String) -> Option<Step> {
        self.counted.iter().find(|table| table.name == *name)?;
        let text = format!(
            "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA='test' AND TABLE_NAME='{name}'"
        );
        Some(Step { is_check: true, ..Step::new(OBSERVER, Kind::Setting, text) })
    }
}

fn step(session: usize, statement: Statement) -> Step {
    let kind = match statement.effect {
        Effect::Setting => Kind::Setting,
        Effect::Begin => Kind::Begin { snapshot: false },
        Effect::Rollback => Kind::Rollback,
        Effect::Change => Kind::Change,
        Effect::Definition => Kind::Definition,
    };
    let mut step = Step::new(session, kind, statement.text).in_order(true);
    step.file = statement.file;
    step
}
