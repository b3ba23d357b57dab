//! Checks the language of sources against docs/glossary.md: retired words, and beginnings of doc
//! lines that name no thing.

use anyhow::{Context, Result, ensure};

use super::tree;
use crate::paths;

/// Retired words, each with the folder in which it is. A word counts alone, in any case, and as a
/// part of an identifier.
const RETIRED: [(&str, &[&str]); 2] = [
    (
        "crates/",
        &["visitor", "visitors", "heir", "guest", "guests", "chores", "deaf", "misfit", "stranger", "strangers"],
    ),
    ("crates/kv/", &["letter", "letters", "crowd", "fate", "deed", "shelf", "hungry"]),
];

/// Traits and types of other crates whose names have a retired word.
const FOREIGN: [&str; 1] = ["serde::de"];

/// Words that no doc line begins with: the thing is named, or a verb says what is done.
const BEGINNINGS: [&str; 3] = ["What", "Who", "Whose"];

/// Folders whose doc lines are looked at.
const DOCUMENTED: [&str; 1] = ["crates/"];

/// Checks every tracked Rust source.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for path in tree::tracked()?.into_iter().filter(|path| path.ends_with(".rs")) {
        let text = std::fs::read_to_string(paths::top().join(&path)).with_context(|| path.clone())?;
        let found = faults(&path, &text);
        wrong.extend(found.into_iter().map(|(line, what)| format!("{path}:{line}: {what}")));
    }
    ensure!(wrong.is_empty(), "see docs/glossary.md:\n{}", wrong.join("\n"));
    Ok(())
}

/// Lines of a source, by number, that break a rule, and how.
fn faults(path: &str, text: &str) -> Vec<(usize, String)> {
    let foreign = text.lines().any(|line| FOREIGN.iter().any(|name| line.contains(name)));
    let retired = RETIRED.iter().filter(|(folder, _)| path.starts_with(folder)).flat_map(|(_, words)| words.iter());
    let retired: Vec<&str> = retired.copied().collect();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = words(line);
        if let Some(word) = retired.iter().find(|word| !foreign && words.iter().any(|found| found == *word)) {
            found.push((number + 1, format!("the retired word `{word}`")));
        }
        let is_documented = DOCUMENTED.iter().any(|folder| path.starts_with(folder));
        if let Some(beginning) = beginning(line).filter(|_| is_documented) {
            found.push((number + 1, format!("a doc line that begins with `{beginning}`")));
        }
    }
    found
}

/// The words of a line in small letters: `DeadLetter`, `dead_letter` and `dead letter` have the
/// same two.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in line.chars() {
        let begins = c.is_ascii_uppercase() && was_small;
        if begins || !c.is_ascii_alphabetic() {
            words.push(String::new());
        }
        if c.is_ascii_alphabetic() {
            words.last_mut().expect("one at least").push(c.to_ascii_lowercase());
        }
        was_small = c.is_ascii_lowercase();
    }
    words
}

/// The forbidden beginning of a doc line, if it has one.
fn beginning(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    let first = text.split_whitespace().next()?;
    BEGINNINGS.into_iter().find(|word| *word == first)
}

#[cfg(test)]
mod tests {
    use super::faults;

    #[test]
    fn retired_words_and_forbidden_beginnings_are_found() {
        for (path, line) in [
            ("crates/kv/src/a.rs", "struct PutLetter;"),
            ("crates/kv/src/a.rs", "    fn take_letters() {}"),
            ("crates/kv/src/a.rs", "// Fate of a LETTER."),
            ("crates/engine/src/a.rs", "let guest = 1;"),
            ("crates/engine/src/a.rs", "    /// What it is."),
            ("crates/engine/src/a.rs", "//! Who calls."),
        ] {
            assert_eq!(faults(path, &format!("\n{line}\n")).len(), 1, "{line}");
        }
        for (path, line) in [
            ("crates/engine/src/a.rs", "/// Theirs; crowded. Whatever."),
            ("xtask/src/a.rs", "/// What a letter is."),
            ("crates/kv/src/a.rs", "use serde::de::Visitor;"),
            ("crates/engine/src/a.rs", "// What a comment says in a function."),
        ] {
            assert_eq!(faults(path, line), [], "{line}");
        }
    }
}
