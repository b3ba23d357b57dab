//! Redo, and the verification of what redo records name (I6).
//!
//! Redo is idempotent: it writes what records carry by value, then stores a directory word or page
//! state again, after it has verified the checksum of what that names.

use super::shares::Share;
use super::values::{Known, version_checksum};
use crate::error::{Error, Result};
use crate::files::chain::row as row_bytes;
use crate::format::{
    PageState, Record, Rid, SpilledPage, UNIT_BYTES, VERSION_HEADER, VersionHeader, Word, data_file_name, delta_crc,
    fold_row, page_crc,
};
use crate::index::redo::{Lacking, LeafRecord};
use crate::table::Table;
use perdura_log::{Committed, Recovery};
use perdura_pmem::Mutant;

/// Redoes a share of the records of `commits`, in CSN order, in the tables that `table_of` knows.
/// It flushes every store; the caller fences.
pub(super) fn redo<'a>(
    recovery: &Recovery,
    commits: &[&Committed],
    share: Share,
    table_of: &impl Fn(u32) -> Option<&'a Table>,
) -> Result<()> {
    let mut lacking = Lacking::default();
    for committed in commits {
        recovery.for_each_body(&committed.bodies, &mut |body: &[u8]| -> Result<()> {
            for record in records(body)? {
                if let Some(table) = table_of(record.table()).filter(|table| share.has(table, &record)) {
                    redo_record(table, &record, committed.csn, &mut lacking)?;
                }
            }
            Ok(())
        })?;
    }
    lacking.check()
}

/// Writes what a share of the records carries by value, of `commits` and of prepared transactions,
/// to the places that they name in the tables that `table_of` knows. Then the files are as if all
/// of these had been by reference. It flushes every store; the caller fences.
///
/// All of it comes before the redo of any record. That looks for the entries of a leaf which others
/// have replaced by their bytes: it might take what a loser has left in a slot for an entry, before
/// a later record has put its own there.
pub(super) fn write_values<'a>(
    recovery: &Recovery,
    commits: &[&Committed],
    share: Share,
    table_of: &impl Fn(u32) -> Option<&'a Table>,
) -> Result<()> {
    let committed = commits.iter().map(|committed| &committed.bodies[..]);
    // Planted: what a prepared transaction has written is taken to be there.
    let has_prepared = !perdura_pmem::planted(Mutant::ValuesOfPreparedSkipped);
    let prepared = recovery.prepared.iter().filter(|_| has_prepared).map(|prepared| &prepared.bodies[..]);
    for bodies in committed.chain(prepared) {
        recovery.for_each_body(bodies, &mut |body: &[u8]| -> Result<()> {
            for record in records(body)? {
                match table_of(record.table()).filter(|table| share.has_value(table, &record)) {
                    // Planted: redo takes what a record carries to be there.
                    Some(table) if !perdura_pmem::planted(Mutant::ValueSkippedAtRedo) => write_value(table, &record)?,
                    _ => {}
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Writes what a record carries, if it does: what it names there is verified afterwards, as for any
/// record.
fn write_value(table: &Table, record: &Record<'_>) -> Result<()> {
    match record {
        Record::Row { rid, word, crc, value: Some(row), .. } => write_row(table, (*rid, *word), *crc, row),
        Record::Leaf { values, .. } if !values.is_empty() => {
            table.index_list().write_values(table.chain(), &leaf_record(record)?, values)
        }
        _ => Ok(()),
    }
}

fn write_row(table: &Table, (rid, word): (Rid, Word), crc: u32, row: &[u8]) -> Result<()> {
    verify_value(table, (rid, word), crc, row)?;
    let header = VersionHeader { rid, len: row.len() as u32, crc };
    let bytes = VERSION_HEADER + row.len() as u64;
    // Planted: it goes to the place behind.
    let behind = Word::new(word.file(), word.offset() + bytes.next_multiple_of(UNIT_BYTES), word.incarnation());
    let is_behind = perdura_pmem::planted(Mutant::ValueInWrongPlace) && table.has_place(behind, bytes);
    let (region, at) = table.chain().write_version(if is_behind { behind } else { word }, &header, row);
    region.flush_settled(at, bytes);
    Ok(())
}

/// Verifies a row that a record carries, and that there can be a version of it where the record
/// says.
pub(super) fn verify_value(table: &Table, (rid, word): (Rid, Word), crc: u32, row: &[u8]) -> Result<()> {
    let bytes = VERSION_HEADER + row.len() as u64;
    let damaged = |what| Err(Error::damaged(&data_file_name(table.id(), word.file()), word.offset(), what));
    if !word.is_sound() || !table.has_place(word, bytes) {
        return damaged(format!("a log record has a version of {bytes} bytes for this place, where none can be"));
    }
    if (VersionHeader { rid, len: row.len() as u32, crc }.checksum(row)) != crc {
        return damaged(format!("a log record has a version of {bytes} bytes that does not match its checksum"));
    }
    Ok(())
}

/// Decodes the redo records in the body of a log group.
pub(super) fn records(body: &[u8]) -> Result<Vec<Record<'_>>> {
    let (mut records, mut rest) = (Vec::new(), body);
    while !rest.is_empty() {
        let Some((record, then)) = Record::decode(rest) else {
            return Err(Error::damaged(
                "log",
                0,
                format_args!("a group of {} bytes is not made of whole records", body.len()),
            ));
        };
        records.push(record);
        rest = then;
    }
    Ok(records)
}

fn redo_record(table: &Table, record: &Record<'_>, csn: u64, lacking: &mut Lacking) -> Result<()> {
    // Redo of a leaf's entries verifies them itself.
    if !matches!(record, Record::Leaf { .. }) {
        verify_record(Known::written(table), record)?;
    }
    match *record {
        Record::Row { rid, word, .. } => redo_word(table, rid.row(), word),
        Record::Delta { page, ref rows, .. } => {
            let base = table.directory().page_base(page);
            rows.iter().for_each(|(position, word)| redo_word(table, base + u64::from(*position), *word));
        }
        Record::Deleted { page, ref rows, .. } => {
            for (position, word) in deleted_words(table, page, rows) {
                redo_word(table, table.directory().page_base(page) + u64::from(position), word);
            }
        }
        Record::Spilled { page, rows, place, crc, .. } => {
            let base = table.directory().page_base(page);
            for (position, word) in verify_spilled(Known::written(table), page, rows, place, crc)? {
                // Planted: the words of a spilled page are not repeated.
                if !perdura_pmem::planted(Mutant::RedoSkipsSpilledPages) {
                    redo_word(table, base + u64::from(position), word);
                }
            }
        }
        Record::Page { page, .. } => {
            table.directory().publish(page, PageState::published(csn));
        }
        Record::Leaf { .. } => table.index_list().redo(table.chain(), &leaf_record(record)?, lacking)?,
    }
    Ok(())
}

fn redo_word(table: &Table, row: u64, word: Word) {
    // Planted: a word that is seen is taken for durable.
    if perdura_pmem::planted(Mutant::RedoTrustsUnflushed) && table.directory().raw_word(row) == word {
        return;
    }
    // The word is stored even if it is there already: a killed process may have left it in the
    // cache only.
    table.directory().store(row, word);
    table.directory().flush_settled(row);
}

/// Verifies that what a record names is there, or is carried by it, and matches its checksum.
pub(super) fn verify_record(known: Known<'_>, record: &Record<'_>) -> Result<()> {
    let table = known.table;
    match *record {
        Record::Row { rid, word, crc, ref value, .. } => {
            value.iter().try_for_each(|row| verify_value(table, (rid, word), crc, row))?;
            verify_row(known, rid, word, crc)
        }
        Record::Page { page, rows, crc, .. } => verify_page(table, page, rows, crc).map(|_| ()),
        Record::Delta { page, ref rows, crc, .. } => verify_delta(known, page, rows, crc),
        Record::Deleted { page, ref rows, crc, .. } => {
            verify_delta(known, page, &deleted_words(table, page, rows), crc)
        }
        Record::Spilled { page, rows, place, crc, .. } => verify_spilled(known, page, rows, place, crc).map(|_| ()),
        Record::Leaf { place, .. } => {
            table.index_list().verify(table.chain(), &leaf_record(record)?, &|slot| known.entry(place, slot))
        }
    }
}

/// Content of a record about an index' leaf.
pub(super) fn leaf_record(record: &Record<'_>) -> Result<LeafRecord> {
    match *record {
        Record::Leaf { place, inserted, deleted, crc, .. } => Ok(LeafRecord { place, inserted, deleted, crc }),
        _ => Err(Error::damaged("log", 0, "the record is not one of an index' leaf")),
    }
}

/// The words that rows of page `page` get when they are deleted. A record that counts comes after
/// all that changed the rows before, and nobody changes a deleted row before the checkpoint: the
/// words in the directory are those to be flagged, or are flagged already.
pub(super) fn deleted_words(table: &Table, page: u64, rows: &[u16]) -> Vec<(u16, Word)> {
    let word = |position: u16| {
        table.directory().raw_word(table.directory().page_base(page).saturating_add(u64::from(position))).tombstone()
    };
    rows.iter().map(|position| (*position, word(*position))).collect()
}

/// Verifies the spilled page at `place`, and what its words name. Returns its rows.
pub(super) fn verify_spilled(
    known: Known<'_>,
    page: u64,
    rows: u16,
    place: Word,
    crc: u32,
) -> Result<Vec<(u16, Word)>> {
    let (region, at, header) = known.table.chain().header(place, Rid::NO_ROW)?;
    // SAFETY: recovery and the check run before any session, so nobody stores there.
    let content = unsafe { row_bytes(region, at, &header) };
    let is_sound = header.crc == crc && header.checksum(content) == crc;
    let spilled = SpilledPage::decode(content, rows.into()).filter(|_| is_sound).ok_or_else(|| {
        Error::damaged(
            region.name(),
            at,
            format_args!("the spilled words of page {page} do not match their log record"),
        )
    })?;
    verify_delta(known, page, &spilled.rows, delta_crc(spilled.folded))?;
    Ok(spilled.rows)
}

/// Verifies that page `page` is published, that the words in `rows` name versions of those rows,
/// and that the versions' checksums fold to `crc`.
pub(super) fn verify_delta(known: Known<'_>, page: u64, rows: &[(u16, Word)], crc: u32) -> Result<()> {
    let table = known.table;
    let name = || data_file_name(table.id(), 0);
    let directory = table.directory();
    if page >= directory.page_count() || !directory.state(page).is_published() {
        let what = format_args!("directory page {page} of a commit does not exist or is not published");
        return Err(Error::damaged(&name(), 0, what));
    }
    let (base, page_rows) = (directory.page_base(page), directory.page_rows(page));
    let mut folded = 0;
    for (position, word) in rows {
        let row = base + u64::from(*position);
        if !page_rows.contains(&row) {
            return Err(Error::damaged(&name(), 0, format_args!("row {row:#x} is not in directory page {page}")));
        }
        folded ^= fold_row(row, known.checksum(Rid::new(row, word.incarnation()), *word)?);
    }
    if delta_crc(folded) != crc {
        let what = format_args!("the versions of a commit in directory page {page} do not match their log record");
        return Err(Error::damaged(&name(), 0, what));
    }
    Ok(())
}

/// Verifies that the page of `rid` is published, and that `word` names a version of `rid` with
/// checksum `crc`.
pub(super) fn verify_row(known: Known<'_>, rid: Rid, word: Word, crc: u32) -> Result<()> {
    let table = known.table;
    table.directory().check(|| data_file_name(table.id(), 0), rid)?;
    if !table.directory().state(table.directory().page_of(rid.row())).is_published() {
        return Err(Error::damaged(
            &data_file_name(table.id(), 0),
            rid.row() * 8,
            "a committed row is in an unpublished directory page",
        ));
    }
    let seen = known.checksum(rid, word)?;
    if seen != crc {
        let what = format!("a committed version has checksum {seen:#010x}, its log record says {crc:#010x}");
        return Err(Error::damaged(&data_file_name(table.id(), word.file()), word.offset(), what));
    }
    Ok(())
}

/// Verifies the words and versions of a bulk page against `crc`, and returns the folded checksums
/// of the versions. A page that is published already is not verified, and its folded checksum is 0.
pub(super) fn verify_page(table: &Table, page: u64, rows: u32, crc: u32) -> Result<u64> {
    let name = data_file_name(table.id(), 0);
    let (region, at, bytes) =
        table.directory().page_bytes(page).filter(|_| page < table.directory().page_count()).ok_or_else(|| {
            Error::damaged(&name, 0, format_args!("directory page {page} of a bulk insert does not exist"))
        })?;
    let range = table.directory().page_rows(page);
    if u64::from(rows) > range.end - range.start {
        return Err(Error::damaged(&name, at, format_args!("a bulk page of {rows} rows is longer than a page")));
    }
    // A published page may have changed since. Each change has a record of its own, which verifies
    // it. Planted: it is verified once more.
    if table.directory().state(page).is_published() && !perdura_pmem::planted(Mutant::RedoVerifiesPublishedPage) {
        return Ok(0);
    }
    let mut folded = 0;
    for row in range.start..range.start + u64::from(rows) {
        let word = table.directory().raw_word(row);
        if !word.is_empty() {
            folded ^= fold_row(row, version_checksum(table, Rid::new(row, word.incarnation()), word)?);
        }
    }
    // SAFETY: recovery and the check run before any session, so nobody stores there.
    let seen = page_crc(unsafe { region.slice(at, bytes) }, folded);
    if seen != crc {
        let what = format!("a bulk page has checksum {seen:#010x}, its log record says {crc:#010x}");
        return Err(Error::damaged(region.name(), at, what));
    }
    Ok(folded)
}
