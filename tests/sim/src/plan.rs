//! Plan of a run, and its coverage.

use perdura_kv::sim::{VARIANTS, Variant};

/// Faults of a run, besides those that a seed decides anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// Anything, at any time.
    Usual,
    /// Leaders fail soon after they are elected, and entries go one by one: the case in which
    /// entries of earlier terms are replaced although a quorum has them (figure 8 of Raft's paper).
    Storm,
    /// Leaders that hold leases are parted from the others just when these may elect another.
    Lease,
    /// Clients speak RESP: transactions, deadlines, rights, commands that are done once, requests
    /// that followers forward.
    Requests,
}

/// Plan of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The stores of all replicas.
    pub variant: Variant,
    /// Faults of the run.
    pub story: Story,
    /// Number of replicas.
    pub nodes: u64,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// Steps in which things fail. A step is a millisecond.
    pub steps: u64,
    /// Bytes of each replica's map.
    pub bytes: u64,
    /// Values are shorter than so many bytes, beside what tells them apart.
    pub value_bytes: u64,
    /// Whether leaders hold leases, and by how much clocks then differ at most, in percent.
    pub drift_percent: Option<u64>,
    /// Length of a tick by each machine's own clock, in microseconds. An election is due after the
    /// same time, whatever it is.
    pub tick_us: u64,
    /// Whether learners are promoted by themselves.
    pub promotes_learners: bool,
    /// Whether followers forward requests, where clients make some.
    pub forwards: bool,
    /// Whether stores are emptied before they receive. No replica is replaced then: several at once
    /// that wait for a leader may leave too few to elect one.
    pub receives_in_place: bool,
}

/// Length of most ticks. A step is a millisecond of the clock that nobody has.
const TICK_US: u64 = 10_000;
/// The time without a leader after which an election is due.
pub(super) const ELECTION_US: u64 = 10 * TICK_US;
/// Clocks differ by at most so many percent where no lease rests on it.
const DRIFT_PERCENT: u64 = 30;

impl Plan {
    /// A plan of three to five replicas.
    pub fn of_seed(seed: u64) -> Plan {
        Plan::of(VARIANTS[(seed % 3) as usize], seed)
    }

    /// A plan of three to five replicas of a variant.
    pub fn of(variant: Variant, seed: u64) -> Plan {
        // The same seeds of different variants have the same plans.
        let number = seed / 3;
        let last = if (number / 4).is_multiple_of(2) { Story::Requests } else { Story::Usual };
        let story = [Story::Usual, Story::Storm, Story::Lease, last][(number % 4) as usize];
        let (nodes, steps) = match story {
            Story::Usual => (3 + number / 4 % 3, 1500),
            Story::Storm => (5, 6000),
            Story::Lease => (3 + number / 4 % 2 * 2, 1500),
            Story::Requests => (3, 2500),
        };
        let drift_percent = match story {
            Story::Lease => Some([10, 100, 100][(number / 8 % 3) as usize]),
            _ => (number % 5 == 2).then_some(DRIFT_PERCENT),
        };
        Plan {
            variant,
            story,
            nodes,
            seed,
            steps,
            bytes: 512 << 10,
            value_bytes: 40,
            drift_percent,
            tick_us: if story == Story::Lease && number / 12 % 2 == 1 { 2 * TICK_US } else { TICK_US },
            promotes_learners: number % 3 == 1,
            forwards: !number.is_multiple_of(3),
            receives_in_place: number % 5 == 1,
        }
    }

    /// The rates of the slowest and of the fastest clock, per mille.
    pub(super) fn rates(&self) -> (u64, u64) {
        let drift = self.drift_percent.unwrap_or(DRIFT_PERCENT);
        // The fastest is at most so much faster than the slowest.
        let slowest = 2000 * 100 / (200 + drift) + 1;
        (slowest, slowest * (100 + drift) / 100)
    }
}

/// Coverage of a run, so that one sees whether it is worth anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Operations of clients that were done.
    pub done: u64,
    /// Operations of which no client knows the outcome.
    pub unknown: u64,
    /// Entries that were applied.
    pub applied: u64,
    /// Power failures.
    pub failures: u64,
    /// Those in the midst of a call.
    pub failures_in_calls: u64,
    /// Snapshots that were received.
    pub snapshots: u64,
    /// Replicas that were replaced by new ones.
    pub swaps: u64,
    /// Reads that rested on a lease.
    pub leased_reads: u64,
    /// Times that leadership was handed over.
    pub transfers: u64,
    /// Requests that were refused for want of room.
    pub refused: u64,
    /// Looks at replicas that had none.
    pub stalled: u64,
    /// The last term.
    pub term: u64,
    /// Of all messages and answers, in order: equal if two runs were.
    pub digest: u64,
}

impl Report {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Report) -> Report {
        Report {
            done: self.done + other.done,
            unknown: self.unknown + other.unknown,
            applied: self.applied + other.applied,
            failures: self.failures + other.failures,
            failures_in_calls: self.failures_in_calls + other.failures_in_calls,
            snapshots: self.snapshots + other.snapshots,
            swaps: self.swaps + other.swaps,
            leased_reads: self.leased_reads + other.leased_reads,
            transfers: self.transfers + other.transfers,
            refused: self.refused + other.refused,
            stalled: self.stalled + other.stalled,
            term: self.term.max(other.term),
            digest: self.digest ^ other.digest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn no_clock_is_faster_than_another_by_more_than_is_said() {
        for seed in 0..1000 {
            let plan = Plan::of_seed(seed);
            let (slowest, fastest) = plan.rates();
            let drift = plan.drift_percent.unwrap_or(100);
            assert!(slowest < fastest && fastest * 100 <= slowest * (100 + drift), "{plan:?}");
        }
    }
}
