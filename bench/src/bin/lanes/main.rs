//! `lanes --dir DIR [--quick]`: small transactions of many threads by lanes of the log, through the
//! engine's API, and the counter that they share alone. One JSON object a line (see
//! `perdura_bench::output`); `cargo xtask bench lanes` judges and reports them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

mod counter;
mod plan;
mod pool;
mod series;
mod ticks;
mod together;

use perdura_bench::output;
use perdura_bench::own::medium;
use plan::Plan;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: lanes --dir DIR [--quick]";

fn parse() -> Result<Plan, String> {
    let mut words = std::env::args().skip(1);
    let mut plan = Plan { begun: Instant::now(), directory: PathBuf::new(), quick: false };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dir" => plan.directory = words.next().ok_or("--dir needs a value")?.into(),
            "--quick" => plan.quick = true,
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
            eprintln!("lanes: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    {
        let scratch = plan.scratch();
        let info = medium(scratch.path()).info();
        output::medium(&format!("mode {}, granularity {}", info.mode, info.granularity));
    }
    counter::run(&plan);
    series::run(&plan);
    ExitCode::SUCCESS
}
