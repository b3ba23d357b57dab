//! The rollback records: the changes not yet forgotten, oldest first.
//!
//! In persistent memory they are the newest records of the chain, as many as the root record says.
//! DRAM keeps a queue of them. After a restart it is filled from the chain when first needed, so
//! that opening a B+-tree does not read records.

use crate::error::Result;
use crate::memory::format::Ref;
use crate::memory::record::Records;
use crate::timestamps::Ts;
use std::collections::VecDeque;

/// A change: its record, and the one before it in its key's chain of versions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) ts: Ts,
    pub(crate) record: Ref,
    /// The key's version that this one took the place of, if that was not forgotten.
    pub(crate) before: Ref,
    /// Whether that has the same timestamp, and so is no version any more.
    pub(crate) replaces: bool,
    /// Whether the record is no change of a key but the tag of its timestamp.
    pub(crate) tag: bool,
    /// Whether the record is a change of a key and bears the tag of its timestamp.
    pub(crate) bears_tag: bool,
}

impl Change {
    /// Reads a record's change.
    pub(crate) fn read(records: &Records, offset: u64) -> Result<Change> {
        let (record, found) = records.at(offset)?;
        let (ts, tag, bears_tag) = (found.header.ts, found.header.tag, found.header.borne_bytes.is_some());
        let older = if tag { None } else { records.older(offset, &found)? };
        let before = older.map_or(Ref::NONE, |(before, _)| before);
        let replaces = older.is_some_and(|(_, older)| older.header.ts == ts);
        Ok(Change { ts, record, before, replaces, tag, bears_tag })
    }
}

/// The changes not yet forgotten.
#[derive(Default)]
pub(crate) struct Pending {
    known: VecDeque<Change>,
    /// Changes older than those known that have not been read: how many, and the offset of the
    /// newest.
    unread: u64,
    unread_head: u64,
}

impl Pending {
    /// `count` changes, the newest at offset `head`, all unread.
    pub(crate) fn unread(head: u64, count: u64) -> Pending {
        Pending { known: VecDeque::new(), unread: count, unread_head: head }
    }

    pub(crate) fn len(&self) -> u64 {
        self.known.len() as u64 + self.unread
    }

    #[inline]
    pub(crate) fn push(&mut self, change: Change) {
        self.known.push_back(change);
    }

    /// Reads the unread changes, which are above `forgotten`, from the chain.
    pub(crate) fn read(&mut self, records: &Records, forgotten: Ts) -> Result<()> {
        let mut older = VecDeque::new();
        let (mut offset, mut newest) = (self.unread_head, Ts::MAX);
        for _ in 0..self.unread {
            let change = Change::read(records, offset)?;
            if change.ts > newest || change.ts <= forgotten {
                return Err(records.damaged(offset, "a change that is out of order, or forgotten"));
            }
            newest = change.ts;
            older.push_front(change);
            offset = records.next(offset)?;
        }
        self.take_over(Pending { known: older, unread: 0, unread_head: 0 });
        Ok(())
    }

    /// Takes the changes that are unread from a reader of those and perhaps newer ones.
    pub(crate) fn take_over(&mut self, read: Pending) {
        let mut older = read.known;
        older.truncate(std::mem::take(&mut self.unread) as usize);
        older.extend(self.known.drain(..));
        self.known = older;
    }

    /// The records of the changes known, oldest first.
    pub(crate) fn records(&self) -> impl Iterator<Item = Ref> {
        self.known.iter().map(|change| change.record)
    }

    #[inline]
    pub(crate) fn is_read(&self) -> bool {
        self.unread == 0
    }

    #[inline]
    pub(crate) fn oldest(&self) -> Option<&Change> {
        self.known.front()
    }

    #[inline]
    pub(crate) fn pop_oldest(&mut self) {
        self.known.pop_front();
    }

    /// The known change with this number of older ones.
    pub(crate) fn at(&self, index: usize) -> Option<&Change> {
        self.known.get(index)
    }

    /// The known change with this number of newer ones.
    pub(crate) fn newest_but(&self, newer: usize) -> Option<&Change> {
        self.known.get(self.known.len().checked_sub(newer + 1)?)
    }

    pub(crate) fn pop_newest(&mut self) -> Option<Change> {
        self.known.pop_back()
    }

    /// Changes at `from` and later, oldest first.
    pub(crate) fn since(&self, from: Ts) -> impl Iterator<Item = &Change> {
        let start = self.known.partition_point(|change| change.ts < from);
        self.known.range(start..)
    }

    /// The number of changes above `ts`, or more if some are unread.
    pub(crate) fn count_above(&self, ts: Ts) -> u64 {
        self.unread + (self.known.len() - self.known.partition_point(|change| change.ts <= ts)) as u64
    }
}
