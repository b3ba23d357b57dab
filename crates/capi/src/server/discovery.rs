//! Finding tables by the pool: it keeps the server's definition of each, and so brings its tables
//! along to any server.

use super::call::call;
use super::code::{Failure, Outcome, PerduraCode};
use super::definition;
use super::engine::PerduraEngine;
use super::name;
use super::table::named;
use crate::row::definition::Definition;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

/// The server's definition of a table (frm image).
pub struct PerduraFrm {
    _stored: Arc<[u8]>,
    data: *const u8,
    bytes: usize,
}

/// Fetches the server's definition of a table. Release it with [`perdura_frm_release`].
///
/// # Errors
/// NOT_FOUND if the pool has no such table, or the server keeps the definition.
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
            frm.write(Box::into_raw(Box::new(frm_of(name, engine.definition(name)?)?)));
            Ok(PerduraCode::Ok)
        })
    }
}

fn frm_of(name: &str, stored: Arc<[u8]>) -> Outcome<PerduraFrm> {
    let frm = definition::stored(&stored, name)?.frm;
    if frm.is_empty() {
        let what = format!("the definition of table {name} is kept by the server alone");
        return Err(Failure::new(PerduraCode::NotFound, what));
    }
    let (data, bytes) = (frm.as_ptr(), frm.len());
    Ok(PerduraFrm { _stored: stored, data, bytes })
}

/// The definition's bytes, valid until it is released. `bytes` gets their number.
///
/// # Safety
/// `frm` must be live, `bytes` writable.
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
/// `frm` must be live, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_frm_release(frm: *mut PerduraFrm) {
    // SAFETY: as the caller vouches for.
    drop(unsafe { Box::from_raw(frm) });
}

/// Calls `found` with the name of each table of `database` that users see and whose definition the
/// pool keeps, until it returns true. Both names are in the server's file name encoding.
///
/// # Safety
/// `engine` must be open, `database` a C string, `found` callable with `context` and a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_tables_list(
    engine: *const PerduraEngine,
    database: *const c_char,
    found: unsafe extern "C" fn(context: *mut c_void, table: *const c_char) -> bool,
    context: *mut c_void,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let (engine, database) = unsafe { ((*engine).engine(), CStr::from_ptr(database)) };
    call(Some(engine), || {
        for name in engine.table_names() {
            let Some(listed) = name::listed(&name, &database.to_string_lossy()) else { continue };
            // Dropped meanwhile.
            let Ok(stored) = engine.definition(&name) else { continue };
            if Definition::decode(&stored).is_ok_and(|definition| definition.frm.is_empty()) {
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
