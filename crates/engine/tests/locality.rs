//! Hazard: threads of a pool work far from its memory, stay pinned to a node that is full, or leave
//! a server's threads pinned once nothing of the pool uses them. The machine is faked: its nodes
//! are halves of the processors on which this test may run, and the affinities are real.

use crate::common::{directory, files, seeds, small};
use perdura_engine::{Config, Engine, Isolation, Machine, Medium};
use perdura_pmem::numa::{Cpus, Source, ThreadId};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Prefault threads of the pools.
const PREFAULT: u32 = 2;
/// Node of the pool's memory.
const HOME: u32 = 1;

/// The faked machine, also in the hands of the test.
#[derive(Clone)]
struct Halves(Arc<State>);

struct State {
    nodes: Vec<Cpus>,
    /// Work of the home node and of the other one, of 1000 at each look.
    home: AtomicU64,
    other: AtomicU64,
    looks: AtomicU64,
    ticks: Mutex<[u64; 4]>,
    /// Threads that were pinned or let off.
    touched: Mutex<BTreeSet<ThreadId>>,
    calls: AtomicU64,
    /// Pages whose node the real machine did not know.
    unknown: AtomicU64,
    online: Mutex<String>,
}

impl Halves {
    /// The processors of this thread in so many nodes; `None`, with a note, if there are too few.
    fn new(count: usize) -> Option<Halves> {
        let all = mine();
        let cpus: Vec<usize> = all.iter().collect();
        if cpus.len() < count {
            eprintln!("this test may use the processors {all} alone: too few for {count} nodes, so it tests nothing");
            return None;
        }
        // The first node has the first processor, the last one what is left.
        let (first, last) = (cpus[..count - 1].iter().map(|cpu| [*cpu].into_iter().collect()), &cpus[count - 1..]);
        let nodes: Vec<Cpus> = first.chain([last.iter().copied().collect()]).collect();
        Some(Halves(Arc::new(State {
            nodes,
            home: AtomicU64::new(100),
            other: AtomicU64::new(100),
            looks: AtomicU64::new(0),
            ticks: Mutex::default(),
            touched: Mutex::default(),
            calls: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            online: Mutex::new(format!("0-{}\n", count - 1).replace("0-0", "0")),
        })))
    }

    fn home(&self) -> Cpus {
        self.0.nodes[HOME as usize]
    }

    /// The work of the nodes from now on, of 1000.
    fn load(&self, home: u64, other: u64) {
        self.0.home.store(home, Relaxed);
        self.0.other.store(other, Relaxed);
    }

    /// Names of the threads that were touched and live still, with their present affinities.
    fn touched(&self) -> Vec<(String, Cpus)> {
        let name = |thread: &ThreadId| std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).ok();
        let touched = self.0.touched.lock().unwrap().clone();
        let live = touched.iter().filter_map(|thread| Some((name(thread)?.trim().to_owned(), *thread)));
        live.filter_map(|(name, thread)| Some((name, Machine::real().affinity(thread).ok()?))).collect()
    }
}

impl Source for Halves {
    fn read(&self, path: &str) -> io::Result<String> {
        let state = &*self.0;
        let node = |rest: &str| state.nodes.get(rest.strip_prefix("node")?.split('/').next()?.parse::<usize>().ok()?);
        match path.strip_prefix("/sys/devices/system/node/") {
            Some("online") => Ok(state.online.lock().unwrap().clone()),
            Some(file) if file.ends_with("/distance") => Ok("10 ".repeat(state.nodes.len())),
            Some(file) => Ok(node(file).ok_or(io::ErrorKind::NotFound)?.to_string()),
            None if path == "/proc/stat" => {
                let mut ticks = state.ticks.lock().unwrap();
                let (home, other) = (state.home.load(Relaxed), state.other.load(Relaxed));
                *ticks = [ticks[0] + home, ticks[1] + 1000 - home, ticks[2] + other, ticks[3] + 1000 - other];
                let line = |cpu: usize| {
                    let at = if self.home().has(cpu) { 0 } else { 2 };
                    format!("cpu{cpu} {} 0 0 {} 0 0 0 0 0 0\n", ticks[at], ticks[at + 1])
                };
                Ok(state.nodes.iter().flat_map(Cpus::iter).map(line).collect())
            }
            None => Machine::real().read(path),
        }
    }

    fn node_of_page(&self, address: *const u8) -> Option<u32> {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.unknown.fetch_add(Machine::real().node_of_page(address).is_none().into(), Relaxed);
        Some(HOME)
    }

    fn affinity(&self, thread: ThreadId) -> io::Result<Cpus> {
        self.0.calls.fetch_add(1, Relaxed);
        Machine::real().affinity(thread)
    }

    fn set_affinity(&self, thread: ThreadId, cpus: &Cpus) -> io::Result<()> {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.touched.lock().unwrap().insert(thread);
        Machine::real().set_affinity(thread, cpus)
    }

    /// Each look comes a second after the one before.
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.looks.fetch_add(1, Relaxed))
    }
}

/// Affinity of the calling thread.
fn mine() -> Cpus {
    let machine = Machine::real();
    machine.affinity(machine.thread()).expect("it has one")
}

/// Opens the pool in a directory with all its threads.
fn open(directory: &TempDir, halves: &Halves) -> Engine {
    let medium: Arc<dyn Medium> = files(directory);
    let machine = Machine::faked(halves.clone()).expect("this is a test");
    let config =
        Config { machine, numa: true, background: true, prefault: true, prefault_threads: PREFAULT, ..small() };
    Engine::open(medium, config).expect("the pool opens")
}

#[allow(clippy::disallowed_methods, reason = "a limit of patience, on threads of the operating system")]
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Numbers of threads pinned and let go, as the status variables show them.
fn counts(engine: &Engine) -> (u64, u64) {
    let counters = engine.counters();
    (counters.numa_pinned, counters.numa_let_go)
}

/// Threads of the pool itself.
const OWN: u64 = PREFAULT as u64 + 1;

#[test]
fn the_pools_threads_and_those_of_sessions_are_pinned_to_its_node() {
    let Some(halves) = Halves::new(2) else { return };
    let (all, place) = (mine(), directory());
    let engine = open(&place, &halves);
    assert_eq!(mine(), all, "the thread that has opened the pool is let off");
    if Machine::real().node_of_page(&raw const *Box::new(1u8)).is_some() {
        assert_eq!(halves.0.unknown.load(Relaxed), 0, "the page of the superblock is mapped when it is asked for");
    }
    wait_for("the start of the pool's threads", || counts(&engine) == (OWN, 0));
    let mut expected = vec![("perdura-backgro".to_owned(), halves.home())];
    expected.extend((0..PREFAULT).map(|_| ("perdura-prefaul".to_owned(), halves.home())));
    let mut touched = halves.touched();
    touched.retain(|(name, _)| name.starts_with("perdura-"));
    touched.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(touched, expected);

    let session = engine.session(Isolation::RepeatableRead);
    assert_eq!((mine(), counts(&engine)), (halves.home(), (OWN + 1, 0)));
    let second = engine.session(Isolation::RepeatableRead);
    drop(session);
    assert_eq!((mine(), counts(&engine)), (halves.home(), (OWN + 1, 0)), "it has another session");
    drop(second);
    assert_eq!((mine(), counts(&engine)), (all, (OWN, 0)));
    let status = engine.status().to_string();
    let line = format!("processors {} of node {HOME}, one of 2 nodes: {OWN} threads pinned, 0 let go", halves.home());
    assert!(status.contains(&line), "{status}");
}

#[test]
fn a_session_takes_its_pin_to_the_thread_that_takes_it_over() {
    let Some(halves) = Halves::new(2) else { return };
    let (all, place) = (mine(), directory());
    let engine = open(&place, &halves);
    let mut session = engine.session(Isolation::RepeatableRead);
    assert_eq!(mine(), halves.home());
    assert!(session.leave_thread() && !session.leave_thread());
    assert_eq!(mine(), all, "a thread that it starts does not inherit the pin");
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            session.enter_thread();
            assert_eq!(mine(), halves.home());
            session.enter_thread();
            assert_eq!(mine(), halves.home());
        });
        worker.join().expect("it passes");
    });
    assert_eq!(mine(), all);
    session.enter_thread();
    assert_eq!(mine(), halves.home());
    std::thread::scope(|scope| scope.spawn(move || drop(session)).join().expect("it passes"));
    assert_eq!(mine(), all, "the session has ended on another thread");
}

#[test]
fn threads_leave_a_full_node_and_come_back() {
    let Some(halves) = Halves::new(2) else { return };
    let (all, place) = (mine(), directory());
    let engine = open(&place, &halves);
    let session = engine.session(Isolation::RepeatableRead);
    wait_for("the start", || counts(&engine) == (OWN + 1, 0));
    halves.load(1000, 300);
    wait_for("letting go", || counts(&engine) == (0, OWN + 1));
    assert_eq!(mine(), all);
    assert!(halves.touched().iter().all(|(_, cpus)| *cpus == all));
    let (pinned, let_go) = counts(&engine);
    assert!(engine.status().to_string().contains(&format!("{pinned} threads pinned, {let_go} let go")));
    halves.load(300, 300);
    wait_for("coming back", || counts(&engine) == (OWN + 1, 0));
    assert_eq!(mine(), halves.home());
    drop(session);
    assert_eq!(mine(), all);
}

/// Hazard: machines with one node pay for those with several. All is decided when the pool is
/// opened: neither a session nor a commit asks the machine anything.
#[test]
fn on_one_node_nobody_asks_the_machine() {
    let halves = Halves::new(1).expect("there is one processor");
    let (all, place) = (mine(), directory());
    let engine = open(&place, &halves);
    let table = engine.create_table("t", b"").expect("the name is new");
    for number in 0..50u8 {
        let mut session = engine.session(Isolation::ReadCommitted);
        session.insert(&table, &[number; 40]).expect("there is room");
        session.commit().expect("it commits");
    }
    assert_eq!((mine(), counts(&engine)), (all, (0, 0)));
    assert!(engine.status().to_string().contains("threads stay where they are: the machine has one node"));
    engine.close();
    let state = &halves.0;
    assert_eq!((state.calls.load(Relaxed), state.looks.load(Relaxed), *state.ticks.lock().unwrap()), (0, 0, [0; 4]));
}

#[test]
fn threads_stay_where_they_are_if_it_is_switched_off_or_the_nodes_are_no_nodes() {
    let Some(halves) = Halves::new(2) else { return };
    let (all, place) = (mine(), directory());
    let machine = Machine::faked(halves.clone()).expect("this is a test");
    let open = |numa| {
        let engine =
            Engine::open(files(&place), Config { machine: machine.clone(), numa, ..small() }).expect("it opens");
        let _session = engine.session(Isolation::RepeatableRead);
        assert_eq!((mine(), counts(&engine)), (all, (0, 0)));
        engine.status()
    };
    let status = open(false);
    assert!(status.locality.to_string().contains("switched off") && status.notices.is_empty());
    halves.0.online.lock().unwrap().replace_range(.., "0-");
    let status = open(true);
    assert!(status.notices.iter().any(|notice| notice.contains("/node/online")), "{:?}", status.notices);
}

/// Threads of a server that begin and end sessions, while the node is full now and then.
#[test]
fn seeded_sessions_leave_their_threads_as_they_were() {
    let Some(halves) = Halves::new(2) else { return };
    let (all, place) = (mine(), directory());
    let engine = open(&place, &halves);
    let table = engine.create_table("t", b"").expect("the name is new");
    for seed in seeds(6) {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|number| {
                    scope.spawn({
                        let (engine, table, halves) = (&engine, &table, &halves);
                        move || {
                            let mut random = perdura_pmem::split_mix::SplitMix64::new(seed * 7 + number);
                            let mut sessions = Vec::new();
                            for _ in 0..40 {
                                halves.load(random.next_u64() % 1001, random.next_u64() % 1001);
                                if sessions.len() < 3 && random.next_u64() & 1 == 0 {
                                    sessions.push(engine.session(Isolation::ReadCommitted));
                                } else if let Some(mut session) = sessions.pop() {
                                    session.insert(table, &[number as u8; 100]).expect("there is room");
                                    session.commit().expect("it commits");
                                }
                                let now = mine();
                                assert!(now == all || now == halves.home(), "seed {seed}: {now}");
                                assert!(!sessions.is_empty() || now == all, "seed {seed}: {now} without a session");
                            }
                            drop(sessions);
                            assert_eq!(mine(), all, "seed {seed}");
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("it passes"));
        });
        // The pool's own may not even have started.
        wait_for(&format!("the pool's own threads alone, seed {seed}"), || {
            let (pinned, let_go) = counts(&engine);
            pinned + let_go == OWN
        });
    }
}
