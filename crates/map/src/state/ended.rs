//! Records that have ended: nothing needs them once the next persist is durable.
//!
//! Thread-safety: owned by the writer's lock.

use crate::memory::format::Ref;
use crate::memory::pages::Pages;

/// Dead records for which a step persists, so that the persist has not too many to settle.
const DEAD_MAX: usize = 1024;
/// Records of a load broken off that one step gives up.
const STEP_RECORDS: usize = 1024;

/// Records that are to be given up.
pub(crate) type Abandoned = Box<dyn Iterator<Item = Ref> + Send>;

/// Records that have ended, and deletions that the index still has to lose.
#[derive(Default)]
pub(crate) struct Ended {
    /// Records that are no longer needed since the last persist.
    pub(super) dead: Vec<Ref>,
    /// Records rolled back since the last persist.
    pub(super) cut: Vec<Ref>,
    /// Forgotten deletions whose entries the index may still have.
    pub(super) to_sweep: Vec<Ref>,
    /// List: dead deletions, by offset, found since the collector's last round and still linked.
    dead_deletions: Vec<u64>,
    /// Records of loads that were broken off, which are given up some in each persist.
    abandoned: Vec<Abandoned>,
}

impl Ended {
    pub(crate) fn open(dead_deletions: Vec<u64>) -> Ended {
        Ended { dead_deletions, ..Ended::default() }
    }

    /// Whether enough records have died for a step to persist.
    pub(crate) fn are_many(&self) -> bool {
        self.dead.len() > DEAD_MAX
    }

    /// Adds a deletion whose entry is to be taken out of the index.
    pub(crate) fn sweep_later(&mut self, deletion: Ref) {
        self.to_sweep.push(deletion);
    }

    /// Count of the deletions to be taken out of the index.
    pub(crate) fn to_sweep(&self) -> usize {
        self.to_sweep.len()
    }

    /// List: count of the dead deletions that are still linked.
    pub(crate) fn dead_deletions(&self) -> usize {
        self.dead_deletions.len()
    }

    pub(crate) fn take_dead_deletions(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dead_deletions)
    }

    pub(crate) fn add_dead_deletions(&mut self, deletions: impl IntoIterator<Item = u64>) {
        self.dead_deletions.extend(deletions);
    }

    pub(crate) fn abandon(&mut self, records: Abandoned) {
        self.abandoned.push(records);
    }

    /// Gives up some of the records of loads that were broken off. Returns whether it has, and
    /// whether there are more.
    pub(super) fn give_up_some(&mut self, pages: &mut Pages) -> (bool, bool) {
        let Some(records) = self.abandoned.last_mut() else { return (false, false) };
        let mut count = 0;
        records.take(STEP_RECORDS).for_each(|record| {
            count += 1;
            pages.end(record);
        });
        if count < STEP_RECORDS {
            self.abandoned.pop();
        }
        (count > 0, !self.abandoned.is_empty())
    }

    /// After a persist, which no longer reaches them: ends the records. `are_linked` says whether
    /// the chain runs through them until the collector has unlinked them.
    pub(super) fn settle(&mut self, pages: &mut Pages, are_linked: bool) {
        for record in self.cut.drain(..) {
            pages.end(record);
        }
        for record in self.dead.drain(..) {
            if !are_linked {
                pages.end(record);
            } else if pages.died(record) && record.is_deletion() {
                self.dead_deletions.push(record.offset());
            }
        }
    }
}
