//! Seeded sequences of all operations against a model, with restarts and power failures among them.
//!
//! A failure names its seed and the shortest failing sequence found. `PERDURA_SEED` runs a single
//! seed.

#[path = "sequences/operation.rs"]
mod operation;
#[path = "sequences/power.rs"]
mod power;
#[path = "sequences/run.rs"]
mod run;

use crate::support::{layout, seeds};
use operation::{Operation, operations, operations_with_failures};
use perdura_map::{Kind, Layout};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use run::{Setting, run};

/// Layout and batch by seed: the smallest pages and nodes, a region that is soon full, the
/// defaults.
fn setting(kind: Kind, seed: u64) -> Setting {
    let layouts = [
        Layout { bytes: 1 << 20, page_bytes: 256, branching: 4 },
        Layout { bytes: 48 << 10, page_bytes: 256, branching: 5 },
        layout(kind, 1 << 20),
        Layout { bytes: 96 << 10, page_bytes: 1024, branching: 4 },
    ];
    let changes_max = [10, 1, 3, 1000, 2][seed as usize % 5];
    Setting { kind, layout: layouts[seed as usize % layouts.len()], changes_max }
}

/// Runs a sequence per seed, and shrinks one that fails.
fn check(kind: Kind, count: u64, strategy: impl Strategy<Value = Vec<Operation>>) {
    for seed in seeds(count) {
        let setting = setting(kind, seed);
        let config = Config { cases: 1, max_shrink_iters: 4000, failure_persistence: None, ..Config::default() };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        let result = runner.run(&strategy, |operations| run(&setting, &operations).map_err(TestCaseError::fail));
        result.unwrap_or_else(|failure| panic!("PERDURA_SEED={seed} {setting:?}: {failure}"));
    }
}

#[test]
fn a_list_does_what_the_model_does() {
    check(Kind::List, 400, operations());
}

#[test]
fn a_btree_does_what_the_model_does() {
    check(Kind::BTree, 400, operations());
}

#[test]
fn a_list_survives_power_failures_as_a_prefix_of_its_history() {
    check(Kind::List, 400, operations_with_failures());
}

#[test]
fn a_btree_survives_power_failures_as_a_prefix_of_its_history() {
    check(Kind::BTree, 400, operations_with_failures());
}
