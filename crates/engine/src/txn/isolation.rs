//! The isolation levels that the engine offers.

/// Which commits the statements of a transaction see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Isolation {
    /// Each statement sees what was committed at its first read.
    ReadCommitted,
    /// Consistent reads see what was committed at the transaction's first one. Writes and locking
    /// reads work on the newest rows, whatever the transaction has seen of them.
    ConsistentReads,
    /// All statements see what was committed at the transaction's first consistent read. To change
    /// or lock a row that somebody has changed since is a conflict.
    RepeatableRead,
    /// The transactions of this level could have run one after the other, in the order of their
    /// commits. A transaction locks each table ([`Locker::lock_table`]) before it scans it or
    /// reads it from a snapshot.
    ///
    /// [`Locker::lock_table`]: crate::Locker::lock_table
    Serializable,
}

impl Isolation {
    const ALL: [Isolation; 4] =
        [Isolation::ReadCommitted, Isolation::ConsistentReads, Isolation::RepeatableRead, Isolation::Serializable];

    /// The level of this number.
    pub(crate) fn of(number: u8) -> Isolation {
        Isolation::ALL[usize::from(number)]
    }

    /// Whether the transaction takes one snapshot for all its consistent reads.
    pub(crate) fn keeps_snapshot(self) -> bool {
        matches!(self, Isolation::ConsistentReads | Isolation::RepeatableRead)
    }
}
