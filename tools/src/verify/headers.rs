//! Checks that every Rust source begins with a few lines that say what it is for.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

use super::tree;
use crate::shared::paths;

/// Most lines of text before the code of a file.
const LINES_MAX: usize = 5;

/// Folders whose files have longer beginnings yet: the bound is what all of them meet, and falls.
const LONGER: [(&str, usize); 6] = [
    ("crates/engine/src/", 11),
    ("crates/kv/src/client/", 11),
    ("crates/kv/src/node/", 13),
    ("crates/kv/src/server/", 14),
    ("crates/kv/src/store/", 13),
    ("crates/map/src/", 13),
];

/// Checks every tracked Rust source.
pub fn check() -> Result<()> {
    let sources: BTreeSet<String> = tree::tracked()?.into_iter().filter(|path| path.ends_with(".rs")).collect();
    let mut wrong = Vec::new();
    for path in &sources {
        let text = std::fs::read_to_string(paths::top().join(path)).with_context(|| path.clone())?;
        wrong.extend(fault(path, &text, is_root(path, &sources)).map(|what| format!("{path}: {what}")));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Whether a file is the root of a crate, a program or a room, which may have an inventory.
fn is_root(path: &str, sources: &BTreeSet<String>) -> bool {
    let room = format!("{}/", path.trim_end_matches(".rs"));
    let is_of_room = sources.range(room.clone()..).next().is_some_and(|next| next.starts_with(&room));
    is_of_room || ["/lib.rs", "/main.rs", "/mod.rs"].iter().any(|end| path.ends_with(end))
}

/// Fault of a file's beginning.
fn fault(path: &str, text: &str, is_root: bool) -> Option<String> {
    if text.starts_with("#![doc = include_str!(") {
        return None;
    }
    let beginning = text.lines().map_while(|line| line.strip_prefix("//!"));
    let lines = beginning.filter(|line| !line.trim().is_empty()).count();
    let most = LONGER.iter().find(|(folder, _)| path.starts_with(folder)).map_or(LINES_MAX, |(_, most)| *most);
    match lines {
        0 => Some("does not begin with `//!`".to_owned()),
        lines if lines > most && !is_root => {
            Some(format!("begins with {lines} lines of `//!`, at most {most}: the rest belongs to the items"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LINES_MAX, fault, is_root};

    #[test]
    fn a_file_without_a_beginning_or_with_a_long_one_is_reported() {
        let lines = |count| "//! Text.\n".repeat(count);
        for text in ["use std::fmt;\n".to_owned(), "// Plain.\n".to_owned(), String::new(), lines(LINES_MAX + 1)] {
            assert!(fault("tools/src/a.rs", &text, false).is_some(), "{text}");
        }
        let readme = "#![doc = include_str!(\"../README.md\")]\n".to_owned();
        for text in [lines(1), lines(LINES_MAX), format!("{}//!\n//! More.\n", lines(LINES_MAX - 1)), readme] {
            assert_eq!(fault("tools/src/a.rs", &text, false), None, "{text}");
        }
        assert_eq!(fault("tools/src/a.rs", &lines(LINES_MAX + 1), true), None);
    }

    #[test]
    fn a_root_has_a_folder_of_its_name() {
        let paths = ["a/src/main.rs", "a/src/room.rs", "a/src/room/leaf.rs", "a/src/roomy.rs"];
        let sources: BTreeSet<String> = paths.map(str::to_owned).into();
        assert_eq!(paths.map(|path| is_root(path, &sources)), [true, true, false, false]);
    }
}
