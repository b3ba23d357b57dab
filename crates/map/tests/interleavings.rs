//! Replayed races: a writer, readers, a collector and streams of snapshots. Each seed is one
//! interleaving of them.
//!
//! The region is so small that pages are reused all the time. A reader that looks twice at an
//! applied timestamp sees the same, and what the writer wrote. A value that is held does not
//! change. Nothing of the writer's is lost.

use crate::support;

use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use crate::support::signed::{sign, signed_at};
use crate::support::{Map, NEWEST, Owned, create, error_kind, layout, load, quiet, quiet_every, seeds, tiny_layout};
use perdura_map::{ErrorKind, Kind, OrderedMap, Ts};
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::{Mutex, yield_now};
use perdura_pmem::trace::{Access, Site, Tap};
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: u64 = 10;

/// A hook that records nothing: every store, flush and fence only becomes a point at which the
/// scheduler may switch threads.
struct Unheard;

impl Tap for Unheard {
    fn record(&self, _access: Access<'_>, _site: Site) {}
}

/// The state that the threads share.
struct Stage {
    map: Map,
    /// The model of all changes, none forgotten. A change is in it before it is applied to the map.
    truth: Mutex<Model>,
    done: AtomicBool,
    seed: u64,
}

/// Stops the other threads however the writer ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stage {
    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    fn random(&self, thread: u64) -> Random {
        Random::new(self.seed << 8 | thread)
    }

    /// Makes many changes, and keeps the model.
    fn write(&self, changes: u64) {
        let _ends = Ends(&self.done);
        let mut random = self.random(0);
        for _ in 0..changes {
            match random.below(12) {
                0 => self.take_back(&mut random),
                1 | 2 => self.apply_and_forget(&mut random),
                3 => self.map.persist().expect("persisted"),
                _ => self.change(&mut random),
            }
        }
        let truth = self.truth.lock();
        compare_newest(&*self.map, &truth);
    }

    fn change(&self, random: &mut Random) {
        let key = [b'k', random.below(KEYS) as u8];
        let (last, applied, present) = {
            let truth = self.truth.lock();
            (truth.last, truth.applied, truth.newest(&key).map(<[u8]>::to_vec))
        };
        let ts = (last + random.below(2)).max(applied + 1);
        let value = sign(&key, ts, random.below(400) as usize);
        for attempt in 0.. {
            assert!(attempt < 10_000, "the region stays full: {:?}", self.map.space());
            let result = match random.below(4) {
                0 => self.map.delete(ts, &key).map(|done| {
                    assert_eq!(done, present.is_some());
                    done.then_some(None)
                }),
                1 => self.map.compare_and_set(ts, &key, present.as_deref(), Some(&value)).map(|done| {
                    assert!(done.matched, "nobody else changes it");
                    Some(Some(&value))
                }),
                _ => self.map.set(ts, &key, &value).map(|()| Some(Some(&value))),
            };
            match result {
                Ok(Some(change)) => return self.truth.lock().change(ts, &key, change.map(|value| &value[..])),
                Ok(None) => return,
                Err(error) if error.kind() == ErrorKind::Full => self.make_room(),
                Err(error) => panic!("{error}"),
            }
            if !self.truth.lock().takes(ts) {
                return;
            }
        }
    }

    /// Waits for room: the collector and the snapshots free pages sooner or later.
    fn make_room(&self) {
        let last = self.truth.lock().last;
        self.apply(last);
        self.forget(last);
        self.map.persist().expect("persisted");
        self.map.collect().expect("collected");
        yield_now();
    }

    fn apply(&self, ts: Ts) {
        self.map.apply(ts).expect("it is there");
        let mut truth = self.truth.lock();
        truth.applied = truth.applied.max(ts);
    }

    fn apply_and_forget(&self, random: &mut Random) {
        let last = self.truth.lock().last;
        self.apply(last.saturating_sub(random.below(3)));
        let applied = self.truth.lock().applied;
        self.forget(applied.saturating_sub(random.below(6)));
    }

    /// Forgets as far as room allows: readers and snapshots may hold the pages that the rest needs.
    fn forget(&self, up_to: Ts) {
        if let Err(error) = self.map.forget(up_to) {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        }
    }

    fn take_back(&self, random: &mut Random) {
        let (last, applied) = {
            let truth = self.truth.lock();
            (truth.last, truth.applied)
        };
        let from = (last + 1 - random.below(3).min(last)).max(applied + 1);
        self.map.rollback(from).expect("it is not applied");
        let last = self.map.timestamps().last;
        self.truth.lock().rollback(from, last).expect("as documented");
    }

    /// Reads applied timestamps twice, and holds a value while others go on.
    fn read(&self, thread: u64) {
        let mut random = self.random(thread);
        while !self.is_done() {
            let at = self.map.timestamps().applied;
            match self.read_at(at, &mut random) {
                Ok(()) => {}
                Err(error) => {
                    let forgotten = self.map.timestamps().forgotten;
                    assert!(error.kind() == ErrorKind::Forgotten && forgotten > at, "at {at}: {error}");
                }
            }
            yield_now();
        }
    }

    fn read_at(&self, at: Ts, random: &mut Random) -> perdura_map::Result<()> {
        let key = [b'k', random.below(KEYS) as u8];
        let held = self.map.get(&key, at)?;
        let before = held.as_deref().map(<[u8]>::to_vec);
        let first = self.scan_slowly(at, random)?;
        {
            let truth = self.truth.lock();
            let wanted: Vec<Owned> =
                truth.scan(at).into_iter().map(|(key, value, ts)| (key.to_vec(), value.to_vec(), ts)).collect();
            assert!(first == wanted, "a scan at {at} saw {} keys, {} are there", first.len(), wanted.len());
            assert_eq!(before.as_deref(), truth.get(&key, at).map(|(value, _)| value), "{key:?} at {at}");
        }
        let newest = self.scan_slowly(NEWEST, random)?;
        assert!(newest.len() as u64 <= KEYS);
        let again = self.scan_slowly(at, random)?;
        assert!(first == again, "what is applied changed at {at}: {}, then {}", brief(&first), brief(&again));
        assert!(held.as_deref().map(<[u8]>::to_vec) == before, "a value changed while it was held");
        Ok(())
    }

    /// Scans, yielding to other threads now and then. Each value must be whole and belong to its
    /// key.
    fn scan_slowly(&self, at: Ts, random: &mut Random) -> perdura_map::Result<Vec<Owned>> {
        let mut scan = self.map.prefix(b"k", at)?;
        let mut found: Vec<Owned> = Vec::new();
        while let Some(entry) = scan.advance()? {
            assert!(entry.ts <= at && found.last().is_none_or(|(key, _, _)| key[..] < *entry.key), "out of order");
            assert_eq!(signed_at(entry.key, entry.value), Some(entry.ts), "{:?} at {at}", entry.key);
            found.push((entry.key.to_vec(), entry.value.to_vec(), entry.ts));
            if random.one_in(3) {
                yield_now();
                let (key, value, ts) = found.last().expect("one was just added");
                assert_eq!((entry.key, entry.value, entry.ts), (&key[..], &value[..], *ts), "an entry changed");
            }
        }
        Ok(found)
    }

    fn collect(&self) {
        while !self.is_done() {
            self.map.collect().expect("collected");
            support::compare::audit_space(&*self.map).expect("it adds up");
            yield_now();
        }
    }

    /// Streams snapshots into maps of the other kind.
    fn stream(&self, thread: u64) {
        let mut random = self.random(thread);
        while !self.is_done() {
            let snapshot = self.map.snapshot().expect("a snapshot");
            let seen = snapshot.timestamps();
            let mut chunks = Vec::new();
            for chunk in snapshot.chunks(64 + random.below(2000) as usize) {
                chunks.push(chunk.expect("it streams"));
                yield_now();
            }
            drop(snapshot);
            let kind = support::other(self.map.kind());
            let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
            let target = create(&medium, "target", kind, &layout(kind, 256 << 10), &quiet()).expect("there is room");
            load(&*target, &chunks).expect("it loads");
            assert_eq!(target.timestamps(), seen);
            target.check().expect("sound");
            let truth = self.truth.lock();
            let found = support::all(&*target, seen.applied);
            let wanted = truth.scan(seen.applied);
            let found: Vec<_> = found.iter().map(|(key, value, ts)| (&key[..], &value[..], *ts)).collect();
            assert!(found == wanted, "a snapshot as of {seen:?}");
            drop(truth);
            for _ in 0..random.below(200) {
                yield_now();
            }
        }
    }
}

fn brief(entries: &[Owned]) -> String {
    let all: Vec<String> = entries.iter().map(|(key, _, ts)| format!("{}@{ts}", key[1])).collect();
    all.join(" ")
}

fn compare_newest(map: &dyn OrderedMap, truth: &Model) {
    let found = support::all(map, NEWEST);
    let found: Vec<_> = found.iter().map(|(key, value, ts)| (&key[..], &value[..], *ts)).collect();
    assert!(found == truth.scan(NEWEST), "the writer lost something");
}

/// Runs one stage with so many readers, collectors and streams.
fn run(kind: Kind, seed: u64, [readers, collectors, streams]: [u64; 3]) {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new().recording(Arc::new(Unheard)));
    let changes_max = [4, 1, 20][seed as usize % 3];
    // Some of these regions are full most of the time.
    let layout = tiny_layout((36 + seed % 6 * 4) << 10);
    let map = create(&medium, "map", kind, &layout, &quiet_every(changes_max)).expect("there is room");
    let stage = Stage { map, truth: Mutex::new(Model::default()), done: AtomicBool::new(false), seed };
    let shared = &stage;
    let mut bodies: Vec<Body<'_>> = vec![Box::new(move || shared.write(90))];
    for reader in 0..readers {
        bodies.push(Box::new(move || shared.read(1 + reader)));
    }
    for _ in 0..collectors {
        bodies.push(Box::new(move || shared.collect()));
    }
    for stream in 0..streams {
        bodies.push(Box::new(move || shared.stream(100 + stream)));
    }
    Scheduler::new(seed).run(bodies);
    let Stage { map, truth, .. } = stage;
    let mut truth = truth.into_inner();
    assert_eq!(error_kind(map.get(b"k", NEWEST)), None);
    // Forgets what there was no room to forget.
    map.forget(map.timestamps().forgotten).expect("nobody holds anything");
    truth.forget(map.timestamps().forgotten);
    let same = |map: &dyn OrderedMap| compare(map, &truth).and_then(|()| audit(map, &truth));
    same(&*map).unwrap_or_else(|what| panic!("{kind}, seed {seed}: {what}"));
    support::collect_all(&*map);
    same(&*map).unwrap_or_else(|what| panic!("{kind}, seed {seed}, collected: {what}"));
    drop(map);
    let map =
        perdura_map::open(&medium, "map", &quiet()).unwrap_or_else(|error| panic!("{kind}, seed {seed}: {error}"));
    same(&*map).unwrap_or_else(|what| panic!("{kind}, seed {seed}, reopened: {what}"));
}

#[test]
fn readers_of_a_list_beside_writer_collector_and_stream() {
    for seed in seeds(150) {
        run(Kind::List, seed, [2, 1, 1]);
    }
}

#[test]
fn readers_of_a_btree_beside_writer_collector_and_stream() {
    for seed in seeds(150) {
        run(Kind::BTree, seed, [2, 1, 1]);
    }
}

/// No snapshot holds the collector off, so it frees pages as fast as it can.
#[test]
fn readers_of_a_list_beside_two_collectors() {
    for seed in seeds(150) {
        run(Kind::List, 1000 + seed, [2, 2, 0]);
    }
}

#[test]
fn readers_of_a_btree_beside_two_collectors() {
    for seed in seeds(150) {
        run(Kind::BTree, 1000 + seed, [2, 2, 0]);
    }
}
