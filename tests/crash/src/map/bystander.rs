//! Work of the threads beside the writer, until it is done.

use super::model::{Bytes, Entries, State};
use super::oracle::History;
use super::scenario::Bystander;
use super::stream;
use perdura_map::{ErrorKind, OrderedMap, Ts};
use perdura_pmem::sim::Random;
use perdura_pmem::sync::yield_now;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Runs a bystander until the writer is done.
pub fn run(kind: Bystander, map: &dyn OrderedMap, history: &History, goes_on: &dyn Fn() -> bool, seed: u64) {
    let mut random = Random::new(seed);
    while goes_on() {
        match kind {
            Bystander::Collector => {
                map.collect().expect("garbage can be collected at any time");
                wait(&mut random, 4);
            }
            Bystander::Persister => {
                let reached = history.reached();
                map.persist().expect("a persist needs no room");
                history.acknowledge(reached);
                wait(&mut random, 60);
            }
            Bystander::SnapshotHolder => {
                hold_snapshot(map, history, &mut random);
                wait(&mut random, 60);
            }
            Bystander::Reader => read(map, history, &mut random),
        }
    }
}

/// Lets other threads run for a while.
pub fn wait(random: &mut Random, steps: u64) {
    (0..1 + random.below(steps)).for_each(|_| yield_now());
}

/// Waits: briefly, or until others have replaced what the caller holds and would reuse its memory.
fn hold(random: &mut Random) {
    let steps = if random.one_in(3) { 400 } else { 20 };
    wait(random, steps);
}

/// Checks that a held snapshot stays what the map was when it was taken, whatever is changed,
/// forgotten and collected meanwhile, or that it ends because of the garbage it holds.
fn hold_snapshot(map: &dyn OrderedMap, history: &History, random: &mut Random) {
    let garbage_max = if random.one_in(3) { random.below(8 << 10) } else { u64::MAX };
    let reached = history.reached();
    let snapshot = map.snapshot_within(garbage_max).expect("a snapshot needs no room");
    let begun = history.begun();
    history.acknowledge(reached);
    let mut chunks = Vec::new();
    hold(random);
    let mut stream = snapshot.chunks(200);
    while let Some(chunk) = stream.next() {
        let chunk = match chunk {
            Err(error) if error.kind() == ErrorKind::Expired && garbage_max < u64::MAX => return,
            chunk => chunk.expect("a snapshot streams"),
        };
        assert!(chunk.len() <= 200, "a chunk of {} bytes", chunk.len());
        chunks.push(chunk);
        wait(random, 3);
        if random.one_in(8) {
            stream = snapshot.resume(&stream.position(), 200);
        }
    }
    drop((stream, snapshot));
    let held = stream::read(&chunks).expect("a snapshot's stream can be read");
    let is_one = history.between(reached, begun).iter().any(|state| state.is_same(&held));
    assert!(is_one, "a snapshot at {:?} holds what the map never was", held.stamps);
}

/// Checks that held values stay the same, and that all values of a scan are of one moment.
fn read(map: &dyn OrderedMap, history: &History, random: &mut Random) {
    // The content at the applied timestamp is the same at every moment.
    let at = map.timestamps().applied;
    wait(random, 12);
    if random.one_in(4) {
        return view(map, history, at, random);
    }
    let Some((entries, possible)) = scan(map, history, at, random) else { return wait(random, 3) };
    let is_one = possible.iter().any(|state| state.entries(at) == entries);
    assert!(is_one, "a scan at {at} has {} keys that the map never had at once", entries.len());
}

/// Checks that all that is read in a view is of one moment.
fn view(map: &dyn OrderedMap, history: &History, at: Ts, random: &mut Random) {
    let reached = history.reached();
    let view = match map.view(at) {
        Ok(view) => view,
        Err(error) if error.kind() == ErrorKind::Forgotten => return,
        Err(error) => panic!("{error}"),
    };
    let mut possible = history.between(reached, history.begun());
    for key in possible.iter().flat_map(|state| state.versions.keys().cloned()).collect::<BTreeSet<Bytes>>() {
        let found = view.get(&key).expect("what a view shows is not forgotten").map(|value| Bytes::from(&*value));
        possible.retain(|state| {
            state.view(at).find(|(other, ..)| **other == key).map(|(_, _, value)| value) == found.as_ref()
        });
        assert!(!possible.is_empty(), "a view of {at} has for a key what the map never had at once");
        wait(random, 12);
    }
}

/// Entries that a slow scan has seen, and the states it may show; `None` if its timestamp is
/// forgotten.
fn scan(map: &dyn OrderedMap, history: &History, at: Ts, random: &mut Random) -> Option<(Entries, Vec<State>)> {
    let reached = history.reached();
    let mut scan = match map.scan((Bound::Unbounded, Bound::Unbounded), at) {
        Ok(scan) => scan,
        Err(error) if error.kind() == ErrorKind::Forgotten => return None,
        Err(error) => panic!("{error}"),
    };
    let possible = history.between(reached, history.begun());
    let mut entries = Vec::new();
    let is_slow = random.one_in(4);
    while let Some(entry) = scan.advance().expect("what is held stays readable") {
        let before = entry.value.to_vec();
        wait(random, if is_slow { 60 } else { 4 });
        assert_eq!(entry.value, before, "a value changed while it was held");
        entries.push((Bytes::from(entry.key), entry.ts, Bytes::from(entry.value)));
    }
    Some((entries, possible))
}
