//! Up to where each lane was written, so that nothing is written ahead over what is there.

/// Most lanes that are kept.
const KNOWN_MAX: usize = 128;

/// A lane of an activation: the activation's number, and the lane's in the lowest 8 bits.
pub(super) type Key = u64;

/// Ends of what was written, by lane. A lane that is not known is one that nobody has written to,
/// or of an activation that is gone from here: then it counts as written to its end.
#[derive(Default)]
pub(super) struct Ends {
    known: Vec<(Key, u64)>,
    /// Last activation of which a lane is gone from here.
    gone: u64,
}

impl Ends {
    /// Up to where a lane may have been written.
    pub(super) fn of(&self, key: Key) -> u64 {
        let known = self.known.iter().rev().find(|(known, _)| *known == key);
        known.map_or(if key >> 8 > self.gone { 0 } else { u64::MAX }, |(_, end)| *end)
    }

    /// Notes that a lane is, or will be, written up to `end`.
    pub(super) fn raise(&mut self, key: Key, end: u64) {
        if let Some((_, known)) = self.known.iter_mut().rev().find(|(known, _)| *known == key) {
            *known = end.max(*known);
            return;
        }
        if key >> 8 <= self.gone {
            return;
        }
        if self.known.len() == KNOWN_MAX {
            let (oldest, _) = self.known.remove(0);
            self.gone = self.gone.max(oldest >> 8);
        }
        self.known.push((key, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_is_forgotten_counts_as_full() {
        let mut ends = Ends::default();
        assert_eq!(ends.of(1 << 8), 0);
        for activation in 1..=2 * KNOWN_MAX as u64 {
            ends.raise(activation << 8, 4096);
            ends.raise(activation << 8, 512);
            assert_eq!(ends.of(activation << 8), 4096);
        }
        assert_eq!(ends.known.len(), KNOWN_MAX);
        assert_eq!([1, KNOWN_MAX as u64 + 1, 1000].map(|activation| ends.of(activation << 8)), [u64::MAX, 4096, 0]);
        ends.raise(1 << 8, 64);
        assert_eq!(ends.of(1 << 8), u64::MAX);
    }
}
