//! Threads for the scheduler: those that work, and those that repeat something meanwhile.

use super::bank::Bank;
use super::{rows, settle};
use perdura_engine::{Engine, Isolation};
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::yield_now;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Threads of one run.
#[derive(Default)]
pub struct Threads<'a> {
    bodies: Vec<Body<'a>>,
    at_work: Arc<AtomicU32>,
}

impl<'a> Threads<'a> {
    /// Adds a thread that works.
    pub fn work(&mut self, body: impl FnOnce() + Send + 'a) {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        let at_work = self.at_work.clone();
        self.bodies.push(Box::new(move || {
            body();
            at_work.fetch_sub(1, Ordering::Relaxed);
        }));
    }

    /// Adds a thread that repeats `once` until all work is done.
    pub fn meanwhile(&mut self, mut once: impl FnMut() + Send + 'a) {
        let at_work = self.at_work.clone();
        self.bodies.push(Box::new(move || {
            while at_work.load(Ordering::Relaxed) > 0 {
                once();
                yield_now();
            }
        }));
    }

    /// Adds two sessions, one of each isolation, that make `count` transfers each.
    pub fn transfer(&mut self, engine: &'a Engine, bank: &'a Bank, seed: u64, count: u32) {
        for (thread, isolation) in [Isolation::ReadCommitted, Isolation::RepeatableRead].into_iter().enumerate() {
            self.work(move || {
                let mut random = Random::new(seed * 10 + thread as u64);
                bank.transfer_often(&mut engine.session(isolation), count, &mut random);
            });
        }
    }

    /// Adds a reader whose snapshots must not move, and must see the sum.
    pub fn sum(&mut self, engine: &'a Engine, bank: &'a Bank) {
        self.meanwhile(move || {
            let mut txn = engine.session(Isolation::RepeatableRead);
            let first = rows(&mut txn, &bank.table);
            assert_eq!(first, rows(&mut txn, &bank.table), "a snapshot does not move");
            assert_eq!(bank.sum(&mut txn).unwrap(), bank.total());
            let mut txn = engine.session(Isolation::ReadCommitted);
            txn.start_statement();
            assert_eq!(bank.sum(&mut txn).unwrap(), bank.total());
            txn.end_statement();
        });
    }

    /// Adds a thread that makes checkpoints and purges.
    pub fn settle(&mut self, engine: &'a Engine) {
        self.meanwhile(move || settle(engine));
    }

    /// Runs all of them, one at a time, as `seed` decides.
    pub fn run(self, seed: u64) {
        Scheduler::new(seed).run(self.bodies);
    }
}
