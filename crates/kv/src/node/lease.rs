//! Leases: a leader that a quorum has heard a short time ago reads without asking again.
//!
//! A replica that hears a leader gives no vote for `election_ticks` of its own ([`Promise`]),
//! whatever becomes of it meanwhile. A question about reading that a quorum has answered was heard
//! by it after it was asked. So nobody else is elected for that long after the moment of asking,
//! unless clocks differ. The leader therefore counts from that moment, a tick less (a first tick
//! may come at once), and shortens the rest by the stated difference between clocks.
//!
//! A lease ends with its term; when the members change, for its quorum need not meet one of the
//! members after next; and for the rest of the term when leadership is handed over, for the promise
//! does not bind then.
//!
//! The clock is read when a read is taken, after it has come. So a pause of the process before or
//! after that does no harm.

use std::collections::BTreeMap;

use perdura_pmem::{Mutant, planted};

/// A clock that does not jump: microseconds since any moment. It stands still at no time, not even
/// while the process is stopped.
pub trait Clock: Send {
    /// The time.
    fn now_us(&self) -> u64;
}

/// Assumptions of leases. All replicas must have the same `election_ticks`, and ticks of this
/// length by their own clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Length of a tick.
    pub tick_us: u64,
    /// By how much a replica's clock may run faster than another's, in percent.
    pub drift_percent: u64,
}

/// A leader's lease.
pub(super) struct Lease {
    clock: Box<dyn Clock>,
    length_us: u64,
    /// When questions were asked, and in which term this replica led then, by number.
    asked: BTreeMap<u64, (u64, u64)>,
    /// Term and end.
    held: Option<(u64, u64)>,
    /// The last term in which leadership was handed over.
    handed_over: u64,
}

impl Lease {
    pub(super) fn new(settings: LeaseSettings, election_ticks: usize, clock: Box<dyn Clock>) -> Self {
        let LeaseSettings { tick_us, drift_percent } = settings;
        let whole_us = (election_ticks as u64).saturating_sub(1).saturating_mul(tick_us);
        // Planted: clocks are taken to be alike.
        let drift_percent = if planted(Mutant::ClocksTakenAsAlike) { 0 } else { drift_percent };
        let length_us = whole_us.saturating_mul(100) / (100 + drift_percent);
        Self { clock, length_us, asked: BTreeMap::new(), held: None, handed_over: 0 }
    }

    /// A question is about to be asked by the leader of a term.
    pub(super) fn asks(&mut self, number: u64, term: u64) {
        let now = self.clock.now_us();
        // Questions that are older than a lease would give none.
        self.asked.retain(|_, (_, asked)| *asked + self.length_us > now);
        self.asked.insert(number, (term, now));
    }

    /// A quorum has answered a question. `leads_in` is the term in which this replica leads, if it
    /// does.
    pub(super) fn answered(&mut self, number: u64, leads_in: Option<u64>) {
        let Some((term, asked)) = self.asked.remove(&number) else { return };
        if leads_in != Some(term) {
            return;
        }
        // Planted: a lease is counted from the answer.
        let from = if planted(Mutant::LeaseFromAnswer) { self.clock.now_us() } else { asked };
        let end = from + self.length_us;
        if self.held.is_none_or(|(of, until)| of != term || until < end) {
            self.held = Some((term, end));
        }
    }

    /// Whether the leader of a term may read now.
    pub(super) fn holds(&self, term: u64) -> bool {
        self.held.is_some_and(|(of, until)| of == term && self.clock.now_us() < until) && self.handed_over != term
    }

    /// Leadership is handed over in a term.
    pub(super) fn hand_over(&mut self, term: u64) {
        // Planted: a lease stays when leadership is handed over.
        if !planted(Mutant::LeaseSurvivesTransfer) {
            self.handed_over = self.handed_over.max(term);
        }
    }

    /// Ends it, and makes nothing of answers to what was asked before.
    pub(super) fn end(&mut self) {
        self.held = None;
        self.asked.clear();
    }
}

/// Promise of a replica that hears a leader: no vote for a while. A promise made before a restart
/// is not known any more.
pub(super) struct Promise {
    ticks_left: usize,
}

impl Promise {
    /// The promise of a replica that begins. One that was never in a term after the founding has
    /// heard nobody.
    pub(super) fn new(term: u64, election_ticks: usize) -> Self {
        // Planted: a start lets go of promises.
        let has_heard = term > crate::store::FOUNDING && !planted(Mutant::StartForgetsPromises);
        Self { ticks_left: if has_heard { election_ticks } else { 0 } }
    }

    /// A leader was heard.
    pub(super) fn hear(&mut self, election_ticks: usize) {
        self.ticks_left = election_ticks;
    }

    pub(super) fn tick(&mut self) {
        self.ticks_left = self.ticks_left.saturating_sub(1);
    }

    /// Whether no vote may be given now.
    pub(super) fn binds(&self) -> bool {
        self.ticks_left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Lease, LeaseSettings, Promise};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Hand(Arc<AtomicU64>);

    impl Clock for Hand {
        fn now_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_lease_counts_from_the_question_and_ends_early() {
        let time = Arc::new(AtomicU64::new(500));
        let settings = LeaseSettings { tick_us: 100, drift_percent: 25 };
        let mut lease = Lease::new(settings, 11, Box::new(Hand(time.clone())));
        lease.asks(1, 7);
        time.store(900, Ordering::Relaxed);
        assert!(!lease.holds(7));
        lease.answered(1, Some(7));
        let holds_at = |lease: &Lease, now| {
            time.store(now, Ordering::Relaxed);
            lease.holds(7)
        };
        assert!(holds_at(&lease, 1299) && !holds_at(&lease, 1300) && !lease.holds(8));
        lease.asks(2, 7);
        lease.answered(2, Some(8));
        lease.answered(1, Some(7));
        assert!(!lease.holds(7), "answered too late, or twice");
        lease.asks(3, 7);
        lease.end();
        lease.answered(3, Some(7));
        assert!(!lease.holds(7), "asked before the members changed");
        lease.asks(4, 7);
        lease.answered(4, Some(7));
        assert!(lease.holds(7));
        lease.hand_over(7);
        assert!(!lease.holds(7));
    }

    #[test]
    fn a_promise_binds_for_its_ticks_and_after_a_start() {
        assert!(!Promise::new(1, 3).binds());
        let mut promise = Promise::new(2, 3);
        for _ in 0..3 {
            assert!(promise.binds());
            promise.tick();
        }
        assert!(!promise.binds());
        promise.hear(1);
        assert!(promise.binds());
    }
}
