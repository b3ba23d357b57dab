//! Dropping what a server's last run left behind.

use super::call::call;
use super::code::{Outcome, PerduraCode};
use super::engine::PerduraEngine;
use super::name;
use crate::row::foreign_key::ForeignKeys;
use std::ffi::{CStr, c_char};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Drops the temporary tables of the server's last run. To be called before the server recovers its
/// DDL.
///
/// # Safety
/// `engine` must be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_drop_temporary_tables(engine: *const PerduraEngine) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine };
    call(Some(engine.engine()), || drop_tables(engine, |name| name.split('/').next() == Some(name::TEMPORARY)))
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
    let engine = unsafe { &*engine };
    call(Some(engine.engine()), || {
        for name in engine.engine().table_names() {
            if name::is_backup(&name) {
                tell(kept, &name);
            }
        }
        drop_tables(engine, name::is_rebuilt)
    })
}

/// Removes the server's copies of definitions (`.frm` files in `directory`, the server's data
/// directory) that a crash has left torn: the server would refuse to open such a table, and to drop
/// it would leave it here. The server makes another copy when it opens the table. Calls `removed`
/// with the name of each table. To be called before the server recovers its DDL.
///
/// # Safety
/// `engine` must be open, `directory` a C string, `removed` callable with a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_remove_torn_definitions(
    engine: *const PerduraEngine,
    directory: *const c_char,
    removed: unsafe extern "C" fn(table: *const c_char),
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let (engine, directory) = unsafe { ((*engine).engine(), CStr::from_ptr(directory)) };
    call(Some(engine), || {
        let directory = directory.to_string_lossy();
        for name in engine.table_names().into_iter().filter(|name| name::is_users(name)) {
            let path = Path::new(&*directory).join(format!("{name}.frm"));
            // A copy that cannot be read is the server's to complain about.
            if is_torn(&path).unwrap_or(false) && fs::remove_file(&path).is_ok() {
                tell(removed, &name);
            }
        }
        Ok(PerduraCode::Ok)
    })
}

/// How a table's `.frm` file begins; a view's begins with text.
const FRM_MAGIC: [u8; 2] = [0xfe, 1];
/// Bytes of the header of a table's `.frm` file.
const FRM_HEADER_BYTES: usize = 64;

/// Whether the `.frm` file at `path` is one of a table that was not written to its end: it is
/// shorter than its header says, or begins with zeros, as what a file system had only made room
/// for.
fn is_torn(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut header = Vec::new();
    file.take(FRM_HEADER_BYTES as u64).read_to_end(&mut header)?;
    if header.iter().all(|&byte| byte == 0) {
        return Ok(true);
    }
    if header.iter().zip(FRM_MAGIC).any(|(&byte, expected)| byte != expected) {
        return Ok(false);
    }
    let length = header.get(10..14).and_then(|field| field.try_into().ok()).map(u32::from_le_bytes);
    Ok(header.len() < FRM_HEADER_BYTES || length.is_none_or(|length| bytes < u64::from(length)))
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
    let (engine, path) = unsafe { (&*engine, CStr::from_ptr(path)) };
    call(Some(engine.engine()), || {
        let path = path.to_string_lossy();
        let Some(database) = path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()) else {
            return Ok(PerduraCode::Ok);
        };
        drop_tables(engine, |name| name.split_once('/').is_some_and(|(of, _)| of == database))
    })
}

fn tell(hook: unsafe extern "C" fn(table: *const c_char), name: &str) {
    let name = [name.as_bytes(), &[0]].concat();
    // SAFETY: callable, as the hook's giver vouches for; the name ends with a zero byte.
    unsafe { hook(name.as_ptr().cast()) };
}

fn drop_tables(engine: &PerduraEngine, which: impl Fn(&str) -> bool) -> Outcome {
    for name in engine.engine().table_names() {
        if which(&name) {
            engine.engine().drop_table(&name)?;
            engine.references().set(&name, &ForeignKeys::default());
        }
    }
    Ok(PerduraCode::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_ends_early_or_is_not_written_is_torn() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.frm");
        let torn = |bytes: &[u8]| {
            fs::write(&path, bytes).expect("written");
            is_torn(&path).expect("read")
        };
        let mut whole = vec![0xfe, 1, 10, 7, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0];
        whole.resize(100, 5);
        assert!(!torn(&whole));
        for length in [0, 1, 2, 13, 63, 64, 99] {
            assert!(torn(&whole[..length]), "{length} bytes");
        }
        assert!(torn(&[0; 100]));
        assert!(!torn(b"TYPE=VIEW\nquery=select 1\n"), "a view");
        assert!(is_torn(&directory.path().join("none.frm")).is_err());
    }
}
