//! Room *recovery*: it creates, opens and recovers a pool, owns the catalog and DDL on it, and
//! checks a pool offline.
//!
//! It stands on `txn`, `pool`, `changes` and `table`. The log does the analysis: it finds the
//! commits above the checkpoint up to the horizon. Redo is idempotent: it writes what records
//! carry, verifies the checksum of what they name, then stores the directory word or page state
//! again (I6). It goes over the catalog first, which tells what tables there are. Only tables that
//! redo or a prepared transaction changes are opened; the others stay closed until their first use.
//! Losers need no undo, since nothing names what they wrote (I4). One fence makes redo durable, and
//! one superblock write ends the recovery (I7). Prepared transactions then get their write sets,
//! cells and locks back. DDL keeps (I8) for files: table ids are never given twice, and files are
//! removed after the commit that forgets them.

pub(crate) mod alter;
pub(crate) mod catalog;
pub mod check;
pub(crate) mod ddl;
mod redo;
mod restore;
mod shares;
mod survey;
mod values;

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::files::context::TableContext;
use crate::files::kept::{self, KeepingMedium};
use crate::files::spare;
use crate::format::{CATALOG_ID, Geometry, parse_data_file_name};
use crate::pool::tables::{Registered, Tables};
use crate::pool::{self, Pool};
use crate::random;
use crate::service::Services;
use crate::table::Table;
use crate::table::definition::Definition;
use catalog::Entry;
use perdura_log::{
    Committed, LogConfig, Recovery, SUPERBLOCK_NAME as SUPERBLOCK, SUPERBLOCK_NEW_NAME as SUPERBLOCK_NEW,
};
use perdura_pmem::numa::Locality;
use perdura_pmem::prefault::Prefault;
use perdura_pmem::{Medium, Mutant};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use survey::Survey;

/// Opens or creates the pool on `medium`.
pub(crate) fn open(medium: Arc<dyn Medium>, config: &Config) -> Result<Arc<Pool>> {
    config.check()?;
    let mut random = random::Source::new(config.seed);
    let mut files = medium.list()?;
    let has = |name: &str| files.iter().any(|(file, _)| file == name);
    if !has(SUPERBLOCK) {
        refuse_lost_superblock(&files)?;
        // The data files go first, and durably: `super.new` marks them as left by a creation that
        // was cut off.
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
        files = medium.list()?;
    }
    recover(medium, &files, config, &mut random)
}

/// Refuses data files without a superblock. A creation that was cut off leaves log files alone, or
/// `super.new` beside the others; anything else is a pool that has lost its superblock.
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

/// Whether the directory holds files of a pool, complete or not.
pub(crate) fn has_pool(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name == SUPERBLOCK || is_pool_file(name))
    })
}

pub(crate) fn is_pool_file(name: &str) -> bool {
    name == SUPERBLOCK_NEW || name == spare::NAME || name.starts_with("log.") || parse_data_file_name(name).is_some()
}

/// Creates the log, the catalog and the spare. Renaming `super.new` to `super` is the last step.
fn create(medium: &Arc<dyn Medium>, config: &Config, random: &mut random::Source) -> Result<()> {
    let _span = perdura_pmem::trace::span("pool_creation");
    let geometry = config.geometry();
    let superblock = perdura_log::create(medium, &config.log, geometry.to_words(false), &mut || random.next())?;
    let services = Arc::new(Services::new(None, Locality::off("a creation")));
    let keeping = KeepingMedium::new(medium.clone(), 0);
    let context = Arc::new(TableContext::new(keeping, superblock.pool, geometry, config, services));
    Table::create(context.clone(), CATALOG_ID, catalog::NAME, Definition::default())?;
    context.spare.create(&**medium)?;
    medium.rename(SUPERBLOCK_NEW, SUPERBLOCK)?;
    medium.sync_dir()?;
    Ok(())
}

/// Recovers the pool on `medium`, whose directory holds `files`.
fn recover(
    medium: Arc<dyn Medium>,
    files: &[(String, u64)],
    config: &Config,
    random: &mut random::Source,
) -> Result<Arc<Pool>> {
    let _span = perdura_pmem::trace::span("recovery");
    let medium = KeepingMedium::new(medium, config.kept_file_bytes);
    let mut recovery = Recovery::open(medium.clone(), &config.log_config())?;
    if !config.accept_unsafe_shutdown {
        recovery.check_shutdowns()?;
    }
    let files = &kept::remove_kept(&*medium, files)?;
    let geometry = geometry(&recovery)?;
    let (id, lane_bytes) = (recovery.superblock.pool, recovery.superblock.lane_bytes);
    pool::check_log_buffer(config, lane_bytes)?;
    let locality = locality(&*medium, config);
    let prefault = config.prefault.then(|| Prefault::start(config.prefault_threads as usize, true, &locality));
    let services = Arc::new(Services::new(prefault, locality));
    watch_prefault(&services);
    report_fault(&services);
    report_unused(&services, config, (recovery.superblock.lanes, lane_bytes));
    // From here on: threads that were started above would have inherited the pin.
    let _attachment = services.locality().attach();
    let context = Arc::new(TableContext::new(medium.clone(), id, geometry, config, services));
    let catalog = Table::open(context.clone(), CATALOG_ID, catalog::NAME, Definition::default(), Arc::default())?;
    let catalog = Arc::new(catalog);
    let fence = || catalog.chain().fence();
    let survey = Survey::of(&recovery)?;
    redo_tables(&recovery, &survey.of_catalog, &fence, |id| (id == CATALOG_ID).then_some(&*catalog))?;
    let tables = register(&context, &catalog, files, config)?;
    let named = open_named(&survey, &tables)?;
    redo_tables(&recovery, &survey.all, &fence, |id| named.get(&id).map(|table| &**table))?;
    drop(survey);
    // Planted: what redo has stored is left to the kernel.
    if !perdura_pmem::planted(Mutant::RecoveryUnsettled) {
        medium.settle()?;
    }
    // A prepared transaction keeps its records.
    let keeps_values = !recovery.prepared.is_empty() && Geometry::has_values(recovery.superblock.geometry);
    recovery.set_geometry(geometry.to_words(context.redo_form.is_by_value() || keeps_values));
    let (log, prepared) = recovery.finish(&mut || random.next())?;
    let lanes = context.services.clone();
    log.set_prefault(Box::new(move |region| lanes.prefault(region)));
    remove_orphans(&*medium, files, &catalog, &tables)?;
    context.spare.find(&*medium, files)?;
    catalog.estimate_rows();
    for file in catalog.chain().files() {
        context.services.prefault_later(file.region());
    }
    tables.end_redo();
    let pool = Arc::new(Pool::new(context, log, catalog, tables, config, lane_bytes));
    for transaction in prepared {
        restore::restore(&pool, transaction, &named)?;
    }
    Ok(pool)
}

/// Redoes the records of the tables that `table_of` knows, of `commits`, and fences by `fence` what
/// it stores.
fn redo_tables<'a>(
    recovery: &Recovery,
    commits: &[&Committed],
    fence: &(dyn Fn() + Sync),
    table_of: impl Fn(u32) -> Option<&'a Table> + Sync,
) -> Result<()> {
    let bodies = commits.iter().flat_map(|committed| &committed.bodies);
    let bytes = bodies.map(|body| recovery.body(*body).len() as u64).sum();
    let redo = |share| redo::redo(recovery, commits, share, &table_of);
    // Planted: records are redone as they come, before what later ones carry is written.
    if perdura_pmem::planted(Mutant::RedoBeforeValues) {
        shares::each(bytes, fence, &redo)?;
    }
    if Geometry::has_values(recovery.superblock.geometry) {
        shares::each(bytes, fence, &|share| redo::write_values(recovery, commits, share, &table_of))?;
    }
    shares::each(bytes, fence, &redo)
}

/// The placement of threads near the pool's memory.
fn locality(medium: &dyn Medium, config: &Config) -> Locality {
    if !config.numa {
        return Locality::off("it is switched off");
    }
    Locality::of(&config.machine, || node_of(medium, config))
}

/// Node of the pool's memory. Memory of a file system in DRAM is where the thread was that touched
/// it first, so it may be spread: that of the superblock stands for all.
fn node_of(medium: &dyn Medium, config: &Config) -> Option<u32> {
    let info = medium.info();
    let is_in_dram = info.mode.is_emulated() && info.directory.is_some();
    if info.numa_node.is_some() || !is_in_dram {
        return info.numa_node;
    }
    let region = medium.open(SUPERBLOCK).ok().filter(|region| !region.is_empty())?;
    // The page is mapped by reading it, which must not be left out though nobody wants the word.
    std::hint::black_box(region.load(0));
    config.machine.node_of_page(region.as_ptr())
}

/// Tells why threads are not placed although they might be.
fn report_fault(services: &Services) {
    if let Some(fault) = services.locality().fault() {
        services.notices.add(format!(
            "threads are not pinned to the NUMA node of the pool: {fault}; mend that and restart, or switch `numa` off"
        ));
    }
}

/// Tells of settings that the pool does not follow, since it was created with others.
fn report_unused(services: &Services, config: &Config, (lanes, lane_bytes): (u32, u64)) {
    let unused = |name: &str, set: u64, kept: u64| {
        services.notices.add(format!("{name} is set to {set}, but the pool was created with {kept} and keeps that"));
    };
    if ![0, lanes].contains(&config.log.lanes) {
        unused("log_lanes", config.log.lanes.into(), lanes.into());
    }
    if ![LogConfig::default().lane_bytes, lane_bytes].contains(&config.log.lane_bytes) {
        unused("log_lane_size", config.log.lane_bytes, lane_bytes);
    }
}

/// Turns failures of pre-fault into notices: damaged memory shows there first.
fn watch_prefault(services: &Arc<Services>) {
    let weak = Arc::downgrade(services);
    if let Some(prefault) = services.prefault_service() {
        prefault.set_error_handler(move |error| {
            if let Some(services) = weak.upgrade() {
                services.notices.add(format!("pre-fault: {error}"));
            }
        });
    }
}

/// Registers the tables that the catalog names, all of them closed.
fn register(context: &Arc<TableContext>, catalog: &Table, files: &[(String, u64)], config: &Config) -> Result<Tables> {
    let mut found: FxHashMap<u32, (usize, u64)> = FxHashMap::default();
    for (name, bytes) in files {
        if let Some((table, _)) = parse_data_file_name(name) {
            let (count, total) = found.entry(table).or_default();
            *count += 1;
            *total += bytes;
        }
    }
    let tables = Tables::new(context.clone(), config.open_files);
    for (row, entry) in catalog::entries(catalog, &BTreeMap::new())? {
        match entry {
            Entry::NextId(_) => *tables.next_id_row.lock() = Some(row),
            Entry::Table { id, name, definition } => {
                let (files, bytes) = found.get(&id).copied().unwrap_or_default();
                tables.add(Registered::found(id, row, definition, &name, files, bytes));
            }
        }
    }
    Ok(tables)
}

/// Opens the tables that redo, or a prepared transaction, is going to change.
fn open_named(survey: &Survey<'_>, tables: &Tables) -> Result<BTreeMap<u32, Arc<Table>>> {
    let found = survey.tables.iter().filter_map(|id| tables.find_id(*id).map(|table| (*id, table)));
    found.map(|(id, table)| Ok((id, tables.open_for_redo(&table)?))).collect()
}

/// Removes data files that no catalog row names, and those behind the chain of an open table: a
/// creation or drop that was cut off left them. The files behind the chain of a closed table are
/// removed when it is opened.
fn remove_orphans(medium: &dyn Medium, files: &[(String, u64)], catalog: &Table, tables: &Tables) -> Result<()> {
    let mut removed = false;
    for (name, _) in files {
        let is_orphan = match parse_data_file_name(name) {
            Some((id, sequence)) => {
                let is_behind = |table: &Table| sequence as usize >= table.chain().file_count();
                match tables.find_id(id) {
                    _ if id == CATALOG_ID => is_behind(catalog),
                    None => true,
                    Some(_) => tables.open_by_id(id).is_some_and(|table| is_behind(&table)),
                }
            }
            None => false,
        };
        // Planted: files that are part of no table stay.
        if is_orphan && !perdura_pmem::planted(Mutant::UnownedFilesStay) {
            medium.remove(name)?;
            removed = true;
        }
    }
    if removed {
        medium.sync_dir()?;
    }
    Ok(())
}
