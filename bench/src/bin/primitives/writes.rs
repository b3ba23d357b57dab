//! `64B/seq/1t`: durable writes by size, order and threads, each thread on a file of its own
//! (NF-log, SNU 2022, 1.1).
//!
//! `ns_per_op` is the clock's nanoseconds divided by what all threads did; `gb_per_s` follows.

use crate::place::{Pattern, Places, size_name};
use perdura_bench::measure::{ns_each, turned};
use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::plan::Plan;
use perdura_pmem::Region;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const SIZES: [usize; 5] = [64, 512, 1 << 10, 4 << 10, 32 << 10];
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Bytes that a thread writes between two looks at the clock, at least.
const STRETCH_BYTES: usize = 64 << 10;

/// A way to make a write durable.
#[derive(Clone, Copy)]
pub enum Way {
    /// Mapped, past the cache, and a fence.
    NonTemporal,
    /// Mapped, through the cache, flush and fence.
    Flush,
    /// pwrite, into the page cache where there is one: durable on DAX only.
    Pwrite,
    /// pwrite and fdatasync.
    PwriteSync,
}

impl Way {
    const ALL: [Way; 4] = [Way::NonTemporal, Way::Flush, Way::Pwrite, Way::PwriteSync];

    /// Its name as a system.
    pub fn name(self) -> &'static str {
        match self {
            Way::NonTemporal => "nt",
            Way::Flush => "flush",
            Way::Pwrite => "pwrite",
            Way::PwriteSync => "pwrite_sync",
        }
    }
}

/// A thread's file, open and mapped, all of its pages present.
pub struct Target {
    region: Region,
    file: File,
}

impl Target {
    /// Creates file number `number`.
    pub fn create(medium: &dyn perdura_pmem::Medium, directory: &Path, number: usize, bytes: u64) -> Target {
        let name = format!("file{number}");
        let region = medium.create(&name, bytes).expect("there is room");
        region.zero(0, bytes);
        region.fence();
        let file = File::options().write(true).open(directory.join(name)).expect("it was just made");
        Target { region, file }
    }

    /// Writes `source` at `offset`.
    #[inline]
    fn write(&self, way: Way, offset: u64, source: &[u8]) {
        match way {
            Way::NonTemporal => {
                self.region.write_nt(offset, source);
                self.region.fence();
            }
            Way::Flush => {
                self.region.write(offset, source);
                self.region.persist(offset, source.len() as u64);
            }
            Way::Pwrite => self.file.write_all_at(source, offset).expect("the file can be written"),
            Way::PwriteSync => {
                self.file.write_all_at(source, offset).expect("the file can be written");
                self.file.sync_data().expect("the file can be synced");
            }
        }
    }

    /// Writes until `end`. Returns the number of writes and when the last one was over.
    pub fn write_until(&self, way: Way, places: &mut Places, source: &[u8], end: Instant) -> (usize, Instant) {
        let stretch = (STRETCH_BYTES / source.len()).clamp(1, 256);
        let mut count = 0;
        loop {
            for _ in 0..stretch {
                self.write(way, places.next(), source);
            }
            count += stretch;
            let now = Instant::now();
            if now >= end {
                return (count, now);
            }
        }
    }
}

/// All ways, sizes, orders and numbers of threads.
pub fn run(plan: &Plan) {
    let scratch = plan.scratch();
    let medium = medium(scratch.path());
    let file_bytes = plan.pick(64 << 20, 4 << 20);
    let most = THREADS.into_iter().max().expect("there are some");
    let targets: Vec<Target> =
        (0..most).map(|number| Target::create(&*medium, scratch.path(), number, file_bytes)).collect();
    let span = plan.pick(Duration::from_millis(100), Duration::from_millis(8));
    for round in plan.rounds(5, 3) {
        for (threads, size) in THREADS.into_iter().flat_map(|threads| SIZES.map(|size| (threads, size))) {
            for (pattern, way) in
                Pattern::ALL.into_iter().flat_map(|pattern| turned(&Way::ALL, round).map(move |way| (pattern, way)))
            {
                let (count, took) = at_once(&targets[..threads], way, pattern, size, span);
                let case = format!("{}/{}/{threads}t", size_name(size), pattern.name());
                report(way.name(), &case, size, ns_each(took, count));
            }
        }
    }
    output::note("pwrite without fdatasync is durable on DAX only; elsewhere it ends in the page cache");
}

/// Prints the time of a write, and the bandwidth that follows.
pub fn report(system: &str, case: &str, size: usize, ns: f64) {
    output::value(system, case, "ns_per_op", ns);
    output::value(system, case, "gb_per_s", size as f64 / ns);
}

/// Has a thread for each target write for `span`. Returns the number of writes, and the time from
/// the common start to the last one's end.
pub fn at_once(targets: &[Target], way: Way, pattern: Pattern, size: usize, span: Duration) -> (usize, Duration) {
    let start = Barrier::new(targets.len());
    let source = vec![0x5a; size];
    std::thread::scope(|scope| {
        let write = |(number, target): (usize, &'_ Target)| {
            let mut places = Places::new(pattern, size as u64, target.region.len(), number as u64);
            start.wait();
            let begun = Instant::now();
            let (count, ended) = target.write_until(way, &mut places, &source, begun + span);
            (count, begun, ended)
        };
        let threads: Vec<_> = targets.iter().enumerate().map(|pair| scope.spawn(move || write(pair))).collect();
        let done: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("nobody panics")).collect();
        let begun = done.iter().map(|(_, begun, _)| *begun).min().expect("there is a thread");
        let ended = done.iter().map(|(_, _, ended)| *ended).max().expect("there is a thread");
        (done.iter().map(|(count, ..)| count).sum(), ended - begun)
    })
}
