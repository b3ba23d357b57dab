//! Refused connections in the log: a line for each, unless there are many.

/// Lines a second.
const LINES_MAX: u64 = 10;
const PERIOD_MS: u64 = 1000;

/// Counts refusals that were logged, and those left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    /// When the present period began.
    since_ms: u64,
    logged: u64,
    left_out: u64,
}

impl Refusals {
    /// A connection was refused. Returns how many were left out before, if a line is to be written
    /// of this one.
    pub(super) fn note(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms >= self.since_ms + PERIOD_MS {
            (self.since_ms, self.logged) = (now_ms, 0);
        }
        if self.logged >= LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.left_out))
    }

    /// How many were left out, once their period is over.
    pub(super) fn take_left_out(&mut self, now_ms: u64) -> Option<u64> {
        let is_over = self.left_out > 0 && now_ms >= self.since_ms + PERIOD_MS;
        is_over.then(|| std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::{LINES_MAX, PERIOD_MS, Refusals};

    /// Hazard: refused connections leave no trace, or fill the disk with lines.
    #[test]
    fn each_is_logged_or_counted() {
        let mut refusals = Refusals::default();
        let logged = (0..100).filter(|now_ms| refusals.note(*now_ms).is_some()).count() as u64;
        assert_eq!((logged, refusals.take_left_out(99)), (LINES_MAX, None));
        assert_eq!(refusals.take_left_out(PERIOD_MS), Some(100 - LINES_MAX));
        assert_eq!(refusals.take_left_out(PERIOD_MS), None);
        assert_eq!(refusals.note(PERIOD_MS + 1), Some(0));
        let logged = (0..LINES_MAX + 4).filter(|_| refusals.note(PERIOD_MS + 2).is_some()).count() as u64;
        assert_eq!((logged, refusals.note(2 * PERIOD_MS + 1)), (LINES_MAX - 1, Some(5)));
    }
}
