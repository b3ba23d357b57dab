//! The catalog: table 1, an ordinary table whose rows are the definitions of all others.
//!
//! DDL is an ordinary transaction on it, so it is atomic like any other. A new table's first file is synced before the commit that
//! names the table, a dropped table's files are removed after the commit that forgets it, and table ids are never used twice
//! (a counter row is updated in the same transaction).
//!
//! Rows: tag 0, next table id u32; or tag 1, table id u32, name length u16, name, definition.

use crate::datafile;
use crate::engine::Inner;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{CATALOG_ID, Rid};
use crate::table::Table;
use crate::txn::{Isolation, Txn};
use std::sync::Arc;

/// Longest table name, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// A catalog row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Ids from here on were never given.
    NextId(u32),
    /// A table.
    Table {
        /// Its id.
        id: u32,
        /// Its name.
        name: String,
        /// The bytes its creator gave.
        definition: Vec<u8>,
    },
}

impl Entry {
    /// The row image.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Entry::NextId(id) => [&[0u8][..], &id.to_le_bytes()].concat(),
            Entry::Table { id, name, definition } => {
                [&[1u8][..], &id.to_le_bytes(), &(name.len() as u16).to_le_bytes(), name.as_bytes(), definition]
                    .concat()
            }
        }
    }

    /// Reads a row image; `None` if it is none.
    pub fn decode(row: &[u8]) -> Option<Entry> {
        let (tag, rest) = row.split_first()?;
        let (id, rest) = rest.split_first_chunk::<4>()?;
        let id = u32::from_le_bytes(*id);
        match tag {
            0 if rest.is_empty() => Some(Entry::NextId(id)),
            1 if id > CATALOG_ID => {
                let (len, rest) = rest.split_first_chunk::<2>()?;
                let (name, definition) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
                let name = std::str::from_utf8(name).ok()?.to_owned();
                Some(Entry::Table { id, name, definition: definition.to_vec() })
            }
            _ => None,
        }
    }
}

/// All entries of the catalog, with their rows.
pub(crate) fn read_all(txn: &mut Txn, catalog: &Arc<Table>) -> Result<Vec<(Rid, Entry)>> {
    let mut scan = txn.scan(catalog);
    let mut entries = Vec::new();
    while let Some((rid, row)) = scan.next(txn)? {
        // SAFETY: the statement of the scan is not over.
        let bytes = unsafe { row.bytes() };
        let entry = Entry::decode(bytes).ok_or_else(|| {
            Error::damaged(&datafile::file_name(CATALOG_ID, 0), rid.row(), "a catalog row is not a table definition")
        })?;
        entries.push((rid, entry));
    }
    Ok(entries)
}

impl Inner {
    /// Runs one DDL transaction, which `change` commits.
    fn ddl<T>(self: &Arc<Self>, change: impl FnOnce(&mut Txn, &Arc<Table>) -> Result<T>) -> Result<T> {
        let _one = self.ddl.lock();
        self.check_writable()?;
        let catalog = self.catalog();
        let mut txn = Txn::new(self.clone(), Isolation::ReadCommitted);
        txn.begin_ending();
        change(&mut txn, &catalog)
    }

    fn next_table_id(&self, txn: &mut Txn, catalog: &Arc<Table>) -> Result<u32> {
        let counter = read_all(txn, catalog)?.into_iter().find_map(|(rid, entry)| match entry {
            Entry::NextId(id) => Some((rid, id)),
            Entry::Table { .. } => None,
        });
        // Planted: ids of dropped tables are given again.
        let used = || self.table_list().iter().map(|table| table.id()).max().unwrap_or(CATALOG_ID);
        let id = counter.map_or(CATALOG_ID + 1, |(_, id)| if perdura_pmem::planted(46) { used() + 1 } else { id });
        let next = id
            .checked_add(1)
            .ok_or_else(|| Error::new(ErrorKind::TableFull, "the pool has given out all table ids"))?;
        let row = Entry::NextId(next).encode();
        match counter {
            Some((rid, _)) => txn.update(catalog, rid, &row)?,
            None => txn.insert(catalog, &row).map(|_| ())?,
        }
        Ok(id)
    }

    fn find_entry(&self, txn: &mut Txn, catalog: &Arc<Table>, table: u32) -> Result<Rid> {
        read_all(txn, catalog)?
            .into_iter()
            .find_map(|(rid, entry)| matches!(entry, Entry::Table { id, .. } if id == table).then_some(rid))
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("table id {table} is not in the catalog")))
    }

    /// Creates a table.
    pub(crate) fn create_table(self: &Arc<Self>, name: &str, definition: &[u8]) -> Result<Arc<Table>> {
        check_name(name)?;
        let created = self.ddl(|txn, catalog| {
            if self.tables.read().contains_key(name) {
                return Err(Error::new(ErrorKind::Exists, format!("table {name} exists already")));
            }
            let id = self.next_table_id(txn, catalog)?;
            let table = Arc::new(Table::create(self.context.clone(), id, name, definition)?);
            let entry = Entry::Table { id, name: name.to_owned(), definition: definition.to_vec() };
            let inserted = txn.insert(catalog, &entry.encode());
            match inserted.and_then(|_| txn.commit()) {
                Ok(csn) => {
                    table.set_defined(csn);
                    self.tables.write().insert(name.to_owned(), table.clone());
                    Ok(table)
                }
                Err(error) => {
                    self.remove_files(&table);
                    Err(error)
                }
            }
        })?;
        Ok(created)
    }

    /// Refuses to touch the definition of a table that a prepared transaction without a session has changed.
    fn check_undecided(&self, table: &Table) -> Result<()> {
        if !self.is_written_by_prepared(table.id()) {
            return Ok(());
        }
        let what = "was changed by a prepared transaction; commit it or roll it back first (XA RECOVER lists it)";
        Err(Error::new(ErrorKind::LockWaitTimeout, format!("table {} {what}", table.name())))
    }

    /// Drops a table and gives its files back.
    pub(crate) fn drop_table(self: &Arc<Self>, name: &str) -> Result<()> {
        let table = self.ddl(|txn, catalog| {
            let table = self.table(name)?;
            self.check_undecided(&table)?;
            let rid = self.find_entry(txn, catalog, table.id())?;
            // Planted: the files go before the catalog has forgotten them.
            if perdura_pmem::planted(45) {
                self.context.medium.remove(&datafile::file_name(table.id(), 0))?;
                self.context.medium.sync_dir()?;
                self.context.medium.create(&datafile::file_name(table.id(), 0), 64)?;
            }
            txn.delete(catalog, rid)?;
            txn.commit()?;
            table.set_dropped();
            self.tables.write().remove(name);
            Ok(table)
        })?;
        let _changing = self.hold.change();
        self.remove_files(&table);
        Ok(())
    }

    /// Gives a table another name. If the server `rebuilt` it under the old one, the table refuses older snapshots from
    /// here on.
    pub(crate) fn rename_table(self: &Arc<Self>, from: &str, to: &str, rebuilt: bool) -> Result<()> {
        check_name(to)?;
        self.ddl(|txn, catalog| {
            if self.tables.read().contains_key(to) {
                return Err(Error::new(ErrorKind::Exists, format!("table {to} exists already")));
            }
            let table = self.table(from)?;
            self.check_undecided(&table)?;
            let rid = self.find_entry(txn, catalog, table.id())?;
            let entry = Entry::Table { id: table.id(), name: to.to_owned(), definition: table.definition().to_vec() };
            txn.update(catalog, rid, &entry.encode())?;
            let csn = txn.commit()?;
            if rebuilt {
                table.set_defined(csn);
            }
            let mut tables = self.tables.write();
            tables.remove(from);
            table.set_name(to);
            tables.insert(to.to_owned(), table);
            Ok(())
        })
    }

    /// Replaces a table by an empty one of the same name and definition; returns the new one.
    pub(crate) fn truncate_table(self: &Arc<Self>, name: &str) -> Result<Arc<Table>> {
        let (old, new) = self.ddl(|txn, catalog| {
            let old = self.table(name)?;
            self.check_undecided(&old)?;
            let rid = self.find_entry(txn, catalog, old.id())?;
            let id = self.next_table_id(txn, catalog)?;
            let new = Arc::new(Table::create_in_spare(self.context.clone(), id, name, &old.definition())?);
            let entry = Entry::Table { id, name: name.to_owned(), definition: old.definition().to_vec() };
            match txn.update(catalog, rid, &entry.encode()).and_then(|()| txn.commit()) {
                Ok(csn) => {
                    new.set_defined(csn);
                    old.set_dropped();
                    new.set_changed(self.context.now());
                    self.tables.write().insert(name.to_owned(), new.clone());
                    Ok((old, new))
                }
                Err(error) => {
                    self.remove_files(&new);
                    Err(error)
                }
            }
        })?;
        // In the order of ddl(): who has the one waits for the other while the pool is held.
        let _one = self.ddl.lock();
        let _changing = self.hold.change();
        self.remove_files(&old);
        drop(old);
        // The table is empty even if this fails; the background thread tries again.
        let _ = self.context.provide_spare();
        Ok(new)
    }

    /// Removes the files of a table that the catalog does not name. The next start removes what a crash leaves of them.
    fn remove_files(&self, table: &Table) {
        if self.log.is_failed() {
            // Whether the table is there is for the next start to find out.
            return;
        }
        let _span = perdura_pmem::trace::span("file_removal");
        let _not_growing = table.growing.lock();
        table.set_dropped();
        let names = (0..table.files.count() as u32).map(|sequence| datafile::file_name(table.id(), sequence));
        self.services.remove_files(&*self.context.medium, names);
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let message = format!("a table name has from 1 to {NAME_BYTES_MAX} bytes, this one has {}", name.len());
        return Err(Error::new(ErrorKind::Configuration, message));
    }
    Ok(())
}
