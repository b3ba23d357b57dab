//! `perdura-sim [--seed N] [--seeds N] [--plant NAME] [--no-plants]`: runs whole clusters in one
//! thread each, as their seeds decide.
//!
//! `--seed N` is the first seed, and the only one unless `--seeds` says how many. Then each error
//! of reasoning that can be planted in a replica is planted, and must be noticed within a thousand
//! seeds; `--plant NAME` does only that, for one error; `--no-plants` leaves it out.
//!
//! Prints what the runs have had, each violation with its seed and how to run it again, and last
//! `seeds N, violations N`. Exit status 1 on a violation or an error that was not noticed.

#![forbid(unsafe_code)]

mod planted;
mod runs;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use perdura_sim::Report;
use runs::{on_all_cores, run_seed};

/// Seeds that are run if nothing is said.
const SEEDS: u64 = 10_000;
/// Violations that are printed.
const PRINTED_MAX: usize = 10;

struct Arguments {
    seed: Option<u64>,
    seeds: Option<u64>,
    plant: Option<String>,
    no_plants: bool,
}

fn parse() -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::{Long, ValueExt};
    let mut arguments = Arguments { seed: None, seeds: None, plant: None, no_plants: false };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seed") => arguments.seed = Some(parser.value()?.parse()?),
            Long("seeds") => arguments.seeds = Some(parser.value()?.parse()?),
            Long("plant") => arguments.plant = Some(parser.value()?.string()?),
            Long("no-plants") => arguments.no_plants = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(arguments)
}

/// Runs all seeds. Returns the violations, by seed.
fn run_all(seeds: std::ops::Range<u64>) -> Vec<(u64, String)> {
    let begun = Instant::now();
    let found = Mutex::new((Report::default(), Vec::new()));
    on_all_cores(seeds.clone(), |seed| {
        let ran = run_seed(seed);
        let mut found = found.lock().expect("no holder panics");
        match ran {
            Ok(report) => found.0 = found.0.and(report),
            Err(what) => found.1.push((seed, what)),
        }
        true
    });
    let (report, mut violations) = found.into_inner().expect("no holder panics");
    println!("{report:#?}");
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    violations.sort();
    violations
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("perdura-sim: {error}");
            return ExitCode::from(2);
        }
    };
    // A panic is reported as a violation; RUST_BACKTRACE=1 shows where it comes from.
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    if let Some(mutant) = &arguments.plant {
        return if planted::find(Some(mutant)) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let first = arguments.seed.unwrap_or(0);
    let count = arguments.seeds.unwrap_or(if arguments.seed.is_some() { 1 } else { SEEDS });
    let violations = run_all(first..first.saturating_add(count));
    for (seed, what) in violations.iter().take(PRINTED_MAX) {
        println!("VIOLATION seed {seed}: {what}\nrun it again: cargo xtask sim --seed {seed}");
    }
    let only_one = arguments.seed.is_some() && arguments.seeds.is_none();
    let are_noticed = arguments.no_plants || only_one || !violations.is_empty() || planted::find(None);
    println!("seeds {count}, violations {}", violations.len());
    if violations.is_empty() && are_noticed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
