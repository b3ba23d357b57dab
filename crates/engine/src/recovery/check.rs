//! The offline check: it verifies and describes a pool without changing a byte of it.
//!
//! The log of a pool that was not closed holds commits that redo has yet to publish. The check
//! verifies both what the directory names and what those records name: together they are what the
//! next recovery will build (I6).

use super::catalog::{self, Entry};
use super::redo;
use super::values::{Known, Values};
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::files::context::TableContext;
use crate::files::kept::KeepingMedium;
use crate::format::{CATALOG_ID, Record, Rid, SegmentKind, Word, parse_data_file_name};
use crate::index::audit::verify_all;
use crate::recovery;
use crate::service::Services;
use crate::table::Table;
use crate::table::definition::Definition;
use perdura_log::{BodyRef, Recovery, SUPERBLOCK_NAME as SUPERBLOCK};
use perdura_pmem::Medium;
use perdura_pmem::numa::Locality;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Findings of the check in one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    /// Table id.
    pub id: u32,
    /// Table name.
    pub name: String,
    /// Rows that the directory names.
    pub rows: u64,
    /// Tombstones not yet purged.
    pub tombstones: u64,
    /// Data files in the chain.
    pub files: u64,
    /// Size of the data files, in bytes.
    pub bytes: u64,
    /// Number of segments that are free, hold cells, belong to the directory, hold extents, hold
    /// leaves of indexes. A damaged descriptor counts as free.
    pub segments: [u64; 5],
    /// Total length of the rows, in bytes, without headers.
    pub row_bytes: u64,
}

/// Findings of the check in a pool.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The superblock and the log, described in two lines.
    pub log: String,
    /// Commits that the next start will redo.
    pub commits_to_redo: u64,
    /// Prepared transactions in the log.
    pub prepared: u64,
    /// Findings in each table, the catalog first.
    pub tables: Vec<TableReport>,
    /// Problems, one line each; empty if the pool is sound.
    pub problems: Vec<String>,
}

/// Verifies the pool on `medium`. It calls `progress` with the name of a table and the percentage
/// of it that is done.
///
/// # Errors
/// Only what keeps the check from going on: no pool, another format, a lost superblock, a damaged
/// log or catalog. Everything else is a problem in the report.
pub fn check(medium: Arc<dyn Medium>, progress: &mut dyn FnMut(&str, u64)) -> Result<Report> {
    let files = medium.list()?;
    if files.iter().all(|(name, _)| name != SUPERBLOCK) {
        recovery::refuse_lost_superblock(&files)?;
        return Err(Error::new(
            ErrorKind::NotFound,
            "there is no pool here: the directory has no superblock file `super`; check the path",
        ));
    }
    let config = Config::default();
    let recovery = Recovery::open(medium.clone(), &config.log)?;
    let geometry = recovery::geometry(&recovery)?;
    let services = Arc::new(Services::new(None, Locality::off("a check")));
    let medium = KeepingMedium::new(medium, 0);
    let context = Arc::new(TableContext::new(medium, recovery.superblock.pool, geometry, &config, services));
    let mut report = Report {
        log: describe(&recovery),
        commits_to_redo: recovery.committed.len() as u64,
        prepared: recovery.prepared.len() as u64,
        ..Report::default()
    };
    let mut records = records_by_table(&recovery)?;
    let catalog = Table::open(context.clone(), CATALOG_ID, catalog::NAME, Definition::default(), Arc::default())?;
    let entries = catalog_entries(&catalog, &records)?;
    for (table, in_doubt) in records_in_doubt(&recovery)? {
        records.entry(table).or_default().extend(in_doubt);
    }
    check_table(&catalog, &records, &mut report, progress);
    for (_, entry) in entries {
        let Entry::Table { id, name, definition } = entry else { continue };
        match Table::open(context.clone(), id, &name, definition, Arc::default()) {
            Ok(table) => check_table(&table, &records, &mut report, progress),
            Err(error) => report.problems.push(format!("table {name}: {error}")),
        }
    }
    Ok(report)
}

fn describe(recovery: &Recovery) -> String {
    let superblock = &recovery.superblock;
    let armed = superblock.generations.iter().filter(|generation| generation.is_armed()).count();
    format!(
        "pool {}: {} lanes of {} bytes, {} generations ({armed} in use), {} recoveries\n\
         log: checkpoint CSN {}, horizon CSN {}, {} valid groups",
        superblock.pool.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        superblock.lanes,
        superblock.lane_bytes,
        superblock.generations.len(),
        superblock.epoch,
        superblock.checkpoint_csn,
        recovery.horizon,
        recovery.groups
    )
}

/// The records that redo will apply, by table, in CSN order; then those of prepared transactions.
fn records_by_table(recovery: &Recovery) -> Result<BTreeMap<u32, Vec<Record<'_>>>> {
    by_table(recovery, recovery.committed.iter().map(|committed| &committed.bodies[..]))
}

/// The records that recovery will give back to prepared transactions, by table.
fn records_in_doubt(recovery: &Recovery) -> Result<BTreeMap<u32, Vec<Record<'_>>>> {
    by_table(recovery, recovery.prepared.iter().map(|prepared| &prepared.bodies[..]))
}

fn by_table<'a>(
    recovery: &'a Recovery,
    transactions: impl Iterator<Item = &'a [BodyRef]>,
) -> Result<BTreeMap<u32, Vec<Record<'a>>>> {
    let mut by_table: BTreeMap<u32, Vec<Record<'_>>> = BTreeMap::new();
    for body in transactions.flatten() {
        for record in redo::records(recovery.body(*body))? {
            by_table.entry(record.table()).or_default().push(record);
        }
    }
    Ok(by_table)
}

/// The words of a table's rows as redo will leave them, as far as records change them.
struct Redone<'t> {
    known: Known<'t>,
    words: BTreeMap<u64, Word>,
}

impl Redone<'_> {
    /// Verifies a record as redo will when it comes to it, and takes its words.
    fn take(&mut self, record: &Record<'_>) -> Result<()> {
        let place =
            |page: u64, position: u16| self.known.table.directory().page_base(page).saturating_add(u64::from(position));
        let words: Vec<(u64, Word)> = match record {
            Record::Row { rid, word, .. } => vec![(rid.row(), *word)],
            Record::Delta { page, rows, .. } => {
                rows.iter().map(|(position, word)| (place(*page, *position), *word)).collect()
            }
            Record::Deleted { page, rows, crc, .. } => {
                let stored = |row| self.known.table.directory().raw_word(row);
                let word = |row| self.words.get(&row).copied().unwrap_or_else(|| stored(row));
                let deleted = rows.iter().map(|position| (*position, word(place(*page, *position)).tombstone()));
                let deleted: Vec<_> = deleted.collect();
                redo::verify_delta(self.known, *page, &deleted, *crc)?;
                deleted.into_iter().map(|(position, word)| (place(*page, position), word)).collect()
            }
            Record::Spilled { page, rows, place: at, crc, .. } => {
                let rows = redo::verify_spilled(self.known, *page, *rows, *at, *crc)?;
                rows.into_iter().map(|(position, word)| (place(*page, position), word)).collect()
            }
            Record::Page { .. } | Record::Leaf { .. } => Vec::new(),
        };
        self.words.extend(words);
        match record {
            Record::Deleted { .. } | Record::Spilled { .. } => Ok(()),
            _ => redo::verify_record(self.known, record),
        }
    }
}

/// The catalog rows as redo will leave them.
fn catalog_entries(catalog: &Table, records: &BTreeMap<u32, Vec<Record<'_>>>) -> Result<Vec<(Rid, Entry)>> {
    let mut redone = Redone { known: Known::written(catalog), words: BTreeMap::new() };
    for record in records.get(&CATALOG_ID).into_iter().flatten() {
        // Its faults are reported with the table.
        let _ = redone.take(record);
    }
    catalog::entries(catalog, &redone.words)
}

fn check_table(
    table: &Table,
    records: &BTreeMap<u32, Vec<Record<'_>>>,
    report: &mut Report,
    progress: &mut dyn FnMut(&str, u64),
) {
    let name = table.name();
    let mut found = TableReport {
        id: table.id(),
        name: name.clone(),
        files: table.chain().file_count() as u64,
        bytes: table.data_bytes(),
        ..TableReport::default()
    };
    count_segments(table, &mut found);
    let values = Values::of(records.get(&table.id()).map_or(&[], Vec::as_slice));
    let known = Known::with(table, &values);
    let mut owners: FxHashMap<(u32, u64), u64> = FxHashMap::default();
    let pages = table.directory().page_count();
    for page in 0..pages {
        progress(&name, page * 100 / pages);
        if !table.directory().state(page).is_published() {
            continue;
        }
        for row in table.directory().page_rows(page) {
            if let Err(error) = check_row(known, row, &mut owners, &mut found) {
                report.problems.push(format!("table {name}: {error}"));
            }
        }
    }
    check_indexes(known, &found, records.contains_key(&table.id()), report);
    let mut redone = Redone { known, words: BTreeMap::new() };
    for record in records.get(&table.id()).into_iter().flatten() {
        if let Err(error) = redone.take(record) {
            report.problems.push(format!("table {name}, log record: {error}"));
        }
    }
    progress(&name, 100);
    report.tables.push(found);
}

/// Verifies the indexes of a table. Those that redo is going to change are not compared with the
/// rows.
fn check_indexes(known: Known<'_>, found: &TableReport, is_open: bool, report: &mut Report) {
    let table = known.table;
    let is_row = |row: u64| {
        let word = table.directory().place(row).map(|_| table.directory().raw_word(row));
        is_open || word.is_some_and(|word| !word.is_empty() && !word.is_tombstone())
    };
    let rows = (!is_open).then_some(found.rows);
    let found = |fault| report.problems.push(format!("table {}: {fault}", table.name()));
    verify_all(table.index_list(), rows, is_row, &|leaf, slot| known.entry(leaf, slot), found);
}

fn count_segments(table: &Table, found: &mut TableReport) {
    for file in table.chain().files() {
        for index in 0..file.segment_count() {
            let slot = match file.kind(index) {
                Ok(SegmentKind::Cells(_)) => 1,
                Ok(SegmentKind::Directory(_)) => 2,
                Ok(SegmentKind::Extents) => 3,
                Ok(SegmentKind::Leaves(_)) => 4,
                Ok(SegmentKind::Free) | Err(_) => 0,
            };
            found.segments[slot] += 1;
        }
    }
}

fn check_row(
    known: Known<'_>,
    row: u64,
    owners: &mut FxHashMap<(u32, u64), u64>,
    found: &mut TableReport,
) -> Result<()> {
    let table = known.table;
    let word = table.directory().sound_word(row)?;
    if word.is_empty() {
        return Ok(());
    }
    let rid = Rid::new(row, word.incarnation());
    let row_bytes = match known.version(rid, word) {
        Some(header) => u64::from(header.len),
        None => {
            // SAFETY: the check runs without any session, so nobody frees the version.
            let sound = unsafe { table.verify_version(rid, word)? };
            table.verify_place(rid, word)?;
            sound.row.len() as u64
        }
    };
    let (region, at) = table.chain().locate(word)?;
    if let Some(other) = owners.insert((word.file(), at), row) {
        return Err(Error::damaged(
            region.name(),
            at,
            format_args!("rows {other:#x} and {row:#x} name the same version"),
        ));
    }
    if word.is_tombstone() {
        found.tombstones += 1;
    } else {
        found.rows += 1;
        found.row_bytes += row_bytes;
    }
    Ok(())
}

/// Whether `name` is the name of a file of a pool.
pub fn is_pool_file(name: &str) -> bool {
    name == "super" || recovery::is_pool_file(name) || parse_data_file_name(name).is_some()
}
