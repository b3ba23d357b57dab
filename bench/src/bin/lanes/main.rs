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
use std::time::Duration;

/// After this much of a quick run no further round begins.
const QUICK_TIME: Duration = Duration::from_secs(15);
const USAGE: &str = "lanes --dir DIR [--quick] [--series]";

fn main() {
    let plan = Plan::read(USAGE, QUICK_TIME, |_, _| Ok(false));
    let _sampler = plan.sampler();
    counter::run(&plan);
    series::run(&plan);
}
