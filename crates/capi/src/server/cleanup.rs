//! Dropping what a server's last run left behind.

use super::call::call;
use super::code::{Outcome, PerduraCode};
use super::engine::PerduraEngine;
use super::name;
use perdura_engine::Engine;
use std::ffi::{CStr, c_char};

/// Drops the temporary tables of the server's last run. To be called before the server recovers its
/// DDL.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_drop_temporary_tables(engine: *const PerduraEngine) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call(Some(engine), || drop_tables(engine, |name| name.split('/').next() == Some(name::TEMPORARY)))
}

/// Drops the tables that the server's own DDL left under names of its own (`#sql...`) when a crash
/// interrupted it. To be called after the server has finished or undone that DDL. Calls `kept` with
/// the name of each old table of an ALTER that is still there: it stays, for it may be the only
/// copy.
///
/// # Safety
/// `engine` must be open, `kept` callable with a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_drop_ddl_garbage(
    engine: *const PerduraEngine,
    kept: unsafe extern "C" fn(table: *const c_char),
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    call(Some(engine), || {
        for name in engine.table_names() {
            if name::is_backup(&name) {
                let name = [name.as_bytes(), &[0]].concat();
                // SAFETY: as the caller vouches for; the name ends with a zero byte.
                unsafe { kept(name.as_ptr().cast()) };
            }
        }
        drop_tables(engine, name::is_rebuilt)
    })
}

/// Drops all tables of the database whose directory has this path, also those that the server does
/// not know: parts of partitioned tables whose definition, which the server alone keeps, was lost
/// with the directory.
///
/// # Safety
/// `engine` must be open, `path` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_drop_database(engine: *const PerduraEngine, path: *const c_char) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let (engine, path) = unsafe { ((*engine).engine(), CStr::from_ptr(path)) };
    call(Some(engine), || {
        let path = path.to_string_lossy();
        let Some(database) = path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()) else {
            return Ok(PerduraCode::Ok);
        };
        drop_tables(engine, |name| name.split_once('/').is_some_and(|(of, _)| of == database))
    })
}

fn drop_tables(engine: &Engine, which: impl Fn(&str) -> bool) -> Outcome {
    for name in engine.table_names() {
        if which(&name) {
            engine.drop_table(&name)?;
        }
    }
    Ok(PerduraCode::Ok)
}
