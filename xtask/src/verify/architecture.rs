//! Checks that docs/ARCHITECTURE.md names every source file of the crates and the plugin.
//!
//! A file is named by its file name, such as `commit.rs`. The root of a room, `table.rs` beside
//! `table/`, is also named by its room, and the root of a crate by its crate: as `table/` or in
//! backquotes. Files of the same name in several crates share a mention.

use anyhow::{Context, Result, ensure};

use super::tree;
use crate::paths;

const PAGE: &str = "docs/ARCHITECTURE.md";

/// Checks all tracked source files of the crates and the plugin.
pub fn check() -> Result<()> {
    let page = std::fs::read_to_string(paths::top().join(PAGE)).context(PAGE)?;
    let sources: Vec<String> = tree::tracked()?.into_iter().filter(|path| is_source(path)).collect();
    let unnamed = unnamed(&sources, &page);
    ensure!(unnamed.is_empty(), "{PAGE} does not name {} files:\n{}", unnamed.len(), unnamed.join("\n"));
    Ok(())
}

/// Whether the page has to name the file: a source in `crates/NAME/src` or in `plugin/mariadb`.
fn is_source(path: &str) -> bool {
    let folders: Vec<&str> = path.split('/').collect();
    match folders[..] {
        ["crates", _, "src", ..] => path.ends_with(".rs"),
        ["plugin", "mariadb", ..] => path.ends_with(".cc") || path.ends_with(".h"),
        _ => false,
    }
}

/// The files of `sources` that `page` does not name.
fn unnamed<'a>(sources: &'a [String], page: &str) -> Vec<&'a str> {
    let is_named = |path: &str| {
        let (folder, file) = path.rsplit_once('/').expect("a source lies in a folder");
        names(page, file) || room(sources, folder, file).is_some_and(|room| names_room(page, room))
    };
    sources.iter().map(String::as_str).filter(|path| !is_named(path)).collect()
}

/// The room, or the crate, that has this file as its root.
fn room<'a>(sources: &[String], folder: &'a str, file: &'a str) -> Option<&'a str> {
    if ["lib.rs", "main.rs"].contains(&file) {
        return folder.strip_prefix("crates/")?.strip_suffix("/src");
    }
    let name = file.strip_suffix(".rs")?;
    let inner = format!("{folder}/{name}/");
    sources.iter().any(|path| path.starts_with(&inner)).then_some(name)
}

fn names_room(page: &str, room: &str) -> bool {
    [format!("{room}/"), format!("`{room}`"), format!("crates/{room}")].iter().any(|name| names(page, name))
}

/// Whether `name` stands in `page` as a whole, rather than as a part of a longer name.
fn names(page: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    page.match_indices(name).any(|(index, _)| {
        let before = page[..index].chars().next_back();
        let after = page[index + name.len()..].chars().next();
        !before.is_some_and(is_part) && (name.ends_with('/') || !after.is_some_and(is_part))
    })
}

#[cfg(test)]
mod tests {
    use super::{is_source, unnamed};

    fn unnamed_in(sources: &[&str], page: &str) -> Vec<String> {
        let sources: Vec<String> = sources.iter().map(|path| (*path).to_owned()).collect();
        assert!(sources.iter().all(|path| is_source(path)));
        unnamed(&sources, page).into_iter().map(str::to_owned).collect()
    }

    /// A new file that the page forgets would leave its readers without a way to it.
    #[test]
    fn a_file_that_the_page_forgets_is_reported() {
        let sources = ["crates/log/src/scan.rs", "crates/log/src/lane.rs", "plugin/mariadb/errors.cc"];
        assert_eq!(unnamed_in(&sources, "`lane.rs`, (`errors.cc`)."), ["crates/log/src/scan.rs"]);
        assert!(unnamed_in(&sources, "`log/scan.rs` reads a lane (`lane.rs`); `errors.cc`").is_empty());
    }

    #[test]
    fn a_part_of_a_longer_name_does_not_count() {
        let sources = ["crates/engine/src/files/cells.rs"];
        assert_eq!(unnamed_in(&sources, "`open_cells.rs`, `cells.rst`").len(), 1);
        assert!(unnamed_in(&sources, "`files/cells.rs`").is_empty());
    }

    #[test]
    fn rooms_and_crates_stand_for_their_roots() {
        let sources = ["crates/engine/src/lib.rs", "crates/engine/src/txn.rs", "crates/engine/src/txn/read.rs"];
        assert!(unnamed_in(&sources, "`crates/engine`: `txn/`, `read.rs`").is_empty());
        assert!(unnamed_in(&sources, "`engine`: `txn`, `read.rs`").is_empty());
        assert_eq!(unnamed_in(&sources, "the engine's txn in my_txn/ and `read.rs`"), sources[..2]);
        // A file without a folder of its name is no room.
        assert_eq!(unnamed_in(&["crates/engine/src/hold.rs"], "`hold`").len(), 1);
    }

    #[test]
    fn tests_and_other_folders_need_no_mention() {
        for path in ["crates/engine/tests/hold.rs", "crates/capi/include/perdura_map.h", "xtask/src/main.rs"] {
            assert!(!is_source(path), "{path}");
        }
    }
}
