//! Kinds of transactions, and how often each is chosen.

use perdura_pmem::sim::Random;

/// Next action of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A few single rows.
    Insert,
    /// A bulk insert: so many rows that the transaction uses pages and segments of its own.
    Bulk,
    /// A bulk insert that changes its own rows and rolls back to savepoints before it ends.
    EditedBulk,
    /// A bulk insert that deletes most or all of its own rows before it ends.
    VainBulk,
    /// Changes of rows, its own and others'.
    Update,
    /// Changes of so many own rows that the redo comes in chunks over several generations.
    Huge,
    /// Deletions of rows, its own and others'.
    Delete,
    /// Deletes all rows that its thread has inserted.
    Wipe,
    /// Writes of all kinds, some of them rolled back to a savepoint.
    Savepoint,
    /// A scan that changes rows before it reaches them, and rows that it has passed.
    Walk,
    /// Rows are deleted and their keys given to new ones.
    MoveKeys,
    /// Row locks, and no write.
    Lock,
    /// A snapshot that is held over many transactions.
    Watch,
    /// Writes of all kinds, rolled back.
    Rollback,
    /// Prepared, then committed or rolled back.
    Prepare,
    /// Prepared in a session of its own, and decided only at the next such action.
    Hold,
    /// As `Hold`, with changes of so many own rows that their words are spilled.
    HoldLarge,
    /// Prepared and ordered, and left unpublished while the log wraps around.
    Order,
    /// Create, rename, truncate, drop.
    Ddl,
    /// Indexes of a table of its own are added, dropped, put in another order and made anew.
    Alter,
    /// A row larger than a segment.
    Large,
    /// Rows until the device is full.
    Cram,
    /// Checkpoint.
    Checkpoint,
    /// Purge.
    Purge,
    /// Sweeps the segments that are unswept after a restart.
    Sweep,
    /// Creates data files ahead of need.
    GrowAhead,
    /// Rows of one length, which fill several segments; then most rows that its thread has inserted
    /// are deleted, here and there.
    Thin,
    /// Moves rows out of sparse segments.
    Compact,
}

/// How often each kind is chosen.
pub type Mix = &'static [(Action, u32)];

/// Chooses one.
pub fn choose(mix: Mix, random: &mut Random) -> Action {
    let mut pick = random.below(mix.iter().map(|(_, weight)| u64::from(*weight)).sum());
    for (action, weight) in mix {
        if pick < u64::from(*weight) {
            return *action;
        }
        pick -= u64::from(*weight);
    }
    unreachable!("the pick is below the sum of the weights")
}
