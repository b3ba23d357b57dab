//! The tables that the log changes, found before anything is redone.

use super::redo::records;
use crate::error::Result;
use crate::format::CATALOG_ID;
use perdura_log::{Committed, Recovery};
use std::collections::BTreeSet;

/// Commits to be redone, and the tables that are to be opened for them.
pub(super) struct Survey<'r> {
    /// All commits, in CSN order.
    pub all: Vec<&'r Committed>,
    /// Those that change the catalog, which are redone before it is known what tables there are.
    pub of_catalog: Vec<&'r Committed>,
    /// Ids of the tables that commits or prepared transactions change.
    pub tables: BTreeSet<u32>,
}

impl Survey<'_> {
    /// Goes over all records once.
    pub(super) fn of(recovery: &Recovery) -> Result<Survey<'_>> {
        let all: Vec<_> = recovery.committed.iter().collect();
        let mut survey = Survey { of_catalog: Vec::new(), tables: BTreeSet::new(), all };
        let mut last = None;
        for committed in &recovery.committed {
            let mut is_of_catalog = false;
            recovery.for_each_body(&committed.bodies, &mut |body: &[u8]| -> Result<()> {
                for record in records(body)? {
                    is_of_catalog |= record.table() == CATALOG_ID;
                    if last.replace(record.table()) != Some(record.table()) {
                        survey.tables.insert(record.table());
                    }
                }
                Ok(())
            })?;
            survey.of_catalog.extend(is_of_catalog.then_some(committed));
        }
        for prepared in &recovery.prepared {
            recovery.for_each_body(&prepared.bodies, &mut |body: &[u8]| -> Result<()> {
                survey.tables.extend(records(body)?.iter().map(|record| record.table()));
                Ok(())
            })?;
        }
        Ok(survey)
    }
}
