//! Redo, and the verification of what the log's records name (I6).
//!
//! Redo is idempotent: a directory word or a page's state is stored again, after the checksum of what it names was verified.

use crate::error::{Error, Result};
use crate::files::chain::row as row_bytes;
use crate::format::{PageState, RECORD_BYTES, Record, Rid, VERSION_HEADER, Word, data_file_name, fold_row, page_crc};
use crate::table::Table;
use perdura_log::Recovery;

/// Redoes the records of the tables that `table_of` knows, in CSN order. Flushed, not fenced.
pub fn redo<'a>(recovery: &Recovery, table_of: impl Fn(u32) -> Option<&'a Table>) -> Result<()> {
    for committed in &recovery.committed {
        recovery.for_each_body(&committed.bodies, &mut |body: &[u8]| -> Result<()> {
            for record in records(body)? {
                if let Some(table) = table_of(record.table()) {
                    redo_record(table, &record, committed.csn)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

pub fn records(body: &[u8]) -> Result<impl Iterator<Item = Record> + '_> {
    let (chunks, rest) = body.as_chunks::<RECORD_BYTES>();
    if !rest.is_empty() {
        return Err(Error::damaged(
            "log",
            0,
            format_args!("a group of {} bytes is not made of whole records", body.len()),
        ));
    }
    Ok(chunks.iter().map(Record::decode))
}

fn redo_record(table: &Table, record: &Record, csn: u64) -> Result<()> {
    verify_record(table, record)?;
    match *record {
        Record::Row { rid, word, .. } => {
            // Planted: what is seen is taken to be durable.
            if perdura_pmem::planted(39) && table.directory().raw_word(rid.row()) == word {
                return Ok(());
            }
            // Also if it is there: what a process that was killed had stored may be in the cache only.
            table.directory().store(rid.row(), word);
            table.directory().flush(rid.row());
        }
        Record::Page { page, .. } => {
            table.directory().publish(page, PageState::published(csn));
        }
    }
    Ok(())
}

/// Checks that what a record names is there and whole.
pub fn verify_record(table: &Table, record: &Record) -> Result<()> {
    match *record {
        Record::Row { rid, word, crc, .. } => verify_row(table, rid, word, crc),
        Record::Page { page, rows, crc, .. } => verify_page(table, page, rows, crc).map(|_| ()),
    }
}

pub fn verify_row(table: &Table, rid: Rid, word: Word, crc: u32) -> Result<()> {
    table.directory().check(&data_file_name(table.id(), 0), rid)?;
    if !table.directory().state(table.directory().page_of(rid.row())).is_published() {
        return Err(Error::damaged(
            &data_file_name(table.id(), 0),
            rid.row() * 8,
            "a committed row is in an unpublished directory page",
        ));
    }
    let seen = version_checksum(table, rid, word)?;
    if seen != crc {
        let what = format!("a committed version has checksum {seen:#010x}, its log record says {crc:#010x}");
        return Err(Error::damaged(&data_file_name(table.id(), word.file()), word.offset(), what));
    }
    Ok(())
}

/// The checksum a version carries, after verifying it.
pub fn version_checksum(table: &Table, rid: Rid, word: Word) -> Result<u32> {
    let (region, at, header) = table.chain().header(word, rid)?;
    // SAFETY: nothing runs yet; nobody stores there.
    let bytes = unsafe { row_bytes(region, at, &header) };
    if header.checksum(bytes) != header.crc {
        return Err(Error::damaged(
            region.name(),
            at,
            format_args!("a version of {} bytes does not match its checksum", VERSION_HEADER + bytes.len() as u64),
        ));
    }
    Ok(header.crc)
}

/// Verifies the words and versions of a bulk page; returns the folded checksums.
pub fn verify_page(table: &Table, page: u64, rows: u32, crc: u32) -> Result<u64> {
    let name = data_file_name(table.id(), 0);
    let (region, at, bytes) =
        table.directory().page_bytes(page).filter(|_| page < table.directory().page_count()).ok_or_else(|| {
            Error::damaged(&name, 0, format_args!("directory page {page} of a bulk insert does not exist"))
        })?;
    let range = table.directory().page_rows(page);
    if u64::from(rows) > range.end - range.start {
        return Err(Error::damaged(&name, at, format_args!("a bulk page of {rows} rows is longer than a page")));
    }
    // A page that was published may have changed since; each change has a record of its own and is checked there.
    if table.directory().state(page).is_published() {
        return Ok(0);
    }
    let mut folded = 0;
    for row in range.start..range.start + u64::from(rows) {
        let word = table.directory().raw_word(row);
        if !word.is_empty() {
            folded ^= fold_row(row, version_checksum(table, Rid::new(row, 0), word)?);
        }
    }
    // SAFETY: nothing runs yet; nobody stores there.
    let seen = page_crc(unsafe { region.slice(at, bytes) }, folded);
    if seen != crc {
        let what = format!("a bulk page has checksum {seen:#010x}, its log record says {crc:#010x}");
        return Err(Error::damaged(region.name(), at, what));
    }
    Ok(folded)
}
