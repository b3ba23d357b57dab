//! DDL: ordinary transactions on the catalog, hence atomic.
//!
//! A new table's first file is synced before the commit that names the table (I3). A dropped table's files are removed
//! after the commit that forgets it. Table ids are never given twice: the same transaction updates a counter row (I8).

use super::catalog::{Entry, NAME_BYTES_MAX};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{CATALOG_ID, Rid, data_file_name};
use crate::pool::Pool;
use crate::table::Table;
use crate::txn::isolation::Isolation;
use crate::txn::session::Session;
use std::sync::Arc;

/// Reads the catalog as `session` sees it: every entry with the RID of its row.
pub(crate) fn read_all(session: &mut Session, catalog: &Arc<Table>) -> Result<Vec<(Rid, Entry)>> {
    let mut scan = session.scan(catalog);
    let mut entries = Vec::new();
    while let Some((rid, row)) = scan.next(session)? {
        // SAFETY: the scan's statement has not ended, so its snapshot holds the version.
        let bytes = unsafe { row.bytes() };
        let entry = Entry::decode(bytes).ok_or_else(|| {
            Error::damaged(&data_file_name(CATALOG_ID, 0), rid.row(), "a catalog row is not a table definition")
        })?;
        entries.push((rid, entry));
    }
    Ok(entries)
}

/// Runs `change` as one DDL transaction; `change` commits it, or its session rolls it back when dropped.
fn ddl<T>(pool: &Arc<Pool>, change: impl FnOnce(&mut Session, &Arc<Table>) -> Result<T>) -> Result<T> {
    let _one = pool.ddl.lock();
    pool.check_writable()?;
    let mut session = Session::new(pool.clone(), Isolation::ReadCommitted);
    session.begin_ending();
    change(&mut session, &pool.catalog)
}

fn next_table_id(pool: &Pool, session: &mut Session, catalog: &Arc<Table>) -> Result<u32> {
    let counter = read_all(session, catalog)?.into_iter().find_map(|(rid, entry)| match entry {
        Entry::NextId(id) => Some((rid, id)),
        Entry::Table { .. } => None,
    });
    // Planted: ids of dropped tables are given again.
    let used = || pool.table_list().iter().map(|table| table.id()).max().unwrap_or(CATALOG_ID);
    let id = counter.map_or(CATALOG_ID + 1, |(_, id)| if perdura_pmem::planted(46) { used() + 1 } else { id });
    let next =
        id.checked_add(1).ok_or_else(|| Error::new(ErrorKind::TableFull, "the pool has given out all table ids"))?;
    let row = Entry::NextId(next).encode();
    match counter {
        Some((rid, _)) => session.update(catalog, rid, &row)?,
        None => session.insert(catalog, &row).map(|_| ())?,
    }
    Ok(id)
}

fn find_entry(session: &mut Session, catalog: &Arc<Table>, table: u32) -> Result<Rid> {
    read_all(session, catalog)?
        .into_iter()
        .find_map(|(rid, entry)| matches!(entry, Entry::Table { id, .. } if id == table).then_some(rid))
        .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("table id {table} is not in the catalog")))
}

/// Creates the first file of a table, then commits its catalog row.
pub fn create_table(pool: &Arc<Pool>, name: &str, definition: &[u8]) -> Result<Arc<Table>> {
    check_name(name)?;
    let created = ddl(pool, |session, catalog| {
        if pool.tables.read().contains_key(name) {
            return Err(Error::new(ErrorKind::Exists, format!("table {name} exists already")));
        }
        let id = next_table_id(pool, session, catalog)?;
        let table = Arc::new(Table::create(pool.context.clone(), id, name, definition)?);
        let entry = Entry::Table { id, name: name.to_owned(), definition: definition.to_vec() };
        let inserted = session.insert(catalog, &entry.encode());
        match inserted.and_then(|_| session.commit()) {
            Ok(csn) => {
                table.set_defined(csn);
                pool.tables.write().insert(name.to_owned(), table.clone());
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
fn check_undecided(pool: &Pool, table: &Table) -> Result<()> {
    if !pool.prepared.touches(table.id()) {
        return Ok(());
    }
    let what = "was changed by a prepared transaction; commit it or roll it back first (XA RECOVER lists it)";
    Err(Error::new(ErrorKind::LockWaitTimeout, format!("table {} {what}", table.name())))
}

/// Commits the removal of a table from the catalog, then removes its files.
pub fn drop_table(pool: &Arc<Pool>, name: &str) -> Result<()> {
    let table = ddl(pool, |session, catalog| {
        let table = pool.table(name)?;
        check_undecided(pool, &table)?;
        let rid = find_entry(session, catalog, table.id())?;
        // Planted: the files are removed before the catalog forgets them.
        if perdura_pmem::planted(45) {
            pool.context.medium.remove(&data_file_name(table.id(), 0))?;
            pool.context.medium.sync_dir()?;
            pool.context.medium.create(&data_file_name(table.id(), 0), 64)?;
        }
        session.delete(catalog, rid)?;
        session.commit()?;
        table.chain().set_dropped();
        pool.tables.write().remove(name);
        Ok(table)
    })?;
    let _changing = pool.hold.change();
    remove_files(pool, &table);
    Ok(())
}

/// Renames a table. If the server `rebuilt` it under the old name, the table refuses snapshots older than the rename.
pub fn rename_table(pool: &Arc<Pool>, from: &str, to: &str, rebuilt: bool) -> Result<()> {
    check_name(to)?;
    ddl(pool, |session, catalog| {
        if pool.tables.read().contains_key(to) {
            return Err(Error::new(ErrorKind::Exists, format!("table {to} exists already")));
        }
        let table = pool.table(from)?;
        check_undecided(pool, &table)?;
        let rid = find_entry(session, catalog, table.id())?;
        let entry = Entry::Table { id: table.id(), name: to.to_owned(), definition: table.definition().to_vec() };
        session.update(catalog, rid, &entry.encode())?;
        let csn = session.commit()?;
        if rebuilt {
            table.set_defined(csn);
        }
        let mut tables = pool.tables.write();
        tables.remove(from);
        table.chain().set_name(to);
        tables.insert(to.to_owned(), table);
        Ok(())
    })
}

/// Replaces a table by an empty one of the same name and definition, and returns the new table.
pub fn truncate_table(pool: &Arc<Pool>, name: &str) -> Result<Arc<Table>> {
    let (old, new) = ddl(pool, |session, catalog| {
        let old = pool.table(name)?;
        check_undecided(pool, &old)?;
        let rid = find_entry(session, catalog, old.id())?;
        let id = next_table_id(pool, session, catalog)?;
        let new = Arc::new(Table::create_in_spare(pool.context.clone(), id, name, &old.definition())?);
        let entry = Entry::Table { id, name: name.to_owned(), definition: old.definition().to_vec() };
        match session.update(catalog, rid, &entry.encode()).and_then(|()| session.commit()) {
            Ok(csn) => {
                new.set_defined(csn);
                old.chain().set_dropped();
                new.set_changed(pool.now().as_secs());
                pool.tables.write().insert(name.to_owned(), new.clone());
                Ok((old, new))
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
    remove_files(pool, &old);
    drop(old);
    // If this fails, the table is empty all the same and the background thread tries again.
    let _ = pool.context.spare.provide(&*pool.context.medium);
    Ok(new)
}

/// Removes the files of a table that the catalog no longer names, or never named. After a crash the next start removes
/// the rest.
fn remove_files(pool: &Pool, table: &Table) {
    if pool.log.is_failed() {
        // The commit may be durable or not: the next start decides whether the table exists.
        return;
    }
    let _span = perdura_pmem::trace::span("file_removal");
    let _not_growing = table.space().segments().stop_growing();
    table.chain().set_dropped();
    let names = (0..table.chain().file_count() as u32).map(|sequence| data_file_name(table.id(), sequence));
    pool.services().remove_files(&*pool.context.medium, names);
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let message = format!("a table name has from 1 to {NAME_BYTES_MAX} bytes, this one has {}", name.len());
        return Err(Error::new(ErrorKind::Configuration, message));
    }
    Ok(())
}
