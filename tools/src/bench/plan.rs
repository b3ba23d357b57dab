//! How a benchmark is to run.

use std::path::Path;
use std::time::{Duration, Instant};

use super::sampling::{Recorder, Watch};
use crate::drive::server::Server;
use crate::drive::sysbench::Tables;

/// When a quick run has lasted this long, it begins no further round.
const QUICK_TIME: Duration = Duration::from_secs(40);

/// The options of all benchmarks.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Smaller sizes and fewer rounds, the same cases.
    pub quick: bool,
    /// Whether Perdura takes part; if not, only the peers run.
    pub perdura: bool,
    /// Seconds of a run of `nflog`, if the command line names a number.
    pub seconds: Option<u64>,
    /// Hours of a part of the long run of `soak`, if the command line asks for that run.
    pub hours: Option<f64>,
    /// Warehouses of `tpcc` and `nflog`, if the command line names a number.
    pub warehouses: Option<u32>,
    /// Threads of `sysbench` and of write_only in `nflog`, if the command line names a number.
    pub threads: Option<u32>,
    /// Tables of `nflog`, if the command line names a number, and rows of each.
    tables: (Option<u32>, Option<u64>),
    /// An earlier build of perdura-kv that `kv` measures beside this one, if the command line names
    /// its directory.
    pub before: Option<&'static Path>,
    /// Takes samples of the processes, if the command line asks for them.
    pub recorder: Option<&'static Recorder>,
    begun: Instant,
    time: Duration,
}

impl Plan {
    /// A benchmark that begins now.
    pub fn new(quick: bool, perdura: bool) -> Self {
        let time = if quick { QUICK_TIME } else { Duration::MAX };
        Self {
            quick,
            perdura,
            seconds: None,
            hours: None,
            warehouses: None,
            threads: None,
            tables: (None, None),
            before: None,
            recorder: None,
            begun: Instant::now(),
            time,
        }
    }

    /// The same with runs of so many seconds.
    pub fn with_seconds(self, seconds: Option<u64>) -> Self {
        Self { seconds, ..self }
    }

    /// The same with the long run of `soak`.
    pub fn with_hours(self, hours: Option<f64>) -> Self {
        Self { hours, ..self }
    }

    /// The same with so many warehouses.
    pub fn with_warehouses(self, warehouses: Option<u32>) -> Self {
        Self { warehouses, ..self }
    }

    /// The same with so many threads of a client.
    pub fn with_threads(self, threads: Option<u32>) -> Self {
        Self { threads, ..self }
    }

    /// The same with so many tables of sysbench, of so many rows.
    pub fn with_tables(self, count: Option<u32>, rows: Option<u64>) -> Self {
        Self { tables: (count, rows), ..self }
    }

    /// The tables of sysbench: `usual`, but for what the command line says.
    pub fn tables(&self, usual: Tables) -> Tables {
        let (count, rows) = self.tables;
        Tables { count: count.unwrap_or(usual.count), rows: rows.unwrap_or(usual.rows) }
    }

    /// The same beside an earlier build of perdura-kv.
    pub fn with_before(self, before: Option<&'static Path>) -> Self {
        Self { before, ..self }
    }

    /// The same, with samples of the processes.
    pub fn with_recorder(self, recorder: Option<&'static Recorder>) -> Self {
        Self { recorder, ..self }
    }

    /// Samples a server under a name of its own until this is dropped, if samples are wanted.
    pub fn watch(&self, name: &str, server: &Server) -> Option<Watch> {
        self.recorder.map(|recorder| recorder.watch(name, server))
    }

    /// Notes for the samples which case of which system runs from now on.
    pub fn running(&self, system: &str, case: &str) {
        if let Some(recorder) = self.recorder {
            recorder.running(system, case);
        }
    }

    /// The same, for a part of the benchmark whose last round should end so long after the begin if
    /// the run is a quick one.
    pub fn until(self, quick: Duration) -> Self {
        Self { time: if self.quick { quick } else { self.time }, ..self }
    }

    /// Rounds of every case.
    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 5 }
    }

    /// `full`, or `quick` in a quick run.
    pub fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }

    /// Whether there is time for another round if it takes as long as one of `round`.
    pub fn has_time(&self, round: Duration) -> bool {
        self.begun.elapsed() + round < self.time
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Plan, QUICK_TIME};

    /// On a busy machine a quick run would otherwise take minutes.
    #[test]
    fn a_quick_run_begins_no_round_that_would_end_late() {
        let quick = Plan::new(true, true);
        assert!(quick.has_time(Duration::from_secs(1)));
        assert!(!quick.has_time(QUICK_TIME));
        assert!(!quick.until(Duration::from_secs(5)).has_time(Duration::from_secs(5)));
        let full = Plan::new(false, true).until(Duration::from_secs(5));
        assert!(full.has_time(Duration::from_secs(1000)));
    }
}
