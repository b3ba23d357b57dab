//! History of a map: the chain of its changes, its timestamps, and the changes that may be rolled
//! back.
//!
//! Thread-safety: owned by the writer's lock.

use crate::error::{ErrorKind, Result};
use crate::memory::format::RootRecord;
use crate::memory::record::Records;
use crate::state::ended::Ended;
use crate::state::pending::{Change, Pending};
use crate::timestamps::{Timestamps, Ts};
use perdura_pmem::planted;

/// Changes forgotten in one step under the writer's lock, besides those of the same timestamp.
const STEP_CHANGES: usize = 256;

/// A tag and its timestamp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tagged {
    pub(crate) ts: Ts,
    pub(crate) tag: Vec<u8>,
}

/// The changes of a map.
pub(crate) struct History {
    /// Offset of the newest record.
    head: u64,
    times: Timestamps,
    pending: Pending,
    /// Timestamp up to which callers have asked to forget, while views hold it.
    forget_to: Ts,
    /// The newest forgotten tag.
    forgotten_tag: Tagged,
    /// Count of the versions.
    versions: u64,
}

/// State of a history before some changes.
pub(crate) struct Mark {
    head: u64,
    times: Timestamps,
    pending: u64,
}

impl History {
    /// The history of a root record, whose changes are not read yet.
    pub(crate) fn open(root: &RootRecord, tag: Vec<u8>, versions: u64) -> History {
        let RootRecord { head, last, applied, forgotten, pending, tag_ts, .. } = *root;
        History {
            head,
            times: Timestamps { last, applied, forgotten, persisted: last },
            pending: Pending::unread(head, pending),
            forget_to: forgotten,
            forgotten_tag: Tagged { ts: tag_ts, tag },
            versions,
        }
    }

    /// The history of another content, of which nothing is persisted.
    pub(crate) fn loaded(
        times: Timestamps,
        forgotten_tag: Tagged,
        (head, pending): (u64, Pending),
        versions: u64,
    ) -> History {
        let times = Timestamps { persisted: 0, ..times };
        History { head, times, pending, forget_to: times.forgotten, forgotten_tag, versions }
    }

    pub(crate) fn times(&self) -> Timestamps {
        self.times
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn versions(&self) -> u64 {
        self.versions
    }

    pub(crate) fn forgotten_tag(&self) -> &Tagged {
        &self.forgotten_tag
    }

    /// Count of the changes not yet forgotten.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.len()
    }

    /// Count of the changes that are not applied, or more if some are unread.
    pub(crate) fn unapplied(&self) -> u64 {
        self.pending.count_above(self.times.applied)
    }

    /// The part of a root record that is about changes.
    pub(crate) fn root_record(&self) -> RootRecord {
        RootRecord {
            head: self.head,
            last: self.times.last,
            applied: self.times.applied,
            forgotten: self.times.forgotten,
            pending: self.pending.len(),
            versions: self.versions,
            tag_ts: self.forgotten_tag.ts,
            tag_bytes: self.forgotten_tag.tag.len() as u32,
            ..RootRecord::default()
        }
    }

    /// Reads the changes from before the last restart, unless that has been done.
    #[inline]
    pub(crate) fn read(&mut self, records: &Records) -> Result<()> {
        if self.pending.is_read() {
            return Ok(());
        }
        self.pending.read(records, self.times.forgotten)
    }

    /// Takes the changes that are unread from a reader of those and perhaps newer ones.
    pub(crate) fn take_over(&mut self, read: Pending) {
        self.pending.take_over(read);
    }

    /// Changes at `from` and later, oldest first.
    pub(crate) fn since(&self, from: Ts) -> impl Iterator<Item = &Change> {
        self.pending.since(from)
    }

    /// Offset of the newest record that is not pending. 0: there is none.
    pub(crate) fn settled_head(&self, records: &Records) -> Result<u64> {
        match self.pending.oldest() {
            Some(oldest) => records.next(oldest.record.offset()),
            None => Ok(self.head),
        }
    }

    /// Checks the timestamp of a change. Error: `Timestamp`.
    #[inline]
    pub(crate) fn check_change(&self, records: &Records, ts: Ts) -> Result<()> {
        let Timestamps { last, applied, .. } = self.times;
        if ts < last || ts <= applied || ts == Ts::MAX {
            let what =
                format!("a change at timestamp {ts}: use at least {last}, and more than {applied}, which is applied");
            return Err(records.error(ErrorKind::Timestamp, what));
        }
        Ok(())
    }

    /// Adds a change whose record is the newest of the chain.
    #[inline]
    pub(crate) fn add(&mut self, change: Change) {
        self.head = change.record.offset();
        self.times.last = change.ts;
        self.versions += u64::from(!change.replaces && !change.tag);
        self.pending.push(change);
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { head: self.head, times: self.times, pending: self.pending.len() }
    }

    /// Count of the changes since a mark, and the chain's head there.
    pub(crate) fn since_mark(&self, mark: &Mark) -> (usize, u64) {
        ((self.pending.len() - mark.pending) as usize, mark.head)
    }

    /// Puts the timestamps back to those at a mark.
    pub(crate) fn restore_times(&mut self, mark: &Mark) {
        self.times = mark.times;
    }

    /// Applies all changes so far, and asks to forget what they replace.
    pub(crate) fn apply_last(&mut self) {
        self.times.applied = self.times.last;
        self.forget_to = self.forget_to.max(self.times.last);
    }

    /// Raises [`Timestamps::applied`]. Returns whether it was below. Error: `Timestamp`.
    pub(crate) fn apply(&mut self, records: &Records, ts: Ts) -> Result<bool> {
        if ts > self.times.last {
            let what = format!("timestamp {ts} cannot be applied: the newest change is at {}", self.times.last);
            return Err(records.error(ErrorKind::Timestamp, what));
        }
        let is_raised = ts > self.times.applied;
        self.times.applied = self.times.applied.max(ts);
        Ok(is_raised)
    }

    /// Count of the changes from `from` on, and the chain's head before them. Error: `Timestamp`
    /// when `from` is applied.
    pub(crate) fn before(&mut self, records: &Records, from: Ts) -> Result<(usize, u64)> {
        if from <= self.times.applied {
            let what = format!("no rollback from {from}: changes up to {} are applied", self.times.applied);
            return Err(records.error(ErrorKind::Timestamp, what));
        }
        self.read(records)?;
        let head = match self.pending.since(from).next() {
            Some(oldest) => records.next(oldest.record.offset())?,
            None => self.head,
        };
        Ok((self.pending.since(from).count(), head))
    }

    /// Lowers [`Timestamps::last`]. The change that comes there next is not durable yet.
    pub(crate) fn lower_last(&mut self, last: Ts) {
        self.times.last = self.times.last.min(last);
        self.not_durable_from(self.times.last + 1);
    }

    /// The change with so many newer ones.
    pub(crate) fn newest_but(&self, newer: usize) -> Option<Change> {
        self.pending.newest_but(newer).copied()
    }

    /// Takes the records of the newest `count` changes, which the index does not name any more, off
    /// the chain.
    pub(crate) fn drop_newest(&mut self, count: usize, head: u64, ended: &mut Ended) {
        for _ in 0..count {
            let Some(change) = self.pending.pop_newest() else { break };
            if !change.tag {
                self.versions = self.versions.saturating_sub(u64::from(!change.replaces));
            }
            if change.before.is_deletion() {
                ended.sweep_later(change.before);
            }
            ended.cut(change.record);
        }
        // Planted: records that are rolled back stay linked.
        self.head = if planted(128) { self.head } else { head };
    }

    /// Timestamp up to which callers have asked to forget.
    pub(crate) fn forget_to(&self) -> Ts {
        self.forget_to
    }

    /// Whether callers have asked to forget more than is forgotten.
    pub(crate) fn is_behind(&self) -> bool {
        self.forget_to > self.times.forgotten
    }

    /// Asks to forget up to a timestamp. Returns whether that is more than is forgotten. Error:
    /// `Timestamp` when it is not applied.
    pub(crate) fn ask_to_forget(&mut self, records: &Records, up_to: Ts) -> Result<bool> {
        if up_to > self.times.applied {
            let what = format!("timestamp {up_to} cannot be forgotten: only {} is applied", self.times.applied);
            return Err(records.error(ErrorKind::Timestamp, what));
        }
        self.forget_to = self.forget_to.max(up_to);
        Ok(up_to > self.times.forgotten)
    }

    /// Timestamp up to which one step forgets, at most.
    pub(crate) fn forget_step(&self) -> Ts {
        self.pending.at(STEP_CHANGES).map_or(self.forget_to, |change| self.forget_to.min(change.ts))
    }

    /// Whether there is nothing to forget up to a timestamp.
    pub(crate) fn is_forgotten(&self, up_to: Ts) -> bool {
        up_to <= self.times.forgotten && self.pending.oldest().is_none_or(|change| change.ts > up_to)
    }

    /// Forgets the changes up to a timestamp.
    pub(crate) fn forget(&mut self, records: &Records, up_to: Ts, ended: &mut Ended) {
        while let Some(change) = self.pending.oldest().copied()
            && change.ts <= up_to
        {
            self.forget_one(records, &change, ended);
            self.pending.pop_oldest();
        }
        self.times.forgotten = self.times.forgotten.max(up_to);
    }

    fn forget_one(&mut self, records: &Records, change: &Change, ended: &mut Ended) {
        if change.tag {
            let tag = records.get(change.record).map_or(&[][..], |record| record.value).to_vec();
            self.forgotten_tag = Tagged { ts: change.ts, tag };
            ended.add(change.record);
            return;
        }
        if !change.before.is_none() {
            ended.add(change.before);
            match (change.replaces, change.before.is_deletion()) {
                (false, false) => self.versions = self.versions.saturating_sub(1),
                // It was taken for a version that ends with its own forgetting.
                (true, true) => self.versions += 1,
                _ => {}
            }
        }
        // Planted: forgetting drops the newest version.
        if planted(130) {
            ended.add(change.record);
        }
        if change.record.is_deletion() {
            self.versions = self.versions.saturating_sub(1);
            ended.sweep_later(change.record);
        }
    }

    /// Follows a change: those at its timestamp are not all durable.
    #[inline]
    pub(crate) fn changed(&mut self) {
        self.not_durable_from(self.times.last);
        // Planted: a change is reported durable when it is made.
        planted(106).then(|| self.times.persisted = self.times.last);
    }

    #[inline]
    fn not_durable_from(&mut self, ts: Ts) {
        // Planted: a change that was persisted once counts as persisted, whatever came in its
        // place.
        if self.times.persisted >= ts && !planted(152) {
            self.times.persisted = ts - 1;
        }
    }

    /// Follows a persist: all changes are durable.
    pub(crate) fn persisted(&mut self) {
        self.times.persisted = self.times.last;
    }

    #[cfg(test)]
    pub(crate) fn set_forget_to(&mut self, up_to: Ts) {
        self.forget_to = up_to;
    }
}
