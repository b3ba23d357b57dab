//! The purge horizon: which commits are below all snapshots, and which ones no snapshot can tell
//! apart.

use perdura_log::Csn;

/// Bounds of one round of purge: commits that it may take and merge.
///
/// A new snapshot is never below `covered`, so a gap between two snapshots below it stays one:
/// commits in the gap count for everybody as one commit, now and later.
pub(crate) struct PurgeHorizon {
    limit: Csn,
    covered: Csn,
    /// The live snapshots, in ascending order.
    snapshots: Vec<Csn>,
}

impl PurgeHorizon {
    /// Every snapshot, live or to come, is at or above `limit`. `covered` is the CSN of the last
    /// durable checkpoint; each snapshot below it is one of `snapshots`.
    pub(crate) fn new(limit: Csn, covered: Csn, mut snapshots: Vec<Csn>) -> PurgeHorizon {
        snapshots.sort_unstable();
        PurgeHorizon { limit, covered, snapshots }
    }

    /// Nobody needs what commits up to here replaced.
    pub(crate) fn limit(&self) -> Csn {
        self.limit
    }

    /// The limit in a page that was published at `published`: older snapshots see nothing there.
    pub(crate) fn limit_in(&self, published: Csn) -> Csn {
        let first = self.snapshots.partition_point(|snapshot| *snapshot < published);
        self.snapshots.get(first).map_or(self.covered, |snapshot| *snapshot).max(self.limit)
    }

    /// Redo needs nothing that commits up to here replaced.
    pub(crate) fn covered(&self) -> Csn {
        self.covered
    }

    /// Whether a snapshot sees commit `older` and not commit `newer`.
    pub(crate) fn tells_apart(&self, older: Csn, newer: Csn) -> bool {
        let first = self.snapshots.partition_point(|snapshot| *snapshot < older);
        self.snapshots.get(first).is_some_and(|snapshot| *snapshot < newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_tells_apart_what_it_sees_and_what_it_does_not() {
        let horizon = PurgeHorizon::new(10, 40, vec![20, 10, 20]);
        assert!(!horizon.tells_apart(11, 20), "both are above 10 and seen by 20");
        assert!(horizon.tells_apart(20, 21));
        assert!(horizon.tells_apart(15, 30));
        assert!(horizon.tells_apart(10, 11));
        assert!(!horizon.tells_apart(9, 10));
        assert!(!horizon.tells_apart(21, 40));
        assert_eq!([0, 10, 11, 20, 21].map(|published| horizon.limit_in(published)), [10, 10, 20, 20, 40]);
    }
}
