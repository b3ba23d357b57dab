//! Due times of a server: its ticks, the persist of entries, its sleep and its end.

use super::clock::Ticker;
use super::runtime::Runtime;
use super::spin::Spin;

/// The due times.
#[derive(Debug)]
pub(super) struct Schedule {
    ticker: Ticker,
    /// When the oldest entry was made that is not durable.
    unpersisted_since_us: Option<u64>,
    spin: Spin,
    /// When it ends, once a signal has asked for that.
    ends_ms: Option<u64>,
}

impl Schedule {
    /// Nothing is due so far.
    pub(super) fn new() -> Schedule {
        Schedule { ticker: Ticker::default(), unpersisted_since_us: None, spin: Spin::new(), ends_ms: None }
    }

    /// Longest time to wait for events now.
    pub(super) fn rest_us(&self, is_busy: bool, now_us: u64) -> u64 {
        if is_busy || self.spin.is_on(now_us) { 0 } else { self.ticker.next_us().saturating_sub(now_us) }
    }

    /// Events have come: others may follow soon.
    pub(super) fn stay_awake(&mut self, runtime: &Runtime) {
        self.spin.expect(runtime.now_us(), runtime.config().raft.spin_us);
    }

    /// Lets another thread go first, which may bring an event. Returns whether the server stops
    /// spinning for a while, since that took long.
    pub(super) fn yield_now(&mut self, runtime: &Runtime) -> bool {
        let from_us = runtime.now_us();
        std::thread::yield_now();
        self.spin.yielded(from_us, runtime.now_us())
    }

    /// Whether a tick is due now. The next comes a tick later.
    pub(super) fn take_tick(&mut self, runtime: &Runtime) -> bool {
        let now_us = runtime.now_us();
        let is_due = self.ticker.is_due(now_us);
        if is_due {
            self.ticker.tick(now_us, runtime.config().raft.tick_ms);
        }
        is_due
    }

    /// Whether entries that are not durable have waited for long enough.
    pub(super) fn must_persist(&mut self, runtime: &Runtime) -> bool {
        let now_us = runtime.now_us();
        now_us - *self.unpersisted_since_us.get_or_insert(now_us) >= runtime.config().raft.persist_us
    }

    /// All entries are durable.
    pub(super) fn persisted(&mut self) {
        self.unpersisted_since_us = None;
    }

    /// Whether a signal has asked the server to end.
    pub(super) fn is_ending(&self) -> bool {
        self.ends_ms.is_some()
    }

    /// Ends the server in this number of milliseconds, or as soon as it does not lead.
    pub(super) fn end_in(&mut self, ms: u64, runtime: &Runtime) {
        self.ends_ms = Some(runtime.now_ms() + ms);
    }

    /// Whether the server ends now. `leads` if its replica does.
    pub(super) fn has_ended(&self, leads: impl FnOnce() -> bool, runtime: &Runtime) -> bool {
        self.ends_ms.is_some_and(|ends_ms| runtime.now_ms() >= ends_ms || !leads())
    }
}
