//! `lanes --dir DIR [--quick] [--series]`: small transactions of many threads by lanes of the log,
//! through the engine's API, and the counter that they share alone. One JSON object a line (see
//! `perdura_bench::output`); `cargo xtask bench lanes` judges and reports them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

mod counter;
mod pool;
mod series;
mod ticks;
mod together;

use perdura_bench::plan::Plan;
use std::process::ExitCode;
use std::time::Duration;

/// After this much of a quick run no further round begins.
const QUICK_TIME: Duration = Duration::from_secs(15);
const USAGE: &str = "usage: lanes --dir DIR [--quick] [--series]";

fn main() -> ExitCode {
    let plan = match Plan::parse(QUICK_TIME, |_, _| Ok(false)) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("lanes: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    plan.show_medium();
    let _sampler = plan.sampler();
    counter::run(&plan);
    series::run(&plan);
    ExitCode::SUCCESS
}
