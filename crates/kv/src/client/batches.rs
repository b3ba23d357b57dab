//! Reads of many connections that share a question to the leader.

use std::collections::VecDeque;

use super::tickets::Stub;

/// Where a read waits: the connection and its place.
pub(super) type Reader = (u32, u64);

/// Batches that are asked for, and the next.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Number of the first that is asked for.
    first: u64,
    asked: VecDeque<Option<Vec<Reader>>>,
    next: Vec<Reader>,
    /// Reads that may be done, in order.
    due: VecDeque<Reader>,
}

impl Batches {
    /// A read comes with the next batch.
    pub(super) fn add(&mut self, reader: Reader) {
        self.next.push(reader);
    }

    /// A read may be done.
    pub(super) fn add_due(&mut self, reader: Reader) {
        self.due.push_back(reader);
    }

    /// The next read that may be done.
    pub(super) fn next_due(&mut self) -> Option<Reader> {
        self.due.pop_front()
    }

    /// Whether a read may be done.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Closes the batch, if anybody is in it. Returns its ticket.
    pub(super) fn close(&mut self) -> Option<u64> {
        if self.next.is_empty() {
            return None;
        }
        self.asked.push_back(Some(std::mem::take(&mut self.next)));
        Some(Stub::Batch(self.first + self.asked.len() as u64 - 1).ticket())
    }

    /// Those of a batch, which is done.
    pub(super) fn take(&mut self, number: u64) -> Vec<Reader> {
        let at = Stub::distance(self.first, number) as usize;
        let readers = self.asked.get_mut(at).and_then(Option::take).unwrap_or_default();
        while let Some(None) = self.asked.front() {
            self.asked.pop_front();
            self.first += 1;
        }
        readers
    }
}

#[cfg(test)]
mod tests {
    use super::{Batches, Stub};

    #[test]
    fn batches_are_done_in_any_order() {
        let mut batches = Batches::default();
        assert_eq!(batches.close(), None);
        let mut numbers = Vec::new();
        for token in 0..3 {
            batches.add((token, 7));
            let Stub::Batch(number) = Stub::of(batches.close().expect("a batch")) else { panic!("no batch") };
            numbers.push(number);
        }
        assert_eq!(batches.take(numbers[1]), [(1, 7)]);
        assert_eq!(batches.take(numbers[0]), [(0, 7)]);
        assert_eq!(batches.take(numbers[0]), []);
        assert_eq!(batches.take(numbers[2]), [(2, 7)]);
        assert_eq!(batches.take(9), []);
    }
}
