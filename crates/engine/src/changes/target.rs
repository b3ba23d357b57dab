//! The table that a transaction writes, and the transaction as others meet it.

use crate::format::{Rid, Word};
use crate::shadow::writer::Writer;
use crate::table::Table;
use perdura_pmem::Mutant;
use std::sync::Arc;

/// A table, and a transaction that writes it.
pub(super) struct Target {
    pub table: Arc<Table>,
    pub writer: Arc<Writer>,
}

impl Target {
    /// Frees versions and RIDs that only the transaction ever saw.
    pub(super) fn free(&self, versions: impl IntoIterator<Item = Word>, rids: impl IntoIterator<Item = Rid>) {
        self.table.space().free_all(versions);
        // Planted: the RID of an undone insert is lost.
        self.table.space().free_rids(rids.into_iter().filter(|_| !perdura_pmem::planted(Mutant::RolledBackRidLost)));
    }
}
