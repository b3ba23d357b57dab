//! Bounds of the time that entries carry. A leader's time runs with its steady clock, within the
//! part by which it is corrected. Time goes forward at once only at a replica that does not know
//! how old its newest entry is, and then to its time of day.

use std::collections::BTreeMap;

use perdura_kv::node::{JUMP_MS_MAX, Node, Role, SLEW_PARTS};

use super::machine::Machine;

/// Rounding, in microseconds: times are looked at in milliseconds.
const ROUNDING_US: u64 = 2000;

/// A leader's time and its clocks at one moment.
#[derive(Clone, Copy)]
struct Look {
    term: u64,
    time_ms: u64,
    steady_us: u64,
    /// By how much the time of day was ahead of it.
    skew_ms: i64,
    /// Whether the time of day was always on the same side of it since, and near enough to be
    /// followed.
    is_steady: bool,
}

/// The times of all replicas, as they were seen.
#[derive(Default)]
pub(super) struct Times {
    /// The latest time that an entry may carry now, in microseconds.
    latest_us: u64,
    /// The first look at each leader in its term.
    leaders: BTreeMap<u64, Look>,
}

impl Times {
    /// A step begins, in which no steady clock makes more than `step_us`.
    pub(super) fn begin_step(&mut self, machines: &[Machine], step_us: u64) {
        self.latest_us += step_us + step_us.div_ceil(SLEW_PARTS);
        let may_believe = |machine: &&Machine| machine.node.as_ref().is_some_and(|node| !node.clock().is_known);
        let walls = machines.iter().filter(may_believe).map(|machine| machine.clocks.wall_ms() * 1000);
        self.latest_us = walls.map(|us| us + step_us + ROUNDING_US).chain([self.latest_us]).max().unwrap_or_default();
    }

    /// A replica was started anew.
    pub(super) fn restarted(&mut self, id: u64) {
        self.leaders.remove(&id);
    }

    /// An entry of this time is applied.
    pub(super) fn applied(&self, clock_ms: u64) -> Result<(), String> {
        if clock_ms * 1000 <= self.latest_us {
            return Ok(());
        }
        Err(format!("an entry of the time {clock_ms}, where none can be later than {}", self.latest_us / 1000))
    }

    /// A leader's time has gone as its clocks say.
    pub(super) fn look(&mut self, node: &Node) -> Result<(), String> {
        let (id, status, clock) = (node.id(), node.status(), node.clock());
        if status.role != Role::Leader || !clock.is_known {
            self.leaders.remove(&id);
            return Ok(());
        }
        let is_near = clock.skew_ms.unsigned_abs() < JUMP_MS_MAX;
        let (time_ms, steady_us, skew_ms) = (node.now_ms(), node.steady_us(), clock.skew_ms);
        let now = Look { term: status.term, time_ms, steady_us, skew_ms, is_steady: is_near };
        let Some(first) = self.leaders.get_mut(&id).filter(|first| first.term == now.term) else {
            self.leaders.insert(id, now);
            return Ok(());
        };
        first.is_steady &= is_near && first.skew_ms.signum() == skew_ms.signum();
        let passed_us = steady_us - first.steady_us;
        let gone_us = time_ms.saturating_sub(first.time_ms) * 1000;
        let most_us = passed_us / SLEW_PARTS;
        let (mut least, mut most) = (passed_us - most_us, passed_us + most_us);
        if first.is_steady {
            // It is corrected towards the time of day, and not away from it.
            if first.skew_ms > 0 { least = passed_us } else { most = passed_us }
        }
        if gone_us + ROUNDING_US < least || gone_us > most + ROUNDING_US {
            return Err(format!("the time of leader {id} has gone by {gone_us} us while {passed_us} us have passed"));
        }
        Ok(())
    }
}
