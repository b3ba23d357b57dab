//! Conditions and assigned values over a table's columns.

use rand::Rng;
use rand::rngs::StdRng;

use super::column::Column;
use super::random::{chance, pick};
use super::schema::Table;
use super::types::Family;

/// A condition for WHERE. Columns get `prefix` (`a.` or nothing).
pub fn condition(random: &mut StdRng, table: &Table, prefix: &str) -> String {
    let id = table.some_id(random);
    match random.random_range(0..12) {
        0..3 => format!("{prefix}id = {id}"),
        3..5 => format!("{prefix}id BETWEEN {id} AND {}", id + random.random_range(0..8)),
        5 => format!("{prefix}id IN ({id}, {}, {})", table.some_id(random), table.some_id(random)),
        6 => format!("{prefix}id % {} = {}", random.random_range(2..6), random.random_range(0..2)),
        7 => "1 = 1".to_owned(),
        8 if chance(random, 30) => {
            let (one, two) = (condition(random, table, prefix), condition(random, table, prefix));
            format!("({one}) {} ({two})", pick(random, &["AND", "OR"]))
        }
        _ if table.columns.is_empty() => format!("{prefix}id > {id}"),
        _ => {
            let column = pick(random, &table.columns);
            let condition = on_column(random, column, &format!("{prefix}{}", column.name));
            format!("{condition} AND {prefix}id > {}", id / 2)
        }
    }
}

fn on_column(random: &mut StdRng, column: &Column, name: &str) -> String {
    match (random.random_range(0..4), column.kind.family) {
        (0, _) => format!("{name} IS {}NULL", pick(random, &["", "NOT "])),
        (1, Family::Exact) => format!("{name} > {}", random.random_range(-50..100)),
        (2, Family::Exact) => format!("{name} % 3 = {}", random.random_range(0..3)),
        (1, Family::Text) => format!("{name} LIKE {}", pick(random, &["'a%'", "'%t%'", "'_'"])),
        (2, Family::Text) => format!("{name} = {}", pick(random, &["'a'", "'abc'", "'straße'", "''"])),
        // A comparison of TIME and date would warn once for each evaluation, whose number depends
        // on the engine.
        (_, Family::Time) if column.kind.sql.starts_with("TIME(") => format!("{name} > '10:00:00'"),
        (_, Family::Time) => format!("{name} > '2000-01-01'"),
        _ => format!("LENGTH({name}) > {}", pick(random, &[0, 1, 5, 100])),
    }
}

/// A value that an UPDATE assigns to a column: a literal, DEFAULT, or an expression over the row.
pub fn assigned(random: &mut StdRng, column: &Column, prefix: &str) -> String {
    let name = format!("{prefix}{}", column.name);
    if chance(random, 55) {
        return column.value(random);
    }
    let number = random.random_range(1..9);
    match column.kind.family {
        Family::Exact | Family::Approximate => match random.random_range(0..8) {
            0..3 => format!("{name} + {number}"),
            3..5 => format!("{name} - {number}"),
            5 => format!("{name} * {number}"),
            6 => format!("{name} / {}", pick(random, &[2, 4, 5, 0])),
            _ => format!("-{name}"),
        },
        Family::Text | Family::Bytes => match random.random_range(0..5) {
            0..2 => format!("CONCAT({name}, 'x')"),
            2 => format!("LEFT({name}, {})", number * 40),
            3 if chance(random, 25) => format!("REPEAT(LEFT({name}, 4000), 2)"),
            3 => format!("RIGHT({name}, {number})"),
            _ => format!("REVERSE({name})"),
        },
        Family::Time => format!("{name} + INTERVAL {number} {}", pick(random, &["DAY", "SECOND", "MICROSECOND"])),
        Family::Other => column.value(random),
    }
}
