//! Whole clusters under a seeded simulator, a few seeds of each variant; `cargo xtask sim` runs
//! many.
//!
//! `PERDURA_SOAK=N` multiplies the seeds, `PERDURA_SEED=N` runs one; a failure prints its seed.

use perdura_kv::sim::{VARIANTS, Variant};
use perdura_sim::{Plan, Report, Story, run};

#[path = "../../../crates/kv/tests/support/seeds.rs"]
mod seeds;

#[test]
fn clusters_keep_the_invariants_whatever_fails() {
    for variant in VARIANTS {
        let mut all = Report::default();
        for seed in seeds::seeds(36) {
            let report = run(&Plan::of(variant, seed));
            all = all.and(report.unwrap_or_else(|what| panic!("{variant:?}, seed {seed}: {what}")));
        }
        println!("{variant:?}: {all:?}");
        assert!(all.failures_in_calls > 0 && all.snapshots > 0 && all.leased_reads > 0 && all.transfers > 0);
    }
}

/// Maps that are full in the midst of elections, power failures and snapshots.
#[test]
fn clusters_whose_maps_are_full_keep_the_invariants() {
    for variant in [Variant::List, Variant::BTree] {
        let mut all = Report::default();
        for seed in seeds::seeds(72) {
            let plan = Plan { bytes: 128 << 10, value_bytes: 8000, ..Plan::of(variant, seed) };
            // Clients that speak RESP have short values.
            let plan =
                if plan.story == Story::Requests { Plan { story: Story::Usual, steps: 1500, ..plan } } else { plan };
            let report = run(&plan);
            all = all.and(report.unwrap_or_else(|what| panic!("{variant:?}, seed {seed}: {what}")));
        }
        println!("{variant:?}: {all:?}");
        assert!(all.refused > 0 && all.stalled > 0);
    }
}

#[test]
fn a_seed_makes_the_same_history_each_time() {
    for seed in seeds::seeds(12) {
        let plan = Plan::of_seed(seed);
        let reports =
            [run(&plan), run(&plan)].map(|report| report.unwrap_or_else(|what| panic!("seed {seed}: {what}")));
        assert_eq!(reports[0], reports[1], "seed {seed}");
    }
    let digest = |seed| run(&Plan::of_seed(seed)).map(|report| report.digest);
    assert_ne!(digest(0), digest(12), "another seed makes another");
}
