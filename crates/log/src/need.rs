//! How many generations the log has needed lately, so that it shrinks when it can and does not grow
//! again at once.

use crate::config::GENERATIONS_MAX;

/// Need of generations, by rounds.
///
/// A switch takes the lowest generation that is reusable. So one of a high number is armed only
/// when all below it are in use, and the round in which it was armed last says when it was needed
/// last. A round is a checkpoint: no clock decides, and a seed replays it.
///
/// A generation goes after it was not armed for as many rounds as the patience. Each time the log
/// grows back to a size that it had given up, the patience doubles. So a load that keeps coming
/// back, at whatever period, makes the log grow anew at most log2(n) times in n rounds: then the
/// patience outlasts the period.
pub(crate) struct Need {
    round: u64,
    /// By generation: the round in which it was armed last.
    armed: [u64; GENERATIONS_MAX as usize],
    patience: u64,
    /// Most generations there were.
    most: u32,
    grown: u64,
    shrunk: u64,
}

impl Need {
    /// Of a log that starts with `count` generations, all of them needed now.
    pub(crate) fn new(count: u32, patience: u32) -> Need {
        let patience = u64::from(patience.max(1));
        Need { round: 0, armed: [0; GENERATIONS_MAX as usize], patience, most: count, grown: 0, shrunk: 0 }
    }

    /// Begins a round.
    pub(crate) fn next_round(&mut self) {
        self.round += 1;
    }

    pub(crate) fn note_armed(&mut self, generation: u32) {
        self.armed[generation as usize] = self.round;
    }

    /// Notes that the log has `count` generations, one more than before.
    pub(crate) fn note_grown(&mut self, count: u32) {
        self.grown += 1;
        if count <= self.most {
            self.patience = self.patience.saturating_mul(2);
        }
        self.most = self.most.max(count);
    }

    pub(crate) fn note_shrunk(&mut self) {
        self.shrunk += 1;
    }

    /// Whether the generation was not needed for long enough.
    pub(crate) fn is_past(&self, generation: u32) -> bool {
        self.round - self.armed[generation as usize] >= self.patience
    }

    /// Generations added since the start.
    pub(crate) fn grown(&self) -> u64 {
        self.grown
    }

    /// Generations removed since the start.
    pub(crate) fn shrunk(&self) -> u64 {
        self.shrunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A third generation is needed once in `period` rounds. Returns how often it was added in
    /// `rounds`.
    fn added(period: u64, rounds: u64) -> u64 {
        let (mut need, mut is_there) = (Need::new(2, 10), false);
        for round in 0..rounds {
            need.next_round();
            if round % period == 0 {
                if !is_there {
                    need.note_grown(3);
                    is_there = true;
                }
                need.note_armed(2);
            } else if is_there && need.is_past(2) {
                need.note_shrunk();
                is_there = false;
            }
        }
        assert_eq!(need.grown(), need.shrunk() + u64::from(is_there));
        need.grown()
    }

    #[test]
    fn a_load_that_keeps_coming_back_is_expected_in_the_end() {
        assert_eq!(added(10, 100_000), 1, "it never goes");
        assert_eq!(added(30, 100_000), 3, "the patience is 10, 20, 40");
        assert_eq!(added(1000, 1_000_000), 8);
        assert!((11..5000).step_by(7).all(|period| added(period, 100_000) <= 11));
    }
}
