//! `model/nt/64B`: whether the models of media take the time that they charge.
//!
//! The same accesses run with the model and without, in many short runs of which the fastest count,
//! as they were not interrupted. `added_ns` is the difference, `charged_ns` what the model has
//! counted. A device that its writers fill takes its own time instead: then that counts, as a
//! whole.

use crate::place::{Pattern, Places};
use crate::writes::{Target, Way, at_once};
use perdura_bench::measure::ns_each;
use perdura_bench::output;
use perdura_bench::own::modelled;
use perdura_bench::plan::Plan;
use perdura_pmem::numa::nodes;
use perdura_pmem::{Medium, Model, Preset, Region, counters};
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 64 << 20;
/// Runs of a case, of which the fastest counts.
const RUNS: usize = 60;
/// Bytes that flushes go round in, which caches hold.
const FLUSHED_BYTES: u64 = 16 << 10;

/// Bytes of which lines are read: more than a thread is taken to have in its caches, and few enough
/// for the processor's, so that the memory below takes about the same time for each.
const READ_BYTES: u64 = 8 << 20;

type Call = fn(&Region, &mut Places, &[u8]);

/// A kind of access.
struct Access {
    name: &'static str,
    size: usize,
    pattern: Pattern,
    /// Bytes that it goes round in.
    bytes: u64,
    /// Calls of a run. One of whole blocks must be long beside the buffers of the device.
    count: usize,
    call: Call,
    /// Whether the memory below is through with it when the call ends. Else it goes on while the
    /// thread waits, and that part of its time is no longer seen.
    waits: bool,
}

const fn access(name: &'static str, size: usize, count: usize, call: Call, waits: bool) -> Access {
    Access { name, size, pattern: Pattern::Sequential, bytes: FILE_BYTES, count, call, waits }
}

const ACCESSES: [Access; 6] = [
    access("nt/64B", 64, 2000, write_nt, false),
    access("nt/256B", 256, 1000, write_nt, false),
    access("nt/4KiB", 4096, 500, write_nt, false),
    access("fence", 64, 2000, fence, true),
    Access { bytes: FLUSHED_BYTES, ..access("flush/64B", 64, 2000, flush, false) },
    Access { pattern: Pattern::Random, bytes: READ_BYTES, ..access("read/64B", 64, 2000, read, true) },
];

fn write_nt(region: &Region, places: &mut Places, source: &[u8]) {
    region.write_nt(places.next(), source);
    region.fence();
}

fn fence(region: &Region, _places: &mut Places, _source: &[u8]) {
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
    for _ in 0..plan.pick(5, 2) {
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
            for access in &ACCESSES {
                let [plain, slow] = fastest([&plain, &slow], access);
                report(&name, access, plain, slow);
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
    // Slower they may be: two threads are not enough for a fast device, or had no core each.
    output::value(name, case, "deviation_percent", 100.0 * (device_ns / ns - 1.0).max(0.0));
}

/// Prints what a model has added and charged, and how far the two are apart.
fn report(system: &str, access: &Access, plain: Fastest, slow: Fastest) {
    let case = &format!("model/{}", access.name);
    output::value(system, case, "ns_per_op", slow.ns);
    output::value(system, case, "added_ns", slow.ns - plain.ns);
    output::value(system, case, "charged_ns", slow.thread_ns.max(slow.device_ns - plain.ns));
    if slow.thread_ns > 0.0 {
        output::value(system, case, "deviation_percent", deviation(access.waits, plain.ns, slow));
    }
}

/// Percent by which a call took another time than it should: its charge on top of its own time; or,
/// if the memory below goes on meanwhile, no less than the charge; or as long as the device, if
/// that is always busy.
fn deviation(waits: bool, plain_ns: f64, slow: Fastest) -> f64 {
    let both = plain_ns + slow.thread_ns;
    let (least, most) = match (slow.device_ns > both, waits) {
        (true, _) => (slow.device_ns, slow.device_ns),
        (false, true) => (both, both),
        (false, false) => (slow.device_ns.max(slow.thread_ns), f64::MAX),
    };
    let off = (least - slow.ns).max(slow.ns - most).max(0.0);
    100.0 * off / slow.thread_ns.max(slow.device_ns)
}

/// The fastest runs of both regions, which take turns.
fn fastest(regions: [&Region; 2], access: &Access) -> [Fastest; 2] {
    let Access { size, pattern, bytes, count, call, .. } = *access;
    let source = vec![0; size];
    let mut places = [(); 2].map(|()| Places::new(pattern, size as u64, bytes, size as u64));
    let mut least = [Fastest { ns: f64::MAX, thread_ns: 0.0, device_ns: 0.0 }; 2];
    for _ in 0..RUNS {
        for (number, region) in regions.into_iter().enumerate() {
            let before = counters();
            let begun = Instant::now();
            for _ in 0..count {
                call(region, &mut places[number], &source);
            }
            // Pays what is owed.
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

#[cfg(test)]
mod tests {
    use super::{Fastest, deviation};

    fn took(ns: f64, thread_ns: f64, device_ns: f64) -> Fastest {
        Fastest { ns, thread_ns, device_ns }
    }

    /// Each rule in turn: on top, no less, and by the device.
    #[test]
    fn a_deviation_is_the_distance_from_what_was_charged() {
        assert_eq!(deviation(true, 100.0, took(200.0, 100.0, 40.0)), 0.0);
        assert_eq!(deviation(true, 100.0, took(220.0, 100.0, 40.0)), 20.0);
        assert_eq!(deviation(true, 100.0, took(190.0, 100.0, 40.0)), 10.0);
        assert_eq!(deviation(false, 100.0, took(150.0, 120.0, 40.0)), 0.0);
        assert_eq!(deviation(false, 100.0, took(90.0, 120.0, 40.0)), 25.0);
        assert_eq!(deviation(false, 100.0, took(108.0, 80.0, 120.0)), 10.0);
        assert_eq!(deviation(false, 100.0, took(900.0, 50.0, 1000.0)), 10.0);
    }
}
