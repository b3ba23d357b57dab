//! `cargo xtask test`: every test. First come the builds, one after the other, since each uses all cores; then the steps, two at a time,
//! since most of them use one core and wait for servers.
//!
//! Each step is a process, as when it is run alone. Its output is collected and printed in one piece when it ends. Each line of times
//! begins with `test:`. The last lines repeat what the failed steps complain of.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{paths, plugin, process};

/// Steps that run at a time.
const LANES: usize = 2;
/// A step that takes longer is ended, with all that it has started, and has failed: it hangs.
const STEP_MAX: Duration = Duration::from_secs(45 * 60);

/// A step's name and its command.
struct Step(&'static str, How);

enum How {
    /// `cargo ...`
    Cargo(&'static [&'static str]),
    /// `cargo xtask ...`
    Own(&'static [&'static str]),
    /// The maps' epochs, the pins of the log's lanes and the tree's readers under loom, which has a target directory of its own.
    Loom,
}

const UNIT: &[&str] = &["test", "--workspace", "--no-fail-fast"];
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

/// The steps, longest first, so that the last two end at about the same time.
const STEPS: [Step; 15] = [
    Step("explore-engine", How::Own(&["explore", "--product", "engine"])),
    Step("unit", How::Cargo(UNIT)),
    Step("explore-map", How::Own(&["explore", "--product", "map"])),
    Step("sim", How::Own(&["sim"])),
    Step("mtr", How::Own(&["mtr"])),
    Step("kv-chaos", How::Own(&["kv-chaos"])),
    Step("operations", How::Own(&["operations"])),
    Step("crash-server", How::Own(&["crash-server"])),
    Step("sqldiff", How::Own(&["sqldiff"])),
    Step("replication", How::Own(&["replication"])),
    Step("loom", How::Loom),
    Step("kv-clients", How::Own(&["kv-clients"])),
    Step("kv-page", How::Own(&["kv-page"])),
    Step("demo-kv", How::Own(&["demo-kv"])),
    Step("key-damage", How::Own(&["key-damage"])),
];

/// What a complaint in a step's output contains.
const COMPLAINTS: [&str; 8] =
    ["VIOLATION", "NOT CAUGHT", "NOT NOTICED", "sqldiff: ", "panicked at", "... FAILED", "[ fail ]", "error: "];
/// Complaints of a step that the summary repeats.
const COMPLAINTS_MAX: usize = 10;
/// Characters of each.
const COMPLAINT_CHARS: usize = 300;

/// Outcome of a step or a build.
struct Done {
    name: &'static str,
    took: Duration,
    passed: bool,
    /// Why it failed, in its own words.
    complaints: Vec<String>,
}

/// `test [STEP...]`: runs all steps, or those named, and closes with the times and `N passed, N failed`.
pub fn run(names: &[String]) -> Result<()> {
    let begun = Instant::now();
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|step| step.0 != name.as_str())) {
        let known: Vec<&str> = STEPS.iter().map(|step| step.0).collect();
        bail!("there is no step {unknown}: {}", known.join(", "));
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let mut done = build(&wanted)?;
    let queue: Mutex<VecDeque<&Step>> = Mutex::new(STEPS.iter().filter(|step| wanted(step.0)).collect());
    let finished = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let lane = || -> Result<()> {
            while let Some(step) = take(&queue) {
                let outcome = step.run()?;
                finished.lock().expect("no lane panics").push(outcome);
            }
            Ok(())
        };
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane does not panic"))
    })?;
    done.append(&mut finished.into_inner().expect("no lane panics"));
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

fn take<'a>(queue: &Mutex<VecDeque<&'a Step>>) -> Option<&'a Step> {
    queue.lock().expect("no lane panics").pop_front()
}

/// Compiles what the wanted steps run. A failed build ends the test.
fn build(wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Done>> {
    let release = |package: &'static str| process::cargo_build_release(package);
    let mut done = Vec::new();
    let mut timed = |name: &'static str, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let begun = Instant::now();
        work().with_context(|| name.to_owned())?;
        let took = begun.elapsed();
        println!("test: {name}: {:.0} s", took.as_secs_f64());
        done.push(Done { name, took, passed: true, complaints: Vec::new() });
        Ok(())
    };
    timed("build plugin", &mut plugin::build)?;
    if wanted("operations") {
        timed("build perdura", &mut || release("perdura-cli"))?;
    }
    if wanted("explore-engine") || wanted("explore-map") {
        timed("build the explorer", &mut || release("perdura-crash"))?;
    }
    if wanted("sim") {
        timed("build the simulator", &mut || release("perdura-sim"))?;
    }
    if ["kv-chaos", "kv-clients", "kv-page", "demo-kv"].into_iter().any(wanted) {
        timed("build perdura-kv", &mut || release("perdura-kv"))?;
    }
    if wanted("unit") {
        timed("build unit tests", &mut || process::run(process::cargo().args(UNIT).args(["--no-run", "--quiet"])))?;
    }
    if wanted("loom") {
        timed("build loom tests", &mut || process::run(How::Loom.command()?.args(["--no-run", "--quiet"])))?;
    }
    Ok(done)
}

impl Step {
    /// Runs to the end and prints its output.
    fn run(&self) -> Result<Done> {
        let Step(name, how) = self;
        println!("test: {name} begins");
        let directory = paths::build().join("test");
        std::fs::create_dir_all(&directory)?;
        let path = directory.join(format!("{name}.log"));
        let log = File::options().create(true).truncate(true).read(true).write(true).open(&path);
        let mut log = log.with_context(|| path.display().to_string())?;
        let begun = Instant::now();
        let mut command = how.command()?;
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

impl How {
    fn command(&self) -> Result<Command> {
        Ok(match self {
            How::Cargo(words) => {
                let mut command = process::cargo();
                command.args(*words);
                command
            }
            How::Own(words) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(*words).current_dir(paths::top());
                command
            }
            How::Loom => {
                let mut command = process::cargo();
                command.env("RUSTFLAGS", "--cfg loom").args(LOOM);
                command
            }
        })
    }
}
