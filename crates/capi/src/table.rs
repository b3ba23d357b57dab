//! C calls on open tables.

use crate::barrier;
use crate::code::{Failure, Outcome, PerduraCode};
use crate::cursor::{PerduraCursor, PerduraLock};
use crate::definition::Definition;
use crate::engine::PerduraEngine;
use crate::layout::{Field, Layout, kind_of};
use crate::name;
use crate::session::{PerduraSession, Session, with};
use perdura_engine::{Engine, Rid};
use std::ffi::{CStr, c_char};
use std::slice;

/// A column that is not stored.
pub const PERDURA_FIELD_VIRTUAL: u8 = 0;
/// A column of always the same number of bytes.
pub const PERDURA_FIELD_FIXED: u8 = 1;
/// A column with its length in front.
pub const PERDURA_FIELD_VARCHAR: u8 = 2;
/// A column with its length and a pointer in the record.
pub const PERDURA_FIELD_BLOB: u8 = 3;

/// Where a column lies in a record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraField {
    /// One of the PERDURA_FIELD constants.
    pub kind: u8,
    /// Bytes of length of a varchar (1 or 2) or blob (1 to 4); 0 otherwise.
    pub length_bytes: u8,
    /// Bit of the NULL byte; 0 if the column cannot be NULL.
    pub null_mask: u8,
    /// Offset of the NULL byte in the record.
    pub null_offset: u32,
    /// Offset in the record, in bytes.
    pub offset: u32,
    /// Bytes of a fixed column, most bytes of content of a varchar; 0 for a blob.
    pub length: u32,
}

/// How the server sees a table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraDefinition {
    /// The server's id of the definition; null for a partition.
    pub version: *const u8,
    /// Its bytes.
    pub version_bytes: usize,
    /// The server's definition, to find the table by; null and 0 when only the layout matters.
    pub frm: *const u8,
    /// Its bytes.
    pub frm_bytes: usize,
    /// The columns.
    pub fields: *const PerduraField,
    /// Their number.
    pub field_count: usize,
    /// Bytes of a record.
    pub record_bytes: u32,
    /// Bytes of NULL bits at its start.
    pub null_bytes: u32,
}

/// # Safety
/// `data` must be readable for `count` items, or null with a `count` of 0.
unsafe fn items<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: as the caller vouches for.
    unsafe { slice::from_raw_parts(data, count) }
}

impl PerduraDefinition {
    /// # Safety
    /// Pointers and counts must agree, and what they point to must outlive the result.
    pub(crate) unsafe fn checked<'a>(&self) -> Outcome<Definition<'a>> {
        // SAFETY: as the caller vouches for.
        let (version, frm, fields) = unsafe {
            (
                items(self.version, self.version_bytes),
                items(self.frm, self.frm_bytes),
                items(self.fields, self.field_count),
            )
        };
        let wrong = |what: String| {
            Failure::new(PerduraCode::NotSupported, format!("the server's record layout is not understood: {what}"))
        };
        let field = |field: &PerduraField| {
            let &PerduraField { kind, length_bytes, null_mask, null_offset, offset, length } = field;
            let kind = kind_of(kind).ok_or_else(|| wrong(format!("field kind {kind}")))?;
            Ok(Field { kind, length_bytes, null_mask, null_offset, offset, length })
        };
        let fields = fields.iter().map(field).collect::<Outcome<Vec<_>>>()?;
        let layout = Layout::new(self.record_bytes, self.null_bytes, fields).map_err(wrong)?;
        Ok(Definition { version, layout, frm })
    }
}

/// Opens a table for a handler. `path` is the server's path of the table.
///
/// # Errors
/// NotFound; DefinitionChanged if the pool has another definition of it than the server.
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
        barrier::call(Some(engine), || {
            let given = (*definition).checked()?;
            cursor.write(Box::into_raw(Box::new(open(engine, CStr::from_ptr(path), &given)?)));
            Ok(PerduraCode::Ok)
        })
    }
}

fn open(engine: &Engine, path: &CStr, given: &Definition<'_>) -> Outcome<PerduraCursor> {
    let table = engine.table(&name::of_path(path)?)?;
    let stored = table.definition();
    let stored = Definition::decode(&stored).ok_or_else(|| {
        Failure::new(
            PerduraCode::Damaged,
            format!("the definition of table {} cannot be read; run `perdura check` on the pool", table.name()),
        )
    })?;
    // The server keeps the definitions of partitions itself and changes their id at will: there only the layout counts.
    let found_by_pool = !stored.frm.is_empty() && !given.version.is_empty();
    if stored.layout != given.layout || found_by_pool && stored.version != given.version {
        let code = if found_by_pool { PerduraCode::DefinitionChanged } else { PerduraCode::Damaged };
        let message = format!("table {} has another definition in the pool than in the server", table.name());
        return Err(Failure::new(code, message));
    }
    Ok(PerduraCursor::new(engine.clone(), table, stored.layout))
}

/// Closes it.
///
/// # Safety
/// `cursor` must be open, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_close(cursor: *mut PerduraCursor) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { Box::from_raw(cursor) };
    let engine = cursor.engine().clone();
    barrier::call_or(Some(&engine), (), move || drop(cursor));
}

/// Runs a call on a cursor and a session.
///
/// # Safety
/// Both must be live and used by this thread alone.
#[inline(always)]
unsafe fn on(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    body: impl FnOnce(&mut PerduraCursor, &mut Session) -> Outcome,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { with(session, |session| body(&mut *cursor, session)) }
}

/// Runs a call on a cursor without a session.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
pub(crate) unsafe fn alone(
    cursor: *mut PerduraCursor,
    body: impl FnOnce(&mut PerduraCursor) -> Outcome,
) -> PerduraCode {
    // SAFETY: as the caller vouches for; the body's borrow has ended when the engine is asked for.
    unsafe { barrier::call_within(|| Some((*cursor).engine()), || body(&mut *cursor)) }
}

/// Prepares for a statement: how rows are locked when read, whether locked ones are left out.
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
/// As for [`perdura_cursor_prepare`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_reset(cursor: *mut PerduraCursor) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &mut *cursor };
    barrier::call_or(None, (), || cursor.reset());
}

/// Sets which columns reads fill in, by a bitmap with one bit a column, or all if `columns` is null.
///
/// # Safety
/// As for [`perdura_cursor_prepare`]; `columns` must have a bit for each column.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_set_columns(cursor: *mut PerduraCursor, columns: *const u8) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &mut *cursor };
    // SAFETY: as the caller vouches for.
    let wanted = |index: usize| unsafe { *columns.add(index / 8) } & 1 << (index % 8) != 0;
    barrier::call_or(None, (), || cursor.set_columns(if columns.is_null() { None } else { Some(&wanted) }));
}

/// Sets whether the caller claims the rows of a walk that it is going to use ([`perdura_claim`]), so that no other row is locked.
///
/// # Safety
/// As for [`perdura_cursor_prepare`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_claims(cursor: *mut PerduraCursor, claims: bool) {
    // SAFETY: as the caller vouches for.
    unsafe { &mut *cursor }.set_claims(claims);
}

/// Locks the row read last, which the caller is going to use; nothing to do if it is locked. End if the row is not to be used as
/// it was read: the walk's next row is the same one as it is now, locked, unless it is gone or locked rows are left out. If the
/// transaction has a snapshot that next row comes with RecordChanged: a conflict, if the caller would use it as it is now.
///
/// # Errors
/// LockWaitTimeout, Deadlock, Killed.
///
/// # Safety
/// As for [`perdura_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_claim(cursor: *mut PerduraCursor, session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| {
            Ok(if cursor.claim(session)? { PerduraCode::Ok } else { PerduraCode::End })
        })
    }
}

/// Inserts a record.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_insert(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    record: *const u8,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.insert(session, record)) }
}

/// Replaces the row read last.
///
/// # Safety
/// As for [`perdura_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_update(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    record: *const u8,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.update(session, record)) }
}

/// Deletes the row read last.
///
/// # Safety
/// As for [`perdura_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_delete(cursor: *mut PerduraCursor, session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, PerduraCursor::delete) }
}

/// Begins a walk over the table.
///
/// # Safety
/// As for [`perdura_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_scan_begin(cursor: *mut PerduraCursor, session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| {
            cursor.start_scan(session);
            Ok(PerduraCode::Ok)
        })
    }
}

/// Begins a walk to find a row that is to be changed as the primary changed it (replication). It goes over all that has its place in
/// the order of commits, not over a snapshot; the row is locked when it is changed, which fails with RecordChanged if it is not the
/// one that was read any more. The transaction must be READ COMMITTED.
///
/// # Safety
/// As for [`perdura_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_search_begin(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.start_search(session).map(|()| PerduraCode::Ok)) }
}

/// Begins the search again if more was committed since it began; End if not.
///
/// # Safety
/// As for [`perdura_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_search_again(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| match cursor.search_again(session)? {
            true => Ok(PerduraCode::Ok),
            false => Ok(PerduraCode::End),
        })
    }
}

/// The walk's next row, or End. Blobs are valid until the statement ends.
///
/// # Safety
/// As for [`perdura_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_scan_next(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    record: *mut u8,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.next(session, record)) }
}

/// Ends the walk.
///
/// # Safety
/// As for [`perdura_cursor_prepare`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_scan_end(cursor: *mut PerduraCursor) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &mut *cursor };
    barrier::call_or(None, (), || cursor.end_scan());
}

/// The name of the row read or inserted last, for [`perdura_read`]; 0 before any.
///
/// # Safety
/// As for [`perdura_cursor_prepare`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_position(cursor: *const PerduraCursor) -> u64 {
    // SAFETY: as the caller vouches for.
    unsafe { &*cursor }.row().map_or(0, Rid::to_u64)
}

/// Reads the row named `row`, or End if it is gone.
///
/// # Safety
/// As for [`perdura_insert`].
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

/// Gives back the lock that the last read newly took.
///
/// # Safety
/// As for [`perdura_insert`].
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

/// Sizes of a table, known without looking.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PerduraTableInfo {
    /// Rows committed, about.
    pub rows: u64,
    /// Bytes of its data files.
    pub data_bytes: u64,
    /// Bytes of those that hold nothing.
    pub free_bytes: u64,
    /// When a commit last changed it, in seconds since 1970; 0 if none did since the pool was opened.
    pub changed_at: u64,
}

/// Sizes of the cursor's table.
///
/// # Safety
/// As for [`perdura_cursor_prepare`]; `info` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_info(cursor: *const PerduraCursor, info: *mut PerduraTableInfo) {
    // SAFETY: as the caller vouches for.
    let cursor = unsafe { &*cursor };
    let found = barrier::call_or(Some(cursor.engine()), PerduraTableInfo::default(), || {
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
