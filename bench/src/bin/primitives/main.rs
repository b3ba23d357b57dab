//! `primitives --dir DIR [--quick] [--only SERIES]`: writes of the medium without an engine, one
//! JSON object a line (see `perdura_bench::output`). `cargo xtask bench primitives` judges and
//! reports them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

#![forbid(unsafe_code)]

mod copies;
mod model;
mod nodes;
mod place;
mod writes;

use perdura_bench::plan::{Series, run_series};
use std::time::Duration;

/// After this much of a quick run no further round begins.
const QUICK_TIME: Duration = Duration::from_secs(30);
const USAGE: &str = "primitives --dir DIR [--quick] [--only SERIES]";

const SERIES: [Series; 4] =
    [("copies", copies::run), ("model", model::run), ("nodes", nodes::run), ("writes", writes::run)];

fn main() {
    run_series(USAGE, QUICK_TIME, &SERIES);
}
