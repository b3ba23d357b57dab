//! The online check of a table's indexes: each row that a snapshot sees has one entry in each index, and no entry is of
//! another row.

use super::check::Check;
use super::session::Session;
use crate::error::{Error, Result};
use crate::format::{data_file_name, entry_row};
use crate::index::estimate::beyond;
use crate::index::leaf_shadow::View;
use crate::index::page::Page;
use crate::table::Table;
use perdura_log::Csn;

/// Rows of a table, a bit each.
struct Rows(Vec<u64>);

impl Rows {
    /// The rows that a snapshot sees.
    fn at(table: &Table, snapshot: Csn) -> Rows {
        let (mut rows, mut words) = (Rows(Vec::new()), Vec::new());
        for page in 0..table.directory().page_count() {
            if !table.words_at(page, snapshot, None, &mut words) {
                continue;
            }
            for (row, word) in (table.directory().page_base(page)..).zip(&words) {
                if !word.is_empty() && !word.is_tombstone() {
                    let index = (row / 64) as usize;
                    if rows.0.len() <= index {
                        rows.0.resize(index + 1, 0);
                    }
                    rows.0[index] |= 1 << (row % 64);
                }
            }
        }
        rows
    }

    /// Takes a row out. Returns whether it was in.
    fn take(&mut self, row: u64) -> bool {
        let Some(word) = self.0.get_mut((row / 64) as usize) else { return false };
        let bit = 1 << (row % 64);
        let was_in = *word & bit != 0;
        *word &= !bit;
        was_in
    }

    /// The rows that are left.
    fn left(&self) -> impl Iterator<Item = u64> + '_ {
        let bits = |word: &u64| crate::index::leaf::bits(*word);
        (0u64..).zip(&self.0).flat_map(move |(index, word)| bits(word).map(move |bit| index * 64 + u64::from(bit)))
    }
}

impl Session {
    /// Checks the indexes of a table under one snapshot each. Returns whether the check goes on.
    pub(super) fn check_indexes(&mut self, check: &mut Check<'_>, pages: u64) -> bool {
        let table = check.table().clone();
        for number in 0..table.indexes() {
            if !check.goes_on(pages, pages) {
                return false;
            }
            let snapshot = self.snapshots.statement(&self.pool);
            if let Err(fault) = check_index(&table, number, snapshot, check, pages) {
                check.found(fault);
            }
            self.snapshots.close_statement(&self.pool);
        }
        true
    }
}

fn check_index(table: &Table, number: usize, snapshot: Csn, check: &mut Check<'_>, pages: u64) -> Result<()> {
    let index = table.index_list().index(number).expect("the table has as many");
    let name = data_file_name(table.id(), 0);
    let (mut rows, mut page, mut key) = (Rows::at(table, snapshot), Page::default(), Vec::new());
    let mut before: Vec<u8> = Vec::new();
    while index.page_at(&key, &View { snapshot, own: None }, &mut page)? {
        for entry in page.place_of(&key)..page.len() {
            let entry = page.entry(entry);
            if entry <= &before[..] && !before.is_empty() {
                check.found(Error::damaged(&name, 0, format_args!("entries of index {number} are not in order")));
            }
            before = entry.to_vec();
            if !rows.take(entry_row(entry)) {
                let what = "is of no row, or the second one of a row";
                let what = format_args!("an entry of index {number} for row {:#x} {what}", entry_row(entry));
                check.found(Error::damaged(&name, 0, what).in_row(entry_row(entry)));
            }
        }
        let Some(high) = page.high() else { break };
        key = high.to_vec();
        if key >= beyond(b"") || !check.goes_on(pages, pages) {
            return Ok(());
        }
    }
    for row in rows.left() {
        check.found(Error::damaged(&name, 0, format_args!("index {number} has no entry for the row")).in_row(row));
    }
    Ok(())
}
