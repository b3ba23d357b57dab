//! The cases: threads with a warehouse each, and threads on ten warehouses.
//!
//! `tps` counts transactions of all kinds that ended. All runs of a case use the same rows, which
//! grow from run to run; at the end they are checked.

use crate::consistency;
use crate::database::Database;
use crate::keys;
use crate::load;
use crate::maps::Maps;
use crate::own::Pool;
use crate::terminal::{Done, KINDS, Terminal};
use perdura_bench::measure::turned;
use perdura_bench::output;
use perdura_bench::own::{medium, medium_like};
use perdura_bench::plan::Plan;
use perdura_bench::sampler;
use perdura_pmem::Preset;
use perdura_tpcc::Random;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Warehouses of the cases that do not have one a thread.
const MANY: u32 = 10;

/// A system on the rows of one case.
#[derive(Clone, Copy)]
enum System {
    /// The engine, with so many terminals.
    Own(u32),
    /// Ordered maps in DRAM, with one.
    Maps,
}

/// Runs everything. The most telling case comes first, since a quick run may be late.
pub fn run(plan: &Plan, seed: u64) {
    output::note(&format!("seed {seed}"));
    let own = |threads: &[u32]| if plan.own { threads.iter().map(|&n| System::Own(n)).collect() } else { Vec::new() };
    let with_peer = |threads: &[u32]| [own(threads), vec![System::Maps]].concat();
    case(plan, seed, 1, None, &with_peer(&[1]));
    if medium(plan.scratch().path()).info().mode.is_emulated() {
        case(plan, seed, 1, Some(Preset::Optane), &own(&[1]));
    } else {
        output::note("1/optane: left out, only emulated memory can take the time of another medium");
    }
    case(plan, seed, 2, None, &own(&[2]));
    case(plan, seed, 4, None, &own(&[4]));
    if plan.quick {
        output::note(&format!("the cases with {MANY} warehouses are those of a full run"));
    } else {
        case(plan, seed, MANY, None, &with_peer(&[1, 2, 4]));
    }
}

/// Name of a case.
fn name(threads: u32, warehouses: u32, model: Option<Preset>) -> String {
    let model = model.map_or_else(String::new, |model| format!("/{}", model.name()));
    if threads == warehouses { format!("{threads}{model}") } else { format!("{threads}/{warehouses}w{model}") }
}

/// Loads so many warehouses, and runs the systems on them in turns; the engine on the medium found
/// or, if it is emulated, on a model of another.
fn case(plan: &Plan, seed: u64, warehouses: u32, model: Option<Preset>, systems: &[System]) {
    if systems.is_empty() {
        return;
    }
    assert!(warehouses <= keys::WAREHOUSES_MAX, "{warehouses} warehouses");
    let begun = Instant::now();
    sampler::running("load", &format!("{warehouses}w"));
    let scratch = plan.scratch();
    let pool = systems
        .iter()
        .any(|system| matches!(system, System::Own(_)))
        .then(|| Pool::create(medium_like(scratch.path(), model)));
    let mut maps = Maps::default();
    if let Some(pool) = &pool {
        fill_pool(pool, warehouses, seed);
    }
    if systems.iter().any(|system| matches!(system, System::Maps)) {
        fill(&mut maps, 1..=warehouses, true, seed);
    }
    output::progress(format_args!("{warehouses} warehouses loaded in {:.1} s", begun.elapsed().as_secs_f64()));
    let (mut by_pool, mut by_maps) = (Done::default(), Done::default());
    for round in plan.rounds(5, 3) {
        for system in turned(systems, round) {
            let seed = seed.wrapping_mul(1_000).wrapping_add(round as u64);
            let run = Run { terminals: 1, warehouses, model, lasting: plan.pick(Duration::from_secs(5), QUICK), seed };
            match (system, &pool) {
                (System::Own(terminals), Some(pool)) => {
                    let open = || pool.open();
                    by_pool.add(Run { terminals, ..run }.measure("perdura", open));
                }
                (System::Own(_), None) => unreachable!("the pool was created"),
                (System::Maps, _) => by_maps.add(run.alone("btreemap", &mut maps)),
            }
        }
    }
    if let Some(pool) = pool {
        consistency::check(&mut pool.open(), warehouses, by_pool);
        pool.close();
    }
    if by_maps.transactions > 0 {
        consistency::check(&mut maps, warehouses, by_maps);
    }
}

/// How long a run of a quick run lasts.
const QUICK: Duration = Duration::from_millis(1_500);

/// Loads warehouses. Each has a seed of its own, so several threads can load.
fn fill<D: Database>(database: &mut D, warehouses: impl Iterator<Item = u32>, with_items: bool, seed: u64) {
    const ALONE: &str = "nobody else changes what is loaded";
    if with_items {
        load::items(database, &mut Random::new(seed)).expect(ALONE);
    }
    for warehouse in warehouses {
        let mut random = Random::new(seed.wrapping_add(u64::from(warehouse)));
        load::warehouse(database, &mut random, warehouse).expect(ALONE);
    }
}

/// Loads a pool by two threads.
fn fill_pool(pool: &Pool, warehouses: u32, seed: u64) {
    std::thread::scope(|scope| {
        for first in [1, 2] {
            scope.spawn(move || fill(&mut pool.open(), (first..=warehouses).step_by(2), first == 1, seed));
        }
    });
}

/// One run of one system.
#[derive(Clone, Copy)]
struct Run {
    terminals: u32,
    warehouses: u32,
    model: Option<Preset>,
    lasting: Duration,
    seed: u64,
}

impl Run {
    /// Runs the terminals at once, each with a database that `open` makes.
    fn measure<D: Database>(self, system: &str, open: impl Fn() -> D + Sync) -> Done {
        sampler::running(system, &self.case());
        let (stop, barrier) = (AtomicBool::new(false), Barrier::new(self.terminals as usize + 1));
        std::thread::scope(|scope| {
            let work = |number| {
                let (open, stop, barrier) = (&open, &stop, &barrier);
                scope.spawn(move || {
                    let mut database = open();
                    barrier.wait();
                    self.terminal(number).run(&mut database, stop)
                })
            };
            let running: Vec<_> = (0..self.terminals).map(work).collect();
            barrier.wait();
            let begun = Instant::now();
            std::thread::sleep(self.lasting);
            stop.store(true, Ordering::Relaxed);
            let mut all = Done::default();
            for terminal in running {
                all.add(terminal.join().expect("a terminal does not panic"));
            }
            self.report(system, all, begun.elapsed());
            all
        })
    }

    /// Runs one terminal.
    fn alone<D: Database + Send>(self, system: &str, database: &mut D) -> Done {
        sampler::running(system, &self.case());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let begun = Instant::now();
            let running = scope.spawn(|| self.terminal(0).run(database, &stop));
            std::thread::sleep(self.lasting);
            stop.store(true, Ordering::Relaxed);
            let done = running.join().expect("a terminal does not panic");
            self.report(system, done, begun.elapsed());
            done
        })
    }

    fn terminal(self, number: u32) -> Terminal {
        Terminal::new(number, self.terminals, self.warehouses, self.seed)
    }

    fn case(self) -> String {
        name(self.terminals, self.warehouses, self.model)
    }

    fn report(self, system: &str, done: Done, took: Duration) {
        let case = self.case();
        output::value(system, &case, "tps", done.transactions as f64 / took.as_secs_f64());
        output::value(system, &case, "cpu_us_per_tx", done.cpu.as_secs_f64() * 1e6 / done.transactions as f64);
        for (kind, (count, took)) in KINDS.iter().zip(done.kinds) {
            let each = took.as_secs_f64() * 1e6 / count.max(1) as f64;
            output::value(system, &format!("{case}/{kind}"), "us_per_tx", each);
        }
        let retries = done.retries as f64 * 1e3 / done.transactions as f64;
        output::value(system, &case, "retries_per_1000_tx", retries);
    }
}
