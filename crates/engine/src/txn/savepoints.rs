//! The positions in a session's transaction that it can roll back to.

use crate::changes::write_set::Position;
use crate::error::{Error, ErrorKind, Result};
use perdura_pmem::Mutant;
use std::ops::RangeInclusive;

/// A position in a transaction that it can roll back to.
#[derive(Clone, Debug, Default)]
pub struct Savepoint {
    /// Number of the session that set it; sessions count from 1.
    session: u64,
    /// Number of the transaction in its session.
    transaction: u64,
    /// Number of writes of the session before it.
    sequence: u64,
    position: Position,
}

impl Savepoint {
    /// The position in the write set.
    pub(super) fn position(&self) -> &Position {
        &self.position
    }
}

/// The savepoints of a session.
pub(super) struct Savepoints {
    session: u64,
    /// Number of transactions that the session has ended.
    ended: u64,
    /// Number of writes so far, and of rollbacks to savepoints.
    sequence: u64,
    /// A savepoint was taken in the transaction: what lies behind statements that have ended may be
    /// undone.
    has_savepoint: bool,
    statement: Savepoint,
    /// Ranges of sequence numbers whose writes were rolled back, in ascending order: savepoints
    /// within them are gone. There are no more ranges than writes.
    undone: Vec<RangeInclusive<u64>>,
}

impl Savepoints {
    /// None so far, of session `session`.
    pub(super) fn new(session: u64) -> Savepoints {
        let (statement, undone) = (Savepoint::default(), Vec::new());
        Savepoints { session, ended: 0, sequence: 0, has_savepoint: false, statement, undone }
    }

    /// Number of writes so far, and of rollbacks to savepoints.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Counts a write. Returns the new number.
    #[inline]
    pub(super) fn count_write(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn at(&self, position: Position) -> Savepoint {
        Savepoint { session: self.session, transaction: self.ended, sequence: self.sequence, position }
    }

    /// Takes a savepoint at `position`.
    pub(super) fn take(&mut self, position: Position) -> Savepoint {
        self.has_savepoint = true;
        self.at(position)
    }

    /// Begins a statement at `position`. Returns whether nobody goes back to before it.
    pub(super) fn start_statement(&mut self, position: Position) -> bool {
        self.statement = self.at(position);
        // Planted: what a savepoint may bring back is forgotten with the statement that replaced
        // it.
        !self.has_savepoint || perdura_pmem::planted(Mutant::SavepointVersionsFreed)
    }

    /// The beginning of the statement.
    pub(super) fn statement(&self) -> &Savepoint {
        &self.statement
    }

    /// Fails with NotFound if a savepoint belongs to another transaction or was itself rolled back.
    pub(super) fn check(&self, savepoint: &Savepoint) -> Result<()> {
        let gone = self.undone.iter().any(|range| range.contains(&savepoint.sequence));
        let own = (savepoint.session, savepoint.transaction) == (self.session, self.ended);
        if own && !gone {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotFound, "the savepoint belongs to another transaction or was rolled back"))
    }

    /// Notes that the writes since `savepoint` are rolled back.
    pub(super) fn note_undone(&mut self, savepoint: &Savepoint) {
        self.undone.retain(|range| *range.start() <= savepoint.sequence);
        if self.sequence > savepoint.sequence {
            self.sequence += 1;
            self.undone.push(savepoint.sequence + 1..=self.sequence - 1);
        }
    }

    /// Ends the transaction: its savepoints are gone.
    pub(super) fn end_transaction(&mut self) {
        self.has_savepoint = false;
        self.undone = Vec::new();
        self.ended += 1;
    }
}
