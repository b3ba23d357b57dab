//! Writes in a transaction: insert, update and delete.

use super::session::{Session, State};
use crate::error::{Error, ErrorKind, Result};
use crate::files::chain::version_csn;
use crate::format::{ROW_BYTES_MAX, Rid, VERSION_HEADER, VersionHeader, Word};
use crate::pool::locks::LockMode;
use crate::table::Table;
use perdura_log::Csn;
use std::sync::Arc;

impl Session {
    fn check_writable(&mut self, table: &Table) -> Result<()> {
        if !self.changing {
            self.begin_change()?;
        }
        self.check_own(table)?;
        self.pool.check_writable()?;
        if table.is_dropped() {
            return Err(Error::new(ErrorKind::NotFound, format!("table {} was dropped", table.name())));
        }
        match self.state {
            State::Active => Ok(()),
            _ => Err(Error::new(
                ErrorKind::NotSupported,
                "a prepared transaction takes no more writes; commit it or roll it back",
            )),
        }
    }

    /// Inserts a row of up to 2^31 - 1 bytes. It takes no lock: nobody else can reach the row before the commit.
    ///
    /// # Errors
    /// DeviceFull, TableFull, RowTooLarge; NotFound if the table was dropped; NotSupported if the transaction is
    /// prepared; Killed; Configuration if the table belongs to another pool; ReadOnlyPool; Medium.
    pub fn insert(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Rid> {
        self.check_writable(table)?;
        check_length(row)?;
        if let Some(bulk) = self.writes.running_bulk(table.id()) {
            self.sequence += 1;
            self.owner.count_change();
            return bulk.insert(row, self.sequence - 1);
        }
        if self.writes.is_bulk_due(table) {
            let sequence = self.next_sequence();
            return self.writes.bulk(table).insert(row, sequence);
        }
        let sequence = self.next_sequence();
        let rid = table.space().allocate_rid(self.id)?;
        let header = VersionHeader::new(Word::EMPTY, rid, row, false);
        match self.write_version(table, &header, row, sequence) {
            Ok(word) => {
                self.writes.add(table, rid, Word::EMPTY, word);
                Ok(rid)
            }
            Err(error) => {
                table.space().free_rids([rid]);
                Err(error)
            }
        }
    }

    /// Allocates, writes and flushes a version. The end of the statement or the commit fences it.
    fn write_version(&mut self, table: &Table, header: &VersionHeader, row: &[u8], sequence: u64) -> Result<Word> {
        let bytes = VERSION_HEADER + row.len() as u64;
        let place = table.space().allocate(self.id, bytes)?;
        let word = Word::new(place.file(), place.offset(), header.rid.incarnation());
        let (region, at) = table.chain().write_version(word, header, row, sequence);
        region.flush(at, bytes);
        self.unfenced = true;
        Ok(if header.tombstone { word.tombstone() } else { word })
    }

    /// Replaces a row. It locks the row, waiting if need be.
    ///
    /// # Errors
    /// NotFound if the row does not exist; RecordChanged if the transaction has a snapshot (REPEATABLE READ) and
    /// somebody committed a newer version than it sees; LockWaitTimeout, Deadlock, Killed; otherwise as for
    /// [`Session::insert`].
    pub fn update(&mut self, table: &Arc<Table>, rid: Rid, row: &[u8]) -> Result<()> {
        check_length(row)?;
        self.write(table, rid, Some(row))
    }

    /// Deletes a row. It locks the row, waiting if need be. Errors as for [`Session::update`].
    pub fn delete(&mut self, table: &Arc<Table>, rid: Rid) -> Result<()> {
        self.write(table, rid, None)
    }

    fn write(&mut self, table: &Arc<Table>, rid: Rid, row: Option<&[u8]>) -> Result<()> {
        self.check_writable(table)?;
        let own = self.writes.own(table.id(), rid);
        if own.as_ref().is_some_and(|own| own.head.is_tombstone()) {
            return Err(gone(table, rid));
        }
        if own.as_ref().is_some_and(|own| own.in_bulk) {
            let sequence = self.next_sequence();
            return self.writes.edit_bulk(table.id(), rid, row, sequence);
        }
        let before = match &own {
            Some(own) => own.head,
            None => self.lock_for_write(table, rid)?,
        };
        let sequence = self.next_sequence();
        let header = VersionHeader::new(before, rid, row.unwrap_or_default(), row.is_none());
        let word = self.write_version(table, &header, row.unwrap_or_default(), sequence)?;
        match own {
            Some(_) => self.writes.replace(table.id(), rid, word),
            None => self.writes.add(table, rid, before, word),
        }
        Ok(())
    }

    /// Locks a committed row before the transaction's first write to it, checks that this write does not conflict, and
    /// returns the row's directory word.
    fn lock_for_write(&mut self, table: &Arc<Table>, rid: Rid) -> Result<Word> {
        // The statement's snapshot keeps purge off the version to be replaced.
        self.snapshots.statement(&self.pool);
        let limit = self.snapshots.transaction().unwrap_or(Csn::MAX);
        self.lock_row(table, rid, LockMode::Exclusive)?;
        let word = table.directory().word(rid.row());
        if word.is_empty() || word.incarnation() != rid.incarnation() {
            return Err(gone(table, rid));
        }
        let (region, at, header) = match table.chain().header(word, rid) {
            // The word was a tombstone that purge has reclaimed meanwhile.
            Err(_) if table.directory().word(rid.row()) != word => return Err(gone(table, rid)),
            found => found?,
        };
        let csn = version_csn(region, at, table.chain().state_of(rid.row()));
        // Planted: the first updater does not win.
        if csn > limit && !perdura_pmem::planted(59) {
            return Err(Error::new(
                ErrorKind::RecordChanged,
                format!(
                    "row {:#x} of table {} was changed after this transaction's snapshot",
                    rid.to_u64(),
                    table.name()
                ),
            ));
        }
        // Planted: a deleted row is changed; a version in an unswept segment is superseded.
        if header.tombstone && !perdura_pmem::planted(60) {
            return Err(gone(table, rid));
        }
        if perdura_pmem::planted(61) {
            return Ok(word);
        }
        table.space().ensure_swept(word)?;
        self.snapshots.note_met(csn);
        Ok(word)
    }
}

fn check_length(row: &[u8]) -> Result<()> {
    if row.len() as u64 <= ROW_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::RowTooLarge,
        format!("a row of {} bytes is longer than {ROW_BYTES_MAX} bytes", row.len()),
    ))
}

fn gone(table: &Table, rid: Rid) -> Error {
    Error::new(ErrorKind::NotFound, format!("row {:#x} of table {} does not exist", rid.to_u64(), table.name()))
}
