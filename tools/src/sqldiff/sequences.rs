//! SEQUENCE objects in the stream: a few, which other statements leave alone, used outside
//! transactions or in short ones that are rolled back. InnoDB may lose the last changes of one by a
//! kill, so a restart ends them all.

use rand::Rng;
use rand::rngs::StdRng;

use super::generate::Generator;
use super::random::{chance, pick};
use super::step::{Kind, Step};

/// Sequences that exist at once.
const SEQUENCES: usize = 3;
/// Values around those that options and SETVAL name.
const VALUES: [i64; 11] = [-50, -7, -1, 1, 2, 3, 10, 40, 100, 5000, i64::MAX - 1];

fn value(random: &mut StdRng) -> i64 {
    *pick(random, &VALUES)
}

/// Options of CREATE and ALTER SEQUENCE; they may contradict each other, which both engines'
/// servers refuse.
fn options(random: &mut StdRng) -> String {
    let mut text = String::new();
    for word in ["MINVALUE", "MAXVALUE", "START", "INCREMENT"] {
        if chance(random, 25) {
            text += &format!(" {word} {}", value(random));
        }
    }
    if chance(random, 60) {
        text += &format!(" CACHE {}", pick(random, &[0, 2, 3, 10, 1000]));
    }
    text + *pick(random, &["", "", " CYCLE", " NOCYCLE"])
}

/// A row that may be inserted, which replaces the one that there is.
fn row(random: &mut StdRng) -> String {
    let (least, step) = (value(random), random.random_range(-3..5));
    let most = least.saturating_add(random.random_range(-2..500));
    let next = least.saturating_add(random.random_range(0..9));
    format!(
        "({next}, {least}, {most}, {least}, {step}, {}, {}, 0)",
        random.random_range(0..20),
        random.random_range(0..2)
    )
}

impl Generator {
    /// Plans one use of a sequence, or a few that belong together.
    pub fn use_sequence(&mut self, session: usize) {
        if self.sequences.len() < SEQUENCES {
            let name = self.new_name("sequence");
            let text = format!("CREATE SEQUENCE {name}{}", options(&mut self.random));
            self.sequences.push(name.clone());
            self.plan(Step::new(session, Kind::Definition, text).writing([&name]));
            return;
        }
        let place = self.random.random_range(0..SEQUENCES);
        let name = self.sequences[place].clone();
        let random = &mut self.random;
        let (kind, text) = match random.random_range(0..100) {
            0..45 => (Kind::Setting, format!("SELECT NEXTVAL({name}), NEXT VALUE FOR {name}")),
            45..55 => (Kind::Setting, format!("SELECT PREVIOUS VALUE FOR {name}")),
            55..65 => {
                let (value, used) = (value(random), random.random_range(0..2));
                (Kind::Setting, format!("SELECT SETVAL({name}, {value}, {used})"))
            }
            65..72 => (Kind::Setting, format!("SELECT * FROM {name}")),
            72..78 => (Kind::Setting, format!("INSERT INTO {name} VALUES {}", row(random))),
            78..82 => (Kind::Setting, format!("FLUSH TABLES {name}")),
            82..86 => return self.roll_back_values(session, &name),
            86..90 => {
                let restart = if chance(random, 50) { format!(" RESTART {}", value(random)) } else { String::new() };
                (Kind::Definition, format!("ALTER SEQUENCE {name}{}{restart}", options(random)))
            }
            90..93 => (Kind::Definition, format!("CREATE OR REPLACE SEQUENCE {name}{}", options(random))),
            93..96 => {
                let fresh = self.new_name("sequence");
                self.sequences[place].clone_from(&fresh);
                (Kind::Definition, format!("RENAME TABLE {name} TO {fresh}"))
            }
            _ => {
                self.sequences.remove(place);
                (Kind::Definition, format!("DROP SEQUENCE {name}"))
            }
        };
        let changes = matches!(kind, Kind::Definition).then_some(&name);
        self.plan(Step::new(session, kind, text).in_order(true).writing(changes));
    }

    /// Values that a transaction has taken do not come again after its end.
    fn roll_back_values(&mut self, session: usize, name: &str) {
        self.plan(Step::new(session, Kind::Begin { snapshot: false }, "BEGIN"));
        for _ in 0..3 {
            self.plan(Step::new(session, Kind::Setting, format!("SELECT NEXTVAL({name})")).in_order(true));
        }
        self.plan(Step::new(session, Kind::Rollback, "ROLLBACK"));
        self.plan(Step::new(session, Kind::Setting, format!("SELECT NEXTVAL({name})")).in_order(true));
    }

    /// Plans what follows a restart.
    pub fn end_sequences(&mut self) {
        for name in std::mem::take(&mut self.sequences) {
            self.plan(Step::new(0, Kind::Definition, format!("DROP TABLE IF EXISTS {name}")));
        }
    }
}
