//! `transactions mass|stall|switch|prefault --dir DIR [--quick]`: transactions through the engine's
//! API, one JSON object a line (see `perdura_bench::output`). The benches of these names of
//! `cargo xtask` judge and report them.
//!
//! All files lie in this process's own directories below DIR, which it removes.

#![forbid(unsafe_code)]

mod mass;
mod pool;
mod prefault;
mod stall;
mod switch;

use perdura_bench::plan::{Plan, refuse};
use std::time::Duration;

const USAGE: &str = "transactions mass|stall|switch|prefault --dir DIR [--quick] [--series] [--case NAME]";

fn main() {
    let (mut series, mut case) = (None, None);
    let plan = Plan::read(USAGE, Duration::MAX, |word, value| {
        match word {
            "mass" | "stall" | "switch" | "prefault" => series = Some(word.to_owned()),
            "--case" => case = Some(value()?),
            _ => return Ok(false),
        }
        Ok(true)
    });
    let _sampler = plan.sampler();
    match series.as_deref() {
        Some("mass") => mass::run(&plan),
        Some("stall") => stall::run(&plan),
        Some("switch") => switch::run(&plan),
        Some(_) => prefault::run(&plan, case.as_deref()),
        None => refuse(USAGE, "which series?"),
    }
}
