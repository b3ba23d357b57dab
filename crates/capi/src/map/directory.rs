//! Directories of maps. One process at a time uses a directory; it opens each map once.

use super::argument::{live, text};
use super::call::call;
use super::code::{Failure, Outcome, PerduraMapCode};
use super::result::{hand_out, release};
use perdura_pmem::{FileMedium, Medium, Options};
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, absolute};
use std::sync::{Arc, Mutex, PoisonError};

/// An open directory of maps. A process opens it once, and every map in it through it.
pub struct PerduraMapDirectory {
    pub(super) medium: Arc<dyn Medium>,
    pub(super) names: Arc<Names>,
}

/// Names of the open maps.
#[derive(Default)]
pub(super) struct Names(Mutex<BTreeSet<String>>);

/// A name in [`Names`] until dropped.
pub(super) struct Claim {
    names: Arc<Names>,
    name: String,
}

impl Names {
    /// Claims `name`, so that a map is open once.
    pub(super) fn claim(self: &Arc<Names>, name: &str) -> Outcome<Claim> {
        // The set is whole whenever the lock is free.
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.insert(name.to_owned()) {
            return Err(Failure::new(
                PerduraMapCode::Busy,
                format!("map {name} is open in this process; use it by all threads, or close it first"),
            ));
        }
        Ok(Claim { names: self.clone(), name: name.to_owned() })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.names.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// Opens a directory of maps. With `create` it makes the directory if it is missing. With `emulate`
/// it goes on if the directory is not on DAX persistent memory: data then survive a crash of the
/// process, not a loss of power.
///
/// # Errors
/// NOT_FOUND, MEDIUM.
///
/// # Safety
/// `path` must be null or a C string, `directory` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_directory_open(
    path: *const c_char,
    create: bool,
    emulate: bool,
    directory: *mut *mut PerduraMapDirectory,
) -> PerduraMapCode {
    call(|| {
        let options = Options { emulate, create_dir: create };
        // SAFETY: as the caller vouches for.
        let open = || open(unsafe { text(path, "path") }?, options);
        // SAFETY: as the caller vouches for.
        unsafe {
            hand_out(directory, "the directory", || Ok(PerduraMapDirectory { medium: open()?, names: Arc::default() }))
        }
    })
}

fn open(path: &CStr, options: Options) -> Outcome<Arc<dyn Medium>> {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    // Messages name the directory in full, wherever the program was started.
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    Ok(Arc::new(FileMedium::open(&path, options).map_err(perdura_map::Error::from)?))
}

/// Closes a directory. Its maps may stay open.
///
/// # Safety
/// `directory` must be null or open, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_directory_close(directory: *mut PerduraMapDirectory) {
    // SAFETY: as the caller vouches for.
    unsafe { release(directory) };
}

/// The directory, and `name` as the name of a map.
///
/// # Safety
/// Both must be null or live.
pub(super) unsafe fn directory_and_name<'a>(
    directory: *const PerduraMapDirectory,
    name: *const c_char,
) -> Outcome<(&'a PerduraMapDirectory, &'a str)> {
    // SAFETY: as the caller vouches for.
    let (directory, name) = unsafe { (live(directory, "the directory")?, text(name, "name")?) };
    let name = name.to_str().map_err(|_| {
        Failure::new(PerduraMapCode::Argument, format!("name {name:?}: use a-z, 0-9, '.' and '_', not '.' first"))
    })?;
    Ok((directory, name))
}
