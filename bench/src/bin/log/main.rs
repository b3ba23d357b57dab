//! `log --dir DIR [--quick] [--series]`: records appended to the log and persisted, beside a copy
//! and a fence of the same bytes, and a commit of one row, one JSON object a line (see
//! `perdura_bench::output`). `cargo xtask bench log` judges and reports them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

#![forbid(unsafe_code)]

mod append;
mod commit;
mod floor;
mod parts;
mod running;

use perdura_bench::output;
use perdura_bench::plan::Plan;
use std::time::Duration;

/// After this much of a quick run no further round begins.
const QUICK_TIME: Duration = Duration::from_secs(30);
const USAGE: &str = "log --dir DIR [--quick] [--series]";

fn main() {
    let plan = Plan::read(USAGE, QUICK_TIME, |_, _| Ok(false));
    let _sampler = plan.sampler();
    for round in plan.rounds(9, 5) {
        append::run(&plan, round);
        parts::run(&plan);
        commit::run(&plan);
        output::progress(format_args!("round {}: {:.1} s", round + 1, plan.begun.elapsed().as_secs_f64()));
    }
}
