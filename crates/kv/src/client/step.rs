//! Work for clients in the present step, counted in places.

use crate::machine::draft::{BYTES_A_PLACE, Draft};

/// Places of a step, beyond the last command: half for requests as they come, half for reads that
/// may be done, so that neither keeps the other waiting for ever.
pub const STEP_PLACES: usize = 8192;
const HALF_PLACES: usize = STEP_PLACES / 2;

/// Work of the present step.
#[derive(Debug, Default)]
pub(super) struct Step {
    of_requests: usize,
    of_reads: usize,
    longest: usize,
}

fn places(draft: &Draft<'_>) -> usize {
    draft.places() + draft.work() / BYTES_A_PLACE
}

impl Step {
    /// Counts what a request has done when it came.
    pub(super) fn add(&mut self, draft: &Draft<'_>) {
        self.of_requests += places(draft);
        self.longest = self.longest.max(self.of_requests + self.of_reads);
    }

    /// Counts what a read has done when it might be done.
    pub(super) fn add_read(&mut self, draft: &Draft<'_>) {
        self.of_reads += places(draft);
        self.longest = self.longest.max(self.of_requests + self.of_reads);
    }

    /// Places that are left for requests.
    pub(super) fn left(&self) -> usize {
        HALF_PLACES.saturating_sub(self.of_requests)
    }

    /// Places that are left for reads.
    pub(super) fn left_for_reads(&self) -> usize {
        HALF_PLACES.saturating_sub(self.of_reads)
    }

    /// Places of the longest step so far.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Begins another step.
    pub(super) fn renew(&mut self) {
        (self.of_requests, self.of_reads) = (0, 0);
    }
}
