//! The conformance suite of stores, run on all variants: single checks, and random sequences of
//! calls against a model, with power failures between any two.
//!
//! `PERDURA_SOAK=N` multiplies the seeds, `PERDURA_SEED=N` runs one; a failure prints its seed.

#[path = "store_conformance/checks.rs"]
mod checks;
#[path = "store_conformance/model.rs"]
mod model;

#[path = "store_conformance/run.rs"]
mod run;

use crate::support::seeds::seeds;
use perdura_kv::sim::VARIANTS;

#[test]
fn all_variants_pass_all_checks() {
    for variant in VARIANTS {
        for (name, check) in checks::CHECKS {
            println!("{variant:?}: {name}");
            check(variant);
        }
    }
}

#[test]
fn random_calls_and_failures_leave_what_the_model_says() {
    for variant in VARIANTS {
        for seed in seeds(60) {
            if let Err(what) = run::run(variant, seed) {
                panic!("{variant:?}, seed {seed}: {what}; run it alone with PERDURA_SEED={seed}");
            }
        }
    }
}
