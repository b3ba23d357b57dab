//! Time of the log: what the leader's entries carry, and what deadlines of keys are measured by.
//!
//! The time is that of the newest entry plus the steady time since it came, so a wrong time of day
//! ends no key. It is corrected towards the time of day by at most 1/[`SLEW_PARTS`] of the time
//! that passes, while the two differ by at most [`JUMP_MS_MAX`]. A larger difference is a jump: it
//! is not followed, but counted and shown ([`ClockStatus`]), until it is gone or an operator sets
//! the time.
//!
//! A replica that was started, or whose newest entries were rolled back, does not know when its
//! newest entry was made. If it leads before another entry comes, it takes the time of day, unless
//! that is behind the entry or more than `forward_ms_max` ahead of it: then it begins with the
//! entry's own time. Every replica keeps the time, so that one that is elected goes on with it.
//!
//! Time never goes back. To set it back is to let the calendar lie behind it
//! ([`crate::machine::key::AHEAD`]): keys keep the time that they have left, and moments of the
//! calendar are converted.

use perdura_pmem::{Mutant, planted};

/// Largest difference to the time of day that is corrected, in milliseconds.
pub const JUMP_MS_MAX: u64 = 600_000;
/// The part of the time that passes by which it is corrected at most.
pub const SLEW_PARTS: u64 = 50;
/// Steady time after which a correction is kept, in microseconds: less would be lost in rounding.
const SETTLE_US: u64 = 1000;

/// The clocks of a machine.
pub trait Clocks: Send {
    /// Microseconds since any moment. Never goes back, and stands still at no time.
    fn steady_us(&self) -> u64;
    /// The time of day: milliseconds since 1970. May jump.
    fn wall_ms(&self) -> u64;
}

/// State of the time of the log at a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockStatus {
    /// The calendar by the log, in milliseconds since 1970.
    pub calendar_ms: u64,
    /// By how much this replica's time of day is ahead of it, in milliseconds.
    pub skew_ms: i64,
    /// Whether it is known how old the newest entry is.
    pub is_known: bool,
    /// Whether the difference is too large to be corrected.
    pub is_refused: bool,
    /// Number of times that a difference became too large.
    pub refusals: u64,
    /// Milliseconds by which time went forward last when this replica began to lead without knowing
    /// how old its newest entry was, if that was more than [`JUMP_MS_MAX`].
    pub taken_ms: u64,
}

/// A time of the log, and the steady time when it was so.
#[derive(Clone, Copy, Debug)]
struct Reference {
    time_us: u64,
    steady_us: u64,
}

/// The time of the log at a replica.
pub(super) struct LogTime {
    clocks: Box<dyn Clocks>,
    forward_ms_max: u64,
    /// None until it is known when the newest entry was made.
    reference: Option<Reference>,
    /// Clock of the newest entry.
    newest_ms: u64,
    /// By how much the time is ahead of the calendar.
    ahead_ms: u64,
    is_refused: bool,
    refusals: u64,
    taken_ms: u64,
}

impl LogTime {
    /// The time of a replica that starts with a newest entry of this clock.
    pub(super) fn new(clocks: Box<dyn Clocks>, forward_ms_max: u64, newest_ms: u64) -> Self {
        let (is_refused, refusals, taken_ms) = (false, 0, 0);
        Self { clocks, forward_ms_max, reference: None, newest_ms, ahead_ms: 0, is_refused, refusals, taken_ms }
    }

    /// The time now, in milliseconds: at least that of the newest entry.
    pub(super) fn now_ms(&self) -> u64 {
        self.at(self.clocks.steady_us()) / 1000
    }

    /// Steady time, in microseconds.
    pub(super) fn steady_us(&self) -> u64 {
        self.clocks.steady_us()
    }

    /// The newest entry has this clock now. A replica that leads has made it itself, by this time.
    pub(super) fn observe(&mut self, newest_ms: u64, leads: bool) {
        let steady_us = self.clocks.steady_us();
        if newest_ms != self.newest_ms && !leads {
            // Planted: a follower takes the newest entry for as old as its own machine's clock.
            let steady_us = if planted(Mutant::FollowerTakesOwnAge) { 0 } else { steady_us };
            let came = Reference { time_us: newest_ms.saturating_mul(1000), steady_us };
            self.reference = (newest_ms > self.newest_ms).then_some(came);
        }
        self.newest_ms = newest_ms;
        if leads {
            self.settle(steady_us);
        }
    }

    /// A tick has passed. `ahead_ms` is what the store has of it.
    pub(super) fn tick(&mut self, newest_ms: u64, ahead_ms: u64, leads: bool) {
        self.ahead_ms = ahead_ms;
        self.observe(newest_ms, leads);
        if self.reference.is_some() {
            self.settle(self.clocks.steady_us());
        }
    }

    /// The calendar lies this far behind from now on.
    pub(super) fn set_ahead(&mut self, ahead_ms: u64) {
        self.ahead_ms = ahead_ms;
    }

    pub(super) fn status(&self) -> ClockStatus {
        let now_ms = self.now_ms();
        ClockStatus {
            calendar_ms: now_ms.saturating_sub(self.ahead_ms),
            skew_ms: if self.reference.is_some() { (self.wall_us() / 1000) as i64 - now_ms as i64 } else { 0 },
            is_known: self.reference.is_some(),
            is_refused: self.is_refused,
            refusals: self.refusals,
            taken_ms: self.taken_ms,
        }
    }

    /// The time of day as a time of the log.
    fn wall_us(&self) -> u64 {
        self.clocks.wall_ms().saturating_add(self.ahead_ms).min(i64::MAX as u64 / 1000).saturating_mul(1000)
    }

    fn at(&self, steady_us: u64) -> u64 {
        let (newest_us, wall_us) = (self.newest_ms.saturating_mul(1000), self.wall_us());
        let Some(Reference { time_us, steady_us: since_us }) = self.reference else {
            let is_near = wall_us.saturating_sub(newest_us) <= self.forward_ms_max.saturating_mul(1000);
            // Planted: a leader that does not know how old the newest entry is takes its time of
            // day, also one that is behind.
            return if is_near && planted(Mutant::UnknownAgeTakesClock) {
                wall_us
            } else if is_near {
                wall_us.max(newest_us)
            } else {
                newest_us
            };
        };
        // Planted: a leader follows its time of day at once, however far that has gone.
        if planted(Mutant::ClockFollowsJump) {
            return wall_us.max(newest_us);
        }
        let passed_us = steady_us.saturating_sub(since_us);
        let time_us = time_us.saturating_add(passed_us);
        if is_jump(time_us, wall_us) {
            return time_us.max(newest_us);
        }
        let most_us = passed_us / SLEW_PARTS;
        wall_us.clamp(time_us - most_us.min(time_us), time_us.saturating_add(most_us)).max(newest_us)
    }

    /// Takes the time now as the one from which on it is measured.
    fn settle(&mut self, steady_us: u64) {
        let (time_us, wall_us) = (self.at(steady_us), self.wall_us());
        let is_refused = is_jump(time_us, wall_us);
        self.refusals += u64::from(is_refused && !self.is_refused);
        self.is_refused = is_refused;
        match self.reference {
            None => {
                let forward_ms = time_us / 1000 - self.newest_ms.min(time_us / 1000);
                if forward_ms > JUMP_MS_MAX {
                    self.taken_ms = forward_ms;
                }
            }
            // An entry may have put the time forward meanwhile.
            Some(Reference { time_us: before_us, steady_us: since_us }) => {
                if steady_us.saturating_sub(since_us) < SETTLE_US && time_us < before_us.saturating_add(2 * SETTLE_US) {
                    return;
                }
            }
        }
        self.reference = Some(Reference { time_us, steady_us });
    }
}

fn is_jump(time_us: u64, wall_us: u64) -> bool {
    time_us.abs_diff(wall_us) > JUMP_MS_MAX * 1000
}
