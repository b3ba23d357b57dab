//! The seeded stream of statements. The next statement depends on the seed and on which statements
//! have succeeded, which is the same on both servers, so a seed repeats its stream.

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::column::Column;
use super::counted::Counted;
use super::outcome::{Cell, DEADLOCK, Outcome};
use super::random::{chance, pick};
use super::related::{self, Effect};
use super::schema::Table;
use super::step::{Kind, OBSERVER, SESSIONS, Step};
use super::tracker::{Alone, Tracker};

/// Average number of statements between two restarts.
const RESTART_EVERY: u32 = 4_000;
/// Least number of statements between two restarts.
const RESTART_APART: u32 = 1_500;

/// Share of turns in 100 that go to a few statements on tables with counters.
const COUNTS: u32 = 14;
/// Share of the others that go to a few statements on tables with foreign keys.
const RELATES: u32 = 12;

/// Share that goes to SEQUENCE objects.
const SEQUENCES: u32 = 5;

/// Ids of a table that are remembered.
const IDS: usize = 60;

/// How the model changes if the statement succeeds.
#[derive(Clone, Debug)]
pub enum ModelChange {
    /// A table is new or changed.
    Put(Box<Table>),
    /// A table is dropped.
    Remove(String),
    /// A table is renamed.
    Rename(String, String),
    /// Two tables have swapped names.
    Swap(String, String),
}

/// A step, and the effect of its success on the model.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The statement.
    pub step: Step,
    /// Applied when both servers accept it.
    pub change: Option<ModelChange>,
    /// Whether it is left out unless the step before it has succeeded.
    pub follows: bool,
}

impl Planned {
    /// A step that changes the model.
    pub fn with(step: Step, change: ModelChange) -> Self {
        Self { step, change: Some(change), follows: false }
    }
}

impl From<Step> for Planned {
    fn from(step: Step) -> Self {
        Self { step, change: None, follows: false }
    }
}

/// The generator and its model of the servers.
pub struct Generator {
    /// Source of every choice.
    pub random: StdRng,
    /// The existing tables, temporary ones included.
    pub tables: Vec<Table>,
    /// The tables with counters, which other statements leave alone.
    pub counted: Vec<Counted>,
    /// The SEQUENCE objects.
    pub sequences: Vec<String>,
    /// Open transactions.
    pub tracker: Tracker,
    /// Steps that must come next, without others in between.
    pub queue: VecDeque<Planned>,
    /// Number of the next name.
    pub next_name: u32,
    /// The session that the current DDL is for.
    pub current: usize,
    /// Number of the next file.
    pub files: u32,
    /// The transaction that runs alone, if there is one.
    pub alone: Option<Alone>,
    since_restart: u32,
    /// Whether the last step of the stream has failed.
    failed: bool,
}

impl Generator {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        let mut generator = Self {
            random: StdRng::seed_from_u64(seed),
            tables: Vec::new(),
            counted: Vec::new(),
            sequences: Vec::new(),
            tracker: Tracker::default(),
            queue: VecDeque::new(),
            next_name: 0,
            current: 0,
            files: 0,
            alone: None,
            since_restart: 0,
            failed: false,
        };
        generator.create_log_table();
        generator
    }

    /// An unused name.
    pub fn new_name(&mut self, start: &str) -> String {
        self.next_name += 1;
        format!("{start}{}", self.next_name)
    }

    /// A table that the session can see and may touch now; sometimes one of its temporary ones.
    pub fn some_table(&mut self, session: usize) -> Option<usize> {
        let seen = |table: &Table| table.owner.is_none_or(|owner| owner == session) && self.may_touch(session, table);
        let indexes: Vec<usize> = (0..self.tables.len()).filter(|&index| seen(&self.tables[index])).collect();
        (!indexes.is_empty()).then(|| *pick(&mut self.random, &indexes))
    }

    /// A table everybody can see.
    pub fn some_base_table(&mut self) -> Option<usize> {
        let indexes: Vec<usize> = (0..self.tables.len()).filter(|&index| self.tables[index].owner.is_none()).collect();
        (!indexes.is_empty()).then(|| *pick(&mut self.random, &indexes))
    }

    /// Whether a table that the step touches has keys.
    pub fn has_keys(&self, step: &Step) -> bool {
        let keyed = |name: &String| self.tables.iter().any(|table| table.name == *name && !table.keys.is_empty());
        step.tables().any(keyed)
    }

    /// Whether the server repeats a warning about a missing value for each row with one engine and
    /// not with the other: the trigger of a table with computed columns has it keep the columns
    /// without NULL twice, unless many of the others are not stored.
    pub fn warns_by_row(&self, step: &Step) -> bool {
        let twice = |table: &Table| !table.triggers.is_empty() && table.columns.iter().any(Column::is_virtual);
        step.tables().any(|name| self.tables.iter().any(|table| table.name == *name && twice(table)))
    }

    /// Whether enough statements have run since the last restart.
    pub fn may_restart(&self) -> bool {
        self.since_restart > RESTART_APART
    }

    /// The next statement.
    pub fn next(&mut self) -> Planned {
        loop {
            if let Some(planned) = self.queue.pop_front() {
                if planned.follows && self.failed {
                    continue;
                }
                return planned;
            }
            self.compose();
        }
    }

    /// Plans one statement, or a few that belong together.
    fn compose(&mut self) {
        if self.compose_alone() {
            return;
        }
        if self.may_restart() && self.random.random_range(0..RESTART_EVERY - RESTART_APART) == 0 {
            let kill = chance(&mut self.random, 60);
            let text = if kill { "kill -9" } else { "SHUTDOWN" };
            self.plan(Step::new(0, Kind::Restart { kill }, text));
            return;
        }
        let session = self.random.random_range(0..SESSIONS);
        if self.tables.iter().filter(|table| table.owner.is_none()).count() < 2 {
            let planned = self.create(session);
            self.plan(planned);
            return;
        }
        let is_open = self.tracker.session(session).is_open;
        if !is_open && chance(&mut self.random, COUNTS) {
            self.count(session);
            return;
        }
        if !is_open && chance(&mut self.random, SEQUENCES) {
            self.use_sequence(session);
            return;
        }
        if !is_open && chance(&mut self.random, RELATES) {
            self.relate(session);
            return;
        }
        match self.random.random_range(0..100) {
            0..58 => {
                if let Some(step) = self.change(session) {
                    self.guarded(session, step);
                }
            }
            58..71 => {
                if let Some(step) = self.query(session) {
                    self.plan(step);
                }
            }
            71..79 if is_open => self.end(session),
            71..79 => self.begin(session),
            79..89 => {
                let step = self.savepoint(session);
                self.plan(step);
            }
            89 if chance(&mut self.random, 70) => self.go_alone(session),
            // DDL would end most transactions too early.
            89..95 if !is_open || chance(&mut self.random, 15) => {
                if let Some(planned) = self.define(session) {
                    self.plan(planned);
                }
            }
            95 => {
                let planned = self.temporary(session);
                self.plan(planned);
            }
            96 if !is_open && chance(&mut self.random, 60) => drop(self.distributed(session)),
            96 if !is_open => drop(self.serializable(session)),
            97 => drop(self.automatic(session)),
            _ => drop(self.extra(session)),
        }
    }

    /// Plans a few statements on tables with foreign keys.
    fn relate(&mut self, session: usize) {
        for (effect, text, file) in related::statements(&mut self.random) {
            let kind = match effect {
                Effect::Setting | Effect::Look => Kind::Setting,
                Effect::Begin => Kind::Begin { snapshot: false },
                Effect::Commit => Kind::Commit,
                Effect::Rollback => Kind::Rollback,
                Effect::Savepoint => Kind::Savepoint,
                Effect::Change => Kind::Change,
                Effect::Definition => Kind::Definition,
            };
            let step = Step { file, ..Step::new(session, kind, text).in_order(true) };
            let changes = matches!(effect, Effect::Change | Effect::Definition);
            self.plan(if changes { step.writing(&related::names()) } else { step });
        }
    }

    /// The reads of tables that follow a step: by the session itself inside its transaction, and by
    /// the observer. Call this before the step is booked.
    pub fn checks(&mut self, step: &Step) -> Vec<Step> {
        let session = self.tracker.session(step.session);
        let was_open = session.is_open;
        let mut tables: Vec<String> = step.writes.clone();
        let by_itself = match step.kind {
            Kind::Change => was_open,
            Kind::Savepoint if was_open => {
                tables = session.written.iter().cloned().collect();
                true
            }
            Kind::Commit | Kind::Rollback | Kind::Begin { .. } => {
                tables = session.written.iter().cloned().collect();
                false
            }
            Kind::Definition => false,
            Kind::Temporary => true,
            Kind::Restart { .. } => {
                let names = self.tables.iter().filter(|table| table.owner.is_none()).map(|table| table.name.clone());
                let counted = self.counted.iter().map(|table| table.name.clone());
                tables = names.chain([self.log_table()]).chain(counted).chain(related::names()).collect();
                false
            }
            _ => return Vec::new(),
        };
        tables.sort_unstable();
        tables.dedup();
        let mut checks = Vec::new();
        for name in &tables {
            let of_session = self.tables.iter().any(|table| table.name == *name && table.owner.is_some());
            if by_itself || of_session {
                checks.push(self.look(step.session, name));
            }
            if !of_session && (!by_itself || chance(&mut self.random, 10)) {
                checks.push(self.look(OBSERVER, name));
            }
            if !matches!(step.kind, Kind::Restart { .. }) {
                checks.extend(self.look_at_counter(name));
            }
        }
        if matches!(step.kind, Kind::Definition | Kind::Restart { .. }) {
            for name in &tables {
                let text = format!("SHOW CREATE TABLE {name}");
                checks.push(Step { is_check: true, ..Step::new(OBSERVER, Kind::Setting, text) });
            }
        }
        checks
    }

    /// A read of a whole table.
    fn look(&self, session: usize, name: &String) -> Step {
        let table = self.tables.iter().find(|table| table.name == *name);
        let text = table.map_or_else(|| format!("SELECT * FROM {name}"), Table::select_all);
        Step { is_check: true, ..Step::new(session, Kind::Query, text).reading([name]) }
    }

    /// Learns how a step ended, the same on both servers.
    pub fn learn(&mut self, planned: Planned, outcome: &Outcome) {
        let step = &planned.step;
        self.tracker.note(step, outcome);
        if !step.is_check {
            self.since_restart += 1;
            self.failed = !outcome.is_done();
        }
        if let (true, [name]) = (step.is_check && outcome.is_done(), step.reads.as_slice()) {
            for table in self.tables.iter_mut().filter(|table| table.name == *name) {
                table.rows = outcome.rows().len();
                // As a value of AUTO_INCREMENT, 0 asks for the next one.
                let id = |row: &Vec<Cell>| {
                    let id: u64 = str::from_utf8(row.first()?.as_ref()?).ok()?.parse().ok()?;
                    (id > 0).then_some(id)
                };
                table.ids = outcome.rows().iter().step_by(table.rows / IDS + 1).filter_map(id).collect();
            }
            for table in self.counted.iter_mut().filter(|table| table.name == *name) {
                let id = |row: &'_ Vec<Cell>| row.first()?.as_ref().map(|id| String::from_utf8_lossy(id).into_owned());
                let ids: Vec<String> = outcome.rows().iter().filter_map(id).collect();
                table.learn(ids.iter().map(String::as_str));
            }
        }
        match step.kind {
            Kind::Restart { .. } => {
                self.tables.retain(|table| table.owner.is_none());
                self.since_restart = 0;
                self.count_anew();
                self.end_sequences();
            }
            _ if outcome.code() == Some(DEADLOCK) => {
                self.queue.clear();
                self.plan(Step::new(step.session, Kind::Rollback, "ROLLBACK"));
            }
            _ if self.leaves_other_locks(step, outcome) => {
                self.queue.clear();
                self.plan(Step::new(step.session, Kind::Rollback, "ROLLBACK"));
            }
            Kind::Commit | Kind::Definition if step.text.starts_with("XA COMMIT") && !outcome.is_done() => {
                let text = step.text.replace("COMMIT", "ROLLBACK").replace(" ONE PHASE", "");
                self.plan(Step::new(step.session, Kind::Rollback, text));
            }
            _ => {}
        }
        if let (Some(change), true) = (planned.change, outcome.is_done()) {
            self.apply(change);
        }
    }

    /// A session's transaction was rolled back on both servers because InnoDB alone refused a
    /// statement.
    pub fn give_up(&mut self, session: usize) {
        self.queue.clear();
        let rollback = Step::new(session, Kind::Rollback, "ROLLBACK");
        let done = Outcome::nothing();
        self.tracker.note(&rollback, &done);
    }
}
