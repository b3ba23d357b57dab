//! `index --dir DIR [--quick] [--peers-only]`: an index of the engine through its API beside
//! ordered maps in DRAM, one JSON object a line (see `perdura_bench::output`).
//! `cargo xtask bench index` judges and reports them.
//!
//! All files lie in this process's own directories below DIR, which it removes. A quick run has
//! smaller sizes and fewer rounds.

#![forbid(unsafe_code)]

mod keys;
mod own;
mod plan;
mod series;

use perdura_bench::output;
use perdura_bench::own::medium;
use plan::Plan;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: index --dir DIR [--quick] [--peers-only]";

fn parse() -> Result<Plan, String> {
    let mut words = std::env::args().skip(1);
    let mut plan = Plan { begun: Instant::now(), directory: PathBuf::new(), quick: false, own: true };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dir" => plan.directory = words.next().ok_or("--dir needs a value")?.into(),
            "--quick" => plan.quick = true,
            "--peers-only" => plan.own = false,
            _ => return Err(format!("unexpected argument {word}")),
        }
    }
    if plan.directory.as_os_str().is_empty() {
        return Err("which directory?".into());
    }
    Ok(plan)
}

fn main() -> ExitCode {
    let plan = match parse() {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("index: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    {
        let scratch = plan.scratch();
        let info = medium(scratch.path()).info();
        output::medium(&format!("mode {}, granularity {}", info.mode, info.granularity));
    }
    series::run(&plan);
    ExitCode::SUCCESS
}
