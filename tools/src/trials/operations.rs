//! Tests what a user relies on: `make server`, the page of every variable and counter, the backup
//! of a server under load, the package installed by its own README, and pools on disks.
//!
//! The hazards: a command or a step that does not work as written; a variable without
//! documentation; a backup that claims to be complete and holds half a transfer, or nothing; a
//! server that starts without its tables, or with others' halves of them.

mod backup;
mod full_disk;
mod machine;
mod own_server;
mod package;
mod placements;
mod statements;
mod update;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;

use crate::drive::plugin;
use crate::drive::server::{Options, Server};
use crate::shared::args::Args;
use crate::shared::{paths, process, steps};

/// The command's word by which it runs on a disk that it has mounted for itself.
const FULL_DISK: &str = "operations-full-disk";

type Step = (&'static str, Box<dyn Fn() -> Result<()>>);

/// `operations [WORD] [--rounds N] [--seed N]`: runs all steps, or those with the word in their
/// names, and closes with `N passed, N failed`.
pub fn run(mut args: Args) -> Result<()> {
    let word = args.positional().unwrap_or_default();
    let rounds = args.option("--rounds")?.unwrap_or(4);
    let seed = args.option("--seed")?.unwrap_or(1);
    args.finish()?;
    plugin::build()?;
    let backup = move || {
        process::cargo_build_release("perdura-cli")?;
        backup::run(rounds, seed)
    };
    let steps: [Step; 9] = [
        ("README.md's statements, over a kill -9", Box::new(readme)),
        ("docs/operations.md names every variable and counter", Box::new(page)),
        ("backup of a server under load, restored", Box::new(backup)),
        ("the halves of a pool: missing, swapped, another's", Box::new(placements::halves)),
        ("a log's directory that is memory, then a disk", Box::new(placements::taken_for_others)),
        ("a pool on a disk, taken for memory, asked for DAX", Box::new(placements::whole)),
        ("a disk that fills while checkpoints go on", Box::new(|| full_disk::run(FULL_DISK))),
        ("make server: started, stopped, started again", Box::new(own_server::run)),
        ("the package, unpacked beside a fresh server", Box::new(package::run)),
    ];
    let chosen: Vec<&Step> = steps.iter().filter(|(name, _)| name.contains(&word)).collect();
    ensure!(!chosen.is_empty(), "no step has {word:?} in its name");
    let chosen: Vec<_> = chosen.iter().map(|(name, work)| (*name, work)).collect();
    steps::run("operations", &chosen).with_context(|| format!("run again with --seed {seed}"))
}

/// `operations-full-disk DIRECTORY`: not for people.
pub fn on_full_disk(mut args: Args) -> Result<()> {
    let point = args.positional().context("the directory is missing")?;
    args.finish()?;
    full_disk::inside(Path::new(&point))
}

/// Runs the statements of README.md on a server that is killed between them.
fn readme() -> Result<()> {
    let text = std::fs::read_to_string(paths::top().join("README.md"))?;
    let mut server = Server::start_new(Options { perdura: true, ..Options::default() })?;
    statements::hold_over_kill(&mut server, "README.md", &text)
}

/// Checks that the page has a line for every system variable, with its default, and for every
/// counter, and none besides.
fn page() -> Result<()> {
    let server = Server::start_new(Options { perdura: true, ..Options::default() })?;
    let mut connection = server.connect()?;
    let variables: Vec<(String, String)> = connection.query(
        "SELECT LOWER(variable_name), COALESCE(default_value, '') FROM information_schema.system_variables \
         WHERE variable_name LIKE 'perdura%'",
    )?;
    let counters: Vec<(String, String)> = connection.query("SHOW GLOBAL STATUS LIKE 'perdura%'")?;
    ensure!(variables.len() > 5 && counters.len() > 10, "the server shows too few: {variables:?}, {counters:?}");
    let text = std::fs::read_to_string(paths::top().join("docs/operations.md"))?;
    let rows: Vec<Vec<&str>> = text.lines().filter_map(named_row).collect();
    let mut wrong = Vec::new();
    for (name, default) in &variables {
        match rows.iter().find(|row| row[0] == name) {
            Some(row) if row.get(2).is_some_and(|cell| cell.trim_matches('`') == default) => {}
            Some(row) => wrong.push(format!("{name}: the default is {default}, the page says {:?}", row.get(2))),
            None => wrong.push(format!("{name} is not in the page")),
        }
    }
    for (name, _) in &counters {
        if !rows.iter().any(|row| row[0] == name && row.len() > 2) {
            wrong.push(format!("{name} is not in the page"));
        }
    }
    let known = |name: &str| variables.iter().chain(&counters).any(|(known, _)| known == name);
    wrong.extend(rows.iter().filter(|row| !known(row[0])).map(|row| format!("the server has no variable {}", row[0])));
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The cells of a table row that begins with `perdura_...` or `Perdura_...`.
fn named_row(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> = line.strip_prefix('|')?.trim_end_matches('|').split('|').map(str::trim).collect();
    let name = cells.first()?.strip_prefix('`')?.strip_suffix('`')?;
    let named = name.to_ascii_lowercase().starts_with("perdura_");
    named.then(|| std::iter::once(name).chain(cells.into_iter().skip(1)).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn rows_of_variables_are_told_from_others() {
        let row = super::named_row("| `perdura_dir` | path | `x` |").unwrap();
        assert_eq!(row, ["perdura_dir", "path", "`x`"]);
        assert!(super::named_row("| name | unit |").is_none());
        assert!(super::named_row("`perdura_dir` is a variable").is_none());
    }
}
