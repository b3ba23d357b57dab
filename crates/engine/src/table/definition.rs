//! Definition of a table as created or last altered.

use crate::format::IndexDefinition;
use std::sync::Arc;

/// Definition of a table. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Its indexes.
    pub indexes: Arc<[IndexDefinition]>,
    /// The number of each index, by which its leaves and the log know it. No number is given twice
    /// in a table.
    pub numbers: Arc<[u16]>,
    /// Numbers from this one on were never given.
    pub next_number: u16,
    /// The creator's bytes, unread by the engine.
    pub bytes: Arc<[u8]>,
}

impl Definition {
    /// The definition of a new table, of at most 255 indexes.
    pub(crate) fn new(indexes: &[IndexDefinition], bytes: &[u8]) -> Definition {
        let next_number = indexes.len() as u16;
        Definition { indexes: indexes.into(), numbers: (0..next_number).collect(), next_number, bytes: bytes.into() }
    }

    /// Whether the indexes have the numbers that those of a new table have.
    pub(crate) fn is_plain(&self) -> bool {
        usize::from(self.next_number) == self.indexes.len() && self.numbers.iter().copied().eq(0..self.next_number)
    }

    /// The indexes with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u16, IndexDefinition)> + '_ {
        self.numbers.iter().copied().zip(self.indexes.iter().copied())
    }
}
