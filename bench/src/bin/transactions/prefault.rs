//! A load into cold files, with and without pre-fault (Table II and Fig. 4 of the source paper):
//! its time, the page faults of the thread that loads and of all others, and processor time.

use crate::pool::{self, ROW};
use perdura_bench::measure::turned;
use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::plan::Plan;
use perdura_bench::sampler;
use perdura_engine::{Config, Engine};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Size of every data file, so that the load expands the table many times.
const FILE_BYTES: u64 = 8 << 20;
/// Expansions that the timed load must see.
const EXPANSIONS_LEAST: u64 = 8;
/// Ticks a second in which the kernel reports processor time.
const TICKS: f64 = 100.0;

/// How files are faulted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// Not at all.
    Off,
    /// From the start on, while the load runs.
    On,
    /// The load begins when all files that there are have been faulted in.
    Awaited,
}

/// Counters of a thread or a process.
#[derive(Clone, Copy)]
struct Usage {
    faults: u64,
    user: u64,
    system: u64,
}

impl Usage {
    /// Reads a `stat` of /proc.
    fn read(path: &str) -> Usage {
        let stat = std::fs::read_to_string(path).expect("/proc is mounted");
        let rest = stat.rsplit_once(')').expect("a name in brackets").1;
        let field = |number: usize| -> u64 {
            // The state is field 3.
            rest.split_whitespace().nth(number - 3).and_then(|word| word.parse().ok()).expect("a number")
        };
        Usage { faults: field(10) + field(12), user: field(14), system: field(15) }
    }

    fn since(self, before: Usage) -> Usage {
        Usage {
            faults: self.faults - before.faults,
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }
}

/// `time_s`, `faults` (of the thread that loads), `service_faults` (of all others), `user_s`,
/// `system_s` of the cases "off", "4k", "4k/awaited", or of "2m" alone if the medium has large
/// pages, which the caller knows. Another case alone is for a profile of it.
pub fn run(plan: &Plan, case: Option<&str>) {
    let rows = plan.pick(2_000_000, 1_000_000);
    let small = [("off", Service::Off), ("4k", Service::On), ("4k/awaited", Service::Awaited)];
    let cases: &[(&str, Service)] = match case {
        None => &small,
        Some("2m") => &[("2m", Service::On), ("2m/awaited", Service::Awaited)],
        Some(one) => {
            let place = small.iter().position(|(case, _)| *case == one);
            let place = place.unwrap_or_else(|| panic!("no case {one}; there are off, 4k, 4k/awaited and 2m"));
            &small[place..=place]
        }
    };
    for round in 0..plan.pick(7, 3) {
        for (case, service) in turned(cases, round) {
            load(plan, case, service, rows);
        }
    }
}

fn load(plan: &Plan, case: &str, service: Service, rows: usize) {
    sampler::running("engine", case);
    let scratch = plan.scratch();
    let config = Config {
        prefault: service != Service::Off,
        data_file_bytes: FILE_BYTES,
        first_file_bytes: FILE_BYTES,
        ..Config::default()
    };
    let engine = Engine::open(medium(scratch.path()), config).expect("the pool can be created");
    let table = engine.create_table("loaded", b"").expect("the pool is new");
    if service == Service::Awaited {
        await_service(&engine);
    }
    let files = table.data_bytes();
    let mut session = pool::session(&engine);
    let (process, thread) = (Usage::read("/proc/self/stat"), Usage::read("/proc/thread-self/stat"));
    let begun = Instant::now();
    for _ in 0..rows {
        session.insert(&table, black_box(&ROW)).expect("there is room");
    }
    session.commit().expect("there is room");
    let took = begun.elapsed();
    let process = Usage::read("/proc/self/stat").since(process);
    let thread = Usage::read("/proc/thread-self/stat").since(thread);
    if case.starts_with("2m") && !has_large_pages() {
        output::note("no case 2m: the kernel gave no large pages");
        return;
    }
    let expansions = (table.data_bytes() - files) / FILE_BYTES;
    assert!(expansions >= EXPANSIONS_LEAST, "{expansions} expansions are too few to tell");
    let value = |metric: &str, value: f64| output::value("engine", case, metric, value);
    value("time_s", took.as_secs_f64());
    value("faults", thread.faults as f64);
    value("service_faults", process.faults.saturating_sub(thread.faults) as f64);
    value("user_s", process.user as f64 / TICKS);
    value("system_s", process.system as f64 / TICKS);
    drop(session);
    engine.close();
}

/// Whether any large page of a file is mapped.
fn has_large_pages() -> bool {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let mapped = |line: &str| -> Option<u64> {
        let (name, rest) = line.split_once(':')?;
        let is_of_file = ["ShmemPmdMapped", "FilePmdMapped"].contains(&name);
        is_of_file.then(|| rest.split_whitespace().next()?.parse().ok())?
    };
    rollup.lines().filter_map(mapped).sum::<u64>() > 0
}

/// Waits until nothing is queued for pre-fault.
fn await_service(engine: &Engine) {
    while engine.counters().prefault_queued_bytes > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}
