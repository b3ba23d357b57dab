//! Room *recovery*: it creates, opens and recovers a pool, owns the catalog and DDL on it, and checks a pool offline.
//!
//! It stands on `txn`, `pool`, `changes` and `table`. The log does the analysis: it finds the commits above the
//! checkpoint up to the horizon. Redo is idempotent: it verifies the checksum of what a record names, then stores the
//! directory word or page state again (I6). It goes over the catalog first, which tells what tables there are. Losers
//! need no undo, since nothing names what they wrote (I4). One fence makes redo durable, and one superblock write ends
//! the recovery (I7). Prepared transactions then get their write sets, cells and locks back. DDL keeps (I8) for files:
//! table ids are never given twice, and files are removed after the commit that forgets them.

pub mod catalog;
pub mod check;
pub mod ddl;
mod redo;
mod restore;

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::files::context::TableContext;
use crate::files::spare;
use crate::format::{CATALOG_ID, Geometry, parse_data_file_name};
use crate::pool::Pool;
use crate::random;
use crate::service::Services;
use crate::table::Table;
use catalog::Entry;
use perdura_log::{Recovery, SUPERBLOCK_NAME as SUPERBLOCK, SUPERBLOCK_NEW_NAME as SUPERBLOCK_NEW};
use perdura_pmem::Medium;
use perdura_pmem::prefault::Prefault;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Opens or creates the pool on `medium`.
pub(crate) fn open(medium: Arc<dyn Medium>, config: &Config) -> Result<Arc<Pool>> {
    config.check()?;
    let mut random = random::Source::new(config.seed);
    let files = medium.list()?;
    let has = |name: &str| files.iter().any(|(file, _)| file == name);
    if !has(SUPERBLOCK) {
        refuse_lost_superblock(&files)?;
        // The data files go first, and durably: `super.new` marks them as left by a creation that was cut off.
        let (tables, others): (Vec<_>, Vec<_>) = files
            .iter()
            .filter(|(name, _)| is_pool_file(name))
            .partition(|(name, _)| parse_data_file_name(name).is_some());
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

/// Refuses data files without a superblock. A creation that was cut off leaves log files alone, or `super.new` beside
/// the others; anything else is a pool that has lost its superblock.
pub(crate) fn refuse_lost_superblock(files: &[(String, u64)]) -> Result<()> {
    let tables = files.iter().filter(|(name, _)| parse_data_file_name(name).is_some()).count();
    if tables == 0 || files.iter().any(|(name, _)| name == SUPERBLOCK_NEW) {
        return Ok(());
    }
    let what = format_args!("the superblock is missing beside {tables} data files of a pool");
    Err(Error::damaged(SUPERBLOCK, 0, what))
}

/// Reads the sizes fixed at creation from the superblock.
pub(crate) fn geometry(recovery: &Recovery) -> Result<Geometry> {
    let words = recovery.superblock.geometry;
    Geometry::from_words(words)
        .map_err(|what| Error::new(ErrorKind::NotSupported, format!("{SUPERBLOCK}: {what}")).in_file(SUPERBLOCK))
}

pub(crate) fn is_pool_file(name: &str) -> bool {
    name == SUPERBLOCK_NEW || name == spare::NAME || name.starts_with("log.") || parse_data_file_name(name).is_some()
}

/// Creates the log, the catalog and the spare. Renaming `super.new` to `super` is the last step.
fn create(medium: &Arc<dyn Medium>, config: &Config, random: &mut random::Source) -> Result<()> {
    let _span = perdura_pmem::trace::span("pool_creation");
    let geometry = config.geometry();
    let superblock = perdura_log::create(medium, &config.log, geometry.to_words(), &mut || random.next())?;
    let services = Arc::new(Services::new(None));
    let context = Arc::new(TableContext::new(medium.clone(), superblock.pool, geometry, config, services));
    Table::create(context.clone(), CATALOG_ID, catalog::NAME, &[])?;
    context.spare.create(&**medium)?;
    medium.rename(SUPERBLOCK_NEW, SUPERBLOCK)?;
    medium.sync_dir()?;
    Ok(())
}

fn recover(medium: Arc<dyn Medium>, config: &Config, random: &mut random::Source) -> Result<Arc<Pool>> {
    let _span = perdura_pmem::trace::span("recovery");
    let recovery = Recovery::open(medium.clone(), &config.log)?;
    let geometry = geometry(&recovery)?;
    let (id, lane_bytes) = (recovery.superblock.pool, recovery.superblock.lane_bytes);
    let prefault =
        config.prefault.then(|| Prefault::start(config.prefault_threads as usize, true, medium.info().numa_node));
    let services = Arc::new(Services::new(prefault));
    watch_prefault(&services);
    let context = Arc::new(TableContext::new(medium.clone(), id, geometry, config, services));
    let catalog = Arc::new(Table::open(context.clone(), CATALOG_ID, catalog::NAME, &[])?);
    redo::redo(&recovery, |id| (id == CATALOG_ID).then_some(&*catalog))?;
    let by_id = open_tables(&context, &catalog)?;
    redo::redo(&recovery, |id| by_id.get(&id).map(|table| &**table))?;
    catalog.chain().fence();
    let (log, prepared) = recovery.finish(&mut || random.next())?;
    let lanes = context.services.clone();
    log.set_prefault(Box::new(move |region| lanes.prefault(region)));
    remove_orphans(&*medium, &catalog, &by_id)?;
    context.spare.find(&*medium, &medium.list()?)?;
    let tables = by_id.values().map(|table| (table.name(), table.clone())).collect();
    let pool = Arc::new(Pool::new(context, log, catalog, tables, config, lane_bytes));
    for transaction in prepared {
        restore::restore(&pool, transaction, &by_id)?;
    }
    for table in pool.table_list() {
        table.estimate_rows();
        for file in table.chain().files() {
            pool.services().prefault_later(file.region());
        }
    }
    Ok(pool)
}

/// Turns failures of pre-fault into notices: damaged memory shows there first.
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
    for entry in catalog::entries(catalog, &BTreeMap::new())? {
        if let Entry::Table { id, name, definition } = entry {
            tables.insert(id, Arc::new(Table::open(context.clone(), id, &name, &definition)?));
        }
    }
    Ok(tables)
}

/// Removes data files that neither a catalog row nor a link word names: a creation or drop that was cut off left them.
fn remove_orphans(medium: &dyn Medium, catalog: &Table, tables: &BTreeMap<u32, Arc<Table>>) -> Result<()> {
    let mut removed = false;
    for (name, _) in medium.list()? {
        let Some((table, sequence)) = parse_data_file_name(&name) else { continue };
        let owner = if table == CATALOG_ID { Some(catalog) } else { tables.get(&table).map(|table| &**table) };
        if owner.is_none_or(|owner| sequence as usize >= owner.chain().file_count()) {
            medium.remove(&name)?;
            removed = true;
        }
    }
    if removed {
        medium.sync_dir()?;
    }
    Ok(())
}
