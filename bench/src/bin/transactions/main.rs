//! `transactions mass|stall|switch|prefault --dir DIR [--quick]`: transactions through the engine's
//! API, one JSON object a line (see `perdura_bench::output`). The benches of these names of
//! `cargo xtask` judge and report them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

#![forbid(unsafe_code)]

mod mass;
mod plan;
mod pool;
mod prefault;
mod stall;
mod switch;

use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::sampler::Sampler;
use plan::Plan;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: transactions mass|stall|switch|prefault --dir DIR [--quick] [--series] [--case NAME]";

type Series = fn(&Plan);

fn parse() -> Result<(Series, Plan), String> {
    let mut words = std::env::args().skip(1);
    let mut plan = Plan { directory: PathBuf::new(), quick: false, series: false, case: None };
    let series: Series = match words.next().as_deref() {
        Some("mass") => mass::run,
        Some("stall") => stall::run,
        Some("switch") => switch::run,
        Some("prefault") => prefault::run,
        _ => return Err("which series?".into()),
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dir" => plan.directory = words.next().ok_or("--dir needs a value")?.into(),
            "--quick" => plan.quick = true,
            "--series" => plan.series = true,
            "--case" => plan.case = Some(words.next().ok_or("--case needs a value")?),
            _ => return Err(format!("unexpected argument {word}")),
        }
    }
    if plan.directory.as_os_str().is_empty() {
        return Err("which directory?".into());
    }
    Ok((series, plan))
}

fn main() -> ExitCode {
    let (series, plan) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!("transactions: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    {
        let scratch = plan.scratch();
        let info = medium(scratch.path()).info();
        output::medium(&format!("mode {}, granularity {}", info.mode, info.granularity));
    }
    let _sampler = plan.series.then(Sampler::start);
    series(&plan);
    ExitCode::SUCCESS
}
