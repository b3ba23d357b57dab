//! Opening a table for a handler of the server, and preparing it for a statement.

use super::call::{call, call_or, call_reading};
use super::code::{Failure, Outcome, PerduraCode};
use super::cursor::{PerduraCursor, PerduraLock};
use super::definition::{self, PerduraDefinition};
use super::engine::PerduraEngine;
use super::name;
use super::session::{PerduraSession, Session, reading};
use crate::row::definition::Definition;
use perdura_engine::{Engine, IndexDefinition};
use std::ffi::{CStr, c_char};

/// Opens a table for a handler of the server. Close it with [`perdura_cursor_close`].
///
/// # Errors
/// NOT_FOUND, DEFINITION_CHANGED if the pool has another definition of the table than the server.
///
/// # Safety
/// `engine` must be open, `path` a C string, the definition valid, `cursor` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_open(
    engine: *const PerduraEngine,
    path: *const c_char,
    definition: *const PerduraDefinition,
    cursor: *mut *mut PerduraCursor,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        let engine = (*engine).engine();
        call(Some(engine), || {
            let (declared, indexes) = ((*definition).checked()?, (*definition).index_definitions());
            cursor.write(Box::into_raw(Box::new(open(engine, CStr::from_ptr(path), &declared, &indexes)?)));
            Ok(PerduraCode::Ok)
        })
    }
}

fn open(
    engine: &Engine,
    path: &CStr,
    declared: &Definition<'_>,
    indexes: &[IndexDefinition],
) -> Outcome<PerduraCursor> {
    let table = engine.table(&name::of_path(path)?)?;
    let stored = table.definition();
    let stored = definition::stored(&stored, &table.name())?;
    // The server keeps the definitions of partitions itself and changes their id at will: there
    // only the layout counts.
    let found_by_pool = !stored.frm.is_empty() && !declared.version.is_empty();
    let has_indexes =
        (0..table.indexes()).map(|index| table.index_definition(index)).eq(indexes.iter().copied().map(Some));
    let has_records = stored.layout.has_same_records(&declared.layout);
    if !has_records || !has_indexes || found_by_pool && stored.version != declared.version {
        let code = if found_by_pool { PerduraCode::DefinitionChanged } else { PerduraCode::Damaged };
        let message = format!("table {} has another definition in the pool than in the server", table.name());
        return Err(Failure::new(code, message));
    }
    Ok(PerduraCursor::new(engine.clone(), table, stored.layout))
}

/// Closes a cursor.
///
/// # Safety
/// `cursor` must be open, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_close(cursor: *mut PerduraCursor) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { Box::from_raw(cursor) };
    let engine = cursor.engine().clone();
    call_or(Some(&engine), (), move || drop(cursor));
}

/// Runs a call on a cursor and a session.
///
/// # Safety
/// Both must be live and used by this thread alone.
#[inline(always)]
pub(super) unsafe fn on(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    body: impl FnOnce(&mut PerduraCursor, &mut Session) -> Outcome,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { reading(session, |session| body(&mut *cursor, session)) }
}

/// Runs a call on a cursor without a session.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
pub(super) unsafe fn alone(
    cursor: *mut PerduraCursor,
    body: impl FnOnce(&mut PerduraCursor) -> Outcome,
) -> PerduraCode {
    // SAFETY: as the caller vouches for; the body's borrow has ended when the engine is asked for.
    unsafe { call_reading(|| (*cursor).engine(), || body(&mut *cursor)) }
}

/// Prepares the cursor for a statement: how it locks the rows that it reads, and whether it skips
/// rows that others have locked.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_prepare(
    cursor: *mut PerduraCursor,
    lock: PerduraLock,
    skip_locked: bool,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            cursor.refresh()?;
            cursor.set_lock(lock, skip_locked);
            Ok(PerduraCode::Ok)
        })
    }
}

/// Ends a statement's use of the cursor.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_reset(cursor: *mut PerduraCursor) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &mut *cursor };
    call_or(None, (), || cursor.reset());
}

/// Lets the statement that begins go on with the scan, or in the index, where the one before has
/// come to. It has a snapshot of its own, as any statement. Nothing is read before the next
/// scan_next or index_step.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_go_on(cursor: *mut PerduraCursor) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &mut *cursor };
    call_or(None, (), || cursor.leave());
}

/// Sets the columns that reads fill in: `columns` is a bitmap with a bit for each column of the
/// table, least significant bit first. Null is all columns.
///
/// # Safety
/// `cursor` must be open and used by this thread alone; `columns` must have a bit for each column.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_set_columns(cursor: *mut PerduraCursor, columns: *const u8) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &mut *cursor };
    // SAFETY: as the caller vouches for.
    let columns = unsafe { (!columns.is_null()).then(|| std::slice::from_raw_parts(columns, cursor.column_bytes())) };
    call_or(None, (), || cursor.set_columns(columns));
}

/// Sets whether the caller locks the rows that it uses
/// ([`super::rows::perdura_lock_semi_consistent`]). A scan then locks no row by itself.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_semi_consistent(cursor: *mut PerduraCursor, is_semi_consistent: bool) {
    // SAFETY: as the caller vouches for.
    unsafe { &mut *cursor }.set_semi_consistent(is_semi_consistent);
}

/// Sets whether the caller is going to change the row whose key an insert meets: that row is then
/// locked before the insert returns DUPLICATE_KEY.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_locks_duplicates(cursor: *mut PerduraCursor, locks: bool) {
    // SAFETY: as the caller vouches for.
    unsafe { &mut *cursor }.set_locks_duplicates(locks);
}

/// Empties the cursor's table, durably. No other cursor may be open on it.
///
/// # Safety
/// `engine` must be the pool of the cursor, and open; `cursor` must be open and used by this thread
/// alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_truncate(
    engine: *const PerduraEngine,
    cursor: *mut PerduraCursor,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            cursor.reset();
            let name = cursor.table().name();
            let emptied = cursor.engine().truncate_table(&name)?;
            if name::is_temporary(&name) {
                emptied.set_private();
            }
            let before = cursor.table().id();
            cursor.set_table(emptied);
            (*engine).counters().forget(cursor.engine(), before);
            (*engine).references().touch(&name);
            Ok(PerduraCode::Ok)
        })
    }
}

/// Sizes of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PerduraTableInfo {
    /// Estimate of the committed rows.
    pub rows: u64,
    /// Size of the data files.
    pub data_bytes: u64,
    /// Bytes of the data files that hold nothing.
    pub free_bytes: u64,
    /// When a commit last changed the table, in seconds since 1970; 0 if none has since the pool
    /// was opened.
    pub changed_at: u64,
}

/// Estimate of the committed rows of the cursor's table, and of those that the session's
/// transaction has inserted; `session` may be null.
///
/// # Safety
/// `cursor` must be open, `session` live, and both used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_rows(cursor: *const PerduraCursor, session: *const PerduraSession) -> u64 {
    // SAFETY: as the caller vouches for.
    let (table, session) = unsafe { ((*cursor).table(), session.as_ref()) };
    // SAFETY: as the caller vouches for.
    session
        .map_or_else(|| table.row_count_estimate(), |session| unsafe { session.state() }.txn.row_count_estimate(table))
}

/// Gets the sizes of the cursor's table. Reads no rows.
///
/// # Safety
/// `cursor` must be open and used by this thread alone, `info` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_info(cursor: *const PerduraCursor, info: *mut PerduraTableInfo) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &*cursor };
    let found = call_or(Some(cursor.engine()), PerduraTableInfo::default(), || {
        let table = cursor.table();
        PerduraTableInfo {
            rows: table.row_count_estimate(),
            data_bytes: table.data_bytes(),
            free_bytes: table.free_bytes(),
            changed_at: table.changed_at(),
        }
    });
    // SAFETY: as the caller vouches for.
    unsafe { info.write(found) };
}
