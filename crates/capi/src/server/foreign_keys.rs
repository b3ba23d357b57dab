//! Foreign keys: what tables have of them, and the look-ups that keep them, by keys alone.

use super::call::{call, call_or};
use super::code::{Outcome, PerduraCode};
use super::definition::{PerduraForeignKey, items};
use super::engine::PerduraEngine;
use super::name;
use super::session::{PerduraSession, reading};
use crate::row::foreign_key::ForeignKey;
use perdura_engine::{Engine, ReferenceKey, ReferringRows, Rid, Table};
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Arc, Weak};

/// Foreign keys that belong to a table in some way.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraKeysOf {
    /// Those that the table has itself.
    Child = 0,
    /// Those by which tables refer to it.
    Parent,
    /// Those of all tables of its database.
    Database,
}

/// A number that grows whenever foreign keys change, or a table that has some or is referred to by
/// some.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_foreign_keys_version(engine: *const PerduraEngine) -> u64 {
    // SAFETY: as the caller vouches for.
    unsafe { &*engine }.references().version()
}

/// Calls `visit` with each of a table's foreign keys, in no particular order. What it gets is valid
/// during the call.
///
/// # Safety
/// `engine` must be open, `path` a C string, `visit` callable with `context` and a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_foreign_keys(
    engine: *const PerduraEngine,
    path: *const c_char,
    of: PerduraKeysOf,
    visit: unsafe extern "C" fn(context: *mut c_void, key: *const PerduraForeignKey),
    context: *mut c_void,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let (engine, path) = unsafe { (&*engine, CStr::from_ptr(path)) };
    call(Some(engine.engine()), || {
        let name = name::of_path(path)?;
        let keys = match of {
            PerduraKeysOf::Child => engine.references().of_child(&name),
            PerduraKeysOf::Parent => engine.references().of_parent(&name),
            PerduraKeysOf::Database => engine.references().of_database(&name),
        };
        for (child, key) in keys {
            // SAFETY: as the caller vouches for.
            with_texts(&child, &key, |key| unsafe { visit(context, key) });
        }
        Ok(PerduraCode::Ok)
    })
}

/// Has `body` use a key with its texts as C strings.
fn with_texts(child: &str, key: &ForeignKey, body: impl FnOnce(&PerduraForeignKey)) {
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let (name, child, parent) = (text(&key.name), text(child), text(&key.parent));
    let columns: Vec<(CString, CString)> = key.columns.iter().map(|(own, of)| (text(own), text(of))).collect();
    let own: Vec<_> = columns.iter().map(|(own, _)| own.as_ptr()).collect();
    let of_parent: Vec<_> = columns.iter().map(|(_, of)| of.as_ptr()).collect();
    body(&PerduraForeignKey {
        name: name.as_ptr(),
        number: key.number,
        child: child.as_ptr(),
        parent: parent.as_ptr(),
        columns: own.as_ptr(),
        parent_columns: of_parent.as_ptr(),
        column_count: own.len(),
        on_delete: key.on_delete,
        on_update: key.on_update,
        is_carried: key.is_carried,
    });
}

/// A table in which rows are looked up for foreign keys, without a cursor.
pub struct PerduraReference {
    engine: Engine,
    name: String,
    /// It is not kept open by this.
    table: Weak<Table>,
}

/// Keys that are looked up in an index.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraReferenceKey {
    /// Number of the index.
    pub index: u32,
    /// The beginning of the keys.
    pub start: *const u8,
    /// Length of that.
    pub length: u32,
    /// The beginning is a whole key.
    pub is_whole: bool,
}

impl PerduraReference {
    fn table(&mut self) -> Outcome<Arc<Table>> {
        if let Some(table) = self.table.upgrade().filter(|table| !table.is_dropped() && !table.is_altered()) {
            return Ok(table);
        }
        let table = self.engine.table(&self.name)?;
        self.table = Arc::downgrade(&table);
        Ok(table)
    }
}

impl PerduraReferenceKey {
    /// # Safety
    /// The bytes must be readable while the result is used.
    unsafe fn key<'k>(&self) -> ReferenceKey<'k> {
        // SAFETY: as the caller vouches for.
        let start = unsafe { items(self.start, self.length as usize) };
        ReferenceKey { index: self.index as usize, start, is_whole: self.is_whole }
    }
}

/// Prepares look-ups in a table. Release it with [`perdura_reference_close`].
///
/// # Errors
/// NOT_FOUND, and those of opening a table.
///
/// # Safety
/// `engine` must be open, `path` a C string, `reference` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_reference_open(
    engine: *const PerduraEngine,
    path: *const c_char,
    reference: *mut *mut PerduraReference,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let (engine, path) = unsafe { ((*engine).engine(), CStr::from_ptr(path)) };
    call(Some(engine), || {
        let mut opened = PerduraReference { engine: engine.clone(), name: name::of_path(path)?, table: Weak::new() };
        opened.table()?;
        // SAFETY: as the caller vouches for.
        unsafe { reference.write(Box::into_raw(Box::new(opened))) };
        Ok(PerduraCode::Ok)
    })
}

/// Ends look-ups in a table.
///
/// # Safety
/// `reference` must be open, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_reference_close(reference: *mut PerduraReference) {
    // SAFETY: as the caller vouches for.
    let reference = unsafe { Box::from_raw(reference) };
    let engine = reference.engine.clone();
    call_or(Some(&engine), (), move || drop(reference));
}

/// Finds a row with such a key, other than the one at position `except`, which is 0 for none; the
/// newest at every isolation level. Locks it shared until the transaction ends. Waits for
/// transactions that insert, delete or re-key such a row. END if there is none.
///
/// # Errors
/// LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
///
/// # Safety
/// Reference and session must be live and used by this thread alone; the key must be readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_reference_lock(
    reference: *mut PerduraReference,
    session: *const PerduraSession,
    key: PerduraReferenceKey,
    except: u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        reading(session, |session| {
            let table = (*reference).table()?;
            let except = (except != 0).then(|| Rid::from_u64(except));
            let found = session.between_hooks(|txn| txn.lock_referenced(&table, key.key(), except))?;
            Ok(if found.is_some() { PerduraCode::Ok } else { PerduraCode::End })
        })
    }
}

/// Whether there is a row with such a key: OK, or END if there is not. Looks at the newest rows,
/// and waits for transactions that insert, delete or re-key such a row. The caller has the row that
/// they refer to locked.
///
/// # Errors
/// LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
///
/// # Safety
/// As for [`perdura_reference_lock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_reference_exists(
    reference: *mut PerduraReference,
    session: *const PerduraSession,
    key: PerduraReferenceKey,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        reading(session, |session| {
            let table = (*reference).table()?;
            let found = session.between_hooks(|txn| txn.is_referenced(&table, key.key()))?;
            Ok(if found { PerduraCode::Ok } else { PerduraCode::End })
        })
    }
}

/// Rows with one key, locked some at a time.
pub struct PerduraReferring {
    table: Arc<Table>,
    rows: ReferringRows,
}

/// Begins to lock the rows with such a key: OK, or END without any effect if there are none. Waits
/// for transactions that insert, delete or re-key such a row. The caller has the row that they
/// refer to locked, so there come no others. End it with [`perdura_referring_end`].
///
/// # Errors
/// LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
///
/// # Safety
/// As for [`perdura_reference_lock`]; `referring` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_referring_begin(
    reference: *mut PerduraReference,
    session: *const PerduraSession,
    key: PerduraReferenceKey,
    referring: *mut *mut PerduraReferring,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        reading(session, |session| {
            let table = (*reference).table()?;
            let Some(rows) = session.between_hooks(|txn| txn.find_referring(&table, key.key()))? else {
                return Ok(PerduraCode::End);
            };
            referring.write(Box::into_raw(Box::new(PerduraReferring { table, rows })));
            Ok(PerduraCode::Ok)
        })
    }
}

/// Rows that [`perdura_referring_next`] locks at once, or a leaf of the index more.
const ROWS_AT_ONCE: usize = 1024;

/// Locks the next rows exclusively, until the transaction ends, and calls `visit` with the position
/// of each; END if there are no more. The caller reads each by
/// [`super::rows::perdura_read_locked`], and finds it gone or with another key if that has happened
/// before it was locked. It may change them before it asks for others.
///
/// # Errors
/// LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
///
/// # Safety
/// `referring` must be one of this session, which this thread alone uses; `visit` callable with
/// `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_referring_next(
    referring: *mut PerduraReferring,
    session: *const PerduraSession,
    visit: unsafe extern "C" fn(context: *mut c_void, row: u64),
    context: *mut c_void,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        reading(session, |session| {
            let PerduraReferring { table, rows } = &mut *referring;
            let rows = session.between_hooks(|txn| txn.lock_referring(table, rows, ROWS_AT_ONCE))?;
            let code = if rows.is_empty() { PerduraCode::End } else { PerduraCode::Ok };
            rows.into_iter().for_each(|rid| visit(context, rid.to_u64()));
            Ok(code)
        })
    }
}

/// Ends the look at rows with one key.
///
/// # Safety
/// `referring` must be one that was begun, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_referring_end(referring: *mut PerduraReferring) {
    // SAFETY: as the caller vouches for.
    drop(unsafe { Box::from_raw(referring) });
}
