//! Reports a difference: both outcomes, and a script that reproduces it.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result};

use super::column::VIRTUAL;
use super::pair::Difference;
use super::step::{Kind, OBSERVER, Step};
use crate::shared::paths;

/// A longer script goes to the file only.
const LINES_SHOWN: usize = 60;

/// Prints the difference and writes the script to a file.
pub fn print(seed: u64, statement: u64, log: &[Step], difference: &Difference) -> Result<()> {
    let Some(last) = log.last() else { return Ok(()) };
    println!("sqldiff: DIFFERENCE, seed {seed}, statement {statement}");
    println!("sqldiff: session {}: {}", last.session, shorten(&last.text));
    print_outcomes(difference);
    let script = script(&since_creation(log));
    let path = paths::build().join(format!("sqldiff-{seed}-{statement}.test"));
    std::fs::write(&path, &script).with_context(|| path.display().to_string())?;
    let lines: Vec<&str> = script.lines().collect();
    for line in &lines[lines.len().saturating_sub(LINES_SHOWN)..] {
        println!("  {}", shorten(line));
    }
    println!("sqldiff: the script: {}", path.display());
    Ok(())
}

/// Prints the difference and both outcomes.
pub fn print_outcomes(difference: &Difference) {
    println!("sqldiff: {}", difference.what);
    println!("sqldiff: Perdura: {}", difference.ours.describe());
    println!("sqldiff: InnoDB: {}", difference.theirs.describe());
    difference.holders.iter().for_each(|holder| println!("sqldiff: InnoDB has: {}", shorten(holder)));
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 400;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The steps that matter for the last one: those since its tables were created that touch one of
/// them, or no table at all.
fn since_creation(log: &[Step]) -> Vec<&Step> {
    let Some(last) = log.last() else { return Vec::new() };
    let mut tables: BTreeSet<&String> = last.tables().collect();
    if tables.is_empty() {
        return log.iter().filter(|step| !step.is_check).chain(last.is_check.then_some(last)).collect();
    }
    let mut wanted = vec![last];
    for step in log.iter().rev().skip(1) {
        let touches = step.tables().any(|table| tables.contains(table));
        if touches && !step.is_check {
            tables.extend(step.tables());
        }
        if !step.is_check && (touches || step.tables().next().is_none()) {
            wanted.push(step);
        }
        if touches && step.text.starts_with("CREATE") && step.writes.len() == 1 {
            tables.remove(&step.writes[0]);
            if tables.is_empty() {
                break;
            }
        }
    }
    wanted.reverse();
    wanted
}

/// The steps in the language of the server's test driver.
pub fn script(steps: &[&Step]) -> String {
    let mut text = String::new();
    let mut session = None;
    for number in 0..=OBSERVER {
        let _ = writeln!(text, "connect (s{number},localhost,root,,test);");
    }
    let _ = writeln!(text, "delimiter //;");
    for step in steps {
        if let Some((name, content)) = &step.file {
            let _ = writeln!(text, "# {name}: {content:?}");
        }
        if let Kind::Restart { .. } = step.kind {
            let _ = writeln!(text, "# restart: {}", step.text);
            continue;
        }
        if session != Some(step.session) {
            session = Some(step.session);
            let _ = writeln!(text, "connection s{}//", step.session);
        }
        let _ = writeln!(text, "{}//", step.text.replace(VIRTUAL, "VIRTUAL"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::step::{Kind, Step};
    use super::since_creation;

    #[test]
    fn a_script_begins_where_the_table_was_made_and_leaves_others_out() {
        let (t, u) = ("t".to_owned(), "u".to_owned());
        let log = [
            Step::new(0, Kind::Change, "INSERT INTO t of before").writing([&t]),
            Step::new(0, Kind::Definition, "CREATE TABLE t").writing([&t]),
            Step::new(1, Kind::Definition, "CREATE TABLE u").writing([&u]),
            Step::new(1, Kind::Begin { snapshot: false }, "BEGIN"),
            Step::new(1, Kind::Change, "INSERT INTO t").writing([&t]),
            Step::new(0, Kind::Query, "SELECT").reading([&t]),
        ];
        let texts: Vec<&str> = since_creation(&log).iter().map(|step| step.text.as_str()).collect();
        assert_eq!(texts, ["CREATE TABLE t", "BEGIN", "INSERT INTO t", "SELECT"]);
    }
}
