//! `index --dir DIR [--quick] [--peers-only]`: an index of the engine through its API beside
//! ordered maps in DRAM, one JSON object a line (see `perdura_bench::output`).
//! `cargo xtask bench index` judges and reports them.
//!
//! All files lie in this process's own directories below DIR, which it removes. A quick run has
//! smaller sizes and fewer rounds.

#![forbid(unsafe_code)]

mod keys;
mod own;
mod series;

use perdura_bench::plan::Plan;
use std::time::Duration;

/// After this much of a quick run no further round begins.
const QUICK_TIME: Duration = Duration::from_secs(22);
const USAGE: &str = "index --dir DIR [--quick] [--peers-only]";

fn main() {
    series::run(&Plan::read(USAGE, QUICK_TIME, |_, _| Ok(false)));
}
