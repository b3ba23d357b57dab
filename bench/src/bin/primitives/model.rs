//! `model/nt/64B`: whether the models of media take the time that they charge.
//!
//! The same accesses run with the model and without, in many short runs of which the fastest count,
//! as they were not interrupted. `added_ns` is the difference, `charged_ns` what the model has
//! counted. A device that its writers fill takes its own time instead: then that counts, as a whole.

use crate::place::{Pattern, Places};
use crate::plan::Plan;
use crate::writes::{Target, Way, at_once};
use perdura_bench::measure::ns_each;
use perdura_bench::output;
use perdura_bench::own::modelled;
use perdura_pmem::numa::nodes;
use perdura_pmem::{Medium, Model, Preset, Region, counters};
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 64 << 20;
/// Runs of a case, of which the fastest counts.
const RUNS: usize = 60;
/// Bytes that a run writes or reads, about.
const RUN_BYTES: usize = 128 << 10;

type Access = fn(&Region, &mut Places, &[u8]);

/// Name of an access, its size and order.
const ACCESSES: [(&str, usize, Pattern, Access); 5] = [
    ("nt/64B", 64, Pattern::Sequential, write_nt),
    ("nt/256B", 256, Pattern::Sequential, write_nt),
    ("nt/4KiB", 4096, Pattern::Sequential, write_nt),
    ("flush/64B", 64, Pattern::Random, flush),
    ("read/64B", 64, Pattern::Random, read),
];

fn write_nt(region: &Region, places: &mut Places, source: &[u8]) {
    region.write_nt(places.next(), source);
    region.fence();
}

fn flush(region: &Region, places: &mut Places, source: &[u8]) {
    let offset = places.next();
    region.write(offset, source);
    region.persist(offset, source.len() as u64);
}

/// Reads a word of a line; the next read waits for it. All words are zero, or all alike.
fn read(region: &Region, places: &mut Places, _source: &[u8]) {
    let offset = places.next();
    places.turn(region.load(offset));
}

/// The fastest of several runs, in nanoseconds an access, with what the model charged for it: to
/// the thread and to the device.
#[derive(Clone, Copy)]
struct Fastest {
    ns: f64,
    thread_ns: f64,
    device_ns: f64,
}

/// All models and accesses.
pub fn run(plan: &Plan) {
    // A node that no machine has, so that every thread is remote.
    let nowhere = nodes().last().map_or(1, |last| last + 1);
    let mut models: Vec<Model> = Preset::ALL.map(Model::new).into();
    models.push(Model::new(Preset::Optane).on_node(nowhere));
    for _ in 0..plan.pick(5, 3) {
        for model in &models {
            // Both have their own file: a directory is one medium's at a time.
            let (plain_place, place) = (plan.scratch(), plan.scratch());
            let region = |medium: &dyn Medium| {
                let region = medium.create("model", FILE_BYTES).expect("there is room");
                region.zero(0, FILE_BYTES);
                region.fence();
                region
            };
            let plain = region(&modelled(plain_place.path(), None));
            let slow = region(&modelled(place.path(), Some(*model)));
            let name = if model.to_string().contains('@') { "optane_remote".to_owned() } else { model.to_string() };
            for (case, size, pattern, access) in ACCESSES {
                let [plain, slow] = fastest([&plain, &slow], size, pattern, access);
                report(&name, &format!("model/{case}"), plain, slow);
            }
            if Preset::ALL.map(Model::new)[..2].contains(model) {
                bandwidth(plan, *model, &name);
            }
        }
    }
}

/// Two threads that write all they can: together they get the bandwidth of the device, no more.
fn bandwidth(plan: &Plan, model: Model, name: &str) {
    const SIZE: usize = 4096;
    let scratch = plan.scratch();
    let medium = modelled(scratch.path(), Some(model));
    let targets = [0, 1].map(|number| Target::create(&medium, scratch.path(), number, 16 << 20));
    let span = Duration::from_millis(20);
    let run = |_| {
        let before = counters();
        let (count, took) = at_once(&targets, Way::NonTemporal, Pattern::Sequential, SIZE, span);
        let device_ps = counters().since(&before).modelled_device_ps;
        (ns_each(took, count), device_ps as f64 / 1e3 / count as f64)
    };
    let (ns, device_ns) = (0..10).map(run).min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are runs");
    let case = "model/bandwidth/2t";
    output::value(name, case, "gb_per_s", SIZE as f64 / ns);
    output::value(name, case, "ns_per_op", ns);
    output::value(name, case, "charged_ns", device_ns);
    // Two threads here may not be enough for a device as fast as the memory below it.
    if device_ns > ns / 2.0 {
        output::value(name, case, "deviation_percent", 100.0 * (ns / device_ns - 1.0).abs());
    }
}

/// Prints what a model has added and charged, and how far the two are apart.
fn report(system: &str, case: &str, plain: Fastest, slow: Fastest) {
    let is_full = slow.device_ns > plain.ns + slow.thread_ns;
    // A device that is always busy sets the time; a thread that waits for itself has it added.
    let (found, expected) = if is_full { (slow.ns, slow.device_ns) } else { (slow.ns - plain.ns, slow.thread_ns) };
    output::value(system, case, "ns_per_op", slow.ns);
    output::value(system, case, "added_ns", slow.ns - plain.ns);
    output::value(system, case, "charged_ns", if is_full { slow.device_ns - plain.ns } else { slow.thread_ns });
    if expected > 0.0 {
        output::value(system, case, "deviation_percent", 100.0 * (found / expected - 1.0).abs());
    }
}

/// The fastest runs of both regions, which take turns.
fn fastest(regions: [&Region; 2], size: usize, pattern: Pattern, access: Access) -> [Fastest; 2] {
    let source = vec![0; size];
    let count = RUN_BYTES / size;
    let mut least = [Fastest { ns: f64::MAX, thread_ns: 0.0, device_ns: 0.0 }; 2];
    let mut places = [(); 2].map(|()| Places::new(pattern, size as u64, FILE_BYTES, size as u64));
    for _ in 0..RUNS {
        for (number, region) in regions.into_iter().enumerate() {
            let before = counters();
            let begun = Instant::now();
            for _ in 0..count {
                access(region, &mut places[number], &source);
            }
            // What is owed is paid.
            region.fence();
            let ns = begun.elapsed().as_secs_f64() * 1e9 / count as f64;
            let charged = counters().since(&before);
            if ns < least[number].ns {
                let each = |ps: u64| ps as f64 / 1e3 / count as f64;
                let (thread_ns, device_ns) = (each(charged.modelled_ps), each(charged.modelled_device_ps));
                least[number] = Fastest { ns, thread_ns, device_ns };
            }
        }
    }
    least
}
