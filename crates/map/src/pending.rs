//! The rollback records: the changes not yet forgotten, oldest first.
//!
//! In persistent memory they are the newest records of the chain, as many as the root record says. DRAM keeps a queue
//! of them. After a restart it is filled from the chain when first needed, so that opening a B+-tree does not read
//! records.

use crate::error::Result;
use crate::format::Ref;
use crate::record::Records;
use crate::timestamps::Ts;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) ts: Ts,
    pub(crate) record: Ref,
    /// Whether its key may have an older version.
    pub(crate) has_older: bool,
    pub(crate) deletion: bool,
}

/// The changes not yet forgotten.
#[derive(Default)]
pub(crate) struct Pending {
    known: VecDeque<Change>,
    /// Changes older than those known that have not been read: how many, and the offset of the newest.
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

    /// Reads the unread changes from the chain, and calls `each` with them, newest first.
    pub(crate) fn read(&mut self, records: &Records, mut each: impl FnMut(&Change) -> Result<()>) -> Result<()> {
        let mut older = Vec::new();
        let mut offset = self.unread_head;
        for _ in 0..self.unread {
            let (record, found) = records.at(offset)?;
            let change = Change { ts: found.header.ts, record, has_older: true, deletion: found.header.deletion };
            each(&change)?;
            older.push(change);
            offset = records.next(offset)?;
        }
        older.into_iter().for_each(|change| self.known.push_front(change));
        self.unread = 0;
        Ok(())
    }

    pub(crate) fn is_read(&self) -> bool {
        self.unread == 0
    }

    pub(crate) fn oldest(&self) -> Option<&Change> {
        self.known.front()
    }

    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = &Change> {
        self.known.iter()
    }

    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Change> {
        self.known.iter().rev()
    }

    pub(crate) fn newest(&self) -> Option<&Change> {
        self.known.back()
    }

    pub(crate) fn pop_oldest(&mut self) {
        self.known.pop_front();
    }

    pub(crate) fn pop_newest(&mut self) {
        self.known.pop_back();
    }

    /// Changes at `from` and later, oldest first.
    pub(crate) fn since(&self, from: Ts) -> impl Iterator<Item = &Change> {
        let start = self.known.partition_point(|change| change.ts < from);
        self.known.range(start..)
    }
}
