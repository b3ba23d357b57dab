//! `map --dir DIR [--quick] [--peers-only] [--only SERIES]`: the ordered maps beside their peers,
//! one JSON object a line (see `perdura_bench::output`). `cargo xtask bench map` judges and reports
//! them.
//!
//! All files lie in this process's own directories below DIR, which it removes. A quick run has the
//! same series with fewer rounds and smaller sizes, as the names of its cases tell; it leaves out
//! only the growth to ten million keys.

#![forbid(unsafe_code)]

mod allocation;
mod collector;
mod dram;
mod floor;
mod flushes;
mod growth;
mod index;
mod limits;
mod operations;
mod space;
mod start;
mod sweeps;

use perdura_bench::dram::Counting;
use perdura_bench::plan::{Series, run_series};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// After this much of a quick run no series begins a second round.
const QUICK_TIME: Duration = Duration::from_secs(25);
const USAGE: &str = "map --dir DIR [--quick] [--peers-only] [--only SERIES]";

const SERIES: [Series; 12] = [
    ("floor", floor::run),
    ("operations", operations::run),
    ("allocation", allocation::run),
    ("flushes", flushes::run),
    ("dram", dram::run),
    ("start", start::run),
    ("collector", collector::run),
    ("limits", limits::run),
    ("space", space::run),
    ("index", index::run),
    ("sweeps", sweeps::run),
    ("growth", growth::run),
];

fn main() {
    run_series(USAGE, QUICK_TIME, &SERIES);
}
