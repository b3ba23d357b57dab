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
mod plan;
mod writes;

use perdura_bench::output;
use perdura_bench::own::medium;
use plan::Plan;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: primitives --dir DIR [--quick] [--only SERIES]";

type Series = (&'static str, fn(&Plan));

const SERIES: [Series; 4] =
    [("copies", copies::run), ("model", model::run), ("nodes", nodes::run), ("writes", writes::run)];

fn parse() -> Result<Plan, String> {
    let mut words = std::env::args().skip(1);
    let mut plan = Plan { begun: Instant::now(), directory: PathBuf::new(), quick: false, only: None };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--dir" => plan.directory = value()?.into(),
            "--only" => plan.only = Some(value()?),
            "--quick" => plan.quick = true,
            _ => return Err(format!("unexpected argument {word}")),
        }
    }
    if plan.directory.as_os_str().is_empty() {
        return Err("which directory?".into());
    }
    match &plan.only {
        Some(only) if !SERIES.iter().any(|(name, _)| name == only) => Err(format!("no series {only}")),
        _ => Ok(plan),
    }
}

fn main() -> ExitCode {
    let plan = match parse() {
        Ok(plan) => plan,
        Err(error) => {
            let names: Vec<&str> = SERIES.iter().map(|(name, _)| *name).collect();
            eprintln!("primitives: {error}\n{USAGE}\nseries: {}", names.join(", "));
            return ExitCode::from(2);
        }
    };
    {
        let scratch = plan.scratch();
        let info = medium(scratch.path()).info();
        output::medium(&format!("mode {}, granularity {}", info.mode, info.granularity));
    }
    for (name, run) in SERIES {
        if plan.only.as_deref().is_none_or(|only| only == name) {
            let begun = Instant::now();
            run(&plan);
            output::progress(format_args!("{name}: {:.1} s", begun.elapsed().as_secs_f64()));
        }
    }
    ExitCode::SUCCESS
}
