//! Time and chance, which all that a seed replays is given from here.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clocks of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    begun: Instant,
}

impl Clock {
    /// A clock that begins now.
    #[allow(clippy::disallowed_methods, reason = "the server is where time comes from")]
    pub(super) fn start() -> Self {
        Self { begun: Instant::now() }
    }

    /// Microseconds since it began. Never goes back.
    pub(super) fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Milliseconds since it began. Never goes back.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_us() / 1000
    }
}

/// When ticks are due. Promises last for ticks, so that none may be shorter than said, not even by
/// what is lost in rounding.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ticker {
    next_us: u64,
}

impl Ticker {
    /// When the next is due.
    pub(super) fn next_us(&self) -> u64 {
        self.next_us
    }

    /// Whether one is due.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        now_us >= self.next_us
    }

    /// One comes now. Who was stopped for long does not make up for it: the others' messages may
    /// just wait to be read.
    pub(super) fn tick(&mut self, now_us: u64, tick_ms: u64) {
        self.next_us = now_us + tick_ms * 1000;
    }
}

/// The clock of leases and of the log: it counts while the machine sleeps too.
pub(super) struct Steady;

impl crate::node::Clock for Steady {
    fn now_us(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
    }
}

impl crate::node::Clocks for Steady {
    fn steady_us(&self) -> u64 {
        crate::node::Clock::now_us(self)
    }

    fn wall_ms(&self) -> u64 {
        wall_ms()
    }
}

/// Since 1970, as people set it. May go back.
#[allow(clippy::disallowed_methods, reason = "the server is where time comes from")]
pub(super) fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Microseconds since 1970: the clients' clock.
pub(super) fn wall_us() -> u64 {
    u64::try_from(wall().as_micros()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    u64::try_from(wall().as_millis()).unwrap_or(u64::MAX)
}

/// A number that nobody can foresee, never 0. Error: the system's, if it has no randomness to give.
pub fn draw() -> std::io::Result<u64> {
    loop {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        // Below 2^53, so that it is a number in every language.
        let number = u64::from_le_bytes(bytes) >> 11;
        if number != 0 {
            return Ok(number);
        }
    }
}

/// As many bytes that nobody can foresee.
pub(super) fn draw_bytes(count: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// As [`draw`], of all its 128 bits.
pub fn draw_long() -> std::io::Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(u128::from_le_bytes(bytes).max(1))
}

#[cfg(test)]
mod tests {
    use super::Ticker;

    /// Ticks that were counted by whole milliseconds ended a promise up to one earlier than the
    /// lease that rests on it.
    #[test]
    fn ticks_last_no_shorter_than_is_said() {
        let mut ticker = Ticker::default();
        for begun_us in [0, 1, 999, 1000, 20_999] {
            ticker.tick(begun_us, 20);
            let due = (begun_us..).find(|now_us| ticker.is_due(*now_us));
            assert_eq!(due, Some(begun_us + 20_000));
        }
    }
}
