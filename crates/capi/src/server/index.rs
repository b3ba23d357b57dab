//! Reading through a table's indexes, and what the server asks about them.

use super::call::call_or;
use super::code::PerduraCode;
use super::cursor::PerduraCursor;
use super::handler::on;
use super::index_position::Step;
use super::key::PerduraBound;
use super::session::PerduraSession;
use perdura_engine::{Direction, Rid};

/// Where a step in an index goes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraStep {
    /// To the next greater key.
    Next = 0,
    /// To the next smaller key.
    Previous,
    /// To the next greater key, if it begins with what was searched for.
    NextSame,
    /// To the next smaller key, if it begins with what was searched for.
    PreviousSame,
    /// As `NextSame`, where the caller searches for one whole key after the other, from greater
    /// ones to smaller ones.
    NextSameDescending,
}

impl PerduraStep {
    fn step(self) -> Step {
        use PerduraStep::*;
        let is_backward = matches!(self, Previous | PreviousSame);
        let direction = if is_backward { Direction::Backward } else { Direction::Forward };
        let walk = if self == NextSameDescending { Direction::Backward } else { direction };
        Step { direction, walk, within: !matches!(self, Next | Previous) }
    }
}

/// Begins to read the index of this number. Reads see what the transaction wrote before. Under
/// SERIALIZABLE this locks the table first. `locks` is set to whether reads lock the rows. If they
/// do, the caller compares the key of each row that it gets with [`perdura_index_key`]; if they
/// differ it calls [`perdura_index_pass`], or asks [`perdura_index_moved`]. Rows to be locked are
/// found at the statement's snapshot, those of a whole key that does not repeat, and all with
/// `newest`, among the newest.
///
/// # Errors
/// LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `locks` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_begin(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    index: u32,
    newest: bool,
    locks: *mut bool,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| {
            locks.write(cursor.start_index(session, index, newest)?);
            Ok(PerduraCode::Ok)
        })
    }
}

/// Finds the first row whose key is at `bound` or behind it in the direction of `step`, and reads
/// it into `record`. A step to the same key finds only rows whose keys begin with the bound's
/// bytes. `whole` says that these are a whole key which does not repeat. With `stops`, this and the
/// steps that follow stop at the entry and fill in no record; reads must not lock then. With an
/// `end`, this and the steps to the next row find only those up to there: to keys that begin with
/// its bytes, or with an excluded one to those below them; `step` must be the one to the next row
/// then, and reads must not lock. END if there is no such row.
///
/// # Errors
/// LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED; RECORD_CHANGED as for [`super::rows::perdura_scan_next`],
/// with the record filled in.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the
/// table, the bounds readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_seek(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    bound: PerduraBound,
    end: PerduraBound,
    step: PerduraStep,
    whole: bool,
    stops: bool,
    record: *mut u8,
) -> PerduraCode {
    let how = (whole, stops);
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| {
            cursor.seek(session, (bound.bound(), end.bound()), step.step(), how, record)
        })
    }
}

/// Goes on to another row, and reads it into `record`. END if there is none.
///
/// # Errors
/// Those of [`perdura_index_seek`].
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the
/// table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_step(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    step: PerduraStep,
    record: *mut u8,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.step(session, step.step(), record)) }
}

/// Releases the row read last, which the caller does not use, and goes on as the last seek or step
/// did.
///
/// # Errors
/// Those of [`perdura_index_seek`].
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the
/// table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_pass(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    record: *mut u8,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.pass(session, record)) }
}

/// Whether the caller uses the row read last, which is locked and whose key is no longer that of
/// its entry but `key`. If not, it calls [`perdura_index_pass`]; a row that has moved on in the
/// direction of the walk is then met again at its new entry. A walk offers each row once. Only for
/// a caller that checks its whole condition on each row; the walk must not have been begun with
/// `newest`.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone, `key` readable for `length`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_moved(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    key: *const u8,
    length: usize,
) -> bool {
    // SAFETY: as the caller vouches for.
    let (cursor, session, key) = unsafe { (&mut *cursor, (*session).state(), super::definition::items(key, length)) };
    call_or(None, false, || cursor.is_offered_moved(session, key))
}

/// Begins another walk through the index, which offers each row again. A search from an end of the
/// index does so too.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_rewind(cursor: *mut PerduraCursor) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &mut *cursor };
    call_or(None, (), || cursor.index.rewind());
}

/// Reads the row of the entry at which the last seek or step has stopped into `record`. END if it
/// is gone.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the
/// table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_row(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    record: *mut u8,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.row_of_entry(session, record)) }
}

/// Fails with DAMAGED: the key at which the last seek or step has stopped is not one of the index.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_damaged(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, _| Err(cursor.damaged_entry())) }
}

/// The key by which the row read last was found, valid until the next call on the cursor.
///
/// # Safety
/// `cursor` must be open and used by this thread alone, `bytes` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_key(cursor: *const PerduraCursor, bytes: *mut usize) -> *const u8 {
    // SAFETY: as the caller vouches for.
    unsafe {
        let key = (*cursor).index_key();
        bytes.write(key.len());
        key.as_ptr()
    }
}

/// Whether a key begins with what was searched for last.
///
/// # Safety
/// `cursor` must be open and used by this thread alone, `key` readable for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_is_sought(cursor: *const PerduraCursor, key: *const u8, length: usize) -> bool {
    // SAFETY: as the caller vouches for.
    unsafe { (*cursor).is_sought(super::definition::items(key, length)) }
}

/// Ends the reading of an index.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_end(cursor: *mut PerduraCursor) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &mut *cursor };
    call_or(None, (), || cursor.end_index());
}

/// Estimates how many rows of an index lie between two bounds. Reads no rows.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; the bounds must be readable,
/// `rows` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_estimate(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    index: u32,
    from: PerduraBound,
    to: PerduraBound,
    rows: *mut u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| {
            let found = session.txn.index(cursor.table(), index as usize).estimate(from.bound(), to.bound())?;
            rows.write(found);
            Ok(PerduraCode::Ok)
        })
    }
}

/// Copies to `key` the key of an entry about `number` of `of` parts of the way through an index,
/// and sets `length`. END if the index is empty.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `key` must be writable for
/// PERDURA_KEY_BYTES_MAX bytes, `length` too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_sample(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    index: u32,
    number: u32,
    of: u32,
    key: *mut u8,
    length: *mut usize,
) -> PerduraCode {
    // SAFETY: as the caller vouches for; no key is longer.
    unsafe {
        on(cursor, session, |cursor, session| {
            let Some(found) = cursor.sample(session, index as usize, (number, of))? else {
                return Ok(PerduraCode::End);
            };
            key.copy_from_nonoverlapping(found.as_ptr(), found.len());
            length.write(found.len());
            Ok(PerduraCode::Ok)
        })
    }
}

/// After DUPLICATE_KEY: the number of the index that has the key already, and in `row` the position
/// of the row that has it.
///
/// # Safety
/// `cursor` must be open and used by this thread alone, `row` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_duplicate(cursor: *const PerduraCursor, row: *mut u64) -> u32 {
    // SAFETY: as the caller vouches for.
    unsafe {
        let (index, rid) = (*cursor).duplicate().unwrap_or((0, Rid::from_u64(0)));
        row.write(rid.to_u64());
        index as u32
    }
}
