//! What threads beside the writer do until it is through.

use super::oracle::History;
use super::scenario::Bystander;
use perdura_map::{ErrorKind, OrderedMap};
use perdura_pmem::sim::Random;
use perdura_pmem::sync::yield_now;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs a bystander.
pub fn run(kind: Bystander, map: &dyn OrderedMap, history: &History, is_over: &AtomicBool, seed: u64) {
    let mut random = Random::new(seed);
    while !is_over.load(Ordering::Relaxed) {
        match kind {
            Bystander::Collector => {
                map.collect().expect("garbage can be collected at any time");
                wait(&mut random, 4);
            }
            Bystander::Confirmer => {
                let reached = history.reached();
                map.confirm().expect("a confirmation needs no room");
                history.acknowledge(reached);
                wait(&mut random, 60);
            }
            Bystander::SnapshotHolder => {
                hold_snapshot(map, history, &mut random);
                wait(&mut random, 60);
            }
            Bystander::Reader => read(map, &mut random),
        }
    }
}

/// Lets the others go on for a while.
fn wait(random: &mut Random, steps: u64) {
    (0..1 + random.below(steps)).for_each(|_| yield_now());
}

fn hold_snapshot(map: &dyn OrderedMap, history: &History, random: &mut Random) {
    let reached = history.reached();
    let snapshot = map.snapshot().expect("a snapshot needs no room");
    history.acknowledge(reached);
    for chunk in snapshot.chunks(200) {
        let chunk = chunk.expect("a snapshot streams");
        assert!(chunk.len() <= 200, "a chunk of {} bytes", chunk.len());
        wait(random, 3);
    }
}

/// Values read stay what they are while they are held.
fn read(map: &dyn OrderedMap, random: &mut Random) {
    let at = map.timestamps().last;
    let mut scan = match map.scan((Bound::Unbounded, Bound::Unbounded), at) {
        Ok(scan) => scan,
        Err(error) if error.kind() == ErrorKind::Forgotten => return wait(random, 3),
        Err(error) => panic!("{error}"),
    };
    while let Some(entry) = scan.advance().expect("what is held stays readable") {
        let before = entry.value.to_vec();
        wait(random, 6);
        assert_eq!(entry.value, before, "a value changed while it was held");
    }
}
