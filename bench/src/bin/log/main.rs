//! `log [paths] --dir DIR [--quick] [--series]`: records appended to the log and persisted, beside
//! a copy and a fence of the same bytes, and a commit of one row, one JSON object a line (see
//! `perdura_bench::output`); or commits by each way to the log. The benches `log` and `nflog` of
//! `cargo xtask` judge and report them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

#![forbid(unsafe_code)]

mod append;
mod commit;
mod floor;
mod parts;
mod paths;
mod running;

use perdura_bench::output;
use perdura_bench::plan::Plan;
use std::time::Duration;

/// After this much of a quick run no further round begins.
const QUICK_TIME: Duration = Duration::from_secs(30);
const USAGE: &str = "log [paths] --dir DIR [--quick] [--series]";

fn main() {
    let mut is_of_paths = false;
    let plan = Plan::read(USAGE, QUICK_TIME, |word, _| {
        is_of_paths |= word == "paths";
        Ok(word == "paths")
    });
    let _sampler = plan.sampler();
    if is_of_paths {
        return plan.rounds(3, 1).for_each(|round| paths::run(&plan, round));
    }
    for round in plan.rounds(9, 5) {
        append::run(&plan, round);
        parts::run(&plan);
        commit::run(&plan);
        output::progress(format_args!("round {}: {:.1} s", round + 1, plan.begun.elapsed().as_secs_f64()));
    }
}
