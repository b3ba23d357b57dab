//! The online check of a table's indexes: each row that a snapshot sees has one entry in each
//! index, and no entry is of another row; and, where the client makes keys, each entry has the key
//! of its row.

use super::check::Check;
use super::snapshots::Snapshots;
use crate::error::{Error, Result};
use crate::format::{Rid, data_file_name, entry_key, entry_row};
use crate::index::bounds::beyond;
use crate::index::leaf_shadow::View;
use crate::index::page::Page;
use crate::pool::Pool;
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

/// Checks the indexes of a table under one snapshot each, and tells the client that the check has
/// come to its end.
pub(super) fn check_indexes(check: &mut Check<'_>, pool: &Pool, snapshots: &mut Snapshots) {
    let table = check.table().clone();
    for number in 0..table.indexes() {
        if !check.goes_on_with_indexes() {
            return;
        }
        let snapshot = snapshots.statement(pool);
        if let Err(fault) = check_index(&table, number, snapshot, check) {
            check.found(fault);
        }
        snapshots.close_statement(pool);
    }
    // Only tells how far it came, unless the last index brought too many faults.
    check.goes_on_with_indexes();
}

/// An entry, and what its row says of it.
struct Entry<'e> {
    position: usize,
    key: &'e [u8],
    row: u64,
}

/// Compares the key of an entry with that of its row, which the snapshot sees. Returns whether no
/// other row may have the key.
fn check_key(table: &Table, entry: &Entry<'_>, snapshot: Csn, check: &mut Check<'_>) -> Result<bool> {
    let word = table.word_at(entry.row, snapshot);
    // A row that cannot be read is a fault of its own.
    let row = table.row(Rid::new(entry.row, word.incarnation()), word).unwrap_or_default();
    // SAFETY: the snapshot of the statement holds the version.
    let Some(row) = row.map(|row| unsafe { row.bytes() }) else { return Ok(false) };
    let Some((is_same, may_repeat)) = check.compares(entry.position, row, entry.key) else { return Ok(false) };
    if is_same {
        return Ok(!may_repeat);
    }
    let what = format_args!("the key of the entry is not that of the row");
    Err(Error::damaged_index(&data_file_name(table.id(), 0), 0, what))
}

fn check_index(table: &Table, number: usize, snapshot: Csn, check: &mut Check<'_>) -> Result<()> {
    let index = table.index_list().index(number).expect("the table has as many");
    let unique = table.index_definition(number).is_some_and(|definition| definition.unique);
    let name = data_file_name(table.id(), 0);
    let fault = |what: std::fmt::Arguments<'_>| Error::damaged_index(&name, 0, what).in_index(number);
    let of_row = |row, what: std::fmt::Arguments<'_>| Error::damaged_index(&name, 0, what).in_row(row).in_index(number);
    let (mut rows, mut page, mut key) = (Rows::at(table, snapshot), Page::default(), Vec::new());
    let mut before: Vec<u8> = Vec::new();
    while index.page_at(&key, &View::at(snapshot), &mut page).map_err(|error| error.in_index(number))? {
        for at in page.place_of(&key)..page.len() {
            let entry = page.entry(at);
            if entry <= &before[..] && !before.is_empty() {
                check.found(fault(format_args!("entries are not in order")));
            }
            let row = entry_row(entry);
            if !rows.take(row) {
                check.found(of_row(row, format_args!("an entry is of no row, or the second one of a row")));
            } else if check.is_full() {
                let found = Entry { position: number, key: entry_key(entry), row };
                match check_key(table, &found, snapshot, check) {
                    Ok(alone) if alone && unique && !before.is_empty() && entry_key(&before) == found.key => {
                        check.found(of_row(row, format_args!("the row has the key of another")));
                    }
                    outcome => {
                        outcome.err().into_iter().for_each(|error| check.found(error.in_row(row).in_index(number)))
                    }
                }
            }
            before.clear();
            before.extend_from_slice(entry);
            if check.is_long() && !check.goes_on_with_indexes() {
                return Ok(());
            }
        }
        let Some(high) = page.high() else { break };
        key = high.to_vec();
        if key >= beyond(b"") || !check.goes_on_with_indexes() {
            return Ok(());
        }
    }
    for row in rows.left() {
        check.found(of_row(row, format_args!("the row has no entry")));
    }
    Ok(())
}
