//! The scenarios: small pools shaped so that one hazard after another comes up.

use super::oracle::{Change, History};
use super::workload::{Mix, Worker, prelude};
use perdura_engine::{Config, Engine, LogConfig};
use perdura_pmem::Medium;
use perdura_pmem::sim::{Body, Scheduler};
use std::sync::Arc;
use std::time::Duration;

/// A kind of run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Threads that write.
    pub threads: u64,
    /// Transactions of each.
    pub transactions: u32,
    /// What they are.
    pub mix: Mix,
    /// Labels at and shortly after which its crash points are looked at; none: all points.
    pub focus: &'static [&'static str],
    /// Bytes of a log lane.
    pub lane_bytes: u64,
    /// Bytes of a table's first file.
    pub first_file_bytes: u64,
}

const NONE: Mix = Mix {
    insert: 0,
    bulk: 0,
    update: 0,
    huge: 0,
    delete: 0,
    savepoint: 0,
    rollback: 0,
    prepare: 0,
    hold: 0,
    ddl: 0,
    large: 0,
    checkpoint: 0,
    purge: 0,
};

/// All scenarios.
pub const SCENARIOS: [Scenario; 10] = [
    Scenario {
        name: "mixed",
        threads: 2,
        transactions: 16,
        mix: Mix {
            insert: 3,
            bulk: 1,
            update: 4,
            delete: 2,
            savepoint: 2,
            rollback: 2,
            checkpoint: 1,
            purge: 1,
            ..NONE
        },
        focus: &[],
        lane_bytes: 8 << 10,
        first_file_bytes: 64 << 10,
    },
    Scenario {
        name: "three threads",
        threads: 3,
        transactions: 12,
        mix: Mix { insert: 4, update: 5, delete: 3, rollback: 1, checkpoint: 1, purge: 1, ..NONE },
        focus: &[],
        lane_bytes: 8 << 10,
        first_file_bytes: 64 << 10,
    },
    Scenario {
        name: "expansion",
        threads: 2,
        transactions: 10,
        mix: Mix { insert: 1, bulk: 4, large: 3, delete: 2, purge: 1, ..NONE },
        focus: &[],
        lane_bytes: 8 << 10,
        first_file_bytes: 16 << 10,
    },
    Scenario {
        name: "wrap-around",
        threads: 2,
        transactions: 150,
        mix: Mix { insert: 6, update: 6, delete: 3, checkpoint: 1, ..NONE },
        focus: &["generation_switch", "wrap_around", "log_growth"],
        lane_bytes: 4 << 10,
        first_file_bytes: 64 << 10,
    },
    Scenario {
        name: "reuse",
        threads: 2,
        transactions: 40,
        mix: Mix { insert: 5, bulk: 1, update: 5, delete: 6, large: 1, purge: 5, ..NONE },
        focus: &[],
        lane_bytes: 8 << 10,
        first_file_bytes: 64 << 10,
    },
    Scenario {
        name: "large transactions",
        threads: 2,
        transactions: 9,
        mix: Mix { insert: 1, bulk: 4, huge: 3, checkpoint: 1, ..NONE },
        focus: &["generation_switch", "wrap_around", "log_growth"],
        lane_bytes: 4 << 10,
        first_file_bytes: 128 << 10,
    },
    Scenario {
        name: "held",
        threads: 2,
        transactions: 60,
        mix: Mix { insert: 6, update: 6, hold: 3, checkpoint: 1, ..NONE },
        focus: &["generation_switch", "wrap_around", "log_growth", "prepared"],
        lane_bytes: 4 << 10,
        first_file_bytes: 64 << 10,
    },
    Scenario {
        name: "directory growth",
        threads: 2,
        transactions: 30,
        mix: Mix { bulk: 6, large: 4, delete: 4, purge: 4, ..NONE },
        focus: &["file_expansion", "directory_growth"],
        lane_bytes: 8 << 10,
        first_file_bytes: 64 << 10,
    },
    Scenario {
        name: "prepared",
        threads: 2,
        transactions: 24,
        mix: Mix { insert: 2, update: 3, prepare: 6, hold: 3, checkpoint: 2, purge: 1, ..NONE },
        focus: &[],
        lane_bytes: 4 << 10,
        first_file_bytes: 64 << 10,
    },
    Scenario {
        name: "ddl",
        threads: 2,
        transactions: 10,
        mix: Mix { insert: 2, update: 1, ddl: 8, checkpoint: 1, purge: 1, ..NONE },
        focus: &[],
        lane_bytes: 8 << 10,
        first_file_bytes: 16 << 10,
    },
];

impl Scenario {
    /// Settings of its pools.
    pub fn config(&self) -> Config {
        Config {
            log: LogConfig { lanes: 2, lane_bytes: self.lane_bytes, generations: 2, generations_max: 6 },
            data_file_bytes: 128 << 10,
            first_file_bytes: self.first_file_bytes,
            segment_bytes: 4 << 10,
            prefault: false,
            lock_wait_timeout: Duration::from_millis(20),
            background: false,
            seed: Some(7),
            ..Config::default()
        }
    }

    /// Runs it on an empty medium, interleaved as the scheduler decides.
    pub fn run(&self, medium: Arc<dyn Medium>, seed: u64, scheduler: Scheduler) -> Vec<Vec<Change>> {
        let history = History::default();
        {
            let engine = Engine::open(medium, self.config()).expect("an empty medium takes a pool");
            let shared = prelude(&engine, &history);
            let bodies = (0..self.threads).map(|thread| {
                let (engine, history, shared) = (&engine, &history, shared.clone());
                Box::new(move || {
                    Worker::new(engine, history, shared, thread, seed).run(&self.mix, self.transactions);
                }) as Body<'_>
            });
            scheduler.run(bodies.collect());
            engine.close();
        }
        history.into_inner()
    }
}
