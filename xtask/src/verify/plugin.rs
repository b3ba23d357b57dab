//! Checks that the files of the MariaDB plugin call each other one way: a function that is defined
//! in one file and named in another makes the second depend on the first.
//!
//! The sources are read as text, without comments: a definition begins at the start of a line and
//! its body with a brace at the start of a later one, as the project writes C++.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use crate::paths;

const FOLDER: &str = "plugin/mariadb";

/// A file, by name, and its text without comments.
type Source = (String, String);

/// Checks the plugin's sources.
pub fn check() -> Result<()> {
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(paths::top().join(FOLDER)).context(FOLDER)? {
        let path = entry.context(FOLDER)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".cc") {
            sources.push((name, without_comments(&std::fs::read_to_string(&path)?)));
        }
    }
    sources.sort();
    let wrong = circles(&sources);
    ensure!(wrong.is_empty(), "files of {FOLDER} depend on each other in a circle:\n{}", wrong.join("\n"));
    Ok(())
}

/// A message for each use that is part of a circle.
fn circles(sources: &[Source]) -> Vec<String> {
    let uses = uses(sources);
    let next = |file: usize| uses.keys().filter(move |(from, _)| *from == file).map(|(_, to)| *to);
    let reach = |file: usize| {
        let (mut reached, mut pending) = (BTreeSet::new(), vec![file]);
        while let Some(file) = pending.pop() {
            pending.extend(next(file).filter(|to| reached.insert(*to)));
        }
        reached
    };
    let reached: Vec<BTreeSet<usize>> = (0..sources.len()).map(reach).collect();
    let is_circular = |(from, to): &(usize, usize)| reached[*to].contains(from);
    let circular = uses.iter().filter(|(pair, _)| is_circular(pair));
    circular.map(|((from, to), name)| format!("{} calls {name} of {}", sources[*from].0, sources[*to].0)).collect()
}

/// Which file names a function of which other one, with the first such function.
fn uses(sources: &[Source]) -> BTreeMap<(usize, usize), String> {
    let mut defined: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, (_, text)) in sources.iter().enumerate() {
        let public = definitions(text).into_iter().filter(|(_, is_static)| !is_static);
        public.for_each(|(name, _)| _ = defined.entry(name).or_insert(file));
    }
    let mut uses = BTreeMap::new();
    for (file, (_, text)) in sources.iter().enumerate() {
        let own: BTreeSet<&str> = definitions(text).into_iter().map(|(name, _)| name).collect();
        for name in calls(text).difference(&own) {
            if let Some(&owner) = defined.get(*name).filter(|owner| **owner != file) {
                uses.entry((file, owner)).or_insert_with(|| (*name).to_owned());
            }
        }
    }
    uses
}

/// Names of the functions that a source defines, and whether each is static.
fn definitions(text: &str) -> Vec<(&str, bool)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let is_head = line.starts_with(|first: char| first.is_ascii_alphabetic());
        let has_body =
            lines[number..].iter().skip(1).find(|next| !next.starts_with(' ')).is_some_and(|next| *next == "{");
        if let Some((head, _)) = line.split_once('(').filter(|_| is_head && has_body) {
            let name = head.rsplit([' ', ':', '*', '&']).next().filter(|name| !name.is_empty());
            found.extend(name.map(|name| (name, line.starts_with("static "))));
        }
    }
    found
}

/// Names that a source calls: of functions of its own class and of free ones, not of other objects.
fn calls(text: &str) -> BTreeSet<&str> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let places = text.match_indices('(').map(|(at, _)| &text[..at]);
    let called = places.filter_map(|before| {
        let name = &before[before.trim_end_matches(is_of_name).len()..];
        let owner = &before[..before.len() - name.len()];
        let is_foreign =
            owner.ends_with('.') || owner.ends_with('~') || (owner.ends_with("->") && !owner.ends_with("this->"));
        let is_scoped = owner.ends_with("::") && !owner.ends_with("perdura::");
        (!name.is_empty() && !is_foreign && !is_scoped).then_some(name)
    });
    called.collect()
}

/// The text with the content of its comments taken out; lines stay.
fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        let (inside, after) = comment.split_once("*/").unwrap_or((comment, ""));
        kept.push_str(before);
        kept.extend(inside.matches('\n'));
        rest = after;
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::{Source, circles, without_comments};

    fn sources(texts: &[&str]) -> Vec<Source> {
        let named = texts.iter().enumerate().map(|(number, text)| (format!("{number}.cc"), without_comments(text)));
        named.collect()
    }

    const OPEN: &str = "int ha_perdura::open(const char *name)\n{\n  return info(1);\n}\n";
    const INFO: &str = "/* As open() has it. */\nint ha_perdura::info(uint flag)\n{\n  return other->open(flag);\n}\n";

    /// A comment, a call on another object and a static function of the same name make no use.
    #[test]
    fn calls_downward_are_accepted() {
        let static_open = "static bool open(int)\n{\n}\n\nvoid after()\n{\n  open(1);\n}\n";
        assert!(circles(&sources(&[OPEN, INFO])).is_empty());
        let own = format!("{static_open}{OPEN}").replace("ha_perdura::open", "ha_perdura::close");
        assert!(circles(&sources(&[OPEN, INFO, &own])).is_empty());
    }

    #[test]
    fn a_circle_is_named() {
        let calling = "int ha_perdura::info(uint flag)\n{\n  return flag ? open(nullptr) : 0;\n}\n";
        assert_eq!(circles(&sources(&[OPEN, calling])), ["0.cc calls info of 1.cc", "1.cc calls open of 0.cc"]);
        let through = "int perdura::between(\n    int first)\n{\n  return open(nullptr);\n}\n";
        let top = "int ha_perdura::info(uint)\n{\n  return perdura::between(2);\n}\n";
        assert_eq!(circles(&sources(&[OPEN, top, through])).len(), 3);
    }
}
