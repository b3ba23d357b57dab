//! Short waits for a word that another thread is about to change.

use super::agent::agent;
use std::hint::spin_loop;
use std::time::Duration;

/// Rounds of doubling pauses before the processor is given away.
const SPIN_ROUNDS: u32 = 7;
/// Times the processor is given away before the thread sleeps.
const YIELD_ROUNDS: u32 = 16;
/// Longest sleep between two checks.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// Waits until `ready` is true: spins, then yields, then sleeps ever longer, up to 1 ms between two
/// checks.
#[inline]
pub fn spin_until(mut ready: impl FnMut() -> bool) {
    if !ready() {
        wait(&mut ready);
    }
}

#[cold]
fn wait(ready: &mut dyn FnMut() -> bool) {
    if let Some(agent) = agent() {
        // Without a timeout it only returns unready while a failed simulation is torn down.
        agent.wait(None, ready);
        return;
    }
    for round in 0..SPIN_ROUNDS {
        for _ in 0..1u32 << round {
            spin_loop();
        }
        if ready() {
            return;
        }
    }
    for _ in 0..YIELD_ROUNDS {
        std::thread::yield_now();
        if ready() {
            return;
        }
    }
    let mut sleep = Duration::from_micros(10);
    while !ready() {
        std::thread::sleep(sleep);
        sleep = (sleep * 2).min(SLEEP_MAX);
    }
}

/// Lets other threads run.
pub fn yield_now() {
    match agent() {
        Some(agent) => agent.step(true),
        None => std::thread::yield_now(),
    }
}
