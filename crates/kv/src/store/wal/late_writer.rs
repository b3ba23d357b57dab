//! A writer that takes its time by a seed, for simulations: a frame is written at once, later, or
//! only when it is waited for, and the power may fail before each of them.

use perdura_pmem::sim::Random;

use super::log_writer::{FrameWrite, LogWriter, Took, Written};

/// Looks at a frame, at most, until it is written.
const LOOKS_MAX: u64 = 4;

/// A writer that takes its time.
pub(super) struct LateWriter {
    random: Random,
    /// The frame that is under way, what came of its bytes so far, and the looks until its sync.
    under_way: Option<(FrameWrite, Option<Written>, u64)>,
}

impl LateWriter {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), under_way: None }
    }

    fn end(write: &FrameWrite, put: Option<Written>) -> Written {
        let has_zeros = put.unwrap_or_else(|| write.put())?;
        write.sync()?;
        Ok(has_zeros)
    }
}

impl LogWriter for LateWriter {
    fn is_worthwhile(&self, _bytes: usize) -> bool {
        true
    }

    fn note(&mut self, _took: Took) {}

    fn begin(&mut self, write: FrameWrite) {
        let put = self.random.one_in(2).then(|| write.put());
        self.under_way = Some((write, put, self.random.below(LOOKS_MAX)));
    }

    fn poll(&mut self) -> Option<Written> {
        let (write, put, looks) = self.under_way.take()?;
        if looks > 0 {
            self.under_way = Some((write, put, looks - 1));
            return None;
        }
        Some(Self::end(&write, put))
    }

    fn wait(&mut self) -> Written {
        let (write, put, _) = self.under_way.take().expect("a frame is under way");
        Self::end(&write, put)
    }
}
