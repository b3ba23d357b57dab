//! A clock that costs little enough to be read at each stage of a commit.

use std::time::{Duration, Instant};

/// Time for which the clock is compared with the system's.
const COMPARED: Duration = Duration::from_millis(20);

/// Ticks since some moment, the same on all processors.
#[cfg(target_arch = "x86_64")]
pub fn now() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, which touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Ticks since some moment.
#[cfg(not(target_arch = "x86_64"))]
pub fn now() -> u64 {
    use std::sync::LazyLock;
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGUN.elapsed().as_nanos() as u64
}

/// Nanoseconds of a tick.
pub fn length() -> f64 {
    let (begun, first) = (Instant::now(), now());
    while begun.elapsed() < COMPARED {
        std::hint::spin_loop();
    }
    let (took, ticks) = (begun.elapsed(), now() - first);
    took.as_nanos() as f64 / ticks as f64
}
