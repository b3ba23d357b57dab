//! A pool with so many lanes, and threads that commit one row after another in it.

use crate::ticks;
use crate::together::at_once;
use perdura_engine::{Config, Engine, Isolation, LaneChoice, LogConfig, LogStage, Medium, StageTimes, Table};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a generation, however many lanes share them: so the log as a whole is always the same.
const GENERATION_BYTES: u64 = 32 << 20;
/// Granules of the log, of which a lane has a whole number.
const GRANULE_BYTES: u64 = 64;
/// The paper's row, packed, has about this many bytes.
const ROW: [u8; 64] = [0x5a; 64];
/// A new pool is used after this long even if it is still mapping its log.
const MAPPED_WITHIN: Duration = Duration::from_secs(5);

/// A new pool.
pub struct Pool {
    engine: Engine,
    tables: u32,
}

/// Time of one run.
pub struct Run {
    /// From the common start to the last thread's end.
    pub took: Duration,
    /// Ticks of all threads in their inserts, and in their commits; 0 unless stages are timed.
    pub insert: u64,
    pub commit: u64,
    /// Ticks of all threads in the log, by stage.
    stages: StageTimes,
}

impl Run {
    /// Ticks of all threads in a stage.
    pub fn of(&self, stage: LogStage) -> u64 {
        self.stages.of(stage)
    }
}

impl Pool {
    /// Creates a pool on `medium`, whose transactions come by their lanes as `lane_choice` says.
    /// `numa` pins threads to its node.
    pub fn create(medium: Arc<dyn Medium>, lanes: u32, lane_choice: LaneChoice, numa: bool) -> Pool {
        let lane_bytes = GENERATION_BYTES / u64::from(lanes) / GRANULE_BYTES * GRANULE_BYTES;
        let log = LogConfig { lanes, lane_bytes, lane_choice, ..LogConfig::default() };
        let config = Config { log, numa, ..Config::default() };
        let engine = Engine::open(medium, config).expect("the pool can be created");
        // A new pool maps its log first, on a core that the threads measured would share.
        let begun = Instant::now();
        while engine.counters().prefault_queued_bytes > 0 && begun.elapsed() < MAPPED_WITHIN {
            std::thread::sleep(Duration::from_millis(1));
        }
        Pool { engine, tables: 0 }
    }

    /// Times the stages of all runs from now on.
    pub fn time_stages(&self) {
        self.engine.time_stages(ticks::now);
    }

    /// Has `threads` threads, a session each, insert and commit `transactions` rows in all, one row
    /// in a transaction, into a table that has room for them. `is_timed` says that the time of each
    /// insert and each commit is taken.
    pub fn run(&mut self, threads: usize, transactions: usize, is_timed: bool) -> Run {
        let name = format!("lanes{}", self.tables);
        self.tables += 1;
        let table = self.engine.create_table(&name, b"").expect("the name is new");
        self.make_room(&table, transactions);
        let each = transactions / threads;
        let clock: fn() -> u64 = if is_timed { ticks::now } else { || 0 };
        let before = self.engine.stage_times();
        let (took, times) = at_once(threads, |_| {
            let mut session = self.engine.session(Isolation::RepeatableRead);
            let (mut insert, mut commit) = (0, 0);
            for _ in 0..each {
                let first = clock();
                session.insert(&table, black_box(&ROW)).expect("there is room");
                let second = clock();
                session.commit().expect("there is room");
                insert += second - first;
                commit += clock() - second;
            }
            (insert, commit)
        });
        let (insert, commit) =
            times.into_iter().fold((0, 0), |sums: (u64, u64), times| (sums.0 + times.0, sums.1 + times.1));
        assert_eq!(table.row_count_estimate(), (each * threads) as u64, "each transaction has left a row");
        let stages = self.engine.stage_times().since(&before);
        drop(table);
        self.engine.drop_table(&name).expect("nobody uses the table");
        Run { took, insert, commit, stages }
    }

    /// Gives a table room for so many rows, faulted in: they are inserted once and rolled back.
    fn make_room(&self, table: &Arc<Table>, rows: usize) {
        let mut session = self.engine.session(Isolation::RepeatableRead);
        for _ in 0..rows {
            session.insert(table, &ROW).expect("there is room");
        }
        session.rollback().expect("nothing is ordered");
    }

    /// Ends the pool.
    pub fn close(self) {
        self.engine.close();
    }
}
