//! Checks the language of sources: words that docs/glossary.md retires, beginnings of comments that
//! name no thing, and comments that are too wide.

use anyhow::{Context, Result, ensure};

use super::tree;
use crate::shared::paths;

/// Retired words, each with the folders in which it is. A word counts alone, in any case, and as a
/// part of an identifier.
const RETIRED: [(&[&str], &[&str]); 5] = [
    (
        &["crates/"],
        &[
            "visitor",
            "visitors",
            "heir",
            "guest",
            "guests",
            "chores",
            "deaf",
            "misfit",
            "stranger",
            "strangers",
            "limbo",
            "stretch",
        ],
    ),
    (&["crates/map/", "bench/", "fuzz/", "tools/src/bench/"], &["confirm"]),
    // Two options of earlier programs have names with `confirm`.
    (
        &["crates/kv/", "crates/map/", "bench/", "fuzz/", "tools/src/bench/"],
        &["confirms", "confirmed", "confirmation", "confirmations"],
    ),
    (
        &["crates/kv/"],
        &[
            "letter", "letters", "crowd", "crowds", "fate", "deed", "deeds", "shelf", "hungry", "basis", "standing",
            "trouble", "troubles", "news", "book", "pace",
        ],
    ),
    (&["crates/kv/", "crates/map/"], &["whoever"]),
];

/// Traits and types of other crates whose names have a retired word.
const FOREIGN: [&str; 1] = ["serde::de"];

/// Words that no comment begins with: the thing is named, or a verb says what is done.
const BEGINNINGS: [&str; 3] = ["What", "Who", "Whose"];

/// Columns of a line that is a comment. rustfmt holds lines of code, and no comments.
const COLUMNS_MAX: usize = 100;

/// Headers that are made from sources, with other widths.
const MADE: &str = "crates/capi/include/";

/// Checks every tracked source in Rust and C++ that is not made from others.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    let is_source = |path: &String| [".rs", ".cc", ".h"].iter().any(|end| path.ends_with(end));
    for path in tree::tracked()?.into_iter().filter(|path| is_source(path) && !path.starts_with(MADE)) {
        let text = std::fs::read_to_string(paths::top().join(&path)).with_context(|| path.clone())?;
        let found = faults(&path, &text);
        wrong.extend(found.into_iter().map(|(line, what)| format!("{path}:{line}: {what}")));
    }
    ensure!(wrong.is_empty(), "see docs/glossary.md and CONTRIBUTING.md:\n{}", wrong.join("\n"));
    Ok(())
}

/// Lines of a source, by number, that break a rule, and how.
fn faults(path: &str, text: &str) -> Vec<(usize, String)> {
    let foreign = text.lines().any(|line| FOREIGN.iter().any(|name| line.contains(name)));
    let holds = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let retired: Vec<&str> =
        RETIRED.iter().filter(|(folders, _)| holds(folders)).flat_map(|(_, words)| words.iter().copied()).collect();
    let mut found = Vec::new();
    let mut is_in_block = false;
    for (number, line) in text.lines().enumerate() {
        let words = words(line);
        if let Some(word) = retired.iter().find(|word| !foreign && words.iter().any(|found| found == *word)) {
            found.push((number + 1, format!("the retired word `{word}`")));
        }
        let comment = comment(line);
        if let Some(beginning) = comment.and_then(beginning) {
            found.push((number + 1, format!("a comment that begins with `{beginning}`")));
        }
        let columns = line.chars().count();
        if (comment.is_some() || is_in_block) && columns > COLUMNS_MAX {
            found.push((number + 1, format!("a comment of {columns} columns, at most {COLUMNS_MAX}")));
        }
        let begins_block = line.trim_start().starts_with("/*");
        is_in_block = (is_in_block || begins_block) && !line.contains("*/");
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

/// The text of a line that is a comment, or begins one.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    ["///", "//!", "//", "/**", "/*"].iter().find_map(|mark| line.strip_prefix(mark))
}

/// The forbidden beginning of a comment, if it has one.
fn beginning(comment: &str) -> Option<&'static str> {
    let first = comment.split_whitespace().next()?;
    BEGINNINGS.into_iter().find(|word| *word == first)
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS_MAX, faults};

    #[test]
    fn retired_words_and_forbidden_beginnings_are_found() {
        for (path, line) in [
            ("crates/kv/src/a.rs", "struct PutLetter;"),
            ("crates/kv/src/a.rs", "    fn take_letters() {}"),
            ("crates/kv/src/a.rs", "// Fate of a LETTER."),
            ("crates/engine/src/a.rs", "let guest = 1;"),
            ("crates/kv/src/a.rs", "// Confirmed by all."),
            ("bench/src/a.rs", "let fences_per_confirmation = 2;"),
            ("tools/src/bench/a.rs", "// A confirmation."),
            ("crates/engine/src/a.rs", "    /// What it is."),
            ("crates/engine/src/a.rs", "//! Who calls."),
            ("crates/engine/src/a.rs", "        // What is left stays."),
            ("tools/src/a.rs", "/// Whose it is."),
            ("plugin/mariadb/a.cc", "  /* What the server wants. */"),
            ("plugin/mariadb/a.h", "// Who calls."),
        ] {
            assert_eq!(faults(path, &format!("\n{line}\n")).len(), 1, "{line}");
        }
        for (path, line) in [
            ("crates/engine/src/a.rs", "/// Theirs; crowded. Whatever."),
            ("crates/kv/src/a.rs", "use serde::de::Visitor;"),
            ("crates/kv/src/a.rs", "#[serde(alias = \"confirm_us\")]"),
            ("tools/src/a.rs", "/// Says what a letter is. Who reads it?"),
            ("tools/src/a.rs", "let text = \"/// What\";"),
        ] {
            assert_eq!(faults(path, line), [], "{line}");
        }
    }

    /// The formatter leaves comments as wide as they are.
    #[test]
    fn wide_comments_are_found() {
        let wide = "x".repeat(COLUMNS_MAX);
        for text in [
            format!("// {wide}"),
            format!("    /// {wide}"),
            format!("/* {wide} */"),
            format!("/* Begins here,\n   goes on {wide}\n   and ends. */"),
        ] {
            assert_eq!(faults("plugin/mariadb/a.cc", &text).len(), 1, "{text}");
        }
        let fits = "x".repeat(COLUMNS_MAX - 3);
        let code = format!("/* One. */\ncall({wide});");
        for text in
            [format!("// {fits}"), code, format!("/* A\n   b */\nint {wide};"), format!("\"{wide}\" // Behind.")]
        {
            assert_eq!(faults("plugin/mariadb/a.cc", &text), [], "{text}");
        }
    }
}
