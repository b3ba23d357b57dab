//! The page of commands names every command of the table, and no other.

use std::collections::BTreeSet;

use perdura_kv::command;

/// The page, as it lies beside the sources.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kv-commands.md");
    std::fs::read_to_string(path).expect("docs/kv-commands.md")
}

#[test]
fn the_page_names_every_command() {
    let page = page();
    let outer: BTreeSet<&str> = command::all().filter_map(|one| Some(one.name.split_once('|')?.0)).collect();
    // Of those with others within, the others are named.
    let named = |name: &str| outer.contains(name) && name != "command";
    let missing: Vec<String> = command::all()
        .filter(|one| !named(one.name))
        .map(|one| format!("`{}`", one.name.replace('|', " ").to_uppercase()))
        .filter(|name| !page.contains(name.as_str()))
        .collect();
    assert_eq!(missing, [""; 0], "not named in docs/kv-commands.md");
}

#[test]
fn the_page_names_no_other_command_of_ours() {
    let page = page();
    let words = page.split(|sign: char| !(sign.is_alphanumeric() || sign == '.'));
    for word in words.filter(|word| word.starts_with("PERDURA.")) {
        let word = word.trim_end_matches('.');
        assert!(command::find(word.as_bytes()).is_some(), "{word}");
    }
}
