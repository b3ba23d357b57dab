//! A reader of a whole table, as writers meet it.

use super::Table;
use std::sync::Arc;

/// Says that a transaction has locked a table as a whole or is about to, until it is dropped.
/// Writers that come to the table meanwhile ask the lock table first.
pub(crate) struct WholeReader(Arc<Table>);

impl WholeReader {
    /// Announces a reader of `table`, which then looks for the writers that are there.
    pub(crate) fn announce(table: Arc<Table>) -> WholeReader {
        table.shadows().announce_reader();
        WholeReader(table)
    }

    /// Whether it reads this table.
    pub(crate) fn reads(&self, table: &Table) -> bool {
        std::ptr::eq(&*self.0, table)
    }
}

impl Drop for WholeReader {
    fn drop(&mut self) {
        self.0.shadows().withdraw_reader();
    }
}
