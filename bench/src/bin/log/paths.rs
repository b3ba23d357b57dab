//! Cases `commit/N`: commits of N threads by each way to the log, without an engine around it. Each
//! waits until it is durable, as a session does.

use crate::running::{append, create_by, forget};
use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::plan::Plan;
use perdura_log::{LogPath, PathConfig};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATHS: [LogPath; 4] = [LogPath::Classic, LogPath::Persist, LogPath::Nf, LogPath::Direct];
const THREADS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Commits after which a thread tells the log that it may forget their records.
const BATCH: usize = 64;

/// One round, in which the ways take turns to be the first.
pub fn run(plan: &Plan, round: usize) {
    for threads in THREADS {
        for turn in 0..PATHS.len() {
            measure(plan, PATHS[(turn + round) % PATHS.len()], threads);
        }
    }
}

fn measure(plan: &Plan, path: LogPath, threads: u64) {
    let scratch = plan.scratch();
    let log = create_by(medium(scratch.path()), PathConfig { path, ..PathConfig::default() });
    let (start, is_over) = (Barrier::new(threads as usize + 1), AtomicBool::new(false));
    let (count, took, cpu) = std::thread::scope(|scope| {
        let (log, start, is_over) = (&log, &start, &is_over);
        let committer = |session: u64| {
            let (mut csns, mut count) = (Vec::with_capacity(BATCH), 0_u64);
            start.wait();
            while !is_over.load(Ordering::Relaxed) {
                csns.push(append(log, session).0);
                count += 1;
                if csns.len() == BATCH {
                    forget(log, &mut csns);
                }
            }
            forget(log, &mut csns);
            count
        };
        let running: Vec<_> = (0..threads).map(|session| scope.spawn(move || committer(session))).collect();
        start.wait();
        let (begun, cpu) = (Instant::now(), cpu_time());
        std::thread::sleep(Duration::from_millis(plan.pick(700, 200)));
        is_over.store(true, Ordering::Relaxed);
        let count: u64 = running.into_iter().map(|thread| thread.join().expect("nobody panics")).sum();
        (count as f64, begun.elapsed(), cpu_time() - cpu)
    });
    let (system, case) = (path.to_string(), format!("commit/{threads}"));
    output::value(&system, &case, "tps", count / took.as_secs_f64());
    output::value(&system, &case, "cpu_us_per_tx", cpu.as_secs_f64() * 1e6 / count);
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
