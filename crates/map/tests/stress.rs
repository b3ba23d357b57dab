//! Hazard: a page is reused under a reader. A writer, readers, a stream of snapshots and the
//! background thread run on real threads, in a region so small that pages are reused all the time.
//! Values carry their key, their timestamp and a checksum. Tests (I8).

use crate::support;

use crate::support::signed::{sign, signed_at};
use crate::support::{KINDS, NEWEST, Owned, all, create, layout, load, other, quiet, tiny_layout};
use perdura_map::{Config, ErrorKind, Kind, OrderedMap, Ts};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEYS: u64 = 150;
const CHANGES: u64 = 40_000;

/// Stops the other threads however the writer ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Values by key, with the timestamps of the changes that gave them.
type Truth = BTreeMap<Vec<u8>, (Vec<u8>, Ts)>;

/// Changes keys at random. Returns the final content.
fn write(map: &dyn OrderedMap, done: &AtomicBool, seed: u64) -> Truth {
    let _ends = Ends(done);
    let (mut random, mut truth, mut ts) = (Random::new(seed), Truth::new(), 0);
    while ts < CHANGES {
        ts += 1;
        let key = format!("{:03}", random.below(KEYS)).into_bytes();
        let filling_max = if random.one_in(20) { 3000 } else { 150 };
        let value = sign(&key, ts, random.below(filling_max) as usize);
        let is_deletion = random.one_in(5);
        let change = || if is_deletion { map.delete(ts, &key) } else { map.set(ts, &key, &value).map(|()| true) };
        let mut result = change();
        while let Err(error) = result {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            forget(map, ts - 1);
            map.collect().expect("collected");
            std::thread::yield_now();
            result = change();
        }
        if is_deletion {
            assert_eq!(result.expect("it was done"), truth.remove(&key).is_some(), "{key:?} at {ts}");
        } else {
            truth.insert(key.clone(), (value, ts));
        }
        let read = map.get(&key, NEWEST).expect("it reads");
        assert_eq!(read.as_deref(), truth.get(&key).map(|(value, _)| &value[..]), "the writer reads what it wrote");
        if ts % 100 == 0 {
            forget(map, ts - random.below(60));
        }
    }
    truth
}

/// Applies up to a timestamp, and forgets as far as room allows: readers may hold the pages that
/// the rest needs.
fn forget(map: &dyn OrderedMap, up_to: Ts) {
    let up_to = up_to.min(map.timestamps().last);
    map.apply(up_to).expect("it is there");
    if let Err(error) = map.forget(up_to) {
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    }
}

/// Scans at a timestamp. Each value must be whole, belong to its key, and have its entry's
/// timestamp.
fn scan(map: &dyn OrderedMap, at: Ts) -> perdura_map::Result<Vec<Owned>> {
    let mut scan = map.prefix(b"", at)?;
    let mut found: Vec<Owned> = Vec::new();
    while let Some(entry) = scan.advance()? {
        assert_eq!(signed_at(entry.key, entry.value), Some(entry.ts), "{:?} at {at}", entry.key);
        assert!(entry.ts <= at && found.last().is_none_or(|(key, _, _)| key[..] < *entry.key), "out of order at {at}");
        found.push((entry.key.to_vec(), entry.value.to_vec(), entry.ts));
    }
    Ok(found)
}

/// Reads single keys and scans until the writer is done. Returns how often two scans of one
/// timestamp could be compared.
fn read(map: &dyn OrderedMap, done: &AtomicBool, seed: u64) -> u64 {
    let (mut random, mut compared) = (Random::new(seed), 0);
    while !done.load(Ordering::Acquire) {
        for _ in 0..200 {
            let key = format!("{:03}", random.below(KEYS)).into_bytes();
            let Some(value) = map.get(&key, NEWEST).expect("it reads") else { continue };
            let ts =
                signed_at(&key, &value).unwrap_or_else(|| panic!("{key:?}: {} bytes of something else", value.len()));
            std::thread::yield_now();
            assert_eq!(signed_at(&key, &value), Some(ts), "a value changed while it was held");
        }
        let at = map.timestamps().applied;
        match scan(map, at).and_then(|first| Ok((first, scan(map, at)?))) {
            Ok((first, second)) => {
                assert!(first == second, "what is applied changed at {at}");
                compared += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Forgotten, "{error}"),
        }
        scan(map, NEWEST).expect("it scans");
    }
    compared
}

/// Streams snapshots into maps of the other kind until the writer is done.
fn stream(map: &dyn OrderedMap, done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        let (chunks, seen) = {
            let snapshot = map.snapshot().expect("a snapshot");
            let chunks: perdura_map::Result<Vec<_>> = snapshot.chunks(8192).collect();
            (chunks.expect("it streams"), snapshot.timestamps())
        };
        let kind = other(map.kind());
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let target = create(&medium, "target", kind, &layout(kind, 2 << 20), &quiet()).expect("there is room");
        load(&*target, &chunks).expect("it loads");
        assert_eq!(target.timestamps(), seen);
        scan(&*target, seen.last).expect("it scans");
        target.check().expect("sound");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run(kind: Kind, seed: u64) {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let config =
        Config { changes_max: 10, interval: Duration::from_micros(200), seed: Some(seed), ..Config::default() };
    let map = create(&medium, "map", kind, &tiny_layout(384 << 10), &config).expect("there is room");
    let done = AtomicBool::new(false);
    let (truth, compared) = std::thread::scope(|scope| {
        let (map, done) = (&*map, &done);
        let writer = scope.spawn(move || write(map, done, seed));
        let readers = [1, 2].map(|reader| scope.spawn(move || read(map, done, seed * 10 + reader)));
        let streaming = scope.spawn(move || stream(map, done));
        let truth = writer.join().expect("the writer ends");
        let compared: u64 = readers.into_iter().map(|reader| reader.join().expect("a reader ends")).sum();
        streaming.join().expect("the stream ends");
        (truth, compared)
    });
    println!("{kind}, seed {seed}: {compared} pairs of scans, {:?}", map.space());
    let is_there = |map: &dyn OrderedMap| {
        let found = all(map, NEWEST).into_iter().map(|(key, value, ts)| (key, (value, ts)));
        assert!(found.eq(truth.clone()), "{kind}, seed {seed}: something was lost");
        map.check().expect("sound");
        support::compare::audit_space(map).expect("it adds up");
    };
    is_there(&*map);
    map.persist().expect("persisted");
    drop(map);
    is_there(&*perdura_map::open(&medium, "map", &config).expect("it opens"));
}

#[test]
fn pages_are_used_again_under_readers() {
    for kind in KINDS {
        for seed in support::seeds(2) {
            run(kind, seed + 1);
        }
    }
}

/// Found: the mark of what is forgotten rose above a view that had just begun, until the writer saw
/// it. Meanwhile reads under the view were refused.
#[test]
fn a_view_is_readable_from_the_first_moment() {
    for kind in KINDS {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let map = create(&medium, "map", kind, &layout(kind, 8 << 20), &quiet()).expect("there is room");
        map.put(b"k", b"v").expect("there is room");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (map, done) = (&*map, &done);
            scope.spawn(move || {
                for number in 0.. {
                    // A view that finds many versions above its own keeps them meanwhile, until
                    // there is no room.
                    let is_full = map.put(b"k", b"v").is_err_and(|error| error.kind() == ErrorKind::Full);
                    if is_full || number % 1000 == 0 {
                        map.collect().expect("collected");
                    }
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                }
            });
            let _ends = Ends(done);
            for _ in 0..100_000 {
                let Ok(view) = map.view(map.timestamps().applied) else { continue };
                for _ in 0..20 {
                    let found = view.get(b"k").expect("the view holds it");
                    assert_eq!(found.as_deref(), Some(&b"v"[..]));
                }
                let mut scan =
                    view.scan((std::ops::Bound::Unbounded, std::ops::Bound::Unbounded)).expect("it holds it");
                assert!(scan.advance().expect("it goes on").is_some());
            }
        });
    }
}
