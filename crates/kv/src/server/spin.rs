//! Whether the server looks for events without sleeping.
//!
//! A thread that sleeps is woken late, where its processor has halted meanwhile by tens of
//! microseconds. So after an event the server looks for more for a while, and lets other threads go
//! first between looks. Where others compute on all processors that is the worse choice: what the
//! server has spun counts against its share, and it gets the processor milliseconds late when there
//! is something to do. A yield tells: to a thread that waits for events, as the server does, it
//! takes microseconds; to one that computes, all of that thread's slice. One late yield proves
//! nothing, for the machine itself may be late now and then. Several that are close to one another
//! and took milliseconds together end spinning at once and for a pause, which doubles each time
//! that spinning begins again in vain.

/// A yield that takes longer has given the processor to a thread that computes: a slice is 700 us
/// at least (EEVDF's base slice), and mostly some milliseconds.
const LATE_US: u64 = 500;
/// The first pause, and the longest.
const PAUSE_US: u64 = 250_000;
const PAUSE_MAX_US: u64 = 1_000_000;
/// Late yields that are further apart have nothing to do with each other.
const FORGOTTEN_US: u64 = 50_000;
/// Time that several late yields have taken which ends spinning.
const LOST_US: u64 = 4000;

/// The choice between spinning and sleeping.
#[derive(Debug)]
pub(super) struct Spin {
    /// Until when the server spins.
    until_us: u64,
    /// From when on it may spin again, and how long the next pause is.
    paused_until_us: u64,
    pause_us: u64,
    /// Late yields close to one another, the time that they took, and when the last ended.
    late: u32,
    lost_us: u64,
    late_us: u64,
}

impl Spin {
    pub(super) fn new() -> Spin {
        Spin { until_us: 0, paused_until_us: 0, pause_us: PAUSE_US, late: 0, lost_us: 0, late_us: 0 }
    }

    /// Events have come: others may follow within `spin_us`.
    pub(super) fn expect(&mut self, now_us: u64, spin_us: u64) {
        if now_us >= self.paused_until_us {
            self.until_us = now_us + spin_us;
        }
    }

    /// Whether the server looks for events without sleeping now.
    pub(super) fn is_on(&self, now_us: u64) -> bool {
        now_us < self.until_us
    }

    /// The server has let other threads go first, from `from_us` to `to_us`. Returns whether it
    /// stops spinning, since they compute.
    pub(super) fn yielded(&mut self, from_us: u64, to_us: u64) -> bool {
        let took_us = to_us - from_us;
        if took_us < LATE_US {
            return false;
        }
        if from_us > self.late_us + FORGOTTEN_US {
            (self.late, self.lost_us) = (0, 0);
        }
        (self.late, self.lost_us, self.late_us) = (self.late + 1, self.lost_us + took_us, to_us);
        if self.late < 2 || self.lost_us < LOST_US {
            return false;
        }
        // Undisturbed since for longer than the pause before has lasted: another time.
        if from_us > self.paused_until_us + self.pause_us {
            self.pause_us = PAUSE_US;
        }
        (self.until_us, self.paused_until_us) = (0, to_us + self.pause_us);
        (self.late, self.lost_us) = (0, 0);
        self.pause_us = (self.pause_us * 2).min(PAUSE_MAX_US);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two late yields, from `now` on. Returns whether they end spinning, and when.
    fn late(spin: &mut Spin, now: u64) -> (bool, u64) {
        spin.expect(now, 100);
        assert!(spin.is_on(now + 1));
        assert!(!spin.yielded(now + 1, now + 3000), "one proves nothing");
        spin.expect(now + 3010, 100);
        (spin.yielded(now + 3011, now + 6000), now + 6000)
    }

    #[test]
    fn late_yields_end_spinning_for_longer_and_longer() {
        let mut spin = Spin::new();
        spin.expect(1000, 100);
        assert!(spin.is_on(1099) && !spin.is_on(1100));
        assert!(!spin.yielded(1010, 1030) && spin.is_on(1099), "a thread that gives the processor back");
        let mut now = 1050;
        for pause in [250, 500, 1000, 1000] {
            let (ends, at) = late(&mut spin, now);
            assert!(ends && !spin.is_on(now + 1), "a pause of {pause} ms");
            spin.expect(at + pause * 1000 - 1, 100);
            assert!(!spin.is_on(at + pause * 1000 - 1), "a pause of {pause} ms");
            now = at + pause * 1000;
        }
        // Long undisturbed: it begins anew.
        now += 20_000_000;
        let (ends, at) = late(&mut spin, now);
        assert!(ends);
        spin.expect(at + PAUSE_US, 100);
        assert!(spin.is_on(at + PAUSE_US));
    }

    /// Hazard: on a machine that is late now and then by itself the server sleeps half of the time,
    /// and each request waits to wake it: one client's waited 80 us in place of 50.
    #[test]
    fn a_late_yield_that_is_short_or_long_after_another_ends_nothing() {
        let mut spin = Spin::new();
        let mut now = 1_000_000;
        for _ in 0..100 {
            spin.expect(now, 100);
            assert!(!spin.yielded(now, now + 5000));
            now += 5000 + FORGOTTEN_US + 1;
        }
        for _ in 0..3 {
            spin.expect(now, 100);
            assert!(!spin.yielded(now, now + 900) && spin.is_on(now + 1));
            now += 1000;
        }
    }

    #[test]
    fn without_time_to_spin_it_sleeps() {
        let mut spin = Spin::new();
        spin.expect(5, 0);
        assert!(!spin.is_on(5));
    }
}
