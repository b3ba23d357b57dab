//! The conformance suite of ordered maps, run on the list and the B+-tree, in simulated memory and
//! in files.
//!
//! The checks are named after the sentences of `OrderedMap`'s documentation.

#[path = "conformance/suite.rs"]
mod suite;

use crate::support::Place;
use perdura_map::Kind;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs every check of the suite, each in a fresh place.
fn conforms(place: impl Fn() -> Place) {
    let mut failed = Vec::new();
    for (name, check) in suite::checks() {
        eprintln!("{name}");
        if catch_unwind(AssertUnwindSafe(|| check(&place()))).is_err() {
            failed.push(name);
        }
    }
    assert_eq!(failed, Vec::<&str>::new());
}

#[test]
fn a_list_in_simulated_memory_conforms() {
    conforms(|| Place::simulated(Kind::List));
}

#[test]
fn a_btree_in_simulated_memory_conforms() {
    conforms(|| Place::simulated(Kind::BTree));
}

#[test]
fn a_list_in_files_conforms() {
    conforms(|| Place::in_files(Kind::List));
}

#[test]
fn a_btree_in_files_conforms() {
    conforms(|| Place::in_files(Kind::BTree));
}
