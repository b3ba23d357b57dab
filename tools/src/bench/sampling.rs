//! Samples of processes while a benchmark runs, once a second: memory and CPU time by /proc, and
//! what goes to the medium by Perdura's status variables. `--series FILE` asks for them; without it
//! nothing is looked at.
//!
//! A series belongs to one process. CPU times and counters are those since the process began, so a
//! difference of two samples says what was in between, even if one between them is missing.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::{Map, Value, json};

use crate::drive::server::Server;
use crate::shared::{client, process};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// Status variables of a sample, whose names are those without the prefix.
const COUNTERS: &str = "SHOW GLOBAL STATUS WHERE variable_name IN ('Perdura_fences', 'Perdura_lines_flushed',
    'Perdura_bytes_written_past_cache') OR variable_name LIKE 'Perdura_medium_bytes_%'";
const PREFIX: &str = "perdura_";

/// Takes the series of one benchmark together.
pub struct Recorder {
    begun: Instant,
    running: Mutex<(String, String)>,
    series: Mutex<Vec<Value>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// A recorder without series, whose time begins now.
    pub fn new() -> Self {
        Self { begun: Instant::now(), running: Mutex::default(), series: Mutex::default() }
    }

    /// Notes which case of which system runs from now on.
    pub fn running(&self, system: &str, case: &str) {
        *lock(&self.running) = (system.to_owned(), case.to_owned());
    }

    /// Samples a server under a name of its own, until this is dropped or the server has ended.
    pub fn watch(&'static self, name: &str, server: &Server) -> Watch {
        self.watch_process(name, server.pid(), Some(server.socket()), INTERVAL)
    }

    fn watch_process(&'static self, name: &str, pid: u32, socket: Option<PathBuf>, interval: Duration) -> Watch {
        let (stop, stopped) = mpsc::channel();
        let name = name.to_owned();
        let thread = std::thread::spawn(move || {
            let mut session = socket.as_deref().and_then(|socket| Session::open(socket).ok());
            let mut samples = Vec::new();
            loop {
                // The process may have ended.
                let Ok(sample) = self.sample(pid, session.as_mut()) else { break };
                samples.push(sample);
                match stopped.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                        samples.extend(self.sample(pid, session.as_mut()));
                        break;
                    }
                }
            }
            self.add(&name, samples);
        });
        Watch { stop, thread: Some(thread) }
    }

    fn sample(&self, pid: u32, session: Option<&mut Session>) -> Result<Value> {
        let mut sample = Map::new();
        let (system, case) = lock(&self.running).clone();
        let (user, kernel) = process::cpu_times(pid)?;
        sample.insert("at_s".into(), json!(self.begun.elapsed().as_secs_f64()));
        sample.insert("system".into(), system.into());
        sample.insert("case".into(), case.into());
        sample.insert("user_s".into(), json!(user.as_secs_f64()));
        sample.insert("system_s".into(), json!(kernel.as_secs_f64()));
        sample.insert("dram_bytes".into(), process::status_bytes(pid, "RssAnon")?.into());
        sample.insert("resident_bytes".into(), process::status_bytes(pid, "VmRSS")?.into());
        if let Some(session) = session {
            session.add_counters(&mut sample)?;
        }
        Ok(sample.into())
    }

    fn add(&self, name: &str, samples: Vec<Value>) {
        lock(&self.series).push(json!({"process": name, "samples": samples}));
    }

    /// Takes the samples that a program has printed about itself (see `perdura_bench::sampler`) out
    /// of its lines. Its time began when it did.
    pub fn take_samples(&self, name: &str, lines: &mut Vec<Value>) {
        let samples = lines.extract_if(.., |line| line["sample"].is_object());
        let samples = samples.map(|mut line| line["sample"].take()).collect();
        self.add(name, samples);
    }

    /// Takes all series that have ended.
    pub fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *lock(&self.series))
    }
}

/// Samples one process until it is dropped.
pub struct Watch {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A thread that has ended already, with its process, does not listen.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the sampler does not panic");
        }
    }
}

/// A session that reads Perdura's counters.
struct Session(Conn);

impl Session {
    fn open(socket: &Path) -> Result<Self> {
        Ok(Self(client::connect(socket)?))
    }

    /// Adds the counters, in the order of their names. A server without Perdura has none.
    fn add_counters(&mut self, sample: &mut Map<String, Value>) -> Result<()> {
        let rows: Vec<(String, u64)> = self.0.query(COUNTERS)?;
        for (name, value) in rows {
            let name = name.to_lowercase();
            sample.insert(name.strip_prefix(PREFIX).unwrap_or(&name).to_owned(), value.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// The process ends with the test, however that ends.
    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.kill().expect("it was started here");
            self.0.wait().expect("it was started here");
        }
    }

    fn number(sample: &Value, name: &str) -> f64 {
        sample[name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {sample}"))
    }

    /// Has dd hold a buffer of 64 MiB that nobody reads on, and a shell spin: what the samples say
    /// of memory and of user time is known.
    #[test]
    fn memory_and_time_of_a_process_are_those_that_it_takes() {
        let recorder: &'static Recorder = Box::leak(Box::new(Recorder::new()));
        let dd = ["if=/dev/zero", "bs=64M", "count=1", "status=none"];
        let holds = Ended(Command::new("dd").args(dd).stdout(Stdio::piped()).spawn().expect("dd"));
        let spins = Ended(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh"));
        recorder.running("dd", "64M");
        while process::status_bytes(holds.0.id(), "RssAnon").expect("it runs") < 64 << 20 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let quick = Duration::from_millis(5);
        let watches = [&holds, &spins].map(|child| recorder.watch_process("child", child.0.id(), None, quick));
        let before = process::cpu_times(spins.0.id()).expect("it runs").0;
        while process::cpu_times(spins.0.id()).expect("it runs").0 < before + Duration::from_millis(100) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let [first, second] = watches;
        drop(first);
        drop(second);
        let series = recorder.take();
        let [held, spun] = [0, 1].map(|index| series[index]["samples"].as_array().expect("samples").clone());
        assert_eq!((held[0]["system"].as_str(), held[0]["case"].as_str()), (Some("dd"), Some("64M")));
        for sample in &held {
            let bytes = number(sample, "dram_bytes");
            assert!((64 << 20..80 << 20).contains(&(bytes as u64)), "{bytes}");
            assert!(number(sample, "resident_bytes") >= bytes);
        }
        let (begin, end) = (&spun[0], &spun[spun.len() - 1]);
        assert!(number(end, "user_s") - number(begin, "user_s") >= 0.08, "{begin} {end}");
        assert!(number(end, "at_s") > number(begin, "at_s") && number(end, "dram_bytes") < (64 << 20) as f64);
        assert!(recorder.take().is_empty());
    }

    /// A server that a benchmark starts again takes another process, so the series of the first
    /// one ends by itself.
    #[test]
    fn a_series_ends_with_its_process() {
        let recorder: &'static Recorder = Box::leak(Box::new(Recorder::new()));
        let child = Ended(Command::new("sleep").arg("600").spawn().expect("sleep"));
        let watch = recorder.watch_process("child", child.0.id(), None, Duration::from_millis(1));
        drop(child);
        while recorder.series.lock().expect("no thread panics").is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(watch);
        assert_eq!(recorder.take().len(), 1);
    }

    #[test]
    fn samples_of_a_program_are_no_results() {
        let recorder = Recorder::new();
        let value = json!({"system": "s", "case": "c", "metric": "time_s", "value": 1.0});
        let mut lines = vec![json!({"sample": {"at_s": 0.5}}), value.clone(), json!({"sample": {"at_s": 1.5}})];
        recorder.take_samples("lanes", &mut lines);
        assert_eq!(lines, [value]);
        let expected = json!({"process": "lanes", "samples": [{"at_s": 0.5}, {"at_s": 1.5}]});
        assert_eq!(recorder.take(), [expected]);
    }
}
