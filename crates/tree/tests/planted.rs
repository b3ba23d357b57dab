//! Tests the tests: each error of reasoning that is planted in the tree must be noticed by its run,
//! which finds nothing without it.
//!
//! A reader's errors need a change at the wrong moment: the seeded scheduler switches threads where
//! an error is planted, so a few seeds are enough.

use perdura_pmem::planted::Planting;
use perdura_pmem::sim::Scheduler;
use perdura_pmem::{Mutant, sync};
use perdura_tree::{Keys, Tree};
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A run with a seed. It panics if anything is wrong.
type Run = fn(u64);

/// All planted errors, each with the run that notices it.
const PLANTED: [(Mutant, Run); 10] = [
    (Mutant::RootSplitUnnoticed, |seed| a_root_is_split(seed)),
    (Mutant::LeafSplitUnnoticed, |seed| a_leaf_is_split(seed)),
    (Mutant::SeparatorMoveUnnoticed, |seed| a_separator_moves_up(seed)),
    (Mutant::SeparatorNamesRemoved, |_| a_smallest_entry_changes()),
    (Mutant::SeparatorKeepsReplaced, |_| a_smallest_entry_changes()),
    (Mutant::PrefixKeptWithoutSeparator, |_| leaves_go_from(60)),
    (Mutant::FirstNodesKeepSkipping, |_| leaves_go_from(0)),
    (Mutant::NodeVersionGoesBack, |_| a_first_leaf_goes()),
    (Mutant::GoneLeafKeepsVersion, |_| a_first_leaf_goes()),
    (Mutant::HighKeyOfLastEntry, |_| alike_keys_come()),
];
/// Seeds of each run.
const SEEDS: u64 = 40;

/// References are places in a list, which begins again behind its end: a key has many.
struct List(Vec<Vec<u8>>);

impl Keys for List {
    fn key(&self, reference: u64) -> &[u8] {
        &self.0[reference as usize % self.0.len()]
    }
}

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A tree of the even numbers below `end`. They come in order, so each leaf but the last has 30 of
/// them, each inner node 20 leaves.
fn evens(end: u64) -> Tree<List> {
    let tree = Tree::new(List((0..end).map(key).collect()));
    (0..end).step_by(2).for_each(|number| assert_eq!(tree.writer().insert(&key(number), number), None));
    tree
}

/// Ends the reader, whatever becomes of the writer.
struct Ends<'e>(&'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Changes a tree beside a reader, who is interrupted where an error is planted.
fn race(seed: u64, tree: &Tree<List>, change: fn(&Tree<List>), read: fn(&Tree<List>)) {
    let is_over = AtomicBool::new(false);
    let writer = || {
        let _end = Ends(&is_over);
        change(tree);
    };
    let reader = || {
        while !is_over.load(Ordering::Relaxed) {
            read(tree);
            sync::yield_now();
        }
        read(tree);
    };
    Scheduler::new(seed).switch_one_in(2).run(vec![Box::new(reader), Box::new(writer)]);
    assert_eq!(tree.audit(), Ok(()));
}

/// The root is a full leaf, of which half goes to another.
fn a_root_is_split(seed: u64) {
    let change = |tree: &Tree<List>| assert_eq!(tree.writer().insert(&key(31), 31), None);
    race(seed, &evens(62), change, |tree| assert_eq!(tree.get(&key(60)), Some(60)));
}

/// The leaves are 0 to 58, which is split, and 60 to 118.
fn a_leaf_is_split(seed: u64) {
    let change = |tree: &Tree<List>| {
        let mut writer = tree.writer();
        [1, 3].into_iter().for_each(|number| assert_eq!(writer.insert(&key(number), number), None));
    };
    race(seed, &evens(120), change, |tree| assert_eq!(tree.get(&key(58)), Some(58)));
}

/// The root names 1200, which is the smallest entry of a leaf two levels below.
fn a_separator_moves_up(seed: u64) {
    let change = |tree: &Tree<List>| assert_eq!(tree.writer().remove(&key(1200)), Some(1200));
    race(seed, &evens(1800), change, |tree| assert!(matches!(tree.floor(&key(1200)), Some(1198 | 1200))));
}

/// The smallest entry of the second leaf gets another reference, and goes.
fn a_smallest_entry_changes() {
    let tree = evens(120);
    assert_eq!(tree.writer().insert(&key(60), 180), Some(60));
    assert_eq!(tree.audit(), Ok(()));
    assert_eq!(tree.writer().remove(&key(60)), Some(180));
    assert_eq!(tree.audit(), Ok(()));
}

/// A place in the first leaf, whose only entry goes with it.
fn a_first_leaf_goes() {
    let tree = evens(120);
    (2..60).step_by(2).for_each(|number| assert_eq!(tree.writer().remove(&key(number)), Some(number)));
    let place = tree.around(&key(0));
    assert!(place.floor() == Some(0) && place.holds());
    assert_eq!(tree.writer().remove(&key(0)), Some(0));
    assert!(!place.holds(), "an entry that was removed is still at its place");
    assert_eq!(tree.audit(), Ok(()));
}

/// A tree of keys that begin alike, those of a leaf with more in common than those of two leaves.
fn alike(count: u64) -> Tree<List> {
    let key = |number: u64| format!("a/{:010b}/prefix/{number:06}/", number / 30).into_bytes();
    Tree::new(List((0..count).map(key).collect()))
}

fn insert_all(tree: &Tree<List>, mut inserted: impl FnMut()) {
    for number in 0..tree.keys().0.len() as u64 {
        assert_eq!(tree.writer().insert(tree.keys().key(number), number), None);
        inserted();
    }
}

fn alike_keys_come() {
    let tree = alike(200);
    insert_all(&tree, || assert_eq!(tree.audit(), Ok(())));
}

/// Leaf after leaf goes, from the entry of that number on.
fn leaves_go_from(first: u64) {
    let tree = alike(300);
    insert_all(&tree, || {});
    for number in first..300 {
        assert_eq!(tree.writer().remove(tree.keys().key(number)), Some(number));
        assert_eq!(tree.audit(), Ok(()), "{number} removed");
    }
}

/// Hazard: an error that no test notices, or one that is planted and tried nowhere.
#[test]
fn each_planted_error_is_noticed() {
    for (mutant, run) in PLANTED {
        let planting = Planting::new(mutant);
        let in_force = planting.plant();
        let is_noticed = (0..SEEDS).any(|seed| catch_unwind(|| run(seed)).is_err());
        drop(in_force);
        assert!(planting.was_reached(), "no run reaches {mutant:?}");
        assert!(is_noticed, "{mutant:?} is not noticed");
    }
}

#[test]
fn without_a_planted_error_nothing_is_wrong() {
    (0..SEEDS)
        .for_each(|seed| [a_root_is_split, a_leaf_is_split, a_separator_moves_up].iter().for_each(|run| run(seed)));
    [a_smallest_entry_changes, a_first_leaf_goes, alike_keys_come].iter().for_each(|run| run());
    [0, 60].into_iter().for_each(leaves_go_from);
}

#[test]
fn list_and_sources_agree() {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("the crate's sources") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("a source file");
        let mutants = text.split("planted(Mutant::").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(mutants.map(str::to_owned));
    }
    found.sort_unstable();
    let mut listed = PLANTED.map(|(mutant, _)| format!("{mutant:?}"));
    listed.sort_unstable();
    assert_eq!(found, listed);
}
