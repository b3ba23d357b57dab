//! A cursor's reads through an index.

use super::code::{Failure, Outcome, PerduraCode};
use super::cursor::{PerduraCursor, PerduraLock, Reading};
use super::index_position::Step;
use super::session::Session;
use perdura_engine::{Direction, LockMode, LockOutcome, OwnWrites, ReadView, Rid};
use std::ops::Bound;

/// A scan for rows to be locked finds its entries at the statement's snapshot; a lookup of a whole
/// key that does not repeat, and a replica's search, finds the newest. Either may lead to a row
/// that another transaction changes before it is locked. A read that locks therefore gives out the
/// row as it is under its lock, and its caller compares the row's key with that of the entry. If
/// they differ, the caller reads on, or uses the row where it has moved to
/// ([`PerduraCursor::is_offered_moved`]). Each row is locked before it is given out, also where a
/// scan of the table is semi-consistent: of the rows that an index leads to, a statement uses most.
impl PerduraCursor {
    /// Begins to read an index; with `newest`, among the newest entries if reads lock and the
    /// transaction is bound to no snapshot. Returns whether reads lock, so that the caller must
    /// compare keys.
    pub(super) fn start_index(&mut self, session: &mut Session, index: u32, newest: bool) -> Outcome<bool> {
        self.leave_row();
        self.left = None;
        let index = index as usize;
        let Some(definition) = self.table.index_definition(index) else {
            let what = format!("table {} has no index {index}", self.table.name());
            return Err(Failure::new(PerduraCode::NotSupported, what));
        };
        let is_read = self.lock_table(session)?;
        let plain = self.reads_plainly(session);
        self.reading = Some(if plain { Reading::Plain } else { Reading::of_locked(self.lock, false) });
        let is_bound = plain || session.txn.has_snapshot();
        let view = if is_bound { ReadView::Snapshot } else { ReadView::Newest };
        self.index.start(index, definition.unique, view, !is_bound && !newest);
        self.index_reading = self.reading.filter(|_| is_read);
        self.stops_at_entries = false;
        Ok(!plain)
    }

    /// Begins a replica's search through the index: the reads that follow see everything that has
    /// its place in the order of commits. With `again`, only if there have been commits since the
    /// search before; false if not.
    pub(super) fn search_index(&mut self, session: &mut Session, again: bool) -> Outcome<bool> {
        if again && !session.txn.is_behind(self.searched) {
            return Ok(false);
        }
        self.searched = session.txn.catch_up()?;
        self.index.end();
        Ok(true)
    }

    /// Ends the reading of an index.
    pub(super) fn end_index(&mut self) {
        self.index.end();
        self.left = None;
        self.index_reading = None;
    }

    /// Finds the first row at the bound where a range begins, or behind it in the step's direction,
    /// and reads it. Steps to the next row go as far as the range's end. With `stops`, this and the
    /// steps that follow stop at the entry.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    pub(super) unsafe fn seek(
        &mut self,
        session: &mut Session,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        step: Step,
        (whole, stops): (bool, bool),
        record: *mut u8,
    ) -> Outcome {
        self.go_on(session)?;
        self.stops_at_entries = stops;
        if self.index_reading.is_none() {
            return Ok(PerduraCode::End);
        }
        let found = self.index.seek(session, &self.table, range, step, whole)?;
        // SAFETY: as the caller vouches for.
        unsafe { self.read_entry(session, found, record) }
    }

    /// Goes to another entry, and reads its row.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    pub(super) unsafe fn step(&mut self, session: &mut Session, step: Step, record: *mut u8) -> Outcome {
        self.go_on(session)?;
        if self.index_reading.is_none() {
            return Ok(PerduraCode::End);
        }
        let found = self.index.step(session, &self.table, step)?;
        // SAFETY: as the caller vouches for.
        unsafe { self.read_entry(session, found, record) }
    }

    /// Lets go of the row read last, which the caller does not use, and takes the last step again.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    pub(super) unsafe fn pass(&mut self, session: &mut Session, record: *mut u8) -> Outcome {
        self.unlock(session);
        let found = self.index.repeat(session, &self.table)?;
        // SAFETY: as the caller vouches for.
        unsafe { self.read_entry(session, found, record) }
    }

    /// Whether the caller is to use the row read last at once, which has `key` now and not that of
    /// its entry. Otherwise it passes the row, which comes again if it has moved on. A row that the
    /// transaction itself has changed since the scan began was met before.
    pub(super) fn is_offered_moved(&mut self, session: &Session, key: &[u8]) -> bool {
        self.rid.is_some_and(|rid| !session.txn.has_written(&self.table, rid)) && self.index.is_offered_moved(key)
    }

    /// Reads the row that an entry leads to, or that of the next entry that has one.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    unsafe fn read_entry(&mut self, session: &mut Session, mut found: bool, record: *mut u8) -> Outcome {
        self.reading = self.index_reading;
        while found {
            self.leave_row();
            if self.stops_at_entries {
                session.rows_not_read += 1;
                self.rid = None;
                return Ok(PerduraCode::Ok);
            }
            let code = match self.reading {
                Some(Reading::Locked(mode)) => {
                    let Some(rid) = self.index.row_to_lock() else { break };
                    self.rid = Some(rid);
                    // SAFETY: as the caller vouches for.
                    unsafe { self.read_entry_locked(session, rid, mode, record)? }
                }
                // SAFETY: as the caller vouches for.
                _ => unsafe { self.read_entry_plainly(session, record)? },
            };
            if let Some(code) = code {
                return Ok(code);
            }
            found = self.index.repeat(session, &self.table)?;
        }
        Ok(PerduraCode::End)
    }

    /// Reads the row of the entry at which the last read has stopped, as the snapshot sees it.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    pub(super) unsafe fn row_of_entry(&mut self, session: &mut Session, record: *mut u8) -> Outcome {
        if self.index.row().is_none() {
            return Err(PerduraCursor::no_row());
        }
        session.rows_not_read = session.rows_not_read.saturating_sub(1);
        // SAFETY: as the caller vouches for.
        Ok(unsafe { self.read_entry_plainly(session, record)? }.unwrap_or(PerduraCode::End))
    }

    /// Reads the row of the entry found last as the snapshot sees it; `None` if it sees none.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    #[inline]
    unsafe fn read_entry_plainly(&mut self, session: &mut Session, record: *mut u8) -> Outcome<Option<PerduraCode>> {
        self.rid = None;
        let own = if self.lock == PerduraLock::None { OwnWrites::BeforeScan } else { OwnWrites::All };
        let Some((rid, row)) = self.index.read_row(session, &self.table, own)? else { return Ok(None) };
        self.rid = Some(rid);
        // SAFETY: as the caller vouches for; the row is valid until the statement ends.
        let bytes = unsafe { self.unpack_counted(rid, row, record)? };
        self.index.note_bytes(bytes);
        Ok(Some(PerduraCode::Ok))
    }

    /// The failure of a read whose entry's key the caller could not take apart.
    #[cold]
    pub(super) fn damaged_entry(&self) -> Failure {
        let (index, table) = (self.index.number(), self.table.name());
        let row = self.row().map_or(0, Rid::to_u64);
        let what = format!(
            "index {index} of table {table} is damaged: the key of row {row:#x} is not one of its columns; copy the table \
             (ALTER TABLE ... FORCE), and run `perdura check` on the pool"
        );
        Failure { index: u32::try_from(index).ok(), ..Failure::new(PerduraCode::Damaged, what) }
    }

    /// Locks a row and reads it. `None` if it is gone or skipped. Where that is a conflict the
    /// record shows the newest version, or else the deleted one, so that the caller can tell
    /// whether it would use the row.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    unsafe fn read_entry_locked(
        &mut self,
        session: &mut Session,
        rid: Rid,
        mode: LockMode,
        record: *mut u8,
    ) -> Outcome<Option<PerduraCode>> {
        let Some((outcome, newest)) = self.lock_for_read(session, rid, mode)? else { return Ok(None) };
        self.newly_locked = outcome == LockOutcome::New;
        let is_conflict = self.is_conflict(session, rid, newest)?;
        let shown = match newest {
            None if is_conflict => session.txn.read(&self.table, rid, ReadView::Snapshot)?,
            _ => newest,
        };
        let Some(row) = shown else {
            self.unlock(session);
            return Ok(None);
        };
        // SAFETY: as the caller vouches for; the row is locked, or the snapshot holds it.
        unsafe { self.unpack(rid, row, record)? };
        if is_conflict { Err(self.changed(rid)) } else { Ok(Some(PerduraCode::Ok)) }
    }

    /// The key of an entry about `number` of `of` parts of the way through an index. `None` if the
    /// index has none.
    pub(super) fn sample(
        &self,
        session: &mut Session,
        index: usize,
        (number, of): (u32, u32),
    ) -> Outcome<Option<Vec<u8>>> {
        let mut scan = session.txn.index(&self.table, index).scan(ReadView::Newest);
        scan.seek(&session.txn, Bound::Unbounded, Direction::Backward)?;
        if scan.previous(&session.txn)?.is_none() {
            return Ok(None);
        }
        let last = scan.key().to_vec();
        scan.seek(&session.txn, Bound::Unbounded, Direction::Forward)?;
        if scan.next(&session.txn)?.is_none() {
            return Ok(None);
        }
        let target = between(scan.key(), &last, number, of);
        scan.seek(&session.txn, Bound::Included(&target), Direction::Forward)?;
        Ok(scan.next(&session.txn)?.map(|_| scan.key().to_vec()))
    }
}

/// Bytes about `number` of `of` parts of the way from one key to another.
fn between(first: &[u8], last: &[u8], number: u32, of: u32) -> Vec<u8> {
    let common = first.iter().zip(last).take_while(|(first, last)| first == last).count();
    let head = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = &key[common..key.len().min(common + 8)];
        bytes[..rest.len()].copy_from_slice(rest);
        u128::from(u64::from_be_bytes(bytes))
    };
    let (from, to) = (head(first), head(last));
    let at = from + to.saturating_sub(from) * u128::from(number) / u128::from(of.max(1));
    [&first[..common], &(at as u64).to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn samples_lie_between_the_first_key_and_the_last() {
        assert_eq!(between(b"abc", b"abc", 1, 2), b"abc\0\0\0\0\0\0\0\0");
        assert_eq!(between(&[1, 0], &[1, 8], 1, 2), [1, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(between(&[7], &[7, 1, 2], 0, 4), [7, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(between(&[0], &[255; 20], 3, 4).as_slice() < &[255; 20][..]);
    }
}
