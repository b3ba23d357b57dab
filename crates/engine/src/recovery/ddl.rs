//! DDL: ordinary transactions on the catalog, hence atomic.
//!
//! A new table's first file is synced before the commit that names the table (I3). A dropped
//! table's files are removed after the commit that forgets it. Table ids are never given twice: the
//! same transaction updates a counter row (I8).

use super::catalog::{Entry, INDEXES_MAX, NAME_BYTES_MAX};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{CATALOG_ID, Rid, data_file_name, key_bytes_max};
use crate::pool::Pool;
use crate::pool::tables::{Forgotten, Registered};
use crate::table::Table;
use crate::table::definition::Definition;
use crate::table::visibility::ReadView;
use crate::txn::isolation::Isolation;
use crate::txn::session::Session;
use perdura_pmem::{Medium, Mutant};
use std::sync::Arc;

/// Runs `change` as one DDL transaction; `change` commits it, or its session rolls it back when
/// dropped.
pub(super) fn ddl<T>(pool: &Arc<Pool>, change: impl FnOnce(&mut Session, &Arc<Table>) -> Result<T>) -> Result<T> {
    let _one = pool.ddl.lock();
    pool.check_writable()?;
    let mut session = Session::new(pool.clone(), Isolation::ReadCommitted);
    session.begin_ending();
    change(&mut session, &pool.catalog)
}

/// Gives out the next table id: the transaction updates the counter row, or inserts it. The caller
/// notes its RID with [`note_counter`] once the transaction has committed.
fn next_table_id(pool: &Pool, session: &mut Session, catalog: &Arc<Table>) -> Result<(u32, Rid)> {
    let row = *pool.tables.next_id_row.lock();
    let counter = row.map(|rid| read_counter(session, catalog, rid).map(|id| (rid, id))).transpose()?;
    // Planted: ids of dropped tables are given again.
    let used = || pool.tables.all().iter().map(|table| table.id).max().unwrap_or(CATALOG_ID);
    let id = counter
        .map_or(CATALOG_ID + 1, |(_, id)| if perdura_pmem::planted(Mutant::TableIdReused) { used() + 1 } else { id });
    let next =
        id.checked_add(1).ok_or_else(|| Error::new(ErrorKind::TableFull, "the pool has given out all table ids"))?;
    let row = Entry::NextId(next).encode();
    match counter {
        Some((rid, _)) => session.update(catalog, rid, &row).map(|()| (id, rid)),
        None => Ok((id, session.insert(catalog, &row)?)),
    }
}

fn read_counter(session: &mut Session, catalog: &Arc<Table>, rid: Rid) -> Result<u32> {
    let row = session.read(catalog, rid, ReadView::Snapshot)?;
    // SAFETY: the statement has not ended, so its snapshot holds the version.
    match row.and_then(|row| Entry::decode(unsafe { row.bytes() })) {
        Some(Entry::NextId(id)) => Ok(id),
        _ => {
            let what = "the catalog row with the next table id is not one";
            Err(Error::damaged(&data_file_name(CATALOG_ID, 0), rid.row() * 8, what))
        }
    }
}

fn note_counter(pool: &Pool, row: Rid) {
    *pool.tables.next_id_row.lock() = Some(row);
}

/// Creates the first file of a table, then commits its catalog row.
pub(crate) fn create_table(pool: &Arc<Pool>, name: &str, definition: Definition) -> Result<Arc<Table>> {
    check_name(name)?;
    check_indexes(&definition, pool.context.geometry.segment_bytes)?;
    let created = ddl(pool, |session, catalog| {
        if pool.tables.contains(name) {
            return Err(Error::new(ErrorKind::Exists, format!("table {name} exists already")));
        }
        let (id, counter) = next_table_id(pool, session, catalog)?;
        let table = Arc::new(Table::create(pool.context.clone(), id, name, definition.clone())?);
        let entry = Entry::Table { id, name: name.to_owned(), definition };
        let inserted = session.insert(catalog, &entry.encode());
        match inserted.and_then(|row| session.commit().map(|csn| (row, csn))) {
            Ok((row, csn)) => {
                table.set_defined(csn);
                note_counter(pool, counter);
                pool.tables.add(Registered::created(&table, row));
                Ok(table)
            }
            Err(error) => {
                remove_files(pool, &table);
                Err(error)
            }
        }
    })?;
    Ok(created)
}

/// Refuses DDL on a table that a prepared transaction without a session wrote to.
pub(super) fn check_undecided(pool: &Pool, table: &Registered) -> Result<()> {
    if !pool.prepared.touches(table.id) {
        return Ok(());
    }
    let what = "was changed by a prepared transaction; commit it or roll it back first (XA RECOVER lists it)";
    Err(Error::new(ErrorKind::LockWaitTimeout, format!("table {} {what}", table.name())))
}

/// Commits the removal of a table from the catalog, then removes its files. The table need not be
/// open, so one that cannot be opened is dropped as well.
pub(crate) fn drop_table(pool: &Arc<Pool>, name: &str) -> Result<()> {
    let dropped = ddl(pool, |session, catalog| {
        let table = pool.tables.find(name)?;
        check_undecided(pool, &table)?;
        // Planted: the files are removed before the catalog forgets them.
        if perdura_pmem::planted(Mutant::FilesRemovedBeforeDrop) {
            pool.context.medium.remove(&data_file_name(table.id, 0))?;
            pool.context.medium.sync_dir()?;
            pool.context.medium.create(&data_file_name(table.id, 0), 64)?;
        }
        session.delete(catalog, table.row)?;
        session.commit()?;
        Ok(pool.tables.forget(&table))
    })?;
    let _changing = pool.hold.change();
    remove_forgotten(pool, &dropped);
    Ok(())
}

/// A table, and the creator's bytes that its definition gets.
pub type Redefinition = (String, Vec<u8>);

/// Redefined tables, of which the register learns after the commit.
pub(super) struct Redefined(Vec<(Arc<Registered>, Definition)>);

/// Gives tables other bytes of their creator, in a DDL transaction. Nothing else of them changes.
pub(super) fn redefine<'r>(
    pool: &Pool,
    (session, catalog): (&mut Session, &Arc<Table>),
    redefinitions: impl Iterator<Item = &'r Redefinition>,
) -> Result<Redefined> {
    let mut redefined = Vec::new();
    for (name, bytes) in redefinitions {
        let table = pool.tables.find(name)?;
        let definition = Definition { bytes: bytes.as_slice().into(), ..table.definition() };
        let entry = Entry::Table { id: table.id, name: name.clone(), definition: definition.clone() };
        session.update(catalog, table.row, &entry.encode())?;
        redefined.push((table, definition));
    }
    Ok(Redefined(redefined))
}

impl Redefined {
    /// Notes the definitions in the register, after the commit.
    pub(super) fn install(self) {
        self.0.into_iter().for_each(|(table, definition)| table.set_definition(definition));
    }
}

/// Renames a table, and gives `redefinitions` their new bytes, which may name the table by its old
/// name. If the server `rebuilt` it under the old name, the table refuses snapshots older than the
/// rename.
pub(crate) fn rename_table(
    pool: &Arc<Pool>,
    (from, to): (&str, &str),
    rebuilt: bool,
    redefinitions: &[Redefinition],
) -> Result<()> {
    check_name(to)?;
    ddl(pool, |session, catalog| {
        if pool.tables.contains(to) {
            return Err(Error::new(ErrorKind::Exists, format!("table {to} exists already")));
        }
        let table = pool.tables.find(from)?;
        check_undecided(pool, &table)?;
        let own = redefinitions.iter().find(|(name, _)| name == from);
        let mut definition = table.definition();
        if let Some((_, bytes)) = own {
            definition.bytes = bytes.as_slice().into();
        }
        let others = redefinitions.iter().filter(|(name, _)| name != from);
        let others = redefine(pool, (&mut *session, catalog), others)?;
        // Planted: definitions that name the table change in a commit before its own.
        if perdura_pmem::planted(Mutant::RedefinitionsBeforeRename) {
            session.commit()?;
        }
        let entry = Entry::Table { id: table.id, name: to.to_owned(), definition: definition.clone() };
        session.update(catalog, table.row, &entry.encode())?;
        let csn = session.commit()?;
        if rebuilt {
            table.figures().set_defined(csn);
        }
        pool.tables.rename(&table, to);
        if own.is_some() {
            table.set_definition(definition);
        }
        others.install();
        Ok(())
    })
}

/// Replaces a table by an empty one of the same name and definition, and returns the new table.
pub(crate) fn truncate_table(pool: &Arc<Pool>, name: &str) -> Result<Arc<Table>> {
    let (old, new) = ddl(pool, |session, catalog| {
        let old = pool.tables.find(name)?;
        check_undecided(pool, &old)?;
        let (id, counter) = next_table_id(pool, session, catalog)?;
        let new = Arc::new(Table::create_in_spare(pool.context.clone(), id, name, old.definition())?);
        let entry = Entry::Table { id, name: name.to_owned(), definition: old.definition() };
        match session.update(catalog, old.row, &entry.encode()).and_then(|()| session.commit()) {
            Ok(csn) => {
                new.set_defined(csn);
                new.set_changed(pool.now().as_secs());
                note_counter(pool, counter);
                pool.tables.add(Registered::created(&new, old.row));
                Ok((pool.tables.forget(&old), new))
            }
            Err(error) => {
                remove_files(pool, &new);
                Err(error)
            }
        }
    })?;
    // Locked in the order of ddl(): whoever has the DDL lock waits here while the pool is held.
    let _one = pool.ddl.lock();
    let _changing = pool.hold.change();
    remove_forgotten(pool, &old);
    drop(old);
    // If this fails, the table is empty all the same and the background thread tries again.
    let _ = pool.context.spare.provide(&*pool.context.medium);
    Ok(new)
}

/// Disposes of the files of a table that the catalog no longer names. After a crash the next start
/// removes what is left of them. Those of a closed table are not mapped, so none of them is kept.
fn remove_forgotten(pool: &Pool, table: &Forgotten) {
    match &table.open {
        Some(open) => remove_files(pool, open),
        None if is_undecided(pool) => {}
        None => {
            let _span = perdura_pmem::trace::span("file_removal");
            let names = (0..table.files as u32).map(|sequence| data_file_name(table.id, sequence));
            pool.services().remove_files(&*pool.context.medium, names);
        }
    }
}

/// Keeps or removes the files of an open table that the catalog no longer names, or never named.
fn remove_files(pool: &Pool, table: &Table) {
    let _not_growing = table.space().segments().stop_growing();
    table.chain().set_dropped();
    if !is_undecided(pool) {
        let _span = perdura_pmem::trace::span("file_removal");
        pool.context.dispose(table.chain().files());
    }
}

/// Whether the commit may be durable or not, so that the next start decides whether the table
/// exists.
fn is_undecided(pool: &Pool) -> bool {
    pool.log.is_failed()
}

pub(super) fn check_indexes(definition: &Definition, segment_bytes: u64) -> Result<()> {
    let longest = definition.indexes.iter().map(|index| usize::from(index.key_bytes)).max().unwrap_or_default();
    if definition.indexes.len() <= INDEXES_MAX && longest <= key_bytes_max(segment_bytes) {
        return Ok(());
    }
    let message = format!(
        "a table has up to {INDEXES_MAX} indexes with keys of up to {} bytes (in a pool with segments of {segment_bytes}), not {} with up to \
         {longest}",
        key_bytes_max(segment_bytes),
        definition.indexes.len()
    );
    Err(Error::new(ErrorKind::Configuration, message))
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let message = format!("a table name has from 1 to {NAME_BYTES_MAX} bytes, this one has {}", name.len());
        return Err(Error::new(ErrorKind::Configuration, message));
    }
    Ok(())
}
