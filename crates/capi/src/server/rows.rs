//! Reading and changing rows through a cursor.

use super::call::call_or;
use super::code::PerduraCode;
use super::cursor::PerduraCursor;
use super::definition::items;
use super::handler::on;
use super::key::{PerduraKey, PerduraKeyChange};
use super::session::PerduraSession;
use perdura_engine::Rid;

/// Begins a scan of the table. It sees what the transaction wrote before, and nothing that it
/// writes during the scan. Under SERIALIZABLE it locks the table first, as do the other reads.
///
/// # Errors
/// LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_scan_begin(cursor: *mut PerduraCursor, session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| {
            cursor.start_scan(session)?;
            Ok(PerduraCode::Ok)
        })
    }
}

/// Reads the scan's next row into `record`. END after the last.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the
/// table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_scan_next(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    record: *mut u8,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| match cursor.next_near(record) {
            Some(outcome) => outcome,
            None => cursor.next(session, record),
        })
    }
}

/// Ends the scan.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_scan_end(cursor: *mut PerduraCursor) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &mut *cursor };
    call_or(None, (), || cursor.end_scan());
}

/// Names the row that was read or inserted last, for [`perdura_read`]. 0 if there is none.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_position(cursor: *const PerduraCursor) -> u64 {
    // SAFETY: as the caller vouches for.
    unsafe { &*cursor }.row().map_or(0, Rid::to_u64)
}

/// Reads the row that [`perdura_position`] named `row`. END if it is gone.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the
/// table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_read(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    row: u64,
    record: *mut u8,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.read(session, Rid::from_u64(row), record)) }
}

/// Locks the row at a position exclusively and reads its newest version, whatever the statement
/// otherwise reads. END if it is gone.
///
/// # Errors
/// RECORD_CHANGED, LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
///
/// # Safety
/// As for [`perdura_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_read_locked(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    row: u64,
    record: *mut u8,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.read_locked(session, Rid::from_u64(row), record)) }
}

/// Locks the row read last, which the caller is going to use. Does nothing if it is locked.
///
/// END if the row is not to be used as it was read. If it has changed, the scan's next row is the
/// same row again, as it is now and locked; it is left out if it is gone. If the statement skips
/// locked rows and this is one, the scan goes on past it. If the transaction has a snapshot, the
/// changed row comes with RECORD_CHANGED: that is a conflict only if the caller would use the row
/// as it is now.
///
/// # Errors
/// LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_lock_semi_consistent(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| {
            Ok(if cursor.lock_semi_consistent(session)? { PerduraCode::Ok } else { PerduraCode::End })
        })
    }
}

/// Locks the row read last, which the caller uses and leaves as it is: whoever has used it is
/// certain that nobody changes it before the transaction ends. Does nothing if it is locked.
///
/// # Errors
/// RECORD_CHANGED, LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_keep(cursor: *mut PerduraCursor, session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.keep(session).map(|()| PerduraCode::Ok)) }
}

/// Releases the lock on the row read last, if that read or its semi-consistent lock took it. For
/// rows that the statement turns out not to use.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_unlock(cursor: *mut PerduraCursor, session: *const PerduraSession) {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| {
            cursor.unlock(session);
            Ok(PerduraCode::Ok)
        })
    };
}

/// Inserts a row, with a key for each of the table's indexes, in their order. `keys` may be null if
/// there are none. Waits for SERIALIZABLE transactions that have read the table, and for those that
/// are changing a key that must not repeat.
///
/// # Errors
/// DUPLICATE_KEY, of which [`super::index::perdura_duplicate`] tells more; LOCK_WAIT_TIMEOUT,
/// DEADLOCK, KILLED, ROW_TOO_LARGE, DEVICE_FULL, TABLE_FULL, DEFINITION_CHANGED.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the
/// table, `keys` as many keys as the table has indexes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_insert(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    record: *const u8,
    keys: *const PerduraKey,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.insert(session, record, keys)) }
}

/// Replaces the row read last by `record`, locking it unless the read has. `changes` are the
/// `change_count` indexes in which the row's key changes; it may be null if there are none.
///
/// # Errors
/// RECORD_CHANGED, and those of [`perdura_insert`].
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the
/// table, the changes readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_update(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    record: *const u8,
    changes: *const PerduraKeyChange,
    change_count: usize,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.update(session, record, items(changes, change_count))) }
}

/// Deletes the row read last, locking it unless the read has. `keys` are the row's keys, as for
/// [`perdura_insert`].
///
/// # Errors
/// Those of [`perdura_update`].
///
/// # Safety
/// As for [`perdura_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_delete(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    keys: *const PerduraKey,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.delete(session, keys)) }
}
