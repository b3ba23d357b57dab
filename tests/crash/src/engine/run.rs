//! Runs a scenario: its threads, and the checks when they are done.

use super::history::{History, Ledger};
use super::reader;
use super::scenario::Scenario;
use super::slot::Slot;
use super::verdict::check_end;
use super::workload::{Worker, prelude};
use perdura_engine::Engine;
use perdura_pmem::Medium;
use perdura_pmem::sim::{Body, Scheduler};
use perdura_pmem::trace;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl Scenario {
    /// Runs the scenario on an empty medium, interleaved as the scheduler decides. Panics if the
    /// pool then differs from its commits or a reader saw anything but states of the commit order.
    pub fn run(&self, medium: Arc<dyn Medium>, seed: u64, scheduler: Scheduler) -> History {
        let ledger = Ledger::default();
        let mut engine = Engine::open(medium.clone(), self.config()).expect("an empty medium takes a pool");
        scheduler.run(vec![Box::new(|| prelude(&engine, &ledger, self.keyed))]);
        self.run_round(&engine, &ledger, 0, seed, scheduler);
        for round in 1..self.rounds {
            drop(engine);
            trace::ended();
            engine =
                Engine::open(medium.clone(), self.config()).unwrap_or_else(|error| panic!("round {round}: {error}"));
            self.run_round(&engine, &ledger, round, seed, scheduler);
        }
        let history = ledger.into_history();
        check_end(&engine, &history).unwrap_or_else(|what| panic!("at the end: {what}"));
        engine.close();
        history
    }

    fn run_round(&self, engine: &Engine, ledger: &Ledger, round: u64, seed: u64, scheduler: Scheduler) {
        let (writers, handover) = (AtomicU64::new(self.threads), Slot::default());
        let mut bodies: Vec<Body<'_>> = Vec::new();
        for thread in 0..self.threads {
            let (writers, handover) = (&writers, &handover);
            let (thread, seed) = (round * self.threads + thread, seed + round);
            bodies.push(Box::new(move || {
                let mut worker = Worker::new(engine, ledger, handover, thread, seed);
                match self.script {
                    Some(script) => script(&mut worker),
                    None => worker.run(self.mix, self.transactions),
                }
                drop(worker);
                writers.fetch_sub(1, Ordering::Relaxed);
            }));
        }
        if self.scans > 0 {
            bodies.push(Box::new(|| reader::read(engine, ledger, &writers, self.scans, seed)));
        }
        scheduler.run(bodies);
    }
}
