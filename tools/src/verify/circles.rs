//! Circles among things that use each other.

use std::collections::{BTreeMap, BTreeSet};

/// The groups of things that reach each other, from which uses which.
pub fn groups<T: Ord + Copy>(uses: impl IntoIterator<Item = (T, T)>) -> BTreeSet<Vec<T>> {
    let mut next: BTreeMap<T, Vec<T>> = BTreeMap::new();
    for (from, to) in uses {
        next.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<T, BTreeSet<T>> = next.keys().map(|&from| (from, reach(from, &next))).collect();
    let circular = reached.iter().filter(|(from, there)| there.contains(*from));
    let back = |to: &T, from: &T| reached.get(to).is_some_and(|there| there.contains(from));
    circular.map(|(from, there)| there.iter().copied().filter(|to| back(to, from)).collect()).collect()
}

/// Things that can be reached from one in at least one step.
fn reach<T: Ord + Copy>(from: T, next: &BTreeMap<T, Vec<T>>) -> BTreeSet<T> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(from) = open.pop() {
        open.extend(next.get(&from).into_iter().flatten().copied().filter(|to| reached.insert(*to)));
    }
    reached
}
