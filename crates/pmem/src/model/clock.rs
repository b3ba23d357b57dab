//! A clock that is read in a few nanoseconds, and the waiting by it.

use std::hint::spin_loop;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the processor's counter is compared with the system's clock.
const CALIBRATION: Duration = Duration::from_millis(10);
/// Comparisons of the two, of which the closest counts.
const READINGS: usize = 16;
/// Picoseconds to go beyond which the processor is told that this is a wait.
const HINTED: u64 = 1_000_000;

/// A beginning, and picoseconds a tick in units of 2^-32.
struct Rate {
    first: u64,
    scale: u64,
}

/// Picoseconds since the process first asked.
#[inline]
pub(super) fn now() -> u64 {
    static RATE: OnceLock<Rate> = OnceLock::new();
    let rate = RATE.get_or_init(calibrate);
    let passed = ticks().saturating_sub(rate.first);
    ((u128::from(passed) * u128::from(rate.scale)) >> 32) as u64
}

/// Spins until the clock is at `target`. Returns where it is then.
#[inline]
pub(super) fn spin_until(target: u64) -> u64 {
    loop {
        let now = now();
        if now >= target {
            return now;
        }
        // The hint itself takes tens of nanoseconds.
        if target - now > HINTED {
            spin_loop();
        }
    }
}

/// The processor's counter, which goes at the same rate on all cores, whatever their frequency.
#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the counter, and user programs may read it on Linux.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Nanoseconds of the system's clock.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn calibrate() -> Rate {
    let (first, begun) = reading();
    while begun.elapsed() < CALIBRATION {
        spin_loop();
    }
    let (last, ended) = reading();
    let picoseconds = (ended - begun).as_nanos() * 1000;
    let scale = (picoseconds << 32) / u128::from(last.saturating_sub(first).max(1));
    Rate { first, scale: scale as u64 }
}

/// Counter and clock at one time: of several readings the one in which least time passed between
/// them.
#[allow(clippy::disallowed_methods, reason = "the model of a medium waits by a real clock, and no seeded run has one")]
fn reading() -> (u64, Instant) {
    let read = |_| {
        let before = ticks();
        let clock = Instant::now();
        let after = ticks();
        (after.saturating_sub(before), before.midpoint(after), clock)
    };
    let (_, ticks, clock) = (0..READINGS).map(read).min().expect("there are readings");
    (ticks, clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean error of many waits is what counts, but no wait may be too short.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "the clock that the counter is compared with")]
    fn a_wait_ends_at_its_target_or_later() {
        for nanoseconds in [0, 100, 1_000] {
            let target = now() + nanoseconds * 1000;
            assert!(spin_until(target) >= target);
        }
        let (before, clock) = (now(), Instant::now());
        spin_until(before + 2_000_000_000);
        assert!(clock.elapsed() >= Duration::from_micros(1_900), "two milliseconds are those of the system's clock");
    }
}
