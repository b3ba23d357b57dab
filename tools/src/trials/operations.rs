//! Tests what a user relies on: `make server`, the page of every variable and counter, the backup
//! of a server under load, and the package installed by its own README.
//!
//! The hazards: a command or a step that does not work as written; a variable without
//! documentation; a backup that claims to be complete and holds half a transfer, or nothing; a
//! server that starts without its tables, or is updated and does not say that they are missing.

mod backup;
mod machine;
mod own_server;
mod package;
mod statements;
mod update;

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;

use crate::drive::plugin;
use crate::drive::server::{Options, Server};
use crate::shared::args::Args;
use crate::shared::{paths, process, steps};

type Step = (&'static str, Box<dyn Fn() -> Result<()>>);

/// `operations [--rounds N] [--seed N]`: runs all steps and closes with `N passed, N failed`.
pub fn run(mut args: Args) -> Result<()> {
    let rounds = args.option("--rounds")?.unwrap_or(4);
    let seed = args.option("--seed")?.unwrap_or(1);
    args.finish()?;
    plugin::build()?;
    process::cargo_build_release("perdura-cli")?;
    let steps: [Step; 5] = [
        ("README.md's statements, over a kill -9", Box::new(readme)),
        ("docs/operations.md names every variable and counter", Box::new(page)),
        ("backup of a server under load, restored", Box::new(move || backup::run(rounds, seed))),
        ("make server: started, stopped, started again", Box::new(own_server::run)),
        ("the package, unpacked beside a fresh server", Box::new(package::run)),
    ];
    steps::run("operations", &steps).with_context(|| format!("run again with --seed {seed}"))
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
