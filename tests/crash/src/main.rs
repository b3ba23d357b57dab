//! `perdura-crash [--seed N] [--images N | --minutes N | --forever] [--scenario NAME] [--no-mutations]`: explores until enough is
//! seen, the time is over, or (`--forever`) it is told to stop by an interrupt or finds a violation.
//!
//! Prints images per hazard, the lint's findings, and last `images N, violations N, mutations caught C/T`. Exit status 1 on a
//! violation, an uncaught mutation or a finding of the lint.

#![forbid(unsafe_code)]

use perdura_crash::explore::{Depth, Tally, explore};
use perdura_crash::mutation::{self, Verdict};
use perdura_crash::scenario::{Run, SCENARIOS};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Hazards of which so many images are wanted each.
const HAZARDS: [&str; 16] = [
    "insert",
    "bulk_insert",
    "update",
    "delete",
    "rollback",
    "savepoint",
    "ddl",
    "file_expansion",
    "generation_switch",
    "wrap_around",
    "checkpoint",
    "purge",
    "reuse",
    "log_growth",
    "prepared",
    "recovery",
];
const IMAGES_PER_HAZARD: u64 = 2000;
const WORKERS: usize = 2;
/// Images looked at in each run for one mutation.
const IMAGES_PER_MUTATION: u64 = 4000;

struct Arguments {
    seed: u64,
    images: u64,
    minutes: Option<u64>,
    scenario: Option<String>,
    mutations: bool,
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("perdura-crash: {error}");
            return ExitCode::from(2);
        }
    };
    // Images that recovery panics on are reported as violations, not as noise.
    std::panic::set_hook(Box::new(|_| {}));
    let tally = explore_all(&arguments);
    let _ = std::panic::take_hook();
    print_hazards(&tally);
    let lint = lint(arguments.seed);
    let verdicts = if arguments.mutations { test_mutations(arguments.seed) } else { Vec::new() };
    for verdict in verdicts.iter().filter(|verdict| !verdict.caught) {
        println!("NOT CAUGHT {}", verdict.site);
    }
    for violation in tally.violations.iter().take(10) {
        println!("VIOLATION {violation}");
    }
    let caught = verdicts.iter().filter(|verdict| verdict.caught).count();
    println!(
        "images {}, violations {}, mutations caught {caught}/{}",
        tally.images,
        tally.violations.len(),
        verdicts.len()
    );
    if tally.violations.is_empty() && caught == verdicts.len() && lint { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse() -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::{Long, ValueExt};
    let mut arguments = Arguments { seed: 1, images: 100_000, minutes: None, scenario: None, mutations: true };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seed") => arguments.seed = parser.value()?.parse()?,
            Long("images") => arguments.images = parser.value()?.parse()?,
            Long("minutes") => arguments.minutes = Some(parser.value()?.parse()?),
            Long("forever") => arguments.minutes = Some(u64::MAX / 60),
            Long("scenario") => arguments.scenario = Some(parser.value()?.string()?),
            Long("no-mutations") => arguments.mutations = false,
            other => return Err(other.unexpected()),
        }
    }
    Ok(arguments)
}

/// Runs seed after seed on all workers until enough images are seen, or the time is over.
fn explore_all(arguments: &Arguments) -> Tally {
    let total = Mutex::new(Tally::default());
    let next = AtomicU64::new(0);
    let enough = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let tally = explore_run(arguments, number);
                    let mut total = total.lock().expect("no worker panics with it");
                    total.add(tally);
                    let over = match arguments.minutes {
                        Some(minutes) => begin.elapsed() >= Duration::from_secs(60 * minutes),
                        None => is_enough(&total, arguments),
                    };
                    if arguments.minutes.is_some() && number % 100 == 99 {
                        println!("images {}, violations {}", total.images, total.violations.len());
                    }
                    if over || total.violations.len() >= 10 {
                        enough.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    total.into_inner().expect("no worker panics with it")
}

fn is_enough(total: &Tally, arguments: &Arguments) -> bool {
    let wanted = IMAGES_PER_HAZARD.min(arguments.images / HAZARDS.len() as u64);
    let covered = |hazard: &&str| total.hazards.get(*hazard).is_some_and(|count| *count >= wanted);
    total.images >= arguments.images && (arguments.scenario.is_some() || HAZARDS.iter().all(covered))
}

fn explore_run(arguments: &Arguments, number: u64) -> Tally {
    let scenario = match &arguments.scenario {
        Some(name) => SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap_or(&SCENARIOS[0]),
        None => &SCENARIOS[number as usize % SCENARIOS.len()],
    };
    let seed = arguments.seed + number / if arguments.scenario.is_some() { 1 } else { SCENARIOS.len() as u64 };
    let depth = Depth { choices: 12, images_max: 6000, violations_max: 3, muted: None, nested: true, from: 0 };
    match std::panic::catch_unwind(|| scenario.run(seed)) {
        Ok(run) => explore(&run, &depth),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            let violation = format!("scenario {:?} seed {seed}: the run itself failed: {text}", scenario.name);
            Tally { violations: vec![violation], ..Tally::default() }
        }
    }
}

fn print_hazards(tally: &Tally) {
    println!("{:<20} {:>9}", "hazard", "images");
    for (hazard, count) in &tally.hazards {
        println!("{hazard:<20} {count:>9}");
    }
}

/// One run of each scenario for the lint and the mutations.
fn sample_runs(seed: u64) -> Vec<Run> {
    SCENARIOS.iter().flat_map(|scenario| [scenario.run(seed), scenario.run(seed + 1)]).collect()
}

/// Lines left dirty at an acknowledgement, and flushes of clean lines. Returns whether there are none.
fn lint(seed: u64) -> bool {
    let mut open = BTreeMap::new();
    let mut redundant = BTreeMap::new();
    for run in sample_runs(seed) {
        let findings = run.trace.lint(|_| true);
        for (site, count) in findings.open_at_ack {
            *open.entry(site.to_string()).or_insert(0) += count;
        }
        for (site, count) in findings.redundant_flushes {
            *redundant.entry(site.to_string()).or_insert(0) += count;
        }
    }
    for (site, count) in &open {
        println!("LINT dirty at an acknowledgement: {site}, {count} times");
    }
    for (site, count) in &redundant {
        println!("LINT flushed while clean: {site}, {count} times");
    }
    println!("lint: {} sites dirty at an acknowledgement, {} with redundant flushes", open.len(), redundant.len());
    open.is_empty() && redundant.is_empty()
}

fn test_mutations(seed: u64) -> Vec<Verdict> {
    let mut runs = sample_runs(seed);
    runs.extend(mutation::recovery_runs(&runs));
    let sites = mutation::reached_sites(&runs);
    std::panic::set_hook(Box::new(|_| {}));
    let next = AtomicU64::new(0);
    let verdicts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(site) = sites.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let verdict = mutation::test(&runs, *site, IMAGES_PER_MUTATION);
                    verdicts.lock().expect("no worker panics with it").push(verdict);
                }
            });
        }
    });
    let _ = std::panic::take_hook();
    let mut verdicts = verdicts.into_inner().expect("no worker panics with it");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unreached = mutation::unreached_sites(&root, &sites).unwrap_or_else(|error| vec![format!("sources: {error}")]);
    verdicts.extend(unreached.into_iter().map(|site| Verdict { site, caught: false }));
    verdicts
}
