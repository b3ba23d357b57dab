//! Prepared transactions after a restart: recovery rebuilds their write sets and takes their cells
//! and locks again.

use super::redo;
use super::values::Known;
use crate::changes::write_set::WriteSet;
use crate::error::{Error, Result};
use crate::format::{Record, Rid, Word, data_file_name};
use crate::pool::Pool;
use crate::pool::held_locks::HeldLocks;
use crate::pool::owner::{Owner, Stage};
use crate::pool::prepared::Detached;
use crate::shadow::row_set::RowSet;
use crate::table::Table;
use perdura_log::PreparedTxn;
use perdura_pmem::Mutant;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rebuilds a prepared transaction from its records: write set, cells and locks. Puts it on the
/// pool's list, to be decided by name.
pub(super) fn restore(pool: &Pool, prepared: PreparedTxn, tables: &BTreeMap<u32, Arc<Table>>) -> Result<()> {
    let owner = Arc::new(Owner::new(pool.next_session()));
    pool.locks.enter(&owner);
    let (xid, log) = (prepared.xid, prepared.log);
    let mut detached = Detached { xid, writes: WriteSet::default(), log, owner, held: HeldLocks::default() };
    for body in &prepared.bodies {
        for record in redo::records(body)? {
            let Some(table) = tables.get(&record.table()) else { continue };
            match record {
                Record::Row { rid, word, crc, .. } => {
                    redo::verify_row(Known::written(table), rid, word, crc)?;
                    restore_row(&mut detached, table, rid, word)?;
                }
                Record::Delta { page, rows, crc, .. } => restore_delta(&mut detached, table, page, &rows, crc)?,
                Record::Deleted { page, rows, crc, .. } => {
                    let rows = redo::deleted_words(table, page, &rows);
                    restore_delta(&mut detached, table, page, &rows, crc)?;
                }
                Record::Spilled { page, rows, place, crc, .. } => {
                    restore_spilled(&mut detached, table, page, rows, (place, crc))?;
                }
                Record::Page { page, rows, crc, .. } => restore_page(&mut detached, table, page, rows, crc)?,
                Record::Leaf { .. } => {
                    let owner = detached.owner.id;
                    detached.writes.restore_leaf(table, owner, &redo::leaf_record(&record)?)?;
                }
            }
        }
    }
    detached.owner.begin(pool.locks.clock());
    detached.owner.note_stage(Stage::Prepared);
    detached.owner.count_locks(detached.writes.locks());
    pool.prepared.add(detached);
    Ok(())
}

fn restore_delta(detached: &mut Detached, table: &Arc<Table>, page: u64, rows: &[(u16, Word)], crc: u32) -> Result<()> {
    redo::verify_delta(Known::written(table), page, rows, crc)?;
    let base = table.directory().page_base(page);
    for (position, word) in rows {
        restore_row(detached, table, Rid::new(base + u64::from(*position), word.incarnation()), *word)?;
    }
    Ok(())
}

fn restore_spilled(
    detached: &mut Detached,
    table: &Arc<Table>,
    page: u64,
    rows: u16,
    (place, crc): (Word, u32),
) -> Result<()> {
    let rows = redo::verify_spilled(Known::written(table), page, rows, place, crc)?;
    let base = table.directory().page_base(page);
    // Planted: the cell of its spilled words is free.
    if !perdura_pmem::planted(Mutant::PreparedSpilledCellsFree) {
        table.space().keep_cell(place, rows.len() as u64 * 8)?;
    }
    let mut positions = RowSet::default();
    for (position, word) in rows {
        keep_places(table, Rid::new(base + u64::from(position), word.incarnation()), word)?;
        positions.insert(position);
    }
    let owner = detached.owner.id;
    match detached.writes.restore_spilled(table, owner, page, place, positions)? {
        true => Ok(()),
        false => Err(Error::damaged("log", 0, format_args!("two prepared transactions wrote page {page}"))),
    }
}

/// Gives a prepared transaction a row back that it wrote. What its record names is verified.
fn restore_row(detached: &mut Detached, table: &Arc<Table>, rid: Rid, word: Word) -> Result<()> {
    keep_places(table, rid, word)?;
    match detached.writes.restore(table, detached.owner.id, rid, word) {
        true => Ok(()),
        false => Err(Error::damaged("log", 0, format_args!("two prepared transactions wrote row {:#x}", rid.to_u64()))),
    }
}

/// Takes the cell of a version that a prepared transaction wrote, and the RID if it inserted the
/// row.
fn keep_places(table: &Table, rid: Rid, word: Word) -> Result<()> {
    // Planted: the cell of a prepared transaction's version is not taken.
    if !word.is_tombstone() && !perdura_pmem::planted(Mutant::PreparedCellsFree) {
        table.space().keep_cell(word, 0)?;
    }
    let base = table.directory().word(rid.row());
    if base.is_empty() {
        table.space().keep_row(rid.row());
    } else {
        table.chain().header(base, rid)?;
        table.space().ensure_swept(base)?;
    }
    Ok(())
}

fn restore_page(detached: &mut Detached, table: &Arc<Table>, page: u64, rows: u32, crc: u32) -> Result<()> {
    let folded = redo::verify_page(table, page, rows, crc)?;
    if table.directory().state(page).is_published() {
        let what = format_args!("a prepared transaction filled directory page {page}, which is published");
        return Err(Error::damaged(&data_file_name(table.id(), 0), 0, what));
    }
    let first = table.directory().page_rows(page).start;
    for row in first..first + u64::from(rows) {
        let word = table.directory().raw_word(row);
        if !word.is_empty() {
            table.space().keep_cell(word, 0)?;
        }
    }
    // Planted: the pages that a prepared transaction filled are free.
    if !perdura_pmem::planted(Mutant::PreparedPagesFree) {
        table.space().keep_page(page);
    }
    detached.writes.restore_page(table, detached.owner.id, page, rows, folded);
    Ok(())
}
