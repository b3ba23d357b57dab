//! C calls that create, drop, rename, empty and find tables.

use crate::barrier;
use crate::code::{Failure, Outcome, PerduraCode};
use crate::cursor::PerduraCursor;
use crate::definition::Definition;
use crate::engine::PerduraEngine;
use crate::name;
use crate::table::{PerduraDefinition, alone};
use perdura_engine::{Engine, Table};
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

/// Runs a call on a table named by a server path.
///
/// # Safety
/// `engine` must be open, `path` a C string.
unsafe fn named(
    engine: *const PerduraEngine,
    path: *const c_char,
    body: impl FnOnce(&Engine, &str) -> Outcome,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let (engine, path) = unsafe { ((*engine).engine(), CStr::from_ptr(path)) };
    barrier::call(Some(engine), || body(engine, &name::of_path(path)?))
}

/// Creates a table. Durable on return.
///
/// # Safety
/// `engine` must be open, `path` a C string, the definition valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_create(
    engine: *const PerduraEngine,
    path: *const c_char,
    definition: *const PerduraDefinition,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        named(engine, path, |engine, name| {
            let definition = (*definition).checked()?;
            let table = engine.create_table(name, &definition.encode())?;
            if name::is_temporary(name) {
                table.set_private();
            }
            Ok(PerduraCode::Ok)
        })
    }
}

/// Drops a table, or NotFound.
///
/// # Safety
/// `engine` must be open, `path` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_drop(engine: *const PerduraEngine, path: *const c_char) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        named(engine, path, |engine, name| {
            engine.drop_table(name)?;
            Ok(PerduraCode::Ok)
        })
    }
}

/// Renames a table. If the server filled it to take another's place, snapshots from before this refuse to read it.
///
/// # Safety
/// `engine` must be open, `from` and `to` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_rename(
    engine: *const PerduraEngine,
    from: *const c_char,
    to: *const c_char,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        named(engine, from, |engine, from| {
            let to = name::of_path(CStr::from_ptr(to))?;
            match name::is_rebuilt(from) {
                true => engine.rename_rebuilt_table(from, &to)?,
                false => engine.rename_table(from, &to)?,
            }
            if name::is_temporary(&to) {
                engine.table(&to)?.set_private();
            }
            Ok(PerduraCode::Ok)
        })
    }
}

/// Empties the cursor's table. No other cursor may be open on it.
///
/// # Safety
/// `cursor` must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_truncate(cursor: *mut PerduraCursor) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            cursor.reset();
            let name = cursor.table().name();
            let emptied = cursor.engine().truncate_table(&name)?;
            if name::is_temporary(&name) {
                emptied.set_private();
            }
            cursor.set_table(emptied);
            Ok(PerduraCode::Ok)
        })
    }
}

/// Whether the pool has a table.
///
/// # Safety
/// `engine` must be open, `path` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_exists(engine: *const PerduraEngine, path: *const c_char) -> bool {
    // SAFETY: as the caller vouches for.
    let found = unsafe {
        named(engine, path, |engine, name| {
            engine.table(name)?;
            Ok(PerduraCode::Ok)
        })
    };
    found == PerduraCode::Ok
}

/// The server's own definition of a table, kept until [`perdura_frm_release`].
pub struct PerduraFrm {
    _stored: Arc<[u8]>,
    data: *const u8,
    bytes: usize,
}

/// Fetches the server's definition of a table, or NotFound if the table has none or is not there.
///
/// # Safety
/// `engine` must be open, `path` a C string, `frm` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_frm_fetch(
    engine: *const PerduraEngine,
    path: *const c_char,
    frm: *mut *mut PerduraFrm,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        named(engine, path, |engine, name| {
            frm.write(Box::into_raw(Box::new(frm_of(&*engine.table(name)?)?)));
            Ok(PerduraCode::Ok)
        })
    }
}

fn frm_of(table: &Table) -> Outcome<PerduraFrm> {
    let stored = table.definition();
    let failure = |code, what| Err(Failure::new(code, format!("the definition of table {} {what}", table.name())));
    let (data, bytes) = match Definition::decode(&stored) {
        None => return failure(PerduraCode::Damaged, "cannot be read; run `perdura check` on the pool"),
        Some(definition) if definition.frm.is_empty() => {
            return failure(PerduraCode::NotFound, "is kept by the server alone");
        }
        Some(definition) => (definition.frm.as_ptr(), definition.frm.len()),
    };
    Ok(PerduraFrm { _stored: stored, data, bytes })
}

/// The definition's bytes, and their number in `bytes`.
///
/// # Safety
/// `frm` must be fetched and not released, `bytes` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_frm_data(frm: *const PerduraFrm, bytes: *mut usize) -> *const u8 {
    // SAFETY: as the caller vouches for.
    unsafe {
        bytes.write((*frm).bytes);
        (*frm).data
    }
}

/// Releases a definition.
///
/// # Safety
/// `frm` must be fetched, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_frm_release(frm: *mut PerduraFrm) {
    // SAFETY: as the caller vouches for.
    drop(unsafe { Box::from_raw(frm) });
}

/// Calls `found` with the file name of each table a user may see in `database` (a name in the file name encoding) and whose
/// definition is in the pool.
/// Stops when that returns true.
///
/// # Safety
/// `engine` must be open, `database` a C string, `found` callable with `context` and a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_tables_list(
    engine: *const PerduraEngine,
    database: *const c_char,
    found: unsafe extern "C" fn(*mut c_void, *const c_char) -> bool,
    context: *mut c_void,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let (engine, database) = unsafe { ((*engine).engine(), CStr::from_ptr(database)) };
    barrier::call(Some(engine), || {
        for table in engine.tables() {
            let name = table.name();
            let Some(listed) = name::listed(&name, &database.to_string_lossy()) else { continue };
            if Definition::decode(&table.definition()).is_some_and(|definition| definition.frm.is_empty()) {
                continue;
            }
            let file_name = [listed.as_bytes(), &[0]].concat();
            // SAFETY: as the caller vouches for; the name ends with a zero byte.
            if unsafe { found(context, file_name.as_ptr().cast()) } {
                break;
            }
        }
        Ok(PerduraCode::Ok)
    })
}

/// Drops tables that were temporary in the server's last run. Before the server's own recovery.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_drop_temporary_tables(engine: *const PerduraEngine) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    barrier::call(Some(engine), || drop_tables(engine, |name| name.split('/').next() == Some(name::TEMPORARY)))
}

/// Drops tables the server made for itself in DDL that a crash interrupted, once it has finished or undone that DDL.
/// Calls `kept` with the name of each old table of an ALTER that is still there: it may be all that is left of a table.
///
/// # Safety
/// `engine` must be open, `kept` callable with a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_drop_ddl_garbage(
    engine: *const PerduraEngine,
    kept: unsafe extern "C" fn(*const c_char),
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    barrier::call(Some(engine), || {
        for table in engine.tables() {
            let name = table.name();
            if name::is_backup(&name) {
                let name = [name.as_bytes(), &[0]].concat();
                // SAFETY: as the caller vouches for; the name ends with a zero byte.
                unsafe { kept(name.as_ptr().cast()) };
            }
        }
        drop_tables(engine, name::is_garbage)
    })
}

fn drop_tables(engine: &Engine, which: impl Fn(&str) -> bool) -> Outcome {
    for table in engine.tables() {
        let name = table.name();
        if which(&name) {
            engine.drop_table(&name)?;
        }
    }
    Ok(PerduraCode::Ok)
}
