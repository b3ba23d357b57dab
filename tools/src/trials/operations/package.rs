//! Installs the package on a fresh server by the commands in the text of the two READMEs.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;

use super::machine::{Machine, RELOAD, RESTART};
use super::{statements, update};
use crate::drive::package;
use crate::shared::{client, paths, process};

/// Makes the package and follows the READMEs.
///
/// The hazard: steps that do not work as written. The known absolute paths of a command are
/// replaced by ones in the test's directory; a command with any other absolute path is not run.
/// Some of the machine's programs are replaced: `mariadb`, `mariadbd` and `my_print_defaults` are
/// those of the test's server, `apt-get` only checks that the package is installed, and the test
/// itself does the work of `systemctl`.
pub fn run() -> Result<()> {
    let archive = package::make()?;
    let place = paths::medium().join(format!("server-{}-package", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let outcome = try_out(&archive, &place);
    std::fs::remove_dir_all(&place)?;
    outcome
}

fn try_out(archive: &Path, place: &Path) -> Result<()> {
    let ours = std::fs::read_to_string(paths::top().join("README.md"))?;
    let (typed, commands): (Vec<_>, Vec<_>) =
        commands(&ours, "## Using it").into_iter().partition(|line| line.ends_with(';'));
    let unpack =
        commands.iter().find(|line| line.starts_with("tar ")).context("README.md does not unpack the package")?;
    let unpacked = unpack_as_written(unpack, archive, place)?;
    package::check_links(&unpacked)?;

    let mut machine = Machine::new(place, &unpacked)?;
    let readme = std::fs::read_to_string(unpacked.join("README.md"))?;
    let steps = self::commands(&readme, "## Installing");
    for needed in
        ["apt-get install libpmem2", "perdura-plugin pick", "perdura.cnf", "apt.conf", RELOAD, RESTART, "CREATE TABLE"]
    {
        ensure!(
            steps.iter().any(|step| step.contains(needed)),
            "no step of the package's README has `{needed}`: {steps:?}"
        );
    }
    for step in &steps {
        machine.take(step).with_context(|| format!("a step of the package's README: {step}"))?;
    }
    client::execute(&mut machine.server().connect()?, &[&["USE first".to_owned()], typed.as_slice()].concat())?;
    keeps_its_rows(&mut machine)?;
    let compatibility = std::fs::read_to_string(unpacked.join("docs/compatibility.md"))?;
    let mut connection = machine.server().connect()?;
    statements::hold(&mut connection, "README.md of the package", &readme, 7)?;
    statements::hold(&mut connection, "docs/compatibility.md", &compatibility, 40)?;
    drop(connection);
    update::try_out(&mut machine)
}

/// Runs README.md's command in a directory with a `build` like the checkout's; returns where it
/// leads.
fn unpack_as_written(command: &str, archive: &Path, place: &Path) -> Result<PathBuf> {
    let top = place.join("top");
    std::fs::create_dir_all(top.join("build"))?;
    symlink(archive, top.join("build").join(archive.file_name().context("the package has no name")?))?;
    let shown = process::output(Command::new("sh").arg("-ec").arg(format!("{command}\npwd")).current_dir(&top))?;
    Ok(PathBuf::from(shown.trim_end()))
}

/// The indented lines of a section: its commands, without the comments after them.
fn commands(text: &str, heading: &str) -> Vec<String> {
    let section = text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let code = section.filter_map(|line| line.strip_prefix("    "));
    code.map(|line| line.split("  # ").next().unwrap_or(line).trim().to_owned()).collect()
}

/// Checks that rows survive a restart, that the command reads the pool, and that the server does
/// not start without the pool.
fn keeps_its_rows(machine: &mut Machine) -> Result<()> {
    let statement = "INSERT INTO first.t VALUES (1, 'one'), (2, 'two')";
    machine.server().connect()?.query_drop(statement).context(statement)?;
    machine.server().stop()?;
    let (pool, aside) = (machine.at("pool"), machine.at("pool.aside"));
    process::output(Command::new(machine.at("local/perdura")).arg("check").arg(&pool))?;
    std::fs::rename(&pool, &aside)?;
    ensure!(machine.server().start().is_err(), "the server started although the pool's directory is missing");
    ensure!(machine.server().log().contains("does not exist"), "the log does not say what is missing");
    std::fs::rename(&aside, &pool)?;
    machine.server().start()?;
    let rows: Vec<(i32, String)> = machine.server().connect()?.query("SELECT id, name FROM first.t ORDER BY id")?;
    ensure!(rows == [(1, "one".to_owned()), (2, "two".to_owned())], "after the restart: {rows:?}");
    ensure!(machine.server().log().contains("perdura backup"), "the log does not say how to back up");
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_are_the_indented_lines_of_their_section() {
        let text = "    no\n## A\ntext\n    make x   # why\n1. Do it:\n\n       cp a b\n   more\n## B\n    no\n";
        assert_eq!(super::commands(text, "## A"), ["make x", "cp a b"]);
    }
}
