//! `primitives --dir DIR [--quick] [--only SERIES]`: writes of the medium without an engine, one
//! JSON object a line (see `perdura_bench::output`). `cargo xtask bench primitives` judges and
//! reports them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

#![forbid(unsafe_code)]

mod copies;
mod model;
mod nodes;
mod place;
mod writes;

use perdura_bench::output;
use perdura_bench::plan::Plan;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// After this much of a quick run no further round begins.
const QUICK_TIME: Duration = Duration::from_secs(30);
const USAGE: &str = "usage: primitives --dir DIR [--quick] [--only SERIES]";

type Series = (&'static str, fn(&Plan));

const SERIES: [Series; 4] =
    [("copies", copies::run), ("model", model::run), ("nodes", nodes::run), ("writes", writes::run)];

/// The plan, and the only series to run, if one is named.
fn parse() -> Result<(Plan, Option<String>), String> {
    let mut only = None;
    let plan = Plan::parse(QUICK_TIME, |word, value| {
        let known = word == "--only";
        if known {
            only = Some(value()?);
        }
        Ok(known)
    })?;
    match &only {
        Some(only) if !SERIES.iter().any(|(name, _)| name == only) => Err(format!("no series {only}")),
        _ => Ok((plan, only)),
    }
}

fn main() -> ExitCode {
    let (plan, only) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            let names: Vec<&str> = SERIES.iter().map(|(name, _)| *name).collect();
            eprintln!("primitives: {error}\n{USAGE}\nseries: {}", names.join(", "));
            return ExitCode::from(2);
        }
    };
    plan.show_medium();
    for (name, run) in SERIES {
        if only.as_deref().is_none_or(|only| only == name) {
            let begun = Instant::now();
            run(&plan);
            output::progress(format_args!("{name}: {:.1} s", begun.elapsed().as_secs_f64()));
        }
    }
    ExitCode::SUCCESS
}
