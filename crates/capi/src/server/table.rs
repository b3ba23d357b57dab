//! Creating, dropping, renaming and finding tables.

use super::call::call;
use super::code::{Outcome, PerduraCode};
use super::definition::{PerduraDefinition, items};
use super::engine::PerduraEngine;
use super::name;
use super::references::redefinitions;
use crate::row::definition::Definition;
use crate::row::foreign_key::ForeignKeys;
use perdura_engine::Engine;
use std::ffi::{CStr, c_char};

/// Runs a call on the table at a server's path.
///
/// # Safety
/// `engine` must be open, `path` a C string.
pub(super) unsafe fn named(
    engine: *const PerduraEngine,
    path: *const c_char,
    body: impl FnOnce(&Engine, &str) -> Outcome,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let (engine, path) = unsafe { ((*engine).engine(), CStr::from_ptr(path)) };
    call(Some(engine), || body(engine, &name::of_path(path)?))
}

/// Creates a table, durably.
///
/// # Errors
/// EXISTS, NOT_SUPPORTED (a record layout that this build does not understand), DEVICE_FULL.
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
        named(engine, path, |open, name| {
            let (indexes, mut keys) = ((*definition).index_definitions(), (*definition).foreign_keys()?);
            if !(*engine).references().concerns(&keys.copy_of) {
                keys.copy_of.clear();
            }
            let foreign_keys = keys.encode();
            let definition = Definition { foreign_keys: &foreign_keys, ..(*definition).checked()? };
            let table = open.create_table_with(name, &definition.encode(), &indexes)?;
            if name::is_temporary(name) {
                table.set_private();
            }
            (*engine).references().set(name, &keys);
            Ok(PerduraCode::Ok)
        })
    }
}

/// Drops a table, durably.
///
/// # Errors
/// NOT_FOUND.
///
/// # Safety
/// `engine` must be open, `path` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_drop(engine: *const PerduraEngine, path: *const c_char) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        named(engine, path, |open, name| {
            let id = open.table_id(name)?;
            open.drop_table(name)?;
            (*engine).counters().forget(open, id);
            (*engine).references().set(name, &ForeignKeys::default());
            Ok(PerduraCode::Ok)
        })
    }
}

/// Renames a table, durably. A table that the server has filled under a name of its own (`#sql...`)
/// to take another's place refuses the snapshots taken before. Foreign keys that name the table, or
/// the one whose place it takes, name it by its new name in the same commit, unless that is the
/// server's own.
///
/// # Errors
/// NOT_FOUND, EXISTS.
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
        named(engine, from, |open, from| {
            let to = name::of_path(CStr::from_ptr(to))?;
            let references = (*engine).references();
            let _alone = references.begin_change();
            let changed = references.renamed(from, &to);
            let redefinitions = redefinitions(open, &changed)?;
            open.rename_table_redefining((from, &to), name::is_rebuilt(from), &redefinitions)?;
            references.follow(&changed, Some((from, to.as_str())));
            if name::is_temporary(&to) {
                open.table(&to)?.set_private();
            }
            Ok(PerduraCode::Ok)
        })
    }
}

/// Whether the pool has the table.
///
/// # Safety
/// `engine` must be open, `path` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_exists(engine: *const PerduraEngine, path: *const c_char) -> bool {
    // SAFETY: as the caller vouches for.
    let found = unsafe {
        named(engine, path, |engine, name| {
            engine.definition(name)?;
            Ok(PerduraCode::Ok)
        })
    };
    found == PerduraCode::Ok
}

/// Whether the pool's definition of the table has this id.
///
/// # Safety
/// `engine` must be open, `path` a C string, `version` readable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_has_version(
    engine: *const PerduraEngine,
    path: *const c_char,
    version: *const u8,
    bytes: usize,
) -> bool {
    // SAFETY: as the caller vouches for.
    let found = unsafe {
        named(engine, path, |engine, name| {
            let stored = engine.definition(name)?;
            let is_same = Definition::decode(&stored).is_ok_and(|stored| stored.version == items(version, bytes));
            Ok(if is_same { PerduraCode::Ok } else { PerduraCode::End })
        })
    };
    found == PerduraCode::Ok
}
