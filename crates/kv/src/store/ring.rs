//! The last entries in DRAM: all that are not given up, and before them as many as have a number of
//! bytes together.
//!
//! Raft reads the log from here, and so do followers. A store fills it again when it is opened.
//! Entries share their bytes with all other holders.

use std::collections::VecDeque;

use raft::eraftpb::Entry;

use super::error::{Error, Result};

/// Bytes of an entry besides data and context, roughly.
const ENTRY_BYTES: u64 = 128;

/// The entry before the first: only what has to be known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) index: u64,
    pub(super) term: u64,
    /// The clock of the newest entry up to there.
    pub(super) clock_ms: u64,
}

/// The last entries.
#[derive(Debug)]
pub(super) struct Ring {
    base: Base,
    /// Each with the clock of the newest entry up to there.
    items: VecDeque<(Entry, u64)>,
    bytes: u64,
    bytes_max: u64,
    /// Entries up to here may be dropped.
    given_up: u64,
}

fn size(entry: &Entry) -> u64 {
    ENTRY_BYTES + (entry.data.len() + entry.context.len()) as u64
}

impl Ring {
    /// A ring that is empty after a base.
    pub(super) fn new(base: Base, bytes_max: u64) -> Self {
        Self { base, items: VecDeque::new(), bytes: 0, bytes_max, given_up: base.index }
    }

    pub(super) fn first(&self) -> u64 {
        self.base.index + 1
    }

    pub(super) fn last(&self) -> u64 {
        self.base.index + self.items.len() as u64
    }

    /// The place of an entry. Errors: `Compacted`, `Beyond`.
    fn place(&self, index: u64) -> Result<usize> {
        if index < self.first() {
            return Err(Error::compacted(index, self.first()));
        }
        if index > self.last() {
            return Err(Error::beyond(index, self.last()));
        }
        Ok((index - self.first()) as usize)
    }

    pub(super) fn get(&self, index: u64) -> Result<&Entry> {
        self.place(index).map(|place| &self.items[place].0)
    }

    pub(super) fn term(&self, index: u64) -> Result<u64> {
        if index == self.base.index { Ok(self.base.term) } else { self.get(index).map(|entry| entry.term) }
    }

    /// The clock of the newest entry up to `index`, which is not before the base.
    pub(super) fn clock_ms(&self, index: u64) -> u64 {
        self.place(index).map_or(self.base.clock_ms, |place| self.items[place].1)
    }

    /// Adds the entry after the last, with its own clock if it has one.
    pub(super) fn push(&mut self, entry: Entry, clock_ms: Option<u64>) {
        debug_assert_eq!(entry.index, self.last() + 1);
        let before = self.clock_ms(self.last());
        self.bytes += size(&entry);
        self.items.push_back((entry, clock_ms.unwrap_or_default().max(before)));
        self.trim();
    }

    /// Drops the entries from `from` on.
    pub(super) fn truncate(&mut self, from: u64) {
        while self.last() >= from.max(self.first())
            && let Some((entry, _)) = self.items.pop_back()
        {
            self.bytes -= size(&entry);
        }
    }

    /// Allows the entries up to `index` to be dropped.
    pub(super) fn give_up(&mut self, index: u64) {
        self.given_up = self.given_up.max(index);
        self.trim();
    }

    fn trim(&mut self) {
        while self.bytes > self.bytes_max && self.first() <= self.given_up {
            let Some((entry, clock_ms)) = self.items.pop_front() else { break };
            self.bytes -= size(&entry);
            self.base = Base { index: entry.index, term: entry.term, clock_ms };
        }
    }

    /// The entries from `from` to before `to`: as many as have `bytes_max` bytes together, and at
    /// least one.
    pub(super) fn entries(&self, from: u64, to: u64, bytes_max: u64) -> Result<Vec<Entry>> {
        if from >= to {
            return Ok(Vec::new());
        }
        let (place, end) = (self.place(from)?, self.place(to - 1)? + 1);
        let mut bytes = 0_u64;
        let fits = |(entry, _): &&(Entry, u64)| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(size(entry));
            is_first || bytes <= bytes_max
        };
        Ok(self.items.range(place..end).take_while(fits).map(|(entry, _)| entry.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{Base, ENTRY_BYTES, Entry, Ring};
    use crate::store::ErrorKind;

    fn entry(index: u64, term: u64, bytes: usize) -> Entry {
        Entry { index, term, data: vec![0; bytes].into(), ..Entry::default() }
    }

    #[test]
    fn entries_are_kept_until_given_up_and_then_as_many_as_fit() {
        let base = Base { index: 4, term: 2, clock_ms: 10 };
        let mut ring = Ring::new(base, 3 * (ENTRY_BYTES + 100));
        for index in 5..=10 {
            ring.push(entry(index, index, 100), Some(5 * index));
        }
        assert_eq!((ring.first(), ring.last(), ring.term(4).expect("the base")), (5, 10, 2));
        ring.give_up(6);
        assert_eq!((ring.first(), ring.term(6).expect("the base"), ring.clock_ms(6)), (7, 6, 30));
        ring.give_up(10);
        assert_eq!((ring.first(), ring.last()), (8, 10));
        let kind = |index| ring.term(index).expect_err("it is not there").kind();
        assert_eq!([kind(6), kind(11)], [ErrorKind::Compacted, ErrorKind::Beyond]);
        let indexes = |from, to, bytes| -> Vec<u64> {
            ring.entries(from, to, bytes).expect("they are there").iter().map(|entry| entry.index).collect()
        };
        assert_eq!(indexes(8, 11, u64::MAX), [8, 9, 10]);
        assert_eq!(indexes(8, 11, 0), [8]);
        assert_eq!(indexes(8, 10, 2 * (ENTRY_BYTES + 100)), [8, 9]);
        assert_eq!(indexes(9, 9, 0), [0; 0]);
    }

    #[test]
    fn a_clock_does_not_fall_and_a_truncated_entry_takes_its_own_along() {
        let mut ring = Ring::new(Base { index: 0, term: 0, clock_ms: 7 }, 1000);
        ring.push(entry(1, 1, 0), Some(20));
        ring.push(entry(2, 1, 0), Some(15));
        ring.push(entry(3, 1, 0), None);
        assert_eq!([0, 1, 2, 3].map(|index| ring.clock_ms(index)), [7, 20, 20, 20]);
        ring.truncate(1);
        assert_eq!((ring.last(), ring.clock_ms(ring.last()), ring.bytes), (0, 7, 0));
        ring.truncate(0);
        assert_eq!(ring.last(), 0);
    }
}
