//! Opening a pool: creation, or analysis, redo and undo.
//!
//! Analysis is the log's: it finds the commits above the checkpoint up to the horizon. Redo is idempotent: a directory word or a
//! page's state is stored again, after the checksum of what it names was verified (I6). The catalog is redone first; it says which
//! tables there are. Undo has nothing to do for losers (nothing names what they wrote, I4); prepared transactions get their
//! write sets, cells and locks back. Then all is fenced, and the superblock ends the recovery (I7).

use crate::bulk::BulkInsert;
use crate::catalog::Entry;
use crate::config::Config;
use crate::datafile;
use crate::engine::Inner;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    CATALOG_ID, Geometry, PageState, RECORD_BYTES, Record, Rid, VERSION_HEADER, Word, extent_crc, fold_row,
};
use crate::locks::LockMode;
use crate::service::Services;
use crate::spare;
use crate::table::{Table, TableContext};
use crate::txn::{Isolation, State, Txn};
use perdura_log::{PreparedTxn, Recovery, SUPERBLOCK_NAME as SUPERBLOCK, SUPERBLOCK_NEW_NAME as SUPERBLOCK_NEW};
use perdura_pmem::Medium;
use perdura_pmem::prefault::Prefault;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CATALOG_NAME: &str = "perdura.catalog";

/// Opens or creates the pool on `medium`.
pub(crate) fn open(medium: Arc<dyn Medium>, config: &Config) -> Result<Arc<Inner>> {
    config.check()?;
    let mut random = crate::random::Source::new(config.seed);
    let files = medium.list()?;
    let has = |name: &str| files.iter().any(|(file, _)| file == name);
    if !has(SUPERBLOCK) {
        refuse_lost_superblock(&files)?;
        // The data files for good before `super.new`, which says that they are of a creation that was cut off.
        let (tables, others): (Vec<_>, Vec<_>) = files
            .iter()
            .filter(|(name, _)| is_pool_file(name))
            .partition(|(name, _)| datafile::parse_name(name).is_some());
        for names in [tables, others] {
            for (name, _) in names {
                medium.remove(name)?;
            }
            medium.sync_dir()?;
        }
        create(&medium, config, &mut random)?;
    }
    recover(medium, config, &mut random)
}

/// Fails if files without a superblock are not just those of a creation that was cut off: log files alone, or `super.new` with others.
pub(crate) fn refuse_lost_superblock(files: &[(String, u64)]) -> Result<()> {
    let tables = files.iter().filter(|(name, _)| datafile::parse_name(name).is_some()).count();
    if tables == 0 || files.iter().any(|(name, _)| name == SUPERBLOCK_NEW) {
        return Ok(());
    }
    let what = format_args!("the superblock is missing beside {tables} data files of a pool");
    Err(Error::damaged(SUPERBLOCK, 0, what))
}

/// Sizes fixed at creation, as the superblock has them.
pub(crate) fn geometry(recovery: &Recovery) -> Result<Geometry> {
    let words = recovery.superblock.geometry;
    Geometry::from_words(words)
        .map_err(|what| Error::new(ErrorKind::NotSupported, format!("{SUPERBLOCK}: {what}")).in_file(SUPERBLOCK))
}

pub(crate) fn is_pool_file(name: &str) -> bool {
    name == SUPERBLOCK_NEW || name == spare::NAME || name.starts_with("log.") || datafile::parse_name(name).is_some()
}

/// Creates log and catalog; the superblock gets its name as the last step.
fn create(medium: &Arc<dyn Medium>, config: &Config, random: &mut crate::random::Source) -> Result<()> {
    let _span = perdura_pmem::trace::span("pool_creation");
    let geometry = Geometry { segment_bytes: config.segment_bytes };
    let superblock = perdura_log::create(medium, &config.log, geometry.to_words(), &mut || random.next())?;
    let services = Arc::new(Services::new(None));
    let context = Arc::new(TableContext::new(medium.clone(), superblock.pool, geometry, config, services));
    Table::create(context.clone(), CATALOG_ID, CATALOG_NAME, &[])?;
    context.create_spare()?;
    medium.rename(SUPERBLOCK_NEW, SUPERBLOCK)?;
    medium.sync_dir()?;
    Ok(())
}

fn recover(medium: Arc<dyn Medium>, config: &Config, random: &mut crate::random::Source) -> Result<Arc<Inner>> {
    let _span = perdura_pmem::trace::span("recovery");
    let recovery = Recovery::open(medium.clone(), &config.log)?;
    let geometry = geometry(&recovery)?;
    let (pool, lane_bytes) = (recovery.superblock.pool, recovery.superblock.lane_bytes);
    let prefault =
        config.prefault.then(|| Prefault::start(config.prefault_threads as usize, true, medium.info().numa_node));
    let services = Arc::new(Services::new(prefault));
    services.set_recovered_csn(recovery.horizon);
    watch_prefault(&services);
    let context = Arc::new(TableContext::new(medium.clone(), pool, geometry, config, services));
    let catalog = Arc::new(Table::open(context.clone(), CATALOG_ID, CATALOG_NAME, &[])?);
    redo(&recovery, |id| (id == CATALOG_ID).then_some(&*catalog))?;
    let by_id = open_tables(&context, &catalog)?;
    redo(&recovery, |id| by_id.get(&id).map(|table| &**table))?;
    catalog.files.get(0).expect("a first file").region().fence();
    let (log, prepared) = recovery.finish(&mut || random.next())?;
    let lanes = context.services.clone();
    log.set_prefault(Box::new(move |region| lanes.prefault(region)));
    remove_orphans(&*medium, &catalog, &by_id)?;
    context.find_spare(&medium.list()?)?;
    let tables = by_id.values().map(|table| (table.name(), table.clone())).collect();
    let inner = Arc::new(Inner::new(context, log, catalog, tables, config, lane_bytes));
    for txn in prepared {
        resurrect(&inner, txn, &by_id).inspect_err(|_| inner.forget_prepared())?;
    }
    for table in inner.table_list() {
        table.estimate_rows();
        for (_, file) in &table.files {
            inner.services.prefault_later(file.region());
        }
    }
    Ok(inner)
}

/// Makes notices of pre-fault's failures: damaged memory shows there first.
fn watch_prefault(services: &Arc<Services>) {
    let told = Arc::downgrade(services);
    if let Some(prefault) = services.prefault_service() {
        prefault.set_error_handler(move |error| {
            if let Some(services) = told.upgrade() {
                services.notices.add(format!("pre-fault: {error}"));
            }
        });
    }
}

fn open_tables(context: &Arc<TableContext>, catalog: &Arc<Table>) -> Result<BTreeMap<u32, Arc<Table>>> {
    let mut tables = BTreeMap::new();
    for entry in catalog_entries(catalog, &BTreeMap::new())? {
        if let Entry::Table { id, name, definition } = entry {
            tables.insert(id, Arc::new(Table::open(context.clone(), id, &name, &definition)?));
        }
    }
    Ok(tables)
}

/// Rows of the catalog after its redo, before there is an engine to run a transaction.
///
/// `redone` has words that a redo still to come will store.
pub(crate) fn catalog_entries(catalog: &Table, redone: &BTreeMap<u64, Word>) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for page in 0..catalog.directory.page_count() {
        let state = catalog.directory.state(page);
        if !state.is_published() {
            continue;
        }
        for row in catalog.directory.page_rows(page) {
            let word = match redone.get(&row) {
                Some(word) => *word,
                None => catalog.directory.sound_word(row)?,
            };
            if word.is_empty() || word.is_tombstone() {
                continue;
            }
            let (region, at, header) = catalog.header(word, Rid::new(row, word.incarnation()))?;
            // SAFETY: nothing runs yet; nobody stores there.
            let bytes = unsafe { Table::row(region, at, &header) };
            if header.checksum(bytes) != header.crc {
                return Err(Error::damaged(region.name(), at, "a catalog row does not match its checksum"));
            }
            entries.push(
                Entry::decode(bytes)
                    .ok_or_else(|| Error::damaged(region.name(), at, "a catalog row is not a table definition"))?,
            );
        }
    }
    Ok(entries)
}

/// Redoes the records of the tables that `table_of` knows, in CSN order. Flushed, not fenced.
fn redo<'a>(recovery: &Recovery, table_of: impl Fn(u32) -> Option<&'a Table>) -> Result<()> {
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

pub(crate) fn records(body: &[u8]) -> Result<impl Iterator<Item = Record> + '_> {
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
            if perdura_pmem::planted(39) && table.directory.raw_word(rid.row()) == word {
                return Ok(());
            }
            // Also if it is there: what a process that was killed had stored may be in the cache only.
            table.directory.store(rid.row(), word);
            table.directory.flush(rid.row());
        }
        Record::Extent { page, .. } => {
            table.directory.publish(page, PageState::extent(csn));
        }
    }
    Ok(())
}

/// Checks that what a record names is there and whole.
pub(crate) fn verify_record(table: &Table, record: &Record) -> Result<()> {
    match *record {
        Record::Row { rid, word, crc, .. } => verify_row(table, rid, word, crc),
        Record::Extent { page, rows, crc, .. } => verify_extent(table, page, rows, crc).map(|_| ()),
    }
}

fn verify_row(table: &Table, rid: Rid, word: Word, crc: u32) -> Result<()> {
    table.directory.check(&datafile::file_name(table.id(), 0), rid)?;
    if !table.directory.state(table.directory.page_of(rid.row())).is_published() {
        return Err(Error::damaged(
            &datafile::file_name(table.id(), 0),
            rid.row() * 8,
            "a committed row is in an unpublished directory page",
        ));
    }
    let seen = version_checksum(table, rid, word)?;
    if seen != crc {
        let what = format!("a committed version has checksum {seen:#010x}, its log record says {crc:#010x}");
        return Err(Error::damaged(&datafile::file_name(table.id(), word.file()), word.offset(), what));
    }
    Ok(())
}

/// The checksum a version carries, after verifying it.
pub(crate) fn version_checksum(table: &Table, rid: Rid, word: Word) -> Result<u32> {
    let (region, at, header) = table.header(word, rid)?;
    // SAFETY: nothing runs yet; nobody stores there.
    let bytes = unsafe { Table::row(region, at, &header) };
    if header.checksum(bytes) != header.crc {
        return Err(Error::damaged(
            region.name(),
            at,
            format_args!("a version of {} bytes does not match its checksum", VERSION_HEADER + bytes.len() as u64),
        ));
    }
    if header.tombstone != word.is_tombstone() {
        return Err(Error::damaged(region.name(), at, "a directory word and its version disagree about a deletion"));
    }
    Ok(header.crc)
}

/// Verifies an extent's words and versions; returns the folded checksums.
fn verify_extent(table: &Table, page: u64, rows: u32, crc: u32) -> Result<u64> {
    let name = datafile::file_name(table.id(), 0);
    let (region, at, bytes) =
        table.directory.page_bytes(page).filter(|_| page < table.directory.page_count()).ok_or_else(|| {
            Error::damaged(&name, 0, format_args!("directory page {page} of an extent does not exist"))
        })?;
    let range = table.directory.page_rows(page);
    if u64::from(rows) > range.end - range.start {
        return Err(Error::damaged(&name, at, format_args!("an extent of {rows} rows is longer than a page")));
    }
    // An extent that was published may have changed since; each change has a record of its own and is checked there.
    if table.directory.state(page).is_published() {
        return Ok(0);
    }
    let mut folded = 0;
    for row in range.start..range.start + u64::from(rows) {
        let word = table.directory.raw_word(row);
        if !word.is_empty() {
            folded ^= fold_row(row, version_checksum(table, Rid::new(row, 0), word)?);
        }
    }
    // SAFETY: nothing runs yet; nobody stores there.
    let seen = extent_crc(unsafe { region.slice(at, bytes) }, folded);
    if seen != crc {
        let what = format!("an extent has checksum {seen:#010x}, its log record says {crc:#010x}");
        return Err(Error::damaged(region.name(), at, what));
    }
    Ok(folded)
}

/// Gives a prepared transaction back its write set, cells and locks.
fn resurrect(inner: &Arc<Inner>, prepared: PreparedTxn, tables: &BTreeMap<u32, Arc<Table>>) -> Result<()> {
    let mut txn = Txn::new(inner.clone(), Isolation::RepeatableRead);
    if let Err(error) = resurrect_writes(&mut txn, &prepared.bodies, tables) {
        txn.forget();
        return Err(error);
    }
    txn.xid = prepared.xid;
    txn.log = Some(prepared.log);
    txn.state = State::Prepared;
    inner.add_prepared(txn);
    Ok(())
}

fn resurrect_writes(txn: &mut Txn, bodies: &[Vec<u8>], tables: &BTreeMap<u32, Arc<Table>>) -> Result<()> {
    for body in bodies {
        for record in records(body)? {
            let Some(table) = tables.get(&record.table()) else { continue };
            match record {
                Record::Row { rid, word, crc, .. } => resurrect_row(txn, table, rid, word, crc)?,
                Record::Extent { page, rows, crc, .. } => resurrect_extent(txn, table, page, rows, crc)?,
            }
        }
    }
    Ok(())
}

fn resurrect_row(txn: &mut Txn, table: &Arc<Table>, rid: Rid, word: Word, crc: u32) -> Result<()> {
    verify_row(table, rid, word, crc)?;
    // Planted: the cell of a prepared transaction is not kept for it.
    if !perdura_pmem::planted(40) {
        table.keep_cell(word)?;
    }
    let base = table.directory.word(rid.row());
    if base.is_empty() {
        table.space.lock().reserve_row(rid.row());
    } else {
        table.header(base, rid)?;
        table.ensure_swept(base)?;
        let key = crate::locks::RowKey { table: table.id(), rid };
        // Planted: a prepared transaction does not get its locks back.
        if perdura_pmem::planted(41) {
            txn.writes.add(table, rid, base, word);
            return Ok(());
        }
        let locked = txn.engine.locks.lock(&txn.owner, key, LockMode::Exclusive, Some(Duration::ZERO));
        if locked.is_err() {
            return Err(Error::damaged(
                "log",
                0,
                format_args!("two prepared transactions wrote row {:#x}", rid.to_u64()),
            ));
        }
        txn.locks.push(key);
        txn.owner.count_locks(txn.locks.len());
    }
    txn.writes.add(table, rid, base, word);
    Ok(())
}

fn resurrect_extent(txn: &mut Txn, table: &Arc<Table>, page: u64, rows: u32, crc: u32) -> Result<()> {
    let folded = verify_extent(table, page, rows, crc)?;
    if table.directory.state(page).is_published() {
        let what = format_args!("a prepared transaction filled directory page {page}, which is published");
        return Err(Error::damaged(&datafile::file_name(table.id(), 0), 0, what));
    }
    let first = table.directory.page_rows(page).start;
    for row in first..first + u64::from(rows) {
        let word = table.directory.raw_word(row);
        if !word.is_empty() {
            table.keep_cell(word)?;
        }
    }
    table.space.lock().reserve_page(page);
    if txn.bulk.iter().all(|bulk| bulk.table().id() != table.id()) {
        txn.bulk.push(BulkInsert::new(table.clone()));
    }
    let bulk = txn.bulk.iter_mut().find(|bulk| bulk.table().id() == table.id()).expect("just made sure");
    bulk.adopt_page(page, rows, folded);
    Ok(())
}

/// Removes files that no catalog row and no link word names: what creations and drops left when they were cut off.
fn remove_orphans(medium: &dyn Medium, catalog: &Table, tables: &BTreeMap<u32, Arc<Table>>) -> Result<()> {
    let mut removed = false;
    for (name, _) in medium.list()? {
        let Some((table, sequence)) = datafile::parse_name(&name) else { continue };
        let owner = if table == CATALOG_ID { Some(catalog) } else { tables.get(&table).map(|table| &**table) };
        if owner.is_none_or(|owner| sequence as usize >= owner.files.count()) {
            medium.remove(&name)?;
            removed = true;
        }
    }
    if removed {
        medium.sync_dir()?;
    }
    Ok(())
}
