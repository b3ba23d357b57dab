//! One run: so many terminals at once for a time, and what they and the server did.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::case::Case;
use super::terminal::{Done, Terminal};
use crate::bench::pair;
use crate::drive::server::Server;

/// Results of a run.
pub struct Outcome {
    /// All terminals together.
    pub done: Done,
    /// From the terminals' common start to the end of the last one.
    pub took: Duration,
    /// CPU time of the server.
    pub cpu: Duration,
}

impl Outcome {
    /// New-Orders a minute.
    pub fn tpmc(&self) -> f64 {
        self.done.new_orders as f64 * 60.0 / self.took.as_secs_f64()
    }
}

/// Runs the terminals of a case for about `lasting`.
pub fn run(server: &Server, case: Case, lasting: Duration, seed: u64) -> Result<Outcome> {
    let open = |number| Terminal::open(server, number, case, seed);
    let terminals = (0..case.connections).map(open).collect::<Result<Vec<_>>>()?;
    let (stop, barrier) = (AtomicBool::new(false), Barrier::new(terminals.len() + 1));
    std::thread::scope(|scope| {
        let running: Vec<_> = terminals
            .into_iter()
            .map(|terminal| {
                scope.spawn(|| {
                    barrier.wait();
                    // A terminal that fails ends the run.
                    terminal.run(&stop).inspect_err(|_| stop.store(true, Ordering::Relaxed))
                })
            })
            .collect();
        barrier.wait();
        let begun = Instant::now();
        let (done, cpu) = pair::server_cpu(server, || {
            while begun.elapsed() < lasting && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
            let mut all = Done::default();
            for terminal in running {
                all.add(terminal.join().expect("a terminal does not panic")?);
            }
            Ok(all)
        })?;
        Ok(Outcome { done, took: begun.elapsed(), cpu })
    })
}
