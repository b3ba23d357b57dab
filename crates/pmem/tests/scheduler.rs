//! The scheduler and the locks under it: one thread at a time, the same for the same seed, and
//! nothing hangs.

use perdura_pmem::sim::{Body, Scheduler, SimMedium};
use perdura_pmem::sync::{Condvar, Mutex, RwLock, spin_until, yield_now};
use perdura_pmem::trace::{Access, Site, Tap};
use perdura_pmem::{Medium, Region};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Keeps the values stored, in order.
#[derive(Default)]
struct Stores(Mutex<Vec<u64>>);

impl Tap for Stores {
    fn record(&self, access: Access<'_>, _site: Site) {
        if let Access::Store { words, .. } = access {
            // Taps must not switch threads.
            self.0.try_lock().expect("events are ordered").extend(words);
        }
    }
}

fn interleaving(seed: u64) -> Vec<u64> {
    let tap = Arc::new(Stores::default());
    let medium = SimMedium::new().recording(tap.clone());
    let region = medium.create("file", 4096).expect("there is room");
    let body = |thread: u64| -> Body<'_> {
        let region: Region = region.clone();
        Box::new(move || {
            for n in 0..20 {
                region.store(thread * 8, thread << 32 | n);
                region.persist(thread * 8, 8);
            }
        })
    };
    Scheduler::new(seed).run((0..3).map(body).collect());
    drop(region);
    std::mem::take(&mut *tap.0.lock())
}

#[test]
fn a_seed_decides_the_interleaving() {
    let distinct: BTreeSet<_> = (0..20).map(interleaving).collect();
    assert!(distinct.len() >= 19, "{} of 20 seeds differ", distinct.len());
    for seed in 0..20 {
        assert_eq!(interleaving(seed), interleaving(seed));
    }
}

#[test]
fn only_one_thread_runs_at_a_time() {
    let running = AtomicUsize::new(0);
    let lock = Mutex::new(0);
    let body = |_| -> Body<'_> {
        Box::new(|| {
            for _ in 0..200 {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                std::hint::spin_loop();
                running.fetch_sub(1, Ordering::SeqCst);
                *lock.lock() += 1;
            }
        })
    };
    let outcome = Scheduler::new(1).run((0..4).map(body).collect());
    assert_eq!(*lock.lock(), 800);
    assert!(outcome.switches > 20 && outcome.steps >= 800, "{outcome:?}");
}

/// A thread that is switched away while it holds a lock must not stop those that want it for ever.
#[test]
fn contended_locks_are_handed_on() {
    for seed in 0..50 {
        let (lock, shared) = (Mutex::new(0u64), RwLock::new(0u64));
        let body = |_| -> Body<'_> {
            Box::new(|| {
                for _ in 0..10 {
                    let mut held = lock.lock();
                    yield_now();
                    *held += 1;
                    drop(held);
                    *shared.write() += 1;
                    let read = shared.read();
                    yield_now();
                    assert!(*read > 0);
                }
            })
        };
        Scheduler::new(seed).run((0..3).map(body).collect());
        assert_eq!((*lock.lock(), *shared.read()), (30, 30));
    }
}

#[test]
fn notifications_arrive_and_are_not_multiplied() {
    for seed in 0..50 {
        let (queue, wake) = (Mutex::new((0u64, false)), Condvar::new());
        let woken = AtomicU64::new(0);
        let mut bodies: Vec<Body<'_>> = Vec::new();
        for _ in 0..3 {
            bodies.push(Box::new(|| {
                let mut state = queue.lock();
                state.0 += 1;
                while !state.1 {
                    wake.wait(&mut state);
                    woken.fetch_add(1, Ordering::Relaxed);
                    wake.notify_one();
                }
            }));
        }
        bodies.push(Box::new(|| {
            spin_until(|| queue.try_lock().is_some_and(|state| state.0 == 3));
            queue.lock().1 = true;
            wake.notify_one();
        }));
        Scheduler::new(seed).run(bodies);
        assert_eq!(woken.load(Ordering::Relaxed), 3);
    }
}

#[test]
fn waiting_for_each_other_for_ever_is_reported() {
    let (first, second) = (Mutex::new(()), Mutex::new(()));
    let both = |a: &'static str| {
        let (first, second) = (&first, &second);
        let body: Body<'_> = Box::new(move || {
            let (one, two) = if a == "first" { (first, second) } else { (second, first) };
            let _held = one.lock();
            yield_now();
            yield_now();
            let _both = two.lock();
        });
        body
    };
    let failures = (0..50).filter(|seed| {
        let failure = Scheduler::new(*seed).switch_one_in(2).try_run(vec![both("first"), both("second")]).err();
        failure.is_some_and(|failure| {
            assert!(failure.thread.is_none() && failure.seed == *seed, "{failure}");
            true
        })
    });
    assert!(failures.count() > 10, "the circle closes under many seeds");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test looks at the clock that the simulation must not wait for")]
fn a_timeout_passes_in_simulated_time() {
    let (lock, never) = (Mutex::new(()), Condvar::new());
    let begin = std::time::Instant::now();
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for hours in 1..3 {
        let (lock, never) = (&lock, &never);
        bodies.push(Box::new(move || {
            assert!(!never.wait_for(&mut lock.lock(), Duration::from_secs(hours * 3600)));
        }));
    }
    let outcome = Scheduler::new(3).run(bodies);
    assert!(outcome.steps >= 2 * 3600 * 100_000, "{outcome:?}");
    assert!(begin.elapsed() < Duration::from_secs(60));
}

/// One thread's panic ends the run even while others wait for it, and its message survives.
#[test]
fn a_panic_ends_all_threads() {
    let (lock, flag) = (Mutex::new(()), AtomicBool::new(false));
    let bodies: Vec<Body<'_>> = vec![
        Box::new(|| spin_until(|| flag.load(Ordering::Relaxed))),
        Box::new(|| {
            let _held = lock.lock();
            spin_until(|| flag.load(Ordering::Relaxed));
        }),
        Box::new(|| {
            yield_now();
            panic!("expected by the test");
        }),
        Box::new(|| {
            yield_now();
            let _held = lock.lock();
        }),
    ];
    let failure = Scheduler::new(9).try_run(bodies).expect_err("a thread panics");
    assert_eq!((failure.thread, failure.message.as_str()), (Some(2), "expected by the test"));
    assert!(failure.to_string().contains("seed 9"));
}

#[test]
fn locks_work_without_a_scheduler() {
    let (lock, wake) = (Mutex::new(0), Condvar::new());
    let flag = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = lock.lock();
            while *value < 100 {
                wake.wait(&mut value);
            }
            flag.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..50 {
                    *lock.lock() += 1;
                    wake.notify_one();
                }
            });
        }
        spin_until(|| flag.load(Ordering::Acquire));
    });
    assert!(!wake.wait_for(&mut lock.lock(), Duration::from_millis(1)));
    assert!(lock.try_lock().is_some());
}
