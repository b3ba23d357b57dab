//! A family of tables that refer to each other, and statements that change rows, keys of rows and
//! foreign keys.
//!
//! Hazard: another row is left, taken along or refused than with InnoDB. No model knows which
//! tables and foreign keys there are: whatever is asked for, both engines must do or refuse alike,
//! and after each statement all tables of the family are compared.

use rand::Rng;
use rand::rngs::StdRng;

use super::random::{chance, pick};

/// Number of tables of the family.
const TABLES: usize = 5;
/// Keys of rows are below this.
const KEYS: u32 = 14;
/// Names of foreign keys that have one.
const NAMES: u32 = 6;

/// Columns that refer to others, with those that they may refer to.
const REFERENCES: [(&str, &str); 8] =
    [("a", "id"), ("a", "u"), ("b", "id"), ("b", "a"), ("a, b", "a, b"), ("s", "s"), ("u", "id"), ("id", "id")];
const ACTIONS: [&str; 6] = ["", "", " RESTRICT", " NO ACTION", " CASCADE", " SET NULL"];
const TEXTS: [&str; 7] = ["NULL", "'a'", "'A'", "'b'", "'b '", "'cc'", "''"];

/// Effect of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// SET.
    Setting,
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// SAVEPOINT, ROLLBACK TO.
    Savepoint,
    /// A change of rows.
    Change,
    /// DDL.
    Definition,
    /// A look at the server's tables of foreign keys.
    Look,
}

/// A statement; and name and content of a file that it loads.
pub type Statement = (Effect, String, Option<(String, String)>);

fn name(number: usize) -> String {
    format!("family{number}")
}

/// The names of all tables.
pub fn names() -> Vec<String> {
    (1..=TABLES).map(name).collect()
}

fn some(random: &mut StdRng) -> String {
    name(random.random_range(1..=TABLES))
}

/// A few statements that belong together.
pub fn statements(random: &mut StdRng) -> Vec<Statement> {
    let say = |effect, text: &str| (effect, text.to_owned(), None);
    let mut all = Vec::new();
    if chance(random, 20) {
        // Without checks tables come in any order, and rows that refer to none.
        all.push(say(Effect::Setting, "SET foreign_key_checks = 0"));
        for _ in 0..random.random_range(1..4) {
            let is_definition = chance(random, 60);
            all.push(if is_definition { definition(random, false) } else { change(random) });
        }
        all.push(say(Effect::Setting, "SET foreign_key_checks = 1"));
    } else if chance(random, 25) {
        let statement = definition(random, true);
        all.push(statement);
    } else if chance(random, 30) {
        all.push(say(Effect::Begin, "BEGIN"));
        for _ in 0..random.random_range(1..4) {
            all.push(change(random));
        }
        if chance(random, 50) {
            all.push(say(Effect::Savepoint, "SAVEPOINT f"));
            (0..random.random_range(1..3)).for_each(|_| all.push(change(random)));
            all.push(say(Effect::Savepoint, "ROLLBACK TO SAVEPOINT f"));
            all.push(change(random));
        }
        all.push(if chance(random, 70) { say(Effect::Commit, "COMMIT") } else { say(Effect::Rollback, "ROLLBACK") });
    } else {
        (0..random.random_range(1..5)).for_each(|_| all.push(change(random)));
    }
    if chance(random, 10) {
        all.push(look(random));
    }
    all
}

fn look(random: &mut StdRng) -> Statement {
    let text = *pick(
        random,
        &[
            "SELECT table_name, constraint_name, unique_constraint_name, match_option, update_rule, delete_rule, referenced_table_name FROM information_schema.referential_constraints WHERE constraint_schema = 'test' ORDER BY 1, 2",
            "SELECT table_name, constraint_name, column_name, ordinal_position, referenced_table_schema, referenced_table_name, referenced_column_name FROM information_schema.key_column_usage WHERE table_schema = 'test' AND referenced_table_name IS NOT NULL ORDER BY 1, 2, 4",
            "SELECT table_name, constraint_name FROM information_schema.table_constraints WHERE table_schema = 'test' AND constraint_type = 'FOREIGN KEY' ORDER BY 1, 2",
        ],
    );
    (Effect::Look, text.to_owned(), None)
}

/// A foreign key of a table as a clause. InnoDB does not take the index that comes with it for one
/// to refer to, if the table is altered.
fn foreign_key(random: &mut StdRng, table: &str) -> String {
    let constraint =
        if chance(random, 50) { format!("CONSTRAINT f{} ", random.random_range(1..=NAMES)) } else { String::new() };
    let (own, of_parent) = *pick(random, &REFERENCES);
    let mut parent = some(random);
    if parent == table && !["id", "u"].contains(&of_parent) {
        parent = if table == name(1) { name(2) } else { name(1) };
    }
    let (delete, update) = (*pick(random, &ACTIONS), *pick(random, &ACTIONS));
    let delete = if delete.is_empty() { String::new() } else { format!(" ON DELETE{delete}") };
    let update = if update.is_empty() { String::new() } else { format!(" ON UPDATE{update}") };
    format!("{constraint}FOREIGN KEY ({own}) REFERENCES {parent} ({of_parent}){delete}{update}")
}

fn create(random: &mut StdRng) -> String {
    let table = some(random);
    let a = *pick(random, &["INT", "INT", "INT NOT NULL DEFAULT 1", "INT DEFAULT 2"]);
    let u = *pick(random, &["UNIQUE KEY (u)", "UNIQUE KEY (u)", "KEY (u)"]);
    let keys = *pick(random, &["KEY ab (a, b), KEY (s)", "KEY ab (a, b), KEY (b), UNIQUE KEY (s)", "KEY (s)"]);
    let mut foreign = String::new();
    for _ in 0..random.random_range(0..3) {
        foreign += &format!(", {}", foreign_key(random, ""));
    }
    format!(
        "CREATE TABLE {table} (id INT NOT NULL PRIMARY KEY, u INT, a {a}, b INT, s VARCHAR(12), {u}, {keys}{foreign})"
    )
}

/// The name of a foreign key that may be there.
fn some_key(random: &mut StdRng, table: &str) -> String {
    match chance(random, 50) {
        true => format!("f{}", random.random_range(1..=NAMES)),
        false => format!("{table}_ibfk_{}", random.random_range(1..4)),
    }
}

/// DDL. It gives no copy another name, and alters no table without checks: InnoDB loses foreign
/// keys by that.
fn definition(random: &mut StdRng, is_checked: bool) -> Statement {
    let (table, other) = (some(random), some(random));
    let text = match random.random_range(0..if is_checked { 24 } else { 13 }) {
        0..9 => create(random),
        9 => format!("DROP TABLE {table}"),
        10 => format!("DROP TABLE IF EXISTS {table}, {other}"),
        11 => format!("RENAME TABLE {table} TO {other}"),
        12 => format!("RENAME TABLE {table} TO family_aside, {other} TO {table}, family_aside TO {other}"),
        14..18 => format!("ALTER TABLE {table} ADD {}", foreign_key(random, &table)),
        18 => format!("ALTER TABLE {table} DROP FOREIGN KEY {}", some_key(random, &table)),
        19 => format!(
            "ALTER TABLE {table} DROP FOREIGN KEY {}, ADD {}",
            some_key(random, &table),
            foreign_key(random, &table)
        ),
        20 => {
            format!("ALTER TABLE {table} DROP INDEX {}, ALGORITHM=INPLACE", pick(random, &["ab", "s", "u", "a", "b"]))
        }
        21 => format!(
            "ALTER TABLE {table} {}",
            pick(random, &["FORCE", "COMMENT = 'c'", "MODIFY a BIGINT", "ADD KEY (b), ALGORITHM=INPLACE"])
        ),
        22 => format!("TRUNCATE TABLE {table}"),
        13 => format!("ALTER TABLE {table} FORCE"),
        _ => format!("ALTER TABLE {table} CHANGE s s VARCHAR({})", random.random_range(12..30)),
    };
    (Effect::Definition, text, None)
}

fn number(random: &mut StdRng) -> String {
    if chance(random, 15) { "NULL".to_owned() } else { random.random_range(1..KEYS).to_string() }
}

fn row(random: &mut StdRng) -> [String; 5] {
    let id = random.random_range(1..KEYS).to_string();
    [id, number(random), number(random), number(random), (*pick(random, &TEXTS)).to_owned()]
}

fn rows(random: &mut StdRng, most: u32) -> String {
    let rows = (0..random.random_range(1..=most)).map(|_| format!("({})", row(random).join(", ")));
    rows.collect::<Vec<_>>().join(", ")
}

/// An assignment. An expression over keys comes to each row in order.
fn assignment(random: &mut StdRng) -> String {
    let column = *pick(random, &["id", "u", "a", "b", "s", "id", "u"]);
    let value = match column {
        "s" => (*pick(random, &TEXTS)).to_owned(),
        "id" => random.random_range(1..KEYS).to_string(),
        _ if chance(random, 30) => format!("{column} + 1"),
        _ => number(random),
    };
    format!("{column} = {value}")
}

/// A condition, with the order and the number of rows.
fn some_rows(random: &mut StdRng) -> String {
    let condition = match random.random_range(0..5) {
        0 => format!("id = {}", random.random_range(1..KEYS)),
        1 => format!("id >= {}", random.random_range(1..KEYS)),
        2 => format!("a = {}", random.random_range(1..KEYS)),
        3 => format!("u < {}", random.random_range(1..KEYS)),
        _ => format!("s = {}", pick(random, &TEXTS[1..])),
    };
    let order = if chance(random, 50) { "id" } else { "id DESC" };
    format!("WHERE {condition} ORDER BY {order} LIMIT {}", random.random_range(1..6))
}

/// A statement that changes rows.
fn change(random: &mut StdRng) -> Statement {
    let (table, other) = (some(random), some(random));
    let ignore = if chance(random, 20) { " IGNORE" } else { "" };
    let text = match random.random_range(0..20) {
        0..8 => format!("INSERT{ignore} INTO {table} VALUES {}", rows(random, 3)),
        8 => format!("REPLACE INTO {table} VALUES {}", rows(random, 2)),
        9 => {
            let set = assignment(random);
            format!("INSERT{ignore} INTO {table} VALUES {} ON DUPLICATE KEY UPDATE {set}", rows(random, 2))
        }
        10 => format!("INSERT{ignore} INTO {table} SELECT id + 1, u, a, b, s FROM {other} ORDER BY id LIMIT 3"),
        11..15 => format!("UPDATE{ignore} {table} SET {} {}", assignment(random), some_rows(random)),
        15 => {
            let set = format!("{}, {}", assignment(random), assignment(random));
            format!("UPDATE{ignore} {table} SET {set} {}", some_rows(random))
        }
        16..19 => format!("DELETE{ignore} FROM {table} {}", some_rows(random)),
        _ => return load(random, &table),
    };
    (Effect::Change, text, None)
}

fn load(random: &mut StdRng, table: &str) -> Statement {
    let line =
        |fields: [String; 5]| fields.map(|field| field.replace("NULL", "\\N").replace('\'', "")).join(",") + "\n";
    let content: String = (0..random.random_range(1..4)).map(|_| line(row(random))).collect();
    let how = *pick(random, &["", " IGNORE", " REPLACE"]);
    let file = format!("family-{}", random.random_range(0..4));
    let text = format!("LOAD DATA INFILE '{{DIR}}/{file}'{how} INTO TABLE {table} FIELDS TERMINATED BY ','");
    (Effect::Change, text, Some((file, content)))
}
