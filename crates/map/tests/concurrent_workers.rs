//! Replayed races between several who change one map: each has a key of its own, and all change and
//! delete those they share.
//!
//! Some changes are applied and forgotten at once, others wait for a thread that applies, rolls
//! back or forgets. Views, scans, snapshots and the collector go on beside them; with loads the
//! content is replaced now and then. Each seed is one interleaving.

use crate::support;

use crate::support::compare::audit_space;
use crate::support::signed::{sign, signed_at};
use crate::support::{KINDS, Map, NEWEST, create, layout, load, quiet, quiet_every, seeds, tiny_layout};
use perdura_map::{Error, ErrorKind, KeyChange, Kind, Result};
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::yield_now;
use perdura_pmem::trace::{Access, Site, Tap};
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARED_KEYS: u64 = 14;
const STEPS: u64 = 60;

/// A hook that only lets the scheduler switch threads.
struct Unheard;

impl Tap for Unheard {
    fn record(&self, _access: Access<'_>, _site: Site) {}
}

struct Workers {
    map: Map,
    seed: u64,
    /// Numbers the values, so that each is another one.
    values: AtomicU64,
    /// Workers that are not done.
    left: AtomicU64,
    /// A stream that replaces the content.
    content: Option<Vec<Vec<u8>>>,
}

/// Outcome of a step. The others may have used up the room, moved the timestamps on or begun a
/// load.
fn step<T>(result: Result<T>) -> Option<T> {
    use ErrorKind::{Forgotten, Full, Partial, ReadOnly, Timestamp};
    match result {
        Ok(done) => Some(done),
        Err(error) if matches!(error.kind(), Forgotten | Full | Partial | ReadOnly | Timestamp) => None,
        Err(error) => panic!("{error}"),
    }
}

impl Workers {
    fn value(&self, key: &[u8], random: &mut Random) -> Vec<u8> {
        let filling = if random.one_in(12) { 700 } else { 60 };
        sign(key, self.values.fetch_add(1, Ordering::Relaxed), random.below(filling) as usize)
    }

    fn work(&self, worker: u64) {
        let mut random = Random::new(self.seed << 8 | worker);
        let own = [b'o', worker as u8];
        let mut mine: Option<Vec<u8>> = None;
        for _ in 0..STEPS {
            let key = [b'k', random.below(SHARED_KEYS) as u8];
            let value = self.value(&key, &mut random);
            let times = self.map.timestamps();
            match random.below(16) {
                0..=2 => _ = step(self.map.put(&key, &value)),
                3 | 4 => _ = step(self.map.remove(&key)),
                5 | 6 => _ = step(self.map.set(times.last + 1, &key, &value)),
                7 => _ = step(self.map.delete(times.last + random.below(2), &key)),
                8 => {
                    let other = [b'k', random.below(SHARED_KEYS) as u8];
                    let changes =
                        [KeyChange { key: &key, value: Some(&value) }, KeyChange { key: &other, value: None }];
                    _ = step(self.map.batch(times.last + 1, b"tag", &changes));
                }
                9 => _ = step(self.map.rollback(times.applied + 1 + random.below(2))),
                10 => _ = step(self.map.apply(times.last.saturating_sub(random.below(3)))),
                11 => _ = step(self.map.forget(times.applied.saturating_sub(random.below(4)))),
                12 => self.look(&mut random),
                13 => _ = step(self.map.persist()),
                _ => self.change_own(&own, &mut mine, &mut random),
            }
            if self.content.is_none() {
                let found = self.map.get(&own, NEWEST).expect("it reads");
                assert_eq!(found.as_deref(), mine.as_deref(), "nobody else changes {own:?}");
            }
        }
        self.left.fetch_sub(1, Ordering::Relaxed);
    }

    fn change_own(&self, own: &[u8], mine: &mut Option<Vec<u8>>, random: &mut Random) {
        if random.one_in(3) {
            if let Some(was_there) = step(self.map.remove(own)) {
                assert!(was_there == mine.is_some() || self.content.is_some(), "{own:?} was there: {was_there}");
                *mine = None;
            }
        } else {
            let value = self.value(own, random);
            if step(self.map.put(own, &value)).is_some() {
                *mine = Some(value);
            }
        }
    }

    /// Holds a view and reads the same twice, once key by key.
    fn look(&self, random: &mut Random) {
        let at = self.map.timestamps().applied;
        let Some(view) = step(self.map.view(at)) else { return };
        let read = |key: u64| {
            let key = [b'k', key as u8];
            let found = step(view.get(&key));
            yield_now();
            found.map(|found| {
                found.map(|value| {
                    assert!(signed_at(&key, &value).is_some(), "{key:?} at {at}: something else");
                    value.to_vec()
                })
            })
        };
        let first: Vec<_> = (0..SHARED_KEYS).map(read).collect();
        for _ in 0..random.below(30) {
            yield_now();
        }
        let again: Vec<_> = (0..SHARED_KEYS).map(read).collect();
        if self.content.is_none() {
            assert!(first.iter().all(Option::is_some), "a view is readable as long as it is held");
            assert!(first == again, "what a view at {at} shows has changed");
        }
        let Some(mut scan) = step(view.scan((std::ops::Bound::Unbounded, std::ops::Bound::Unbounded))) else { return };
        while let Some(entry) = scan.advance().expect("it goes on") {
            assert!(signed_at(entry.key, entry.value).is_some(), "{:?} at {at}: something else", entry.key);
            yield_now();
        }
    }

    fn is_done(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    fn collect(&self) {
        while !self.is_done() {
            self.map.collect().expect("collected");
            audit_space(&*self.map).expect("it adds up");
            yield_now();
        }
    }

    /// Takes snapshots, some of which end by themselves, and streams them.
    fn stream(&self) {
        let mut random = Random::new(self.seed << 8 | 100);
        while !self.is_done() {
            let most = if random.one_in(2) { 1 << 10 } else { u64::MAX };
            let Some(snapshot) = step(self.map.snapshot_within(most)) else {
                yield_now();
                continue;
            };
            let mut chunks = Vec::new();
            for chunk in snapshot.chunks(64 + random.below(500) as usize) {
                match chunk {
                    Ok(chunk) => chunks.push(chunk),
                    Err(error) if error.kind() == ErrorKind::Expired => break,
                    Err(error) => panic!("{error}"),
                }
                yield_now();
            }
            let seen = snapshot.timestamps();
            if !snapshot.has_expired() {
                drop(snapshot);
                let kind = support::other(self.map.kind());
                let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
                let target = create(&medium, "target", kind, &layout(kind, 256 << 10), &quiet()).expect("room");
                load(&*target, &chunks).expect("it loads");
                assert_eq!(target.timestamps(), seen);
                target.check().expect("sound");
            }
            for _ in 0..random.below(100) {
                yield_now();
            }
        }
    }

    fn load(&self, content: &[Vec<u8>]) {
        let mut random = Random::new(self.seed << 8 | 200);
        while !self.is_done() {
            let loader = if random.one_in(3) { self.map.reset_and_load() } else { self.map.load_snapshot() };
            let Some(mut loader) = step(loader) else {
                yield_now();
                continue;
            };
            let is_abandoned = random.one_in(4);
            let pushed: Option<()> = content.iter().try_for_each(|chunk| {
                yield_now();
                step(loader.push(chunk))
            });
            if pushed.is_some() && !is_abandoned {
                step(loader.finish());
            }
            for _ in 0..random.below(300) {
                yield_now();
            }
        }
        // Nothing but a load ends what one has begun that was given up.
        while self.map.get(b"k", NEWEST).is_err() {
            let mut loader = self.map.reset_and_load().expect("nobody else is here");
            content.iter().for_each(|chunk| loader.push(chunk).expect("an empty map has room"));
            loader.finish().expect("an empty map has room");
        }
    }
}

/// The stream of a map with all shared keys.
fn content() -> Vec<Vec<u8>> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let map = create(&medium, "content", Kind::List, &layout(Kind::List, 256 << 10), &quiet()).expect("room");
    for number in 0..SHARED_KEYS * 2 {
        let key = [b'k', (number % SHARED_KEYS) as u8];
        map.set(number + 1, &key, &sign(&key, number, 30)).expect("room");
    }
    map.apply(SHARED_KEYS).expect("it is there");
    support::stream(&*map, 300)
}

fn run(kind: Kind, seed: u64, workers: u64, loads: bool) {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new().recording(Arc::new(Unheard)));
    let layout = tiny_layout((40 + seed % 5 * 6) << 10);
    let map = create(&medium, "map", kind, &layout, &quiet_every([10, 1, 3][seed as usize % 3])).expect("room");
    let content = loads.then(content);
    let all = Workers { map, seed, values: AtomicU64::new(1), left: AtomicU64::new(workers), content };
    let shared = &all;
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for worker in 0..workers {
        bodies.push(Box::new(move || shared.work(worker)));
    }
    bodies.push(Box::new(move || shared.collect()));
    match &shared.content {
        Some(content) => bodies.push(Box::new(move || shared.load(content))),
        None => bodies.push(Box::new(move || shared.stream())),
    }
    println!("{kind}, seed {seed}");
    Scheduler::new(seed).run(bodies);
    let Workers { map, .. } = all;
    let sound = |map: &Map| {
        map.check().unwrap_or_else(|error: Error| panic!("{kind}, seed {seed}: {error}"));
        audit_space(&**map).unwrap_or_else(|what| panic!("{kind}, seed {seed}: {what}"));
        (support::all(&**map, NEWEST), support::mutations(&**map, 0), map.timestamps())
    };
    let before = sound(&map);
    support::collect_all(&*map);
    let collected = sound(&map);
    assert!(before.0 == collected.0 && before.1 == collected.1, "{kind}, seed {seed}: collecting changed something");
    drop(map);
    let map = perdura_map::open(&medium, "map", &quiet()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert!(sound(&map) == collected, "{kind}, seed {seed}: opened, something else is there");
}

#[test]
fn several_change_and_delete_the_same_keys() {
    for kind in KINDS {
        seeds(60).for_each(|seed| run(kind, seed, 2 + seed % 3, false));
    }
}

#[test]
fn several_change_what_loads_replace() {
    for kind in KINDS {
        seeds(40).for_each(|seed| run(kind, 1000 + seed, 2, true));
    }
}
