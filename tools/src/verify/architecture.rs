//! Checks docs/ARCHITECTURE.md and the pages beside it: the first is short enough for one sitting,
//! and all name files by paths that exist, from the root or below `crates/`, and functions that are
//! in the file named behind them.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

use super::rooms::order::{ORDERS, Order};
use super::tree;
use crate::shared::paths;

/// The walks through the layers, which people read first.
const PAGE: &str = "docs/ARCHITECTURE.md";

/// Most words of [`PAGE`].
const WORDS_MAX: usize = 3000;

/// Pages whose paths are checked.
const PAGES: [&str; 5] = [PAGE, "docs/engine.md", "docs/testing.md", "CONTRIBUTING.md", "README.md"];

/// Ends of the names of sources.
const SOURCES: [&str; 7] = [".rs", ".cc", ".h", ".sql", ".html", ".sh", ".py"];

/// Checks all pages against the tracked files.
pub fn check() -> Result<()> {
    let tracked: BTreeSet<String> = tree::tracked()?.into_iter().collect();
    let mut wrong = Vec::new();
    for page in PAGES {
        let text = std::fs::read_to_string(paths::top().join(page)).context(page)?;
        let found = wrong_paths(page, &text, &tracked);
        wrong.extend(found.into_iter().map(|what| format!("{page}: {what}")));
        let found = wrong_names(&text, &|path| std::fs::read_to_string(paths::top().join(path)).ok());
        wrong.extend(found.into_iter().map(|what| format!("{page}: {what}")));
        let found = if page == PAGE { wrong_orders(&text, ORDERS) } else { Vec::new() };
        wrong.extend(found.into_iter().map(|what| format!("{page}: {what}")));
        wrong.extend(too_long(&text).filter(|_| page == PAGE).map(|what| format!("{page}: {what}")));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn too_long(text: &str) -> Option<String> {
    let words = text.split_whitespace().count();
    (words > WORDS_MAX).then(|| format!("{words} words, at most {WORDS_MAX}: inventories belong to the files"))
}

/// Paths in backquotes, and targets of links, that lead nowhere, and sources named without a path.
fn wrong_paths(page: &str, text: &str, tracked: &BTreeSet<String>) -> Vec<String> {
    let exists = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        tracked.contains(path) || tracked.range(folder.clone()..).next().is_some_and(|next| next.starts_with(&folder))
    };
    let quoted = text.split('`').skip(1).step_by(2);
    let named = quoted.filter(|word| !word.contains(char::is_whitespace) && is_path(word));
    let named = named.filter(|path| !exists(path) && !exists(&format!("crates/{path}")));
    let mut wrong: Vec<String> = named.map(|path| format!("`{path}` is no path of a file")).collect();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.split('#').next().unwrap_or_default());
    for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
        let path = if page.starts_with("docs/") { format!("docs/{target}") } else { target.to_owned() };
        let path = path.strip_prefix("docs/../").unwrap_or(&path);
        if !exists(path) {
            wrong.push(format!("a link to {target}, which does not exist"));
        }
    }
    wrong
}

/// Rows of the table of crates, `| engine | ROOMS |`, that do not name the rooms from the top, as
/// the crate's order of rooms has them.
fn wrong_orders(text: &str, orders: &[Order]) -> Vec<String> {
    let mut wrong = Vec::new();
    for order in orders {
        let name = order.package.trim_start_matches("perdura-");
        let Some(row) = text.lines().find(|line| line.starts_with(&format!("| {name} | `"))) else { continue };
        let named = row.split('`').skip(1).step_by(2).filter_map(|path| {
            let room = path.strip_prefix(name)?.strip_prefix("/src/")?.strip_suffix(".rs")?;
            let storey = order.storeys.iter().position(|storey| storey.split(' ').any(|module| module == room))?;
            Some((storey, room))
        });
        let named: Vec<(usize, &str)> = named.collect();
        let late = named.windows(2).filter(|pair| pair[0].0 > pair[1].0);
        wrong.extend(late.map(|pair| format!("{name}: the room {} is above {}", pair[1].1, pair[0].1)));
    }
    wrong
}

/// Names before `in` or a bracket and a path, as of a function in its file, that are not there.
fn wrong_names(text: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let parts: Vec<&str> = text.split('`').collect();
    let mut wrong = Vec::new();
    for [name, between, path] in parts.windows(3).skip(1).step_by(2).map(|part| [part[0], part[1], part[2]]) {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "_:->".contains(c));
        let is_of_file = is_name && ["in", "("].contains(&between.trim()) && is_path(path);
        let Some(source) = Some(path)
            .filter(|_| is_of_file)
            .and_then(|path| [path.to_owned(), format!("crates/{path}")].iter().find_map(|path| read(path)))
        else {
            continue;
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let last = name.rsplit(|c| !is_part(c)).next().unwrap_or_default();
        if !last.is_empty() && !source.split(|c| !is_part(c)).any(|word| word == last) {
            wrong.push(format!("`{name}` is not in {path}"));
        }
    }
    wrong
}

/// Whether a word in backquotes means a source, or a folder of them.
fn is_path(word: &str) -> bool {
    let folders = ["crates/", "plugin/", "tests/", "tools/", "fuzz/", "bench/", "packaging/", "scripts/"];
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    is_plain && (SOURCES.iter().any(|end| word.ends_with(end)) || folders.iter().any(|folder| word.starts_with(folder)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Order, WORDS_MAX, too_long, wrong_names, wrong_orders, wrong_paths};

    fn wrong(text: &str) -> Vec<String> {
        let tracked = ["crates/log/src/scan.rs", "docs/format.md", "tests/crash/src/main.rs", "CONTRIBUTING.md"];
        let tracked: BTreeSet<String> = tracked.map(str::to_owned).into();
        wrong_paths("docs/ARCHITECTURE.md", text, &tracked)
    }

    /// A file that was renamed would leave the page with a way that leads nowhere.
    #[test]
    fn a_path_that_leads_nowhere_is_reported() {
        for text in ["`log/src/lane.rs`", "`crates/log/src/scan.cc`", "`tests/crush`", "[there](formats.md)"] {
            assert_eq!(wrong(&format!("Here {text}.")).len(), 1, "{text}");
        }
        let sound = "`log/src/scan.rs`, `crates/log/src/scan.rs`, `crates/log/src/`, `tests/crash`, `Log::scan`, \
                     `scan`, `cargo xtask mtr x/y.rs`, [format](format.md#lanes), [how](../CONTRIBUTING.md)";
        assert_eq!(wrong(sound), Vec::<String>::new());
    }

    #[test]
    fn a_function_that_has_left_its_file_is_reported() {
        let read = |path: &str| (path == "crates/log/src/scan.rs").then(|| "pub fn scan_all() {}".to_owned());
        for text in ["`scan` in `log/src/scan.rs`", "`Log::scan` (`log/src/scan.rs`)", "`scan`\nin `log/src/scan.rs`"] {
            let found = wrong_names(text, &read);
            assert!(found.len() == 1 && found[0].contains("scan` is not in log/src/scan.rs"), "{text}: {found:?}");
        }
        for text in
            ["`scan_all` in `log/src/scan.rs`", "`log->scan_all` (`log/src/scan.rs`)", "`scan` and `log/src/scan.rs`"]
        {
            assert_eq!(wrong_names(text, &read), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_row_that_does_not_name_the_rooms_from_the_top_is_reported() {
        let orders = [Order { package: "perdura-kv", storeys: &["server", "acl node", "store"] }];
        for rooms in ["`kv/src/server.rs`; `kv/src/node.rs`, `kv/src/acl.rs`, `kv/src/store.rs`", "`kv/src/store.rs`"] {
            assert_eq!(wrong_orders(&format!("| kv | {rooms} |"), &orders), Vec::<String>::new(), "{rooms}");
        }
        let found = wrong_orders("| kv | `kv/src/server.rs`; `kv/src/store.rs` log, `kv/src/acl.rs` |", &orders);
        assert_eq!(found, ["kv: the room acl is above store"]);
    }

    /// Files of one name lie in several rooms.
    #[test]
    fn a_source_is_named_by_its_path() {
        assert_eq!(wrong("see `scan.rs`").len(), 1);
    }

    #[test]
    fn a_page_that_grows_into_an_inventory_is_reported() {
        assert_eq!(too_long(&"word ".repeat(WORDS_MAX)), None);
        assert!(too_long(&"word ".repeat(WORDS_MAX + 1)).is_some());
    }
}
