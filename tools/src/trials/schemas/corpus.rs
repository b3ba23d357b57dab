//! The schemas: those in tests/schemas, and one that a generator makes.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Tables of the schema that is made.
const MADE_TABLES: usize = 400;
/// References of one table, at most, and those that lead on to a later table.
const REFERENCES_MAX: usize = 3;
const LATER: usize = 40;

/// A schema.
pub struct Schema {
    /// Its name.
    pub name: &'static str,
    /// Its DDL.
    pub statements: Vec<String>,
}

const WRITTEN: [(&str, &str); 11] = [
    ("shop", include_str!("../../../../tests/schemas/shop.sql")),
    ("wiki", include_str!("../../../../tests/schemas/wiki.sql")),
    ("forum", include_str!("../../../../tests/schemas/forum.sql")),
    ("monitoring", include_str!("../../../../tests/schemas/monitoring.sql")),
    ("tracker", include_str!("../../../../tests/schemas/tracker.sql")),
    ("school", include_str!("../../../../tests/schemas/school.sql")),
    ("bank", include_str!("../../../../tests/schemas/bank.sql")),
    ("library", include_str!("../../../../tests/schemas/library.sql")),
    ("network", include_str!("../../../../tests/schemas/network.sql")),
    ("factory", include_str!("../../../../tests/schemas/factory.sql")),
    ("cms", include_str!("../../../../tests/schemas/cms.sql")),
];

/// All of them.
pub fn all(seed: u64) -> Vec<Schema> {
    let statements = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("--") && !line.is_empty());
        lines.map(|line| line.trim_end_matches(';').to_owned()).collect()
    };
    let written = WRITTEN.iter().map(|(name, text)| Schema { name, statements: statements(text) });
    written.chain([Schema { name: "made", statements: made(seed) }]).collect()
}

/// Many tables, each of which refers to a few of those before it, some to themselves, and some to
/// later ones, by which there are cycles.
fn made(seed: u64) -> Vec<String> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut statements = Vec::new();
    for table in 0..MADE_TABLES {
        let mut text =
            format!("CREATE TABLE t{table} (id INT NOT NULL PRIMARY KEY, code VARCHAR(12) UNIQUE, note TEXT");
        for number in 0..random.random_range(0..=REFERENCES_MAX) {
            let parent = if random.random_bool(0.1) { table } else { random.random_range(0..=table) };
            text += &reference(&mut random, number, parent);
        }
        statements.push(text + ")");
    }
    for _ in 0..LATER {
        let (child, parent) = (random.random_range(0..MADE_TABLES), random.random_range(0..MADE_TABLES));
        let number = REFERENCES_MAX + statements.len();
        let text = reference(&mut random, number, parent);
        let text = text.trim_start_matches(", ").replace(", FOREIGN", ", ADD FOREIGN");
        statements.push(format!("ALTER TABLE t{child} ADD {text}"));
    }
    statements
}

/// A column that refers to a table by one of its keys, behind a comma.
fn reference(random: &mut StdRng, number: usize, parent: usize) -> String {
    let (kind, of_parent) = if random.random_bool(0.8) { ("INT", "id") } else { ("VARCHAR(12)", "code") };
    let mut action = |event: &str| match random.random_range(0..5) {
        0 | 1 => format!(" ON {event} CASCADE"),
        2 => format!(" ON {event} SET NULL"),
        3 => format!(" ON {event} NO ACTION"),
        _ => String::new(),
    };
    let actions = action("DELETE") + &action("UPDATE");
    format!(", r{number} {kind}, FOREIGN KEY (r{number}) REFERENCES t{parent} ({of_parent}){actions}")
}
