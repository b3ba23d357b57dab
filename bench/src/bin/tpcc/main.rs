//! `tpcc --dir DIR [--quick] [--series] [--peers-only] [--seed N]`: TPC-C's five transactions
//! through the engine's API, beside the same on ordered maps in DRAM, one JSON object a line (see
//! `perdura_bench::output`). `cargo xtask bench tpcc-engine` judges and reports them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

#![forbid(unsafe_code)]

mod cases;
mod consistency;
mod customer;
mod database;
mod delivery;
mod keys;
mod load;
mod maps;
mod new_order;
mod order_status;
mod own;
mod payment;
mod plan;
mod rows;
mod stock_level;
mod terminal;

use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::sampler::Sampler;
use plan::Plan;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: tpcc --dir DIR [--quick] [--series] [--peers-only] [--seed N]";
/// Fixed, so that runs compare.
const SEED: u64 = 20_261_126;

fn parse() -> Result<Plan, String> {
    let mut words = std::env::args().skip(1);
    let mut plan =
        Plan { begun: Instant::now(), directory: PathBuf::new(), quick: false, series: false, own: true, seed: SEED };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dir" => plan.directory = words.next().ok_or("--dir needs a value")?.into(),
            "--quick" => plan.quick = true,
            "--series" => plan.series = true,
            "--peers-only" => plan.own = false,
            "--seed" => {
                let seed = words.next().and_then(|seed| seed.parse().ok());
                plan.seed = seed.ok_or("--seed needs a number")?;
            }
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
            eprintln!("tpcc: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    {
        let scratch = plan.scratch();
        let info = medium(scratch.path()).info();
        output::medium(&format!("mode {}, granularity {}", info.mode, info.granularity));
    }
    let _sampler = plan.series.then(Sampler::start);
    cases::run(&plan);
    ExitCode::SUCCESS
}
