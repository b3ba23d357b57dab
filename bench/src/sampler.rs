//! Samples of this process while it runs, once a second: memory and processor time by /proc, and
//! what goes to the medium by the counters of pmem. Printed as lines `{"sample": {...}}`, with the
//! names that `cargo xtask bench` gives the samples of servers.
//!
//! CPU times and counters are those since the process began.

use crate::output;
use perdura_pmem::{Content, counters};
use serde_json::{Map, Value, json};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// Ticks a second in which the kernel reports processor time.
const TICKS: f64 = 100.0;
const KIB: u64 = 1024;

/// System and case that run now.
static RUNNING: Mutex<(String, String)> = Mutex::new((String::new(), String::new()));

/// Notes which case of which system runs from now on.
pub fn running(system: &str, case: &str) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = (system.to_owned(), case.to_owned());
}

/// Samples this process until it is dropped.
pub struct Sampler {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Prints a sample now, one each second, and one at the end.
    pub fn start() -> Sampler {
        Sampler::every(INTERVAL, output::sample)
    }

    fn every(interval: Duration, mut print: impl FnMut(Value) + Send + 'static) -> Sampler {
        let (stop, stopped) = mpsc::channel();
        let begun = Instant::now();
        let thread = std::thread::spawn(move || {
            print(sample(begun));
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                print(sample(begun));
            }
            print(sample(begun));
        });
        Sampler { stop, thread: Some(thread) }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.send(()).expect("the sampler listens until it is told to end");
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the sampler does not panic");
        }
    }
}

/// Name of a content in a sample.
fn name(content: Content) -> &'static str {
    match content {
        Content::Other => "medium_bytes_other",
        Content::Log => "medium_bytes_log",
        Content::Versions => "medium_bytes_versions",
        Content::Directory => "medium_bytes_directory",
        Content::Index => "medium_bytes_index",
    }
}

fn sample(begun: Instant) -> Value {
    let (system, case) = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc is mounted");
    let rest = stat.rsplit_once(')').expect("a name in brackets").1;
    // The state is field 3.
    let ticks = |field: usize| -> f64 {
        rest.split_whitespace().nth(field - 3).and_then(|word| word.parse().ok()).expect("a number")
    };
    let written = counters();
    let mut sample = Map::new();
    let mut add = |name: &str, value: Value| sample.insert(name.to_owned(), value);
    add("at_s", json!(begun.elapsed().as_secs_f64()));
    add("system", system.into());
    add("case", case.into());
    add("user_s", json!(ticks(14) / TICKS));
    add("system_s", json!(ticks(15) / TICKS));
    add("dram_bytes", bytes_of(&status, "RssAnon:").into());
    add("resident_bytes", bytes_of(&status, "VmRSS:").into());
    add("fences", written.fences.into());
    add("lines_flushed", written.flushed_lines.into());
    add("bytes_written_past_cache", written.nt_bytes.into());
    for content in Content::ALL {
        add(name(content), written.medium_bytes(content).into());
    }
    sample.into()
}

fn bytes_of(status: &str, field: &str) -> u64 {
    let found =
        status.lines().find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse::<u64>().ok());
    found.expect("a field of /proc/self/status") * KIB
}

#[cfg(test)]
mod tests {
    use super::{Sampler, running};
    use perdura_pmem::{Content, Medium, SimMedium};
    use serde_json::Value;
    use std::hint::black_box;
    use std::sync::mpsc;
    use std::time::Duration;

    fn number(sample: &Value, name: &str) -> u64 {
        sample[name].as_u64().unwrap_or_else(|| panic!("{name} is missing: {sample}"))
    }

    /// Work of known cost between two samples: lines flushed for the log, bytes past the cache for
    /// versions, memory touched. Other tests of this process may add to it.
    #[test]
    fn samples_show_what_the_process_has_done() {
        let region = SimMedium::new().create("f", 1 << 20).expect("there is room");
        let (print, printed) = mpsc::channel();
        running("own", "known");
        let sampler = Sampler::every(Duration::from_secs(3600), move |sample| print.send(sample).expect("a reader"));
        let first = printed.recv().expect("a sample at once");
        let (log, versions) = (region.holding(Content::Log), region.holding(Content::Versions));
        for line in 0..1000 {
            log.flush(line * 64, 64);
            log.fence();
        }
        versions.zero(0, 1 << 20);
        let held = black_box(vec![1u8; 32 << 20]);
        drop(sampler);
        let last = printed.recv().expect("a sample at the end");
        assert_eq!(held.len(), 32 << 20);
        assert_eq!((last["system"].as_str(), last["case"].as_str()), (Some("own"), Some("known")));
        let grown = |name| number(&last, name) - number(&first, name);
        assert!(grown("fences") >= 1000 && grown("lines_flushed") >= 1000, "{first} {last}");
        assert!(grown("medium_bytes_log") >= 64_000 && grown("medium_bytes_versions") >= 1 << 20, "{first} {last}");
        assert!(grown("dram_bytes") >= 24 << 20 && grown("resident_bytes") >= 24 << 20, "{first} {last}");
        assert!(last["at_s"].as_f64() > first["at_s"].as_f64());
    }
}
