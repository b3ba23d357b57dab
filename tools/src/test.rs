//! `cargo xtask test`: every test. Steps run two at a time, since most of them use one core and
//! wait for servers; beside them the explorers and the simulator, which only compute and go on for
//! long, use what time is left over. The builds are steps as well, so that no core waits for a
//! linker.
//!
//! Each step is a process, as when it is run alone. Its output is collected and printed in one
//! piece when it ends. Each line of times begins with `test:`. The last lines repeat what the
//! failed steps complain of.

mod board;
pub mod limited;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::shared::{paths, process};
use board::{Board, Done, Ordered};

/// Steps that run at a time, beside the one in the background.
const LANES: usize = 2;
/// A step that takes longer is ended, with all that it has started, and has failed: it hangs.
const STEP_MAX: Duration = Duration::from_secs(45 * 60);

/// A step: its name and its command.
struct Step {
    name: &'static str,
    how: How,
    /// Builds without which it cannot run.
    needs: &'static [&'static str],
    /// Builds for which it waits if they are to be made at all; those that it needs are among them.
    after: &'static [&'static str],
    /// How far it stands back for others that want the core, as `nice` takes it. Those that stand
    /// back furthest run in the background, one at a time.
    nice: u32,
}

/// Niceness of what runs in the background.
const BACKGROUND: u32 = 15;

enum How {
    /// `cargo ...`
    Cargo(&'static [&'static str]),
    /// `cargo build --release --package ...`
    Release(&'static str),
    /// `cargo xtask ...`
    Own(&'static [&'static str]),
    /// A program that was built, by its package's folder and its name, with its arguments. Cargo
    /// would wait for other builds.
    Program(&'static str, &'static str, &'static [&'static str]),
    /// The maps' epochs, the pins of the log's lanes and the tree's readers under loom, which has a
    /// target directory of its own.
    Loom(&'static [&'static str]),
}

const UNIT: &[&str] = &["test", "--workspace", "--no-fail-fast"];
const BUILD_UNIT: &[&str] = &["test", "--workspace", "--no-run", "--quiet"];
const LOOM: &[&str] = &[
    "test",
    "--package",
    "perdura-map",
    "--package",
    "perdura-log",
    "--package",
    "perdura-tree",
    "--lib",
    "--target-dir",
    "target/loom",
    "loom_tests",
];

/// Builds of the release, one after the other, since cargo makes them wait for each other. So would
/// it a step that asks for one.
const RELEASE: &[&str] =
    &["build-explorer", "build-plugin", "build-kv", "build-perdura", "build-dax", "build-simulator"];
const ALL_BUILDS: &[&str] = &[
    "build-explorer",
    "build-plugin",
    "build-kv",
    "build-perdura",
    "build-dax",
    "build-simulator",
    "build-unit",
    "build-loom",
];

const EXPLORE_ENGINE: How = How::Program("tests/crash", "perdura-crash", &["--product", "engine"]);
const EXPLORE_MAP: How = How::Program("tests/crash", "perdura-crash", &["--product", "map"]);

const fn build(name: &'static str, how: How, after: &'static [&'static str]) -> Step {
    Step { name, how, needs: &[], after, nice: 0 }
}

const fn step(name: &'static str, how: How, needs: &'static [&'static str]) -> Step {
    Step { name, how, needs, after: RELEASE, nice: 0 }
}

const fn background(name: &'static str, how: How, needs: &'static [&'static str]) -> Step {
    Step { name, how, needs, after: needs, nice: BACKGROUND }
}

/// The builds. What is in the background wants the first one; the unit tests are in a folder of
/// their own.
const BUILDS: [Step; 8] = [
    build("build-explorer", How::Release("perdura-crash"), &[]),
    Step { nice: 5, ..build("build-unit", How::Cargo(BUILD_UNIT), &[]) },
    build("build-plugin", How::Own(&["plugin"]), &["build-explorer"]),
    build("build-kv", How::Release("perdura-kv"), &["build-plugin"]),
    build("build-perdura", How::Release("perdura-cli"), &["build-kv"]),
    build("build-dax", How::Release("perdura-dax"), &["build-perdura"]),
    build("build-simulator", How::Release("perdura-sim"), &["build-dax"]),
    Step { nice: 5, ..build("build-loom", How::Loom(&["--no-run", "--quiet"]), &["build-unit"]) },
];

/// The steps, longest first, so that the last ones end at about the same time.
const STEPS: [Step; 23] = [
    background("explore-engine", EXPLORE_ENGINE, &["build-explorer"]),
    background("explore-map", EXPLORE_MAP, &["build-explorer"]),
    background("sim", How::Program("tests/sim", "perdura-sim", &[]), &["build-simulator"]),
    Step { after: ALL_BUILDS, ..step("unit", How::Cargo(UNIT), &["build-unit", "build-plugin"]) },
    step("mtr", How::Own(&["mtr"]), &["build-plugin"]),
    step("operations", How::Own(&["operations"]), &["build-plugin", "build-perdura"]),
    step("kv-chaos", How::Own(&["kv-chaos"]), &["build-kv"]),
    step("crash-server", How::Own(&["crash-server"]), &["build-plugin"]),
    step("sqldiff", How::Own(&["sqldiff"]), &["build-plugin"]),
    step("crash-page", How::Own(&["crash-server", "--placement", "page", "--rounds", "6"]), &["build-plugin"]),
    step("crash-split", How::Own(&["crash-server", "--placement", "split", "--rounds", "6"]), &["build-plugin"]),
    step("sqldiff-page", How::Own(&["sqldiff", "--placement", "page", "--statements", "4000"]), &["build-plugin"]),
    step("sqldiff-split", How::Own(&["sqldiff", "--placement", "split", "--statements", "4000"]), &["build-plugin"]),
    step("crash-paths", How::Own(&["crash-server", "--log-path", PATHS, "--rounds", "12"]), &["build-plugin"]),
    step("sqldiff-paths", How::Own(&["sqldiff", "--log-path", PATHS, "--statements", "4000"]), &["build-plugin"]),
    step("replication", How::Own(&["replication"]), &["build-plugin"]),
    step("schemas", How::Own(&["schemas"]), &["build-plugin"]),
    Step { after: &["build-loom"], ..step("loom", How::Loom(&[]), &["build-loom"]) },
    step("kv-clients", How::Own(&["kv-clients"]), &["build-kv"]),
    step("dax", How::Own(&["dax", "--short"]), &["build-dax", "build-perdura"]),
    step("kv-page", How::Own(&["kv-page"]), &["build-kv"]),
    step("demo-kv", How::Own(&["demo-kv"]), &["build-kv"]),
    step("key-damage", How::Own(&["key-damage"]), &[]),
];

/// Ways to the log that a server takes by turns.
const PATHS: &str = "classic,nf,persist,direct";

/// Marks of a complaint in a step's output.
const COMPLAINTS: [&str; 9] = [
    "VIOLATION",
    "NOT CAUGHT",
    "NOT NOTICED",
    "sqldiff: ",
    "panicked at",
    "... FAILED",
    "[ fail ]",
    "error: ",
    "has been running for over",
];
/// Complaints of a step that the summary repeats.
const COMPLAINTS_MAX: usize = 10;
/// Characters of each.
const COMPLAINT_CHARS: usize = 300;

impl Ordered for Step {
    fn name(&self) -> &'static str {
        self.name
    }

    fn after(&self) -> &'static [&'static str] {
        self.after
    }
}

/// `test [STEP...]`: runs all steps, or those named, and closes with the times and
/// `N passed, N failed`.
pub fn run(names: &[String]) -> Result<()> {
    let begun = Instant::now();
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|step| step.name != name.as_str())) {
        let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("there is no step {unknown}: {}", known.join(", "));
    }
    let board = Board::new(wanted(names));
    std::thread::scope(|scope| {
        let lane = |suits: fn(&Step) -> bool| {
            while let Some(step) = board.take(suits) {
                board.end(step.run().unwrap_or_else(|error| step.failed(format!("{error:#}"))));
            }
        };
        (0..LANES).for_each(|_| drop(scope.spawn(move || lane(|step| !step.is_background()))));
        scope.spawn(move || lane(Step::is_background));
    });
    let done = board.into_done();
    for Done { name, took, passed, .. } in &done {
        println!("test: {name:<20} {:>5.0} s  {}", took.as_secs_f64(), if *passed { "ok" } else { "FAILED" });
    }
    println!("test: {:<20} {:>5.0} s", "all", begun.elapsed().as_secs_f64());
    for step in &done {
        step.complaints.iter().for_each(|complaint| println!("test: {}: {complaint}", step.name));
    }
    let failed: Vec<&str> = done.iter().filter(|step| !step.passed).map(|step| step.name).collect();
    println!("test: {} passed, {} failed", done.len() - failed.len(), failed.len());
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// The steps named, or all, with the builds that they need.
fn wanted(names: &[String]) -> Vec<&'static Step> {
    let steps = STEPS.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name));
    let steps: Vec<&Step> = steps.collect();
    let builds = BUILDS.iter().filter(|build| steps.iter().any(|step| step.needs.contains(&build.name)));
    builds.chain(steps.iter().copied()).collect()
}

impl Step {
    fn is_background(&self) -> bool {
        self.nice >= BACKGROUND
    }

    /// Result noted for a step that could not be run.
    fn failed(&self, why: String) -> Done {
        Done { name: self.name, took: Duration::ZERO, passed: false, complaints: vec![why] }
    }

    /// Runs to the end and prints its output.
    fn run(&self) -> Result<Done> {
        let name = self.name;
        println!("test: {name} begins");
        let directory = paths::build().join("test");
        std::fs::create_dir_all(&directory)?;
        let path = directory.join(format!("{name}.log"));
        let log = File::options().create(true).truncate(true).read(true).write(true).open(&path);
        let mut log = log.with_context(|| path.display().to_string())?;
        let begun = Instant::now();
        let mut command = standing_back(self.how.command()?, self.nice);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
        let mut child = command.spawn().with_context(|| name.to_owned())?;
        let passed = match process::wait_at_most(&mut child, STEP_MAX)? {
            Some(status) => status.success(),
            None => {
                writeln!(log, "error: {name} was ended after {} minutes", STEP_MAX.as_secs() / 60)?;
                false
            }
        };
        let took = begun.elapsed();
        let mut text = Vec::new();
        log.rewind()?;
        log.read_to_end(&mut text)?;
        let mut out = std::io::stdout().lock();
        out.write_all(&text)?;
        writeln!(out, "test: {name}: {}, {:.0} s", if passed { "ok" } else { "FAILED" }, took.as_secs_f64())?;
        drop(out);
        let complaints = if passed { Vec::new() } else { complaints(&String::from_utf8_lossy(&text)) };
        Ok(Done { name, took, passed, complaints })
    }
}

/// The lines of an output that say what went wrong, or else its last ones.
fn complaints(text: &str) -> Vec<String> {
    let is_complaint = |line: &&str| COMPLAINTS.iter().any(|word| line.contains(word));
    let mut found: Vec<&str> = text.lines().filter(is_complaint).take(COMPLAINTS_MAX).collect();
    if found.is_empty() {
        found = text.lines().rev().take(COMPLAINTS_MAX).collect();
        found.reverse();
    }
    found.into_iter().map(|line| line.chars().take(COMPLAINT_CHARS).collect()).collect()
}

/// The command, run by `nice` if it is to stand back for others.
fn standing_back(command: Command, nice: u32) -> Command {
    if nice == 0 {
        return command;
    }
    let mut standing = Command::new("nice");
    standing.arg("-n").arg(nice.to_string()).arg(command.get_program()).args(command.get_args());
    standing.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = command.get_current_dir() {
        standing.current_dir(directory);
    }
    standing
}

impl How {
    fn command(&self) -> Result<Command> {
        let own = std::env::current_exe()?;
        let mut command = match self {
            How::Cargo(_) | How::Release(_) | How::Loom(_) => process::cargo(),
            How::Own(_) => Command::new(&own),
            // Beside this program.
            How::Program(_, name, _) => Command::new(own.with_file_name(name)),
        };
        match self {
            How::Cargo(UNIT) => command.args(UNIT).arg("--config").arg(limited::as_runner(&own)),
            How::Cargo(words) | How::Own(words) => command.args(*words),
            How::Release(package) => command.args(["build", "--quiet", "--release", "--package", package]),
            How::Program(package, _, words) => {
                command.env("CARGO_MANIFEST_DIR", paths::top().join(package)).args(*words)
            }
            // Words for cargo go before the name of the tests.
            How::Loom(words) => command.env("RUSTFLAGS", "--cfg loom").args(LOOM).args(*words),
        };
        command.current_dir(paths::top());
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(steps: &[&Step]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name).collect()
    }

    /// A build that is misspelt would be no need at all.
    #[test]
    fn what_a_step_waits_for_is_built() {
        for step in BUILDS.iter().chain(&STEPS) {
            let known = |name: &&str| BUILDS.iter().any(|build| build.name == *name);
            assert!(step.needs.iter().chain(step.after).all(known), "{}", step.name);
            assert!(step.needs.iter().all(|need| step.after.contains(need)), "{}", step.name);
        }
        assert!(BUILDS.iter().all(|build| ALL_BUILDS.contains(&build.name)));
    }

    #[test]
    fn single_steps_bring_what_they_need_and_no_more() {
        assert_eq!(names(&wanted(&["operations".to_owned()])), ["build-plugin", "build-perdura", "operations"]);
        assert_eq!(names(&wanted(&[])).len(), BUILDS.len() + STEPS.len());
    }
}
