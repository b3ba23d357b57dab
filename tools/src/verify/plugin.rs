//! Checks that the files of the plugin use each other one way only, as those of the crates do.
//!
//! A file uses another that it includes, or that defines a function it calls. The text is searched
//! and not parsed: a function counts if its definition begins a line, and has a name of its own.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use super::tree;
use crate::shared::paths;

const FOLDER: &str = "plugin/mariadb/";

/// The class that the server calls. The plugin calls its functions without an object, and those of
/// other classes with one.
const HANDLER: &str = "ha_perdura";

/// Texts of files without comments and strings, by name.
type Files = BTreeMap<String, String>;

/// A place where one file uses another: a line, and the name that is used there.
type Use = (usize, String);

/// Checks the tracked sources of the plugin.
pub fn check() -> Result<()> {
    let mut files = Files::new();
    for path in tree::tracked()? {
        let Some(name) = path.strip_prefix(FOLDER).filter(|name| !name.contains('/')) else { continue };
        if name.ends_with(".cc") || name.ends_with(".h") {
            let text = std::fs::read_to_string(paths::top().join(&path)).with_context(|| path.clone())?;
            files.insert(name.to_owned(), text);
        }
    }
    let wrong = circles(&files);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// A message for each group of files that reach each other.
fn circles(files: &Files) -> Vec<String> {
    let uses = uses(files);
    let message = |group: Vec<&str>| {
        let within = uses.iter().filter(|((from, to), _)| group.contains(&&**from) && group.contains(&&**to));
        let lines = within.map(|((from, to), (line, name))| format!("\n    {from}:{line} uses {name} of {to}"));
        format!("a circle of {} files of the plugin:{}", group.len(), lines.collect::<String>())
    };
    super::circles::groups(uses.keys().map(|(from, to)| (&**from, &**to))).into_iter().map(message).collect()
}

/// The first use for each pair of files: the one that uses, the one that is used.
fn uses(files: &Files) -> BTreeMap<(String, String), Use> {
    let plain: Files = files.iter().map(|(name, text)| (name.clone(), without_comments(text))).collect();
    let mut definers: BTreeMap<&str, (Vec<&str>, bool)> = BTreeMap::new();
    for (file, text) in plain.iter().filter(|(file, _)| file.ends_with(".cc")) {
        for (name, class) in text.lines().filter_map(|line| definition(line, false)) {
            let (found, by_object) = definers.entry(name).or_default();
            found.push(file);
            *by_object |= class.is_some_and(|class| class != HANDLER);
        }
    }
    definers.values_mut().for_each(|(files, _)| files.dedup());
    let mut uses = BTreeMap::new();
    for (file, text) in &plain {
        let own: BTreeSet<&str> = text.lines().filter_map(|line| definition(line, true)).map(|found| found.0).collect();
        for (number, line) in text.lines().enumerate() {
            let included = line.strip_prefix("#include \"").and_then(|rest| rest.split_once('"'));
            if let Some((name, _)) = included.filter(|(name, _)| files.contains_key(*name)) {
                uses.entry((file.clone(), name.to_owned())).or_insert((number + 1, name.to_owned()));
            }
            for (name, before) in calls(line).filter(|(name, _)| file.ends_with(".cc") && !own.contains(name)) {
                // A name that several files define tells nothing.
                let Some(([definer], by_object)) = definers.get(name).map(|(files, by)| (&files[..], *by)) else {
                    continue;
                };
                let is_of_object = before.ends_with('.') || before.ends_with("->");
                if (!is_of_object || by_object) && !before.ends_with("handler::") {
                    uses.entry((file.clone(), (*definer).to_owned())).or_insert((number + 1, name.to_owned()));
                }
            }
        }
    }
    uses
}

/// The text without comments, and without what strings contain, but for names of included files.
fn without_comments(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let (kept, skipped) = match c {
            '/' if rest.starts_with("/*") => ("", rest.find("*/").map_or(rest.len(), |end| end + 2)),
            '/' if rest.starts_with("//") => ("", rest.find('\n').unwrap_or(rest.len())),
            '"' if plain.ends_with("#include ") => (&rest[..string_end(rest)], string_end(rest)),
            '"' => ("\"\"", string_end(rest)),
            _ => (&rest[..c.len_utf8()], c.len_utf8()),
        };
        plain.push_str(kept);
        if kept.is_empty() {
            plain.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
        }
        rest = &rest[skipped..];
    }
    plain
}

/// Length of the string in quotes that begins a text.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return index + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    text.len()
}

/// The name of the function whose definition a line begins, and its class; also those that only
/// their file knows, if `is_static`.
fn definition(line: &str, is_static: bool) -> Option<(&str, Option<&str>)> {
    let others = ["extern", "using", "namespace", "class", "struct", "enum", "typedef", "return", "static_assert"];
    let first = line.split(|c: char| !is_word(c)).next().filter(|first| !first.is_empty())?;
    if others.contains(&first) || first == "static" && !is_static || line.trim_end().ends_with(';') {
        return None;
    }
    let head = line.split_once('(')?.0;
    let begin = head.rfind(|c: char| !is_word(c)).map_or(0, |at| at + 1);
    let (front, name) = head.split_at(begin);
    let class =
        front.strip_suffix("::").map(|front| &front[front.rfind(|c: char| !is_word(c)).map_or(0, |at| at + 1)..]);
    let is_other = front.is_empty() || name.is_empty() || front.contains('=') || front.ends_with('~');
    (!is_other && class != Some(name)).then_some((name, class.filter(|class| *class != "perdura")))
}

/// The names before opening brackets, each with the text before it.
fn calls(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices('(').filter_map(move |(at, _)| {
        let begin = line[..at].rfind(|c: char| !is_word(c)).map_or(0, |at| at + 1);
        (begin < at).then(|| (&line[begin..at], &line[..begin]))
    })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::{Files, circles, uses};
    use crate::shared::paths;

    fn files(texts: &[(&str, &str)]) -> Files {
        texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    const LEAF: (&str, &str) = ("leaf.cc", "int ha_perdura::leaf(uint flag)\n{\n  return 0;\n}\n");

    #[test]
    fn a_circle_of_calls_is_refused_by_name() {
        for call in ["top();", "perdura::top();", "return top();", "int x= 1 + top();"] {
            let leaf = format!("{}void other()\n{{\n  {call}\n}}\n", LEAF.1);
            let found = circles(&files(&[("top.cc", "int perdura::top()\n{\n  leaf(1);\n}\n"), ("leaf.cc", &leaf)]));
            let [message] = &found[..] else { panic!("{call}: {found:?}") };
            assert!(message.contains("leaf.cc:7 uses top") && message.contains("top.cc:3 uses leaf"), "{message}");
        }
    }

    #[test]
    fn a_circle_of_headers_is_refused() {
        let texts = [("a.h", "#include \"b.h\"\n"), ("b.h", "#include \"a.h\"\n"), ("c.h", "#include \"a.h\"\n")];
        let found = circles(&files(&texts));
        assert!(found.len() == 1 && found[0].contains("2 files"), "{found:?}");
    }

    #[test]
    fn methods_of_other_classes_are_used_by_their_objects() {
        let texts =
            [("keys.cc", "bool Key_images::make(uint index)\n{\n}\n"), ("a.cc", "void a()\n{\n  keys->make(1);\n}\n")];
        let found = uses(&files(&texts));
        assert_eq!(found.keys().map(|(from, to)| (&**from, &**to)).collect::<Vec<_>>(), [("a.cc", "keys.cc")]);
    }

    /// Comments, strings, calls of the server's own classes, and functions that a file has itself.
    #[test]
    fn what_is_no_use_is_accepted() {
        for line in [
            "/* leaf(1) and\n   leaf(2) */",
            "// leaf(1)",
            "print(\"leaf(1)\");",
            "table->file->leaf(1);",
            "handler::leaf(1);",
            "int leaf= 1;",
            "other_leaf(1);",
        ] {
            let top = format!("int top()\n{{\n  {line}\n}}\n");
            assert!(uses(&files(&[("top.cc", &top), LEAF])).is_empty(), "{line}");
        }
        let own = "static int leaf(int)\n{\n}\nint top()\n{\n  leaf(1);\n}\n";
        assert!(uses(&files(&[("top.cc", own), LEAF])).is_empty());
    }

    /// The same in the real sources: index reads use those of entries.
    #[test]
    fn a_circle_planted_into_the_plugin_is_refused() {
        let folder = paths::top().join(super::FOLDER);
        let mut files = Files::new();
        for entry in std::fs::read_dir(folder).expect("the sources are there").map(|entry| entry.expect("readable")) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".cc") || name.ends_with(".h") {
                files.insert(name, std::fs::read_to_string(entry.path()).expect("a source is text"));
            }
        }
        assert_eq!(circles(&files), Vec::<String>::new());
        let entries = files.get_mut("ha_perdura_entries.cc").expect("it is there");
        entries.push_str("\nint planted(ha_perdura *file)\n{\n  return has_whole_condition();\n}\n");
        let found = circles(&files);
        assert!(found.len() == 1 && found[0].contains("ha_perdura_index.cc"), "{found:?}");
    }
}
