//! `perdura-crash [--seed N] [--images N | --minutes N | --forever] [--product NAME]
//! [--scenario NAME] [--no-mutations] [--plant NAME] [--mute PLACE] [--costs]`:
//! explores each product until it has seen enough, or all of them in turn until the time is up, or
//! (`--forever`) until an interrupt or a violation stops it.
//!
//! `--plant NAME` only plants that error of reasoning and says what shows it. `--mute PLACE` only
//! switches off the call sites whose file and line contain `PLACE`, e.g. `segments.rs:217`.
//!
//! Prints images per hazard and the lint's findings of each product, the mutations whose search
//! took longest (with `--costs` all), and last `images N, violations N, mutations caught C/T` of
//! all: call sites switched off, and errors of reasoning planted. Exit status 1 on a violation, an
//! uncaught mutation or a finding of the lint.

#![forbid(unsafe_code)]

use perdura_crash::campaign::{Campaign, Extent, Of, explore_all};
use perdura_crash::cost;
use perdura_crash::engine;
use perdura_crash::explore::Tally;
use perdura_crash::map;
use perdura_crash::mutation::Verdict;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const CAMPAIGNS: [&dyn Campaign; 2] = [&Of::<engine::Scenario>::NEW, &Of::<map::Scenario>::NEW];

struct Arguments {
    extent: Extent,
    product: Option<String>,
    mutations: bool,
    plant: Option<String>,
    mute: Option<String>,
    costs: bool,
}

/// The results of one product or of all.
#[derive(Default)]
struct Outcome {
    images: u64,
    violations: Vec<String>,
    lint_findings: usize,
    caught: usize,
    mutations: usize,
}

fn main() -> ExitCode {
    let (arguments, campaigns) = match parse().and_then(|arguments| Ok((choose(&arguments)?, arguments))) {
        Ok((campaigns, arguments)) => (arguments, campaigns),
        Err(error) => {
            eprintln!("perdura-crash: {error}");
            return ExitCode::from(2);
        }
    };
    if let Some(mutant) = &arguments.plant {
        return plant_one(&campaigns, mutant, arguments.extent.seed);
    }
    if let Some(place) = &arguments.mute {
        return mute(&campaigns, place, arguments.extent.seed);
    }
    let mut total = Outcome::default();
    if arguments.extent.time.is_some() {
        let tallies = quietly(|| explore_all(&campaigns, &arguments.extent));
        for (campaign, tally) in campaigns.iter().zip(tallies) {
            total.add(conclude(*campaign, tally, &arguments));
        }
    } else {
        for campaign in &campaigns {
            let explore = || quietly(|| explore_all(&[*campaign], &arguments.extent)).pop().unwrap_or_default();
            let tally = timed("images", explore);
            total.add(conclude(*campaign, tally, &arguments));
        }
    }
    for violation in total.violations.iter().take(10) {
        println!("VIOLATION {violation}");
    }
    let Outcome { images, violations, caught, mutations, lint_findings } = &total;
    println!("images {images}, violations {}, mutations caught {caught}/{mutations}", violations.len());
    let clean = violations.is_empty() && caught == mutations && *lint_findings == 0;
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn plant_one(campaigns: &[&dyn Campaign], mutant: &str, seed: u64) -> ExitCode {
    match quietly(|| campaigns.iter().find_map(|campaign| campaign.plant_one(mutant, seed))) {
        Some(Ok(shown)) => {
            println!("planted error {mutant} is caught: {shown}");
            ExitCode::SUCCESS
        }
        Some(Err(why)) => {
            println!("NOT CAUGHT planted error {mutant}: {why}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("perdura-crash: there is no planted error {mutant}");
            ExitCode::from(2)
        }
    }
}

fn mute(campaigns: &[&dyn Campaign], place: &str, seed: u64) -> ExitCode {
    let verdicts: Vec<_> = quietly(|| campaigns.iter().flat_map(|campaign| campaign.mutate(seed, place)).collect());
    for Verdict { site, caught, cost, .. } in &verdicts {
        let (seconds, runs) = (cost.time.as_secs_f64(), cost.attempts);
        println!("{} {site} in {runs} runs, {seconds:.1} s", if *caught { "caught" } else { "NOT CAUGHT" });
    }
    let all = !verdicts.is_empty() && verdicts.iter().all(|verdict| verdict.caught);
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.images += other.images;
        self.violations.extend(other.violations);
        self.lint_findings += other.lint_findings;
        self.caught += other.caught;
        self.mutations += other.mutations;
    }
}

fn parse() -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::{Long, ValueExt};
    let extent = Extent { seed: 1, images: None, time: None, scenario: None };
    let mut arguments = Arguments { extent, product: None, mutations: true, plant: None, mute: None, costs: false };
    let extent = &mut arguments.extent;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seed") => extent.seed = parser.value()?.parse()?,
            Long("images") => extent.images = Some(parser.value()?.parse()?),
            Long("minutes") => extent.time = Some(Duration::from_secs(60 * parser.value()?.parse::<u32>()? as u64)),
            Long("forever") => extent.time = Some(Duration::MAX),
            Long("product") => arguments.product = Some(parser.value()?.string()?),
            Long("scenario") => extent.scenario = Some(parser.value()?.string()?),
            Long("plant") => arguments.plant = Some(parser.value()?.string()?),
            Long("mute") => arguments.mute = Some(parser.value()?.string()?),
            Long("costs") => arguments.costs = true,
            Long("no-mutations") => arguments.mutations = false,
            other => return Err(other.unexpected()),
        }
    }
    Ok(arguments)
}

/// The campaigns the arguments ask for.
fn choose(arguments: &Arguments) -> Result<Vec<&'static dyn Campaign>, lexopt::Error> {
    let is_wanted = |campaign: &&dyn Campaign| {
        let product = arguments.product.as_ref().is_none_or(|name| campaign.product().name == name);
        product
            && arguments
                .extent
                .scenario
                .as_ref()
                .is_none_or(|name| campaign.has_scenario(name) || campaign.has_drill(name))
    };
    let campaigns: Vec<_> = CAMPAIGNS.into_iter().filter(is_wanted).collect();
    if campaigns.is_empty() { Err("no product, scenario or drill has this name".into()) } else { Ok(campaigns) }
}

/// Keeps panic messages of recoveries off standard error; each is reported as a violation.
fn quietly<T>(run: impl FnOnce() -> T) -> T {
    std::panic::set_hook(Box::new(|_| {}));
    let result = run();
    let _ = std::panic::take_hook();
    result
}

/// Prints how long a part of the work took.
fn timed<T>(part: &str, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = work();
    println!("{part}: {:.1} s", begin.elapsed().as_secs_f64());
    result
}

/// Prints the findings, runs the lint, and tests the explorer itself.
fn conclude(campaign: &dyn Campaign, tally: Tally, arguments: &Arguments) -> Outcome {
    let name = campaign.product().name;
    println!("{:<24} {:>9}", format!("hazard ({name})"), "images");
    for ((group, label), count) in &tally.hazards {
        println!("{:<24} {count:>9}", format!("{group} {label}").trim_start());
    }
    let mut outcome = Outcome { images: tally.images, violations: tally.violations, ..Outcome::default() };
    outcome.violations.extend(timed("drills", || quietly(|| campaign.drill(&arguments.extent))));
    if !outcome.violations.is_empty() {
        println!("{name}: violations, so neither lint nor mutations would tell anything");
        return outcome;
    }
    outcome.lint_findings = timed("lint", || lint(campaign, arguments.extent.seed));
    if arguments.mutations {
        let seed = arguments.extent.seed;
        let sites = timed("call sites", || quietly(|| campaign.mutate(seed, "")));
        let planted = timed("planted errors", || quietly(|| campaign.plant(seed)));
        for (kind, verdicts) in [("call sites", &sites), ("planted errors", &planted)] {
            cost::report(kind, verdicts, arguments.costs).iter().for_each(|line| println!("{line}"));
        }
        let verdicts = [sites, planted].concat();
        for verdict in verdicts.iter().filter(|verdict| !verdict.caught) {
            println!("NOT CAUGHT {}", verdict.site);
        }
        outcome.caught = verdicts.iter().filter(|verdict| verdict.caught).count();
        outcome.mutations = verdicts.len();
    }
    let Outcome { images, violations, caught, mutations, .. } = &outcome;
    println!("{name}: images {images}, violations {}, mutations caught {caught}/{mutations}\n", violations.len());
    outcome
}

/// Prints the lint's findings. Returns the number of call sites it complains of.
fn lint(campaign: &dyn Campaign, seed: u64) -> usize {
    let lint = campaign.lint(seed);
    for (site, count) in &lint.dirty {
        println!("LINT dirty at an acknowledgement: {site}, {count} times");
    }
    for (site, count) in &lint.redundant {
        println!("LINT flushed while clean: {site}, {count} times");
    }
    let (dirty, redundant) = (lint.dirty.len(), lint.redundant.len());
    println!("lint: {dirty} sites dirty at an acknowledgement, {redundant} with redundant flushes");
    dirty + redundant
}
