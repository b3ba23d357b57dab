//! `log --dir DIR [--quick]`: records appended to the log and persisted, beside a copy and a fence
//! of the same bytes, and a commit of one row, one JSON object a line (see
//! `perdura_bench::output`). `cargo xtask bench log` judges and reports them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

#![forbid(unsafe_code)]

mod append;
mod commit;
mod floor;
mod parts;
mod plan;
mod running;

use perdura_bench::output;
use perdura_bench::own::medium;
use plan::Plan;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: log --dir DIR [--quick]";

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
            eprintln!("log: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    {
        let scratch = plan.scratch();
        let info = medium(scratch.path()).info();
        output::medium(&format!("mode {}, granularity {}", info.mode, info.granularity));
    }
    for round in 0..plan.pick(9, 5) {
        if round > 0 && !plan.goes_on() {
            break;
        }
        append::run(&plan, round);
        parts::run(&plan);
        commit::run(&plan);
        output::progress(format_args!("round {}: {:.1} s", round + 1, plan.begun.elapsed().as_secs_f64()));
    }
    ExitCode::SUCCESS
}
