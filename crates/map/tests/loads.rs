//! Hazards: a reader beside loads sees an empty map, the keys of two contents in one view, or
//! damage where there is none.
//!
//! Two contents alternate, with and without a reset, on real threads. Every value says which
//! content it is of.

use crate::support;

use crate::support::{KINDS, Map, Place, create, layout, quiet, quiet_every, stream};
use perdura_map::{ErrorKind, Kind, OrderedMap, Result, Ts};
use perdura_pmem::{Medium, SimMedium};
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const KEYS: u64 = 1500;
const LOADS: usize = 600;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A map whose every value is one letter.
fn content(medium: &Arc<dyn Medium>, kind: Kind, letter: u8) -> Map {
    let name = format!("content.{letter}.{}", medium.list().expect("it lists").len());
    let map = create(medium, &name, kind, &layout(kind, 8 << 20), &quiet_every(10_000)).expect("there is room");
    (0..KEYS).for_each(|number| map.set(1, &key(number), &[letter]).expect("there is room"));
    map
}

/// Whether a read was answered. A load may end it, or have emptied the map.
fn answered<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(answer) => Some(answer),
        Err(error) if matches!(error.kind(), ErrorKind::Partial | ErrorKind::Forgotten) => None,
        Err(error) => panic!("{error}"),
    }
}

/// The letters of a scan that began, which nothing ends.
fn letters(mut scan: perdura_map::Scan<'_>) -> Vec<u8> {
    let mut found = Vec::new();
    while let Some(entry) = scan.advance().expect("a scan goes on in what it began with") {
        found.push(entry.value[0]);
    }
    found
}

fn read(map: &dyn OrderedMap, at: Ts, number: u64) {
    if let Some(found) = answered(map.get(&key(number), at)) {
        assert!(found.is_some(), "both contents have the key");
    }
    if let Some(view) = answered(map.view(at)) {
        let seen: Vec<u8> = (number..number + 40)
            .map_while(|number| answered(view.get(&key(number % KEYS))))
            .map(|found| found.expect("both contents have the key")[0])
            .collect();
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "one view saw two contents: {seen:?}");
        if number.is_multiple_of(16)
            && let Some(scan) = answered(view.scan((Unbounded, Unbounded)))
        {
            let seen = letters(scan);
            assert!(seen.len() as u64 == KEYS && seen.iter().all(|letter| *letter == seen[0]), "{}", seen.len());
        }
    }
}

fn load(map: &dyn OrderedMap, resets: bool, chunks: &[Vec<u8>]) -> Result<()> {
    let mut loader = if resets { map.reset_and_load() } else { map.load_snapshot() }?;
    chunks.iter().try_for_each(|chunk| loader.push(chunk))?;
    loader.finish()
}

fn reads_beside_loads(kind: Kind) {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let streams = [b'a', b'b'].map(|letter| stream(&*content(&medium, kind, letter), 1 << 16));
    let map = content(&medium, kind, b'a');
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (map, done, reads) = (&*map, &done, &reads);
            scope.spawn(move || {
                for number in 0.. {
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                    read(map, 1, (number * 7 + thread) % KEYS);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let loads = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 0..LOADS {
                while let Err(error) = load(&*map, number % 3 == 0, &streams[(number + 1) % 2]) {
                    // Readers keep the pages of contents that they see.
                    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        }));
        done.store(true, Ordering::Release);
        loads.expect("loads go on");
    });
    assert!(reads.into_inner() > 100, "readers and loads alternated");
    map.check().expect("sound");
}

#[test]
fn reads_beside_loads_of_a_list() {
    reads_beside_loads(Kind::List);
}

#[test]
fn reads_beside_loads_of_a_btree() {
    reads_beside_loads(Kind::BTree);
}

/// Found: the end of a load held the writer's lock from beginning to end, and a vote or a scan's
/// end waited for seconds.
#[test]
fn others_go_on_while_a_load_ends() {
    const MANY: u64 = 200_000;
    for kind in support::KINDS {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let source =
            create(&medium, "source", kind, &layout(kind, 64 << 20), &quiet_every(1000)).expect("there is room");
        (0..MANY).for_each(|number| source.set(1, &key(number), b"value").expect("there is room"));
        let chunks = stream(&*source, 1 << 20);
        drop(source);
        let map = create(&medium, "map", kind, &layout(kind, 64 << 20), &quiet_every(1000)).expect("there is room");
        let mut loader = map.load_snapshot().expect("nothing is held");
        chunks.iter().for_each(|chunk| loader.push(chunk).expect("there is room"));
        let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    map.set_meta(b"a vote").expect("it is short");
                    map.persist().expect("persisted");
                    drop(map.prefix(b"", 0));
                    calls.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
            std::thread::sleep(Duration::from_millis(5));
            calls.store(0, Ordering::Relaxed);
            loader.finish().expect("the stream is whole");
            done.store(true, Ordering::Release);
        });
        let calls = calls.into_inner();
        assert!(calls >= 10, "{kind}: {calls} calls while a load ended");
        assert_eq!((map.check().expect("sound"), map.meta()), (MANY, b"a vote".to_vec()));
    }
}

/// Found: a scan of a B+-tree met a node that no persist had covered, and that later changes had
/// replaced, after a load: it had no checksum, and passed for damaged.
#[test]
fn a_scan_goes_on_through_what_was_never_persisted() {
    for kind in KINDS {
        let place = Place::simulated(kind);
        let source = place.create_with("source", &layout(kind, 256 << 10), &quiet());
        (1..=40u64).for_each(|ts| source.set(ts, &ts.to_be_bytes(), b"other").expect("there is room"));
        let chunks = stream(&*source, 4096);
        let map = place.create_with("map", &layout(kind, 256 << 10), &quiet_every(100_000));
        (1..=100u64).for_each(|ts| map.set(ts, &ts.to_be_bytes(), b"value").expect("there is room"));
        let view = map.view(100).expect("a view");
        let mut scan = view.scan((Unbounded, Unbounded)).expect("a scan");
        (1..=100u64).for_each(|key| map.set(100 + key, &key.to_be_bytes(), b"later").expect("there is room"));
        load(&*map, false, &chunks).expect("it loads");
        for key in 1..=100u64 {
            let found = scan.advance().expect("it goes on").map(|entry| (entry.key.to_vec(), entry.value.to_vec()));
            assert_eq!(found, Some((key.to_be_bytes().to_vec(), b"value".to_vec())), "{kind}");
        }
    }
}
