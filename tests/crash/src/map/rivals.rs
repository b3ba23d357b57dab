//! Several writers of one map, which change and delete each other's keys at the same time.
//!
//! Each change has a timestamp of its own, and none is rolled back. So the timestamps are the order
//! of the changes, and the states are known when the run is over: the changes up to each timestamp
//! make one. What readers and snapshots saw is compared then too. Whatever the map has called
//! persisted must survive.

use super::bystander::{self, wait};
use super::model::{Bytes, Entries, State};
use super::oracle::{self, History, Past};
use super::scenario::Scenario;
use super::stream;
use perdura_map::{Error, ErrorKind, OrderedMap, Ts};
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::Mutex;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of writers.
const RIVALS: u64 = 2;

/// The change that a call made.
struct Done {
    /// Number of the call.
    call: usize,
    ts: Ts,
    key: Bytes,
    value: Option<Bytes>,
    /// It cannot be rolled back, and the versions it supersedes are forgotten.
    is_put: bool,
    /// The replaced value, as the map has told it.
    before: Before,
}

/// Knowledge that a call returns of the value it has replaced.
enum Before {
    Unknown,
    Something,
    This(Option<Bytes>),
}

/// Observations of a run.
#[derive(Default)]
struct Record {
    calls: AtomicUsize,
    done: Mutex<Vec<Done>>,
    /// Results of scans, each at one timestamp.
    scans: Mutex<Vec<(Ts, Entries)>>,
    /// Contents of snapshots.
    snapshots: Mutex<Vec<State>>,
}

/// Lets rivals change a new map. Returns the states that it may have after a crash.
pub fn run(map: &dyn OrderedMap, scenario: &Scenario, history: History, seed: u64, scheduler: Scheduler) -> Past {
    let record = &Record { calls: AtomicUsize::new(history.begun() + 1), ..Record::default() };
    let is_over = &AtomicUsize::new(0);
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for place in 0..RIVALS {
        bodies.push(Box::new(move || {
            let random = Random::new(seed ^ 0x71a1 << 16 ^ place);
            let mut rival = Rival { map, record, scenario, random, place };
            (0..scenario.calls).for_each(|_| rival.act());
            is_over.fetch_add(1, Ordering::Relaxed);
        }));
    }
    let goes_on = move || is_over.load(Ordering::Relaxed) < RIVALS as usize;
    bodies.push(Box::new(move || watch(map, record, goes_on, seed)));
    for bystander in scenario.bystanders {
        let history = &history;
        bodies.push(Box::new(move || bystander::run(*bystander, map, history, &goes_on, seed)));
    }
    scheduler.run(bodies);
    map.persist().expect("a persist needs no room");
    map.check().expect("a map that nobody changes is whole");
    let past = look_back(record, &history);
    let last = past.states.last().expect("there is a state");
    last.compare(map, 4).unwrap_or_else(|what| panic!("after all changes: {what}"));
    past
}

/// The states after each change, in the order of their timestamps.
fn look_back(record: &Record, history: &History) -> Past {
    let mut done = std::mem::take(&mut *record.done.lock());
    done.sort_by_key(|done| done.ts);
    let mut states = history.states();
    // A call that changes nothing has no state of its own.
    let mut places = vec![1; record.calls.load(Ordering::Relaxed)];
    places[0] = 0;
    for Done { call, ts, key, value, is_put, before } in done {
        let mut state = states.last().expect("there is a state").clone();
        assert!(ts > state.stamps.last, "two changes at {ts}");
        let is_right = match &before {
            Before::Unknown => true,
            Before::Something => state.newest(&key).is_some(),
            Before::This(value) => state.newest(&key) == value.as_ref(),
        };
        assert!(is_right, "the change at {ts} was made upon what was not there");
        if is_put {
            state.put(ts, &key, value)
        } else {
            state.change(ts, &key, value)
        }
        places[call] = states.len();
        states.push(state);
    }
    let last = states.last().expect("there is a state");
    for (at, entries) in record.scans.lock().iter() {
        assert!(last.entries(*at) == *entries, "a scan at {at} found what was not there");
    }
    for held in record.snapshots.lock().iter() {
        let is_one = states.iter().any(|state| state.is_same(held));
        assert!(is_one, "a snapshot at {:?} holds what the map never was", held.stamps);
    }
    Past { states, places: Some(places) }
}

/// One of the writers.
struct Rival<'a> {
    map: &'a dyn OrderedMap,
    record: &'a Record,
    scenario: &'a Scenario,
    random: Random,
    place: u64,
}

impl Rival<'_> {
    fn act(&mut self) {
        let key = Bytes::from(format!("key {}", self.random.below(self.scenario.keys)).as_bytes());
        let call = self.record.calls.fetch_add(1, Ordering::Relaxed);
        oracle::note_begun(call);
        // No two calls give a key the same value.
        let value = Bytes::from([&call.to_le_bytes()[..], &vec![7; self.random.below(90) as usize]].concat());
        let ts = self.ts();
        let done = |ts, value, is_put, before| Some(Done { call, ts, key: key.clone(), value, is_put, before });
        let map = self.map;
        let found = match self.random.below(12) {
            0..4 => match refused(map.set(ts, &key, &value)) {
                None => None,
                Some(()) => done(ts, Some(value), false, Before::Unknown),
            },
            4..6 => match refused(map.delete(ts, &key)) {
                None | Some(false) => None,
                Some(true) => done(ts, None, false, Before::Something),
            },
            6..8 => {
                let seen =
                    map.get(&key, Ts::MAX - 1).expect("the newest is not forgotten").map(|seen| Bytes::from(&*seen));
                wait(&mut self.random, 4);
                let compared = map.compare_and_set(ts, &key, seen.as_deref(), Some(&value));
                match refused(compared.map(|compared| compared.matched)) {
                    None | Some(false) => None,
                    Some(true) => done(ts, Some(value), false, Before::This(seen)),
                }
            }
            8..11 => {
                let ts = map.put(&key, &value).expect("there is room");
                done(ts, Some(value), true, Before::Unknown)
            }
            _ => {
                map.persist().expect("a persist needs no room");
                None
            }
        };
        self.record.done.lock().extend(found);
        oracle::note_observed(map.timestamps().persisted);
    }

    /// A timestamp for the next change that is no other writer's.
    fn ts(&mut self) -> Ts {
        let next = self.map.timestamps().last + 1;
        next + (self.place + RIVALS - next % RIVALS) % RIVALS
    }
}

/// The outcome of a change; `None` if another writer's newer timestamp came first.
fn refused<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(result) => Some(result),
        Err(error) if error.kind() == ErrorKind::Timestamp => None,
        Err(error) => panic!("{error}"),
    }
}

/// Reads and holds snapshots until the rivals are done.
fn watch(map: &dyn OrderedMap, record: &Record, goes_on: impl Fn() -> bool, seed: u64) {
    let mut random = Random::new(seed ^ 0x3a7c);
    while goes_on() {
        oracle::note_observed(map.timestamps().persisted);
        if random.one_in(3) {
            hold_snapshot(map, record, &mut random)
        } else {
            scan(map, record, &mut random)
        }
        wait(&mut random, 30);
    }
}

fn hold_snapshot(map: &dyn OrderedMap, record: &Record, random: &mut Random) {
    let snapshot = map.snapshot().expect("a snapshot needs no room");
    oracle::note_observed(snapshot.timestamps().last);
    wait(random, 60);
    let chunks: Vec<Vec<u8>> = snapshot.chunks(300).map(|chunk| chunk.expect("a snapshot streams")).collect();
    record.snapshots.lock().push(stream::read(&chunks).expect("a snapshot's stream can be read"));
}

fn scan(map: &dyn OrderedMap, record: &Record, random: &mut Random) {
    let at = map.timestamps().last;
    wait(random, 8);
    let mut scan = match map.scan((Bound::Unbounded, Bound::Unbounded), at) {
        Ok(scan) => scan,
        Err(error) if error.kind() == ErrorKind::Forgotten => return,
        Err(error) => panic!("{error}"),
    };
    let mut entries = Vec::new();
    while let Some(entry) = scan.advance().expect("what is held stays readable") {
        entries.push((Bytes::from(entry.key), entry.ts, Bytes::from(entry.value)));
        wait(random, 4);
    }
    record.scans.lock().push((at, entries));
}
