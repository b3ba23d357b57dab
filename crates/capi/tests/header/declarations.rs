//! The C declarations of the Rust sources in one folder, each by its name, with its documentation
//! said as C says it.

use std::collections::BTreeMap;
use std::path::Path;

/// Most columns of a line.
const WIDTH: usize = 110;
/// Beginning of a paragraph on errors.
const ERRORS: &str = "Errors: ";

/// Declarations that cbindgen makes of the sources in `folder`, by name.
pub fn of(folder: &Path) -> BTreeMap<String, String> {
    let config = cbindgen::Config::from_file(crate::crate_dir().join("cbindgen.toml")).expect("a configuration");
    let mut sources: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    sources.sort();
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = sources.into_iter().fold(builder, |builder, source| builder.with_src(source));
    let mut made = Vec::new();
    builder.generate().expect("declarations").write(&mut made);
    let made = String::from_utf8(made).expect("text");
    let blocks = made.split("\n\n").map(str::trim).filter(|block| !block.is_empty());
    let mut found = BTreeMap::new();
    for block in blocks {
        let (name, text) = (name_of(block), in_c(block));
        assert!(found.insert(name.clone(), text).is_none(), "{name} is declared twice");
    }
    found
}

/// The name that a block declares: of a function the one before its arguments, else the first.
fn name_of(block: &str) -> String {
    let code = block.lines().find(|line| !line.starts_with("//")).expect("a declaration");
    let is_function = !code.starts_with("typedef") && !code.starts_with('#');
    let head = if is_function { code.split('(').next().unwrap_or_default() } else { code };
    let words = head.split(|one: char| !one.is_alphanumeric() && one != '_');
    let mut names = words.filter(|word| word.to_lowercase().starts_with("perdura"));
    let found = if is_function { names.next_back() } else { names.next() };
    found.unwrap_or_else(|| panic!("no name in {code:?}")).to_owned()
}

/// A block with its comments said and wrapped anew, and without the tags of structures, which have
/// names of their own.
fn in_c(block: &str) -> String {
    let mut lines = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in block.lines() {
        let code = line.trim_start();
        if let Some(text) = code.strip_prefix("//") {
            comment.push(text.trim());
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        lines.extend(said(&comment, indent));
        comment.clear();
        lines.extend(declared(code, indent));
    }
    lines.join("\n")
}

fn declared(code: &str, indent: &str) -> Vec<String> {
    if code.starts_with("typedef") {
        return vec![format!("{indent}{code}")];
    }
    let code = code.replace("struct Perdura", "Perdura").replace("enum Perdura", "Perdura");
    wrapped(arguments(&code).into_iter(), indent, &format!("{indent}    "))
}

/// A declaration in pieces between which a line may end: after each argument of a function, but not
/// of a callback.
fn arguments(code: &str) -> Vec<&str> {
    let (mut pieces, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, one) in code.char_indices() {
        match one {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 1 && code[..at].ends_with(',') => {
                pieces.push(&code[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&code[start..]);
    pieces
}

/// A documentation comment as a C programmer reads it: errors in a paragraph, links by name. What
/// Rust calls safety is the same for nearly all calls and stands at the top of the header.
fn said(comment: &[&str], indent: &str) -> Vec<String> {
    let mut paragraphs: Vec<String> = vec![String::new()];
    let mut is_safety = false;
    for &line in comment {
        match line {
            "# Safety" => is_safety = true,
            "# Errors" => paragraphs.push(ERRORS.to_owned()),
            _ if line.starts_with("# ") => panic!("a heading that C does not have: {line}"),
            _ if is_safety => {}
            "" => paragraphs.push(String::new()),
            line => {
                let last = paragraphs.last_mut().expect("a paragraph");
                if last == ERRORS {
                    last.push_str(&in_sentence(line));
                    continue;
                }
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(line);
            }
        }
    }
    let start = format!("{indent}// ");
    let paragraphs = paragraphs.iter().filter(|paragraph| !paragraph.is_empty());
    let paragraphs = paragraphs.map(|paragraph| wrapped(without_links(paragraph).split(' '), &start, &start));
    paragraphs.collect::<Vec<_>>().join(&format!("{indent}//"))
}

/// A line without the capital that begins a sentence. The name of a code is all capitals.
fn in_sentence(line: &str) -> String {
    let is_word = line.chars().nth(1).is_some_and(char::is_lowercase);
    let head = |one: char| if is_word { one.to_ascii_lowercase() } else { one };
    line.char_indices().map(|(at, one)| if at == 0 { head(one) } else { one }).collect()
}

/// Links to items become the items' names: [`crate::a::b`] and [`b`] are b.
fn without_links(text: &str) -> String {
    let mut parts = text.split("[`");
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (path, rest) = part.split_once("`]").expect("the end of a link");
        said.push_str(path.rsplit("::").next().unwrap_or_default());
        said.push_str(rest);
    }
    said
}

fn wrapped<'a>(words: impl Iterator<Item = &'a str>, first: &str, others: &str) -> Vec<String> {
    let mut lines = vec![first.to_owned()];
    let mut is_empty = true;
    for word in words {
        let line = lines.last_mut().expect("a line");
        if is_empty {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{others}{word}"));
        }
        is_empty = false;
    }
    lines
}

#[test]
fn a_declaration_loses_what_only_rust_has() {
    let block = [
        "// Reads on with [`super::rows::perdura_read`],",
        "// into `record`.",
        "//",
        "// # Errors",
        "// Those of [`perdura_read`].",
        "//",
        "// # Safety",
        "// `record` must be writable.",
        "enum PerduraCode perdura_next(struct PerduraCursor *cursor, void (*found)(void *context, int row));",
    ];
    let wanted = [
        "// Reads on with perdura_read, into `record`.",
        "//",
        "// Errors: those of perdura_read.",
        "PerduraCode perdura_next(PerduraCursor *cursor, void (*found)(void *context, int row));",
    ];
    let block = &block.join("\n");
    assert_eq!(in_c(block), wanted.join("\n"));
    assert_eq!(name_of(block), "perdura_next");
    let long = format!("void perdura_f(int {}, void (*g)(int a, int b));", "a".repeat(80));
    assert_eq!(arguments(&long).len(), 2, "no line ends between the arguments of a callback");
    assert_eq!(name_of("// A pool.\ntypedef struct PerduraEngine PerduraEngine;"), "PerduraEngine");
    assert_eq!(name_of("// At most.\n#define PERDURA_MAP_MAX 64"), "PERDURA_MAP_MAX");
}
