//! History of a map: the chain of its changes, its timestamps, and the changes that may be rolled
//! back.
//!
//! Thread-safety: owned by the writer's lock.

use crate::error::{ErrorKind, Result};
use crate::memory::record::Records;
use crate::memory::root::{RootRecord, ShortTag};
use crate::state::ended::Ended;
use crate::state::pending::{Change, Pending};
use crate::timestamps::{Timestamps, Ts};
use perdura_pmem::{Mutant, planted};

/// A tag and its timestamp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tagged {
    pub(crate) ts: Ts,
    pub(crate) tag: Vec<u8>,
}

impl Tagged {
    /// The tag as the root record holds it, if it is short enough for that.
    pub(crate) fn short(&self) -> Option<(Ts, ShortTag)> {
        ShortTag::of(&self.tag).filter(|_| self.ts > 0).map(|tag| (self.ts, tag))
    }
}

/// The changes of a map.
pub(crate) struct History {
    /// Offset of the newest record.
    pub(super) head: u64,
    pub(super) times: Timestamps,
    pub(super) pending: Pending,
    /// Timestamp up to which callers have asked to forget, while views hold it.
    pub(super) forget_to: Ts,
    /// The newest forgotten tag.
    pub(super) forgotten_tag: Tagged,
    /// Count of the versions.
    pub(super) versions: u64,
}

impl History {
    /// The history of a root record, whose changes are not read yet.
    pub(crate) fn open(root: &RootRecord, forgotten_tag: Tagged, versions: u64) -> History {
        let RootRecord { head, last, applied, forgotten, pending, .. } = *root;
        let times = Timestamps { last, applied, forgotten, persisted: last };
        History::new(times, forgotten_tag, (head, Pending::unread(head, pending)), versions)
    }

    pub(crate) fn new(
        times: Timestamps,
        forgotten_tag: Tagged,
        (head, pending): (u64, Pending),
        versions: u64,
    ) -> History {
        History { head, times, pending, forget_to: times.forgotten, forgotten_tag, versions }
    }

    pub(crate) fn times(&self) -> Timestamps {
        self.times
    }

    pub(crate) fn versions(&self) -> u64 {
        self.versions
    }

    /// The newest forgotten tag.
    pub(crate) fn forgotten_tag(&self) -> &Tagged {
        &self.forgotten_tag
    }

    /// The part of a root record that is about changes.
    pub(super) fn root_record(&self) -> RootRecord {
        RootRecord {
            head: self.head,
            last: self.times.last,
            applied: self.times.applied,
            forgotten: self.times.forgotten,
            pending: self.pending.len(),
            versions: self.versions,
            tag: self.forgotten_tag.short(),
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

    /// Offset of the newest record that is not pending. 0: there is none.
    pub(crate) fn settled_head(&self, records: &Records) -> Result<u64> {
        match self.pending.oldest() {
            Some(oldest) => records.next(oldest.record.offset()),
            None => Ok(self.head),
        }
    }

    /// Checks the timestamp of a change. Error: `Timestamp`.
    pub(super) fn check_change(&self, records: &Records, ts: Ts) -> Result<()> {
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
    pub(super) fn add(&mut self, change: Change) {
        self.head = change.record.offset();
        self.times.last = change.ts;
        self.versions += u64::from(!change.replaces && !change.tag);
        self.pending.push(change);
    }

    /// Takes the records of the newest `count` changes, which the index does not name any more, off
    /// the chain.
    pub(super) fn drop_newest(&mut self, count: usize, head: u64, ended: &mut Ended) {
        for _ in 0..count {
            let Some(change) = self.pending.pop_newest() else { break };
            if !change.tag {
                self.versions = self.versions.saturating_sub(u64::from(!change.replaces));
            }
            if change.before.is_deletion() {
                ended.to_sweep.push(change.before);
            }
            ended.cut.push(change.record);
        }
        // Planted: records that are rolled back stay linked.
        self.head = if planted(Mutant::RolledBackRecordLinked) { self.head } else { head };
    }

    /// Forgets the changes up to a timestamp.
    pub(super) fn forget(&mut self, records: &Records, up_to: Ts, ended: &mut Ended) {
        while let Some(change) = self.pending.oldest().copied()
            && change.ts <= up_to
        {
            self.forget_one(records, &change, ended);
            self.pending.pop_oldest();
        }
        self.times.forgotten = self.times.forgotten.max(up_to);
    }

    fn forget_one(&mut self, records: &Records, change: &Change, ended: &mut Ended) {
        // Planted: a tag that a change bears is forgotten with it.
        if change.tag || change.bears_tag && !planted(Mutant::BorneTagForgotten) {
            let tag = records.get(change.record).ok().and_then(|record| record.tag()).unwrap_or_default().to_vec();
            self.forgotten_tag = Tagged { ts: change.ts, tag };
        }
        if change.tag {
            ended.dead.push(change.record);
            return;
        }
        if !change.before.is_none() {
            ended.dead.push(change.before);
            match (change.replaces, change.before.is_deletion()) {
                (false, false) => self.versions = self.versions.saturating_sub(1),
                // It was taken for a version that ends with its own forgetting.
                (true, true) => self.versions += 1,
                _ => {}
            }
        }
        // Planted: forgetting drops the newest version.
        if planted(Mutant::ForgetDropsNewest) {
            ended.dead.push(change.record);
        }
        if change.record.is_deletion() {
            self.versions = self.versions.saturating_sub(1);
            ended.to_sweep.push(change.record);
        }
    }

    /// Notes that changes at `ts` and later are not all durable.
    #[inline]
    pub(super) fn not_durable_from(&mut self, ts: Ts) {
        // Planted: a change that was persisted once counts as persisted, whatever came in its
        // place.
        if self.times.persisted >= ts && !planted(Mutant::PersistedOnceStaysPersisted) {
            self.times.persisted = ts - 1;
        }
    }
}
