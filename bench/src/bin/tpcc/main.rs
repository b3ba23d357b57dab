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
mod rows;
mod stock_level;
mod terminal;

use perdura_bench::plan::Plan;
use std::time::Duration;

const USAGE: &str = "tpcc --dir DIR [--quick] [--series] [--peers-only] [--seed N]";
/// After this much of a quick run each case has one round.
const QUICK_TIME: Duration = Duration::from_secs(25);
/// Fixed, so that runs compare.
const SEED: u64 = 20_261_126;

fn main() {
    let mut seed = SEED;
    let plan = Plan::read(USAGE, QUICK_TIME, |word, value| {
        let is_seed = word == "--seed";
        if is_seed {
            seed = value()?.parse().map_err(|_| "--seed needs a number")?;
        }
        Ok(is_seed)
    });
    let _sampler = plan.sampler();
    cases::run(&plan, seed);
}
